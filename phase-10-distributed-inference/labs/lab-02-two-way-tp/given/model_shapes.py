"""What a model's config.json says about its shape: every parameter, stage by stage.

Shapes are [out, in], as in `y = x @ W.T`. Bytes are bytes, GiB are 2**30 bytes.
"""

GIB = 2**30
MIB = 2**20
VOCAB_PADDING = 64  # vllm model_executor/layers/vocab_parallel_embedding.py

# What the architectures add to, or leave out of, a Llama. Key: config.json "architectures"[0].
ARCHITECTURES = {
    "LlamaForCausalLM": {},
    "MistralForCausalLM": {},
    "Qwen2ForCausalLM": {"qkv_bias": True},
    "Qwen3ForCausalLM": {"qk_norm": True},
    "MixtralForCausalLM": {"experts": "num_local_experts"},
    "Qwen3MoeForCausalLM": {"qk_norm": True, "experts": "num_experts"},
    "OPTForCausalLM": {"opt": True},
}
DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "half": 2, "float": 4}


def model_shape(config):
    """The numbers of a Hugging Face config.json that decide how a model splits.

    config: the parsed JSON. Returns a dict; widths in elements, `dtype_bytes` per weight element.
    ValueError for an architecture this lab does not know, or a field that is missing.
    """
    name = (config.get("architectures") or [config.get("model_type")])[0]
    if name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise ValueError(f"architecture {name!r} is not one this lab knows; it knows {known}")
    traits = ARCHITECTURES[name]
    opt, experts = traits.get("opt", False), traits.get("experts")
    _check_sizes(config, name, "ffn_dim" if opt else "intermediate_size")
    try:
        hidden, heads = config["hidden_size"], config["num_attention_heads"]
        moe = config.get("moe_intermediate_size") if experts else None
        ffn = moe or config["ffn_dim" if opt else "intermediate_size"]
        dtype = str(config.get("torch_dtype") or config.get("dtype") or "bfloat16")
        bias = bool(config.get("enable_bias", True) if opt else config.get("attention_bias"))
        return {
            "architecture": name,
            "num_layers": config["num_hidden_layers"],
            "hidden_size": hidden,
            "intermediate_size": ffn,
            "num_heads": heads,
            "num_kv_heads": config.get("num_key_value_heads") or heads,
            "head_dim": config.get("head_dim") or hidden // heads,
            "vocab_size": config["vocab_size"],
            "embedding_width": config.get("word_embed_proj_dim") or hidden,
            "max_positions": config["max_position_embeddings"],
            "rope_positions": 0 if opt else _rope_positions(config),
            "num_experts": config[experts] if experts else 0,
            "qkv_bias": bias or traits.get("qkv_bias", False),
            "row_bias": bias,
            "mlp_bias": bool(bias if opt else config.get("mlp_bias")),
            "qk_norm": traits.get("qk_norm", False),
            "tied": bool(config.get("tie_word_embeddings", opt)),
            "opt": opt,
            "final_norm": not config.get("_remove_final_layer_norm", False)
            and not (opt and config.get("do_layer_norm_before") is False),  # OPT-350m
            "norm_bias": opt,
            "dtype_bytes": DTYPE_BYTES[dtype.removeprefix("torch.")],
        }
    except KeyError as missing:
        raise ValueError(f"config.json of {name} has no usable {missing}") from None


def _check_sizes(config, name, ffn):
    sizes = "hidden_size num_attention_heads num_hidden_layers vocab_size max_position_embeddings"
    optional = "num_key_value_heads head_dim word_embed_proj_dim"
    for field in [*sizes.split(), ffn, *optional.split()]:
        value = config.get(field, 1)  # one that is missing is named by model_shape
        if not (isinstance(value, int) and value > 0 or value is None and field in optional):
            text = f"{field}={value!r} is not a positive whole number"
            raise ValueError(f"config.json of {name}: {text}")


def _rope_positions(config):
    """Rows of the cos/sin table; YaRN, linear and dynamic scaling lengthen it by their factor."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}  # newer: the latter
    if not isinstance(scaling, dict) or not isinstance(scaling.get("factor", 1), int | float):
        raise ValueError(f"rope_scaling={scaling!r} is not a dict with a number as its factor")
    kind = scaling.get("rope_type", scaling.get("type"))
    rows = config["max_position_embeddings"]
    if kind == "yarn":
        rows = scaling.get("original_max_position_embeddings") or rows
    longer = kind in ("yarn", "linear", "dynamic")
    return int(rows * scaling.get("factor", 1)) if longer else rows


def parameters(model):
    """Every parameter of the whole model, fused as vLLM stores it.

    A list of dicts: `name`, `shape` before any padding or split, `split`, `where`.
    split: "vocab" (rows, after padding), "heads" (rows of the fused q, k, v), "rows" (the output
    dimension), "columns" (the input dimension), "whole" (every rank keeps all of it).
    where: a layer's number, "first" or "last" pipeline stage, or "both" for a tied embedding.
    """
    hidden = model["hidden_size"]
    root = "model.decoder" if model["opt"] else "model"
    found = []

    def add(name, shape, split, where, bias=False):
        weight = {"name": name + ".weight", "shape": list(shape), "split": split, "where": where}
        found.append(weight)
        if bias:  # a bias follows the rows; that of a "columns" layer is added once, after the sum
            kept = "whole" if split == "columns" else split
            rows = {"name": name + ".bias", "shape": shape[:1], "split": kept, "where": where}
            found.append(rows)

    vocab = [model["vocab_size"], model["embedding_width"]]
    add(f"{root}.embed_tokens", vocab, "vocab", "both" if model["tied"] else "first")
    if model["opt"]:
        positions = [model["max_positions"] + 2, hidden]  # two rows of offset, as OPT was trained
        add(f"{root}.embed_positions", positions, "whole", "first")
        if model["embedding_width"] != hidden:
            add(f"{root}.project_in", [hidden, vocab[1]], "whole", "first")
            add(f"{root}.project_out", [vocab[1], hidden], "whole", "last")
    for layer in range(model["num_layers"]):
        _add_layer(add, model, layer, f"{root}.layers.{layer}.")
    if model["final_norm"]:
        name = f"{root}.final_layer_norm" if model["opt"] else "model.norm"
        add(name, [hidden], "whole", "last", model["norm_bias"])
    if not model["tied"]:
        add("lm_head", vocab, "vocab", "last")
    return found


def _add_layer(add, model, layer, at):
    """One layer's parameters, in the order in which an activation meets them, then its norms."""
    hidden, ffn = model["hidden_size"], model["intermediate_size"]
    heads, kv_heads, head_dim = model["num_heads"], model["num_kv_heads"], model["head_dim"]
    out, up, down = "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj"
    norms, gate_and_up = ("input_layernorm", "post_attention_layernorm"), 2 * ffn
    if model["opt"]:
        out, up, down = "self_attn.out_proj", "fc1", "fc2"
        norms, gate_and_up = ("self_attn_layer_norm", "final_layer_norm"), ffn
    qkv = [(heads + 2 * kv_heads) * head_dim, hidden]
    add(at + "self_attn.qkv_proj", qkv, "heads", layer, model["qkv_bias"])
    add(at + out, [hidden, heads * head_dim], "columns", layer, model["row_bias"])
    if model["qk_norm"]:
        add(at + "self_attn.q_norm", [head_dim], "whole", layer)
        add(at + "self_attn.k_norm", [head_dim], "whole", layer)
    if model["num_experts"]:
        experts = model["num_experts"]
        add(at + "mlp.gate", [experts, hidden], "whole", layer)
        add(at + "mlp.experts.w13", [experts, 2 * ffn, hidden], "rows", layer)
        add(at + "mlp.experts.w2", [experts, hidden, ffn], "columns", layer)
    else:
        add(at + up, [gate_and_up, hidden], "rows", layer, model["mlp_bias"])
        add(at + down, [hidden, ffn], "columns", layer, model["mlp_bias"])
    for norm in norms:
        add(at + norm, [hidden], "whole", layer, model["norm_bias"])


def stage_layers(num_layers, pp_size):
    """How many layers each pipeline stage holds, as a list.

    A remainder goes to the stages before the last one, from the back (vLLM distributed/utils.py,
    get_pp_indices). ValueError when there are more stages than layers.
    """
    if not 1 <= pp_size <= num_layers:
        raise ValueError(f"pp_size={pp_size}: a model of {num_layers} layers has 1 to {num_layers}")
    counts = [num_layers // pp_size] * pp_size
    for stage in range(2, num_layers % pp_size + 2):
        counts[-stage] += 1
    return counts


def on_stage(parameter, model, pp_size, pp_rank):
    """Whether a parameter of `parameters(model)` lives on pipeline stage `pp_rank`."""
    where = parameter["where"]
    first, last = pp_rank == 0, pp_rank == pp_size - 1
    if isinstance(where, str):
        return {"first": first, "last": last, "both": first or last}[where]
    counts = stage_layers(model["num_layers"], pp_size)
    return sum(counts[:pp_rank]) <= where < sum(counts[: pp_rank + 1])


def allocated_bytes(num_bytes):
    """What torch's CUDA caching allocator charges for one tensor of `num_bytes`.

    Requests round up to 512 bytes. From 10 MiB on, the segment comes in steps of 2 MiB, and a tail
    of at most 1 MiB is not given to anybody else (c10/cuda/CUDACachingAllocator.cpp,
    kMinLargeAlloc, kRoundLarge, should_split). The CPU build has no such rounding.
    Tensors of 1 to 10 MiB are not covered: they share segments of 20 MiB, whose rest is charged
    too when it is 1 MiB or less, as nobody else gets it. Small models have many such tensors:
    a published OPT-125m says 244.61 MiB, this says 239.2.
    """
    rounded = -(-num_bytes // 512) * 512
    segment = -(-rounded // (2 * MIB)) * 2 * MIB
    return segment if rounded >= 10 * MIB and segment - rounded <= MIB else rounded
