"""The presets of the explorer, and what lab 01's rule allows for some models."""

import numpy as np
from labbook.labs import capture, model, models, solution

lab01 = solution("lab-01")
small = model("llama-3.1-8b")
shapes = dict(sorted(models().items(), key=lambda item: item[0] != "llama-3.1-8b"))
kept = "num_heads num_kv_heads head_dim hidden_size intermediate_size vocab_size num_layers".split()
presets = {name: {key: shape[key] for key in kept} for name, shape in shapes.items()}
rows = []
for name in ("llama-3.1-8b", "llama-2-7b", "qwen2.5-7b", "phi-4"):
    config = capture(f"capstone/models/{name}.json")
    heads = [config["num_attention_heads"], config["num_key_value_heads"]]
    sizes = lab01.legal_tp_sizes(
        *heads, [config["intermediate_size"], -(-config["vocab_size"] // 64) * 64], 16
    )
    rows.append([name, *heads, ", ".join(map(str, sizes))])
ones = np.array([[1.0, 1.0]])
added = float(lab01.row_parallel(ones, ones, 2)[0, 0])
