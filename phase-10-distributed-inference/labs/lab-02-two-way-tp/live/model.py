"""A Llama small enough to be made on the spot: config.json and seeded weights. No download."""

import json
from pathlib import Path

import numpy as np

SPREAD = 0.08  # of the weights: keeps the best token well ahead of the second, so that greedy
# decoding does not hang on the last bit


def tiny_llama(**changes):
    """The config.json of a Llama of 4 layers; `changes` replace fields."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": 512,
        "hidden_size": 256,
        "intermediate_size": 1024,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 32,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "torch_dtype": "float32",
        "bos_token_id": 1,
        "eos_token_id": 2,
    } | changes


def write_model(folder, config, seed=0):
    """Save config.json and random float32 weights, as safetensors, in `folder`; returns it."""
    random, blobs, header, end = np.random.default_rng(seed), [], {}, 0
    for name, shape in _shapes(config).items():
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


def _shapes(config):
    """{name of a tensor in the checkpoint: its shape}."""
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    heads, kv_heads = (
        config[name] * config["head_dim"] for name in ("num_attention_heads", "num_key_value_heads")
    )
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        shapes |= {
            at + "self_attn.q_proj.weight": (heads, hidden),
            at + "self_attn.k_proj.weight": (kv_heads, hidden),
            at + "self_attn.v_proj.weight": (kv_heads, hidden),
            at + "self_attn.o_proj.weight": (hidden, heads),
            at + "mlp.gate_proj.weight": (ffn, hidden),
            at + "mlp.up_proj.weight": (ffn, hidden),
            at + "mlp.down_proj.weight": (hidden, ffn),
            at + "input_layernorm.weight": (hidden,),
            at + "post_attention_layernorm.weight": (hidden,),
        }
    shapes["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    return shapes
