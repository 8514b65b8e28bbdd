"""A Hugging Face config.json, as the numbers that decide where its model can go.

What is not understood is refused: an architecture that is not in ARCHITECTURES, a quantisation that
is not in quantisation.py, a field of REFUSED. Weights are entries like lab 02's `parameters(model)`
(name, shape, split), one list per layer, so that the learner's `rank_shape` can cut them.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from planner import overrides, quantisation

MODELS = Path(__file__).resolve().parent.parent / "models"
DTYPES = {"float32": 4, "float16": 2, "bfloat16": 2, "half": 2, "float": 4}

# What each adds to a Llama. "full_every" n: where layer_types does not say so, layers n, 2n, ...
# look back all the way, the others through the window (math.inf: all do); "experts": the field that
# counts them. Sources: vllm/model_executor/models/*.py.
ARCHITECTURES = {
    "LlamaForCausalLM": {},
    "MistralForCausalLM": {"full_every": math.inf},
    "Qwen2ForCausalLM": {"qkv_bias": True},
    "Qwen3ForCausalLM": {"qk_norm": "head"},
    "Phi3ForCausalLM": {"full_every": math.inf},
    "Gemma2ForCausalLM": {"tied": True, "norms": 4, "full_every": 2},
    "Gemma3ForCausalLM": {"tied": True, "norms": 4, "qk_norm": "head", "full_every": 6},
    "MixtralForCausalLM": {"experts": "num_local_experts", "full_every": math.inf},
    "Qwen3MoeForCausalLM": {"qk_norm": "head", "experts": "num_experts"},
    "GptOssForCausalLM": {"experts": "num_local_experts", "expert_bias": True, "full_every": 2}
    | {"attention_bias": True},
    "Glm4MoeForCausalLM": {"experts": "n_routed_experts"},
    "MiniMaxM2ForCausalLM": {"experts": "num_local_experts", "qk_norm": "all"},
    "DeepseekV2ForCausalLM": {"experts": "n_routed_experts", "latent": True},
    "DeepseekV3ForCausalLM": {"experts": "n_routed_experts", "latent": True},
    "Qwen3NextForCausalLM": {"experts": "num_experts", "qk_norm": "head", "gate": True},
    "Qwen3_5ForCausalLM": {"qk_norm": "head", "gate": True},
    "Qwen3_5MoeForCausalLM": {"experts": "num_experts", "qk_norm": "head", "gate": True},
}
ALIASES = {  # what is served for text like another; a vision encoder is not counted, and said so
    "Ministral3ForCausalLM": "MistralForCausalLM",
    "LLaMAForCausalLM": "LlamaForCausalLM",
    "KimiK2ForCausalLM": "DeepseekV3ForCausalLM",
    "Gemma3ForConditionalGeneration": "Gemma3ForCausalLM",
    "Mistral3ForConditionalGeneration": "MistralForCausalLM",
    "Qwen2_5_VLForConditionalGeneration": "Qwen2ForCausalLM",
    "Qwen3VLForConditionalGeneration": "Qwen3ForCausalLM",
    "Qwen3VLMoeForConditionalGeneration": "Qwen3MoeForCausalLM",
    "Qwen3_5ForConditionalGeneration": "Qwen3_5ForCausalLM",
    "Qwen3_5MoeForConditionalGeneration": "Qwen3_5MoeForCausalLM",
}
# Fields that change weights, cache or time in a way this planner does not model.
REFUSED = {
    "index_topk": "a sparse indexer keeps a second cache",
    "hybrid_override_pattern": "Mamba layers keep a state of their own",
    "mamba_d_state": "Mamba layers keep a state of their own",
    "ssm_cfg": "Mamba layers keep a state of their own",
    "cross_attention_layers": "cross-attention keeps a cache of the encoder",
    "num_kv_shared_layers": "layers that share one cache",
    "block_configs": "layers of different widths",
    "attention_chunk_size": "attention in chunks",
    "compress_ratios": "a compressed cache",
    "kv_sharing": "layers that share one cache",
}
LAYER_TYPES = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "window",
    "linear_attention": "state",
}
INHERITED = ("quantization_config", "torch_dtype", "dtype", "tie_word_embeddings", "_source")
MLA = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")


@dataclass(frozen=True, eq=False)
class Model:
    """What a config says, refused or understood. Widths in elements; eq by identity, for caches."""

    name: str
    config: dict
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    max_positions: int
    dtype_bytes: int
    tied: bool
    num_experts: int
    top_k: int
    expert_ffn: int
    shared_ffn: int
    attention: tuple  # per layer: "full", "window", "latent" or "state"
    experts_in: tuple  # per layer: whether it holds experts
    quantisation: "quantisation.Quantisation"
    notes: tuple = ()
    exact_bytes: int | None = None  # of the safetensors in the folder, where there are any
    traits: dict = field(default_factory=dict)

    @property
    def latent(self):
        return bool(self.traits.get("latent"))

    @cached_property
    def layers(self):
        """One list of parameters per layer; equal layers share one list, so it is cut once."""
        made, layers = {}, []
        for number in range(self.num_layers):
            key = (self.attention[number], self.experts_in[number])
            key += self.quantisation.key(number)
            if key not in made:
                made[key] = [*_attention(self, number), *_feed_forward(self, number)]
            layers.append(made[key])
        return layers

    @cached_property
    def outside(self):
        """Parameters outside the layers: embedding (first stage), final norm and head (last)."""
        table = [self.vocab_size, self.hidden_size]
        embedding = _entry("model.embed_tokens", table, "vocab", "both" if self.tied else "first")
        norm = _entry("model.norm", [self.hidden_size], "whole", "last")
        head = [] if self.tied else [_entry("lm_head", table, "vocab", "last")]
        return [embedding, norm, *head]

    def kv_layers(self, numbers, kv_bytes, chunk=0):
        """Groups of layers as the capstone's sequence_kv_bytes takes them.

        A window's blocks are freed after a step, so up to `chunk` more tokens are held: vLLM
        v1/kv_cache_interface.py, SlidingWindowSpec.max_memory_usage_bytes.
        """
        groups = []
        for kind in dict.fromkeys(self.attention[n] for n in numbers):
            count = sum(self.attention[n] == kind for n in numbers)
            group = {"kind": kind, "count": count, "element_bytes": kv_bytes}
            if kind == "latent":
                width = self.config["kv_lora_rank"] + self.config["qk_rope_head_dim"]
                group |= {"width": width}
            elif kind == "state":
                group |= {"elements": _state_elements(self.config), "element_bytes": 2}
            else:
                group |= {"kv_heads": self.num_kv_heads, "head_dim": self.head_dim}
                if kind == "window":
                    group |= {"window": self.config["sliding_window"] + chunk}
            groups.append(group)
        return groups

    def legal(self):
        """The dict that the capstone's split_faults takes."""
        block = self.quantisation.block
        widths = {"intermediate_size": (self.config.get("intermediate_size") or 0, block)}
        if self.num_experts:
            widths = {"moe_intermediate_size": (self.expert_ffn, block)}
            if not all(self.experts_in):
                widths["intermediate_size"] = (self.config["intermediate_size"], block)
        return {
            "num_heads": self.num_heads,
            "num_kv_heads": self.num_kv_heads,
            "num_layers": self.num_layers,
            "latent": self.latent,
            "widths": widths,
        }


def read(source, quant=None):
    """The Model of a shipped name, a config.json or a folder that holds one.

    ValueError in one sentence when there is none, or something in it is not understood.
    """
    path, folder = _find(source)
    config = overrides.read_json(path)
    if not isinstance(config, dict):
        raise ValueError(f"{path.name} holds no JSON object; give a model's config.json")
    exact = quantisation.safetensors_bytes(folder) if folder else None
    return understand(config, str(source), quant, exact)


def _find(source):
    path = Path(source)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ValueError(f"{source}: the folder holds no config.json")
        return path / "config.json", path
    if path.is_file():
        return path, None
    shipped = MODELS / f"{str(source).lower()}.json"
    if shipped.is_file():
        return shipped, None
    names = ", ".join(shipped_names())
    raise ValueError(f"model {str(source)!r} is no file, no folder and none of: {names}")


def shipped_names():
    return sorted(path.stem for path in MODELS.glob("*.json"))


def understand(outer, name, quant=None, exact_bytes=None):
    """The Model of a parsed config.json. ValueError: something in it is not understood."""
    config, traits, notes = _of_the_text(outer)
    _check_sizes(config, traits)
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    experts = config.get(traits["experts"]) or 0 if "experts" in traits else 0
    expert_ffn = top_k = shared_ffn = 0
    if experts:
        expert_ffn = config.get("moe_intermediate_size") or config["intermediate_size"]
        shared_ffn = (config.get("n_shared_experts") or 0) * expert_ffn
        shared_ffn = config.get("shared_expert_intermediate_size") or shared_ffn
        top_k = config["num_experts_per_tok"]
    if config.get("head_dim") is None and not traits.get("latent") and hidden % heads:
        raise ValueError(f"hidden_size={hidden} is no multiple of num_attention_heads={heads}")
    return Model(
        name=name,
        config=config,
        num_layers=config["num_hidden_layers"],
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or hidden // heads,
        vocab_size=config["vocab_size"],
        max_positions=config["max_position_embeddings"],
        dtype_bytes=_dtype_bytes(config),
        tied=bool(config.get("tie_word_embeddings", traits.get("tied", False))),
        num_experts=experts,
        top_k=top_k,
        expert_ffn=expert_ffn,
        shared_ffn=shared_ffn,
        attention=_attention_kinds(config, traits),
        experts_in=_layers_with_experts(config, experts),
        quantisation=quantisation.understand(config, quant),
        notes=tuple(notes),
        exact_bytes=exact_bytes,
        traits=traits,
    )


def _of_the_text(outer):
    """(the language model's config, traits of its architecture, notes on what is not counted)."""
    config, notes = dict(outer), []
    architecture = (outer.get("architectures") or ["none"])[0]
    if "text_config" in outer:
        config = {**outer["text_config"], "architectures": [architecture]}
        for inherited in INHERITED:
            if inherited in outer and config.get(inherited) is None:
                config[inherited] = outer[inherited]
    if "vision_config" in outer or "audio_config" in outer:
        notes.append("the encoder for images or sound is not counted: text only")
    canonical = ALIASES.get(architecture, architecture)
    if canonical not in ARCHITECTURES:
        known = ", ".join(sorted({*ARCHITECTURES, *ALIASES}))
        raise ValueError(f"architecture {architecture!r} is not one this planner knows: {known}")
    for refused, why in REFUSED.items():
        if config.get(refused):
            raise ValueError(f"config.json has {refused}: {why}, which this planner does not model")
    return config, ARCHITECTURES[canonical], notes


def _check_sizes(config, traits):
    needed = "hidden_size num_hidden_layers num_attention_heads vocab_size max_position_embeddings"
    needed = [*needed.split(), *(MLA if traits.get("latent") else ())]
    if "experts" in traits and config.get(traits["experts"]):
        needed.append("num_experts_per_tok")
    if not config.get("moe_intermediate_size"):
        needed.append("intermediate_size")
    optional = ["num_key_value_heads", "head_dim", "sliding_window", "intermediate_size"]
    optional += ["moe_intermediate_size", "n_shared_experts", "first_k_dense_replace"]
    for name in [*needed, *optional]:
        value = config.get(name)
        if value is None and name not in needed:
            continue
        if value is None:
            raise ValueError(f"config.json has no {name}; without it the answer would be a guess")
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or value < (0 if name in optional else 1):
            raise ValueError(f"config.json: {name}={value!r} is not a positive whole number")


def _dtype_bytes(config):
    dtype = str(config.get("torch_dtype") or config.get("dtype") or "bfloat16")
    dtype = dtype.removeprefix("torch.")
    if dtype not in DTYPES:
        raise ValueError(f"config.json: dtype {dtype!r} is none of {', '.join(DTYPES)}")
    return DTYPES[dtype]


def _attention_kinds(config, traits):
    layers = config["num_hidden_layers"]
    if traits.get("latent"):
        return ("latent",) * layers
    window = config.get("sliding_window")
    if config.get("use_sliding_window") is False:
        window = None
    types = config.get("layer_types")
    if types is not None:
        unknown = set(types) - set(LAYER_TYPES)
        if unknown or len(types) != layers:
            what = f"{sorted(unknown)[0]!r}" if unknown else f"{len(types)} entries"
            raise ValueError(
                f"config.json: layer_types holds {what}; {layers} layers, each one of "
                f"{', '.join(LAYER_TYPES)}, are what this planner knows"
            )
        kinds = tuple(LAYER_TYPES[kind] for kind in types)
    elif every := config.get("full_attention_interval"):
        kinds = tuple("state" if (n + 1) % every else "full" for n in range(layers))
    else:
        every = config.get("sliding_window_pattern") or traits.get("full_every")
        first = config.get("max_window_layers", 0) if config.get("use_sliding_window") else None

        def looks_back(n):
            return n >= first if first is not None else "full_every" in traits and (n + 1) % every

        kinds = tuple("window" if window and looks_back(n) else "full" for n in range(layers))
    if "window" in kinds and not window:
        raise ValueError("config.json: layer_types has sliding_attention, but no sliding_window")
    if "state" in kinds:
        _state_elements(config)
    return kinds


def _layers_with_experts(config, experts):
    layers = range(config["num_hidden_layers"])
    if not experts:
        return (False,) * len(layers)
    dense = config.get("first_k_dense_replace") or 0
    only, step = config.get("mlp_only_layers") or [], config.get("decoder_sparse_step") or 1
    frequency = config.get("moe_layer_freq") or 1
    if not isinstance(frequency, int):
        raise ValueError("config.json: moe_layer_freq is a list, which this planner does not read")
    return tuple(
        n >= dense and n not in only and (n + 1) % step == 0 and (n - dense) % frequency == 0
        for n in layers
    )


def _entry(name, shape, split, where=0):
    return {"name": name + ".weight", "shape": list(shape), "split": split, "where": where}


def _state_elements(config):
    """A gated delta net's float32 state [value heads, key dim, value dim], as 2-byte elements."""
    try:
        heads = config["linear_num_value_heads"]
        return 2 * heads * config["linear_key_head_dim"] * config["linear_value_head_dim"]
    except KeyError as missing:
        raise ValueError(f"config.json has linear attention, but no {missing}") from None


def _attention(m, number):
    at, traits = f"model.layers.{number}.", m.traits
    norms = (
        _entry(f"{at}norm_{n}", [m.hidden_size], "whole") for n in range(traits.get("norms", 2))
    )
    kinds = {"latent": _latent_attention, "state": _state_attention}
    return [*norms, *kinds.get(m.attention[number], _head_attention)(m, at)]


def _latent_attention(m, at):
    attn, h, heads = at + "self_attn.", m.hidden_size, m.num_heads
    rank, nope, rope, value = (m.config[name] for name in MLA)
    if q := m.config.get("q_lora_rank"):
        yield _entry(attn + "q_a_proj", [q, h], "whole")
        yield _entry(attn + "q_a_layernorm", [q], "whole")
        yield _entry(attn + "q_b_proj", [heads * (nope + rope), q], "rows")
    else:
        yield _entry(attn + "q_proj", [heads * (nope + rope), h], "rows")
    yield _entry(attn + "kv_a_proj_with_mqa", [rank + rope, h], "whole")
    yield _entry(attn + "kv_a_layernorm", [rank], "whole")
    yield _entry(attn + "kv_b_proj", [heads * (nope + value), rank], "rows")
    yield _entry(attn + "o_proj", [h, heads * value], "columns")


def _state_attention(m, at):
    attn, h, c = at + "linear_attn.", m.hidden_size, m.config
    keys = c["linear_num_key_heads"] * c["linear_key_head_dim"]
    values = c["linear_num_value_heads"] * c["linear_value_head_dim"]
    yield _entry(attn + "in_proj_qkvz", [2 * keys + 2 * values, h], "rows")
    yield _entry(attn + "in_proj_ba", [2 * c["linear_num_value_heads"], h], "rows")
    yield _entry(attn + "out_proj", [h, values], "columns")


def _head_attention(m, at):
    attn, h, d, traits = at + "self_attn.", m.hidden_size, m.head_dim, m.traits
    heads, kv_heads = m.num_heads, m.num_kv_heads
    yield _entry(attn + "qkv_proj", [(heads + 2 * kv_heads) * d, h], "heads")
    yield _entry(attn + "o_proj", [h, heads * d], "columns")
    if traits.get("gate"):
        yield _entry(attn + "gate_proj", [heads * d, h], "rows")
    whole_bias = m.config.get("attention_bias", traits.get("attention_bias", False))
    if whole_bias or traits.get("qkv_bias"):
        yield _entry(attn + "qkv_bias", [(heads + 2 * kv_heads) * d], "heads")
    if whole_bias:
        yield _entry(attn + "o_bias", [h], "whole")
    norm = traits.get("qk_norm") or ("head" if m.config.get("use_qk_norm") else None)
    if norm:
        q, k, split = (d, d, "whole") if norm == "head" else (heads * d, kv_heads * d, "rows")
        yield _entry(attn + "q_norm", [q], split)
        yield _entry(attn + "k_norm", [k], "whole")


def _feed_forward(m, number):
    at, h = f"model.layers.{number}.mlp.", m.hidden_size
    if not m.experts_in[number]:
        return _gated(at, m.config["intermediate_size"], h)
    experts, ffn = m.num_experts, m.expert_ffn
    found = [
        _entry(at + "gate", [experts, h], "whole"),
        _entry(at + "experts.w13", [experts, 2 * ffn, h], "rows"),
        _entry(at + "experts.w2", [experts, h, ffn], "columns"),
    ]
    if m.traits.get("expert_bias"):
        found.append(_entry(at + "experts.w13_bias", [experts, 2 * ffn, 1], "rows"))
        found.append(_entry(at + "experts.w2_bias", [experts, h, 1], "whole"))
    return found + (_gated(at + "shared_experts.", m.shared_ffn, h) if m.shared_ffn else [])


def _gated(at, ffn, h):
    up = _entry(at + "gate_up_proj", [2 * ffn, h], "rows")
    return [up, _entry(at + "down_proj", [h, ffn], "columns")]


def total_elements(m):
    """Parameters of the whole model: what people call its size."""
    everything = [*m.outside, *(entry for layer in m.layers for entry in layer)]
    return sum(math.prod(entry["shape"]) for entry in everything)
