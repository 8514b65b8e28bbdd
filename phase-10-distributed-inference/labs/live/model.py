"""Models small enough to be made on the spot: config.json and seeded weights. No download."""

import json
from pathlib import Path

import numpy as np

SPREAD = 0.08  # of the weights: keeps the best token well ahead of the second, so that greedy
# decoding does not hang on the last bit


SHARED = {  # by all three models
    "vocab_size": 512,
    "hidden_size": 256,
    "num_attention_heads": 8,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
EXPERTS = SHARED | {"num_hidden_layers": 2, "num_experts_per_tok": 2}


def tiny_llama(**changes):
    """The config.json of a Llama of 4 layers; `changes` replace fields."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **SHARED,
        "intermediate_size": 1024,
        "num_hidden_layers": 4,
        "num_key_value_heads": 4,
        "head_dim": 32,
        "attention_bias": False,
        "mlp_bias": False,
    } | changes


def tiny_mixtral(**changes):
    """The config.json of a Mixtral: 4 KV heads, 8 experts in each of 2 layers."""
    return {
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        **EXPERTS,
        "intermediate_size": 256,
        "num_key_value_heads": 4,
        "head_dim": 32,
        "num_local_experts": 8,
        "sliding_window": None,
    } | changes


def tiny_deepseek(**changes):
    """The config.json of a DeepSeek-V2: a latent cache, a dense layer, one of 8 experts and one
    that all tokens share.

    Its latent has DeepSeek's own width, 512 and 64, since vLLM's CPU kernel knows no other. Its
    positions are stretched as DeepSeek's are: the plain rotary kernel of the CPU build (0.32.0)
    turns the heads of a latent attention by wrong angles.
    """
    return {
        "architectures": ["DeepseekV2ForCausalLM"],
        "model_type": "deepseek_v2",
        **EXPERTS,
        "intermediate_size": 512,
        "moe_intermediate_size": 128,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "num_key_value_heads": 8,
        "q_lora_rank": None,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "rope_scaling": {
            "type": "yarn",
            "factor": 8,
            "original_max_position_embeddings": 64,
            "beta_fast": 32,
            "beta_slow": 1,
            "mscale": 0.707,
            "mscale_all_dim": 0.707,
        },
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "routed_scaling_factor": 1.0,
        "scoring_func": "softmax",
        "topk_method": "greedy",
        "n_group": 1,
        "topk_group": 1,
        "norm_topk_prob": False,
    } | changes


def write_model(folder, config, seed=0):
    """Save config.json and random float32 weights, as safetensors, in `folder`; returns it."""
    random, blobs, header, end = np.random.default_rng(seed), [], {}, 0
    for name, shape in shapes(config).items():
        values = np.ones(shape) if len(shape) == 1 else random.standard_normal(shape) * SPREAD
        blobs.append(values.astype("<f4").tobytes())
        begin, end = end, end + len(blobs[-1])
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [begin, end]}
    encoded = json.dumps({"__metadata__": {"format": "pt"}} | header).encode()
    encoded += b" " * (-len(encoded) % 8)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        file.writelines(blobs)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    return folder


def shapes(config):
    """{name of a tensor in the checkpoint: its shape}."""
    hidden = config["hidden_size"]
    found = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= {
            at + name + ".weight": shape
            for name, shape in {
                **_attention(config),
                **_mlp(config, layer),
                "input_layernorm": (hidden,),
                "post_attention_layernorm": (hidden,),
            }.items()
        }
    found["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        found["lm_head.weight"] = (config["vocab_size"], hidden)
    return found


def _attention(config):
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    if config["model_type"] == "deepseek_v2":
        nope, rope, v_head, latent = (
            config[name]
            for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank")
        )
        return {
            "self_attn.q_proj": (heads * (nope + rope), hidden),
            "self_attn.kv_a_proj_with_mqa": (latent + rope, hidden),
            "self_attn.kv_a_layernorm": (latent,),
            "self_attn.kv_b_proj": (heads * (nope + v_head), latent),
            "self_attn.o_proj": (hidden, heads * v_head),
        }
    width, kv_width = (n * config["head_dim"] for n in (heads, config["num_key_value_heads"]))
    return {
        "self_attn.q_proj": (width, hidden),
        "self_attn.k_proj": (kv_width, hidden),
        "self_attn.v_proj": (kv_width, hidden),
        "self_attn.o_proj": (hidden, width),
    }


def _mlp(config, layer):
    def gated(at, width, names=("gate_proj", "up_proj", "down_proj")):
        hidden = config["hidden_size"]
        shapes = (width, hidden), (width, hidden), (hidden, width)
        return {f"{at}.{name}": shape for name, shape in zip(names, shapes, strict=True)}

    kind, hidden = config["model_type"], config["hidden_size"]
    if kind == "mixtral":
        shapes = {"block_sparse_moe.gate": (config["num_local_experts"], hidden)}
        for expert in range(config["num_local_experts"]):
            at, names = f"block_sparse_moe.experts.{expert}", ("w1", "w3", "w2")
            shapes |= gated(at, config["intermediate_size"], names)
        return shapes
    if kind == "deepseek_v2" and layer >= config["first_k_dense_replace"]:
        width = config["moe_intermediate_size"]
        shapes = {"mlp.gate": (config["n_routed_experts"], hidden)}
        for expert in range(config["n_routed_experts"]):
            shapes |= gated(f"mlp.experts.{expert}", width)
        return shapes | gated("mlp.shared_experts", config["n_shared_experts"] * width)
    return gated("mlp", config["intermediate_size"])
