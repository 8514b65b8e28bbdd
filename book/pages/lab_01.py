"""The presets of the explorer, and what lab 01's rule allows for some models."""

import tempfile
from pathlib import Path

import numpy as np
from figures.tables import program
from labbook.labs import capture, lab, mistakes, models, solution

from labkit.starters import copy_course, plant

lab01 = solution("lab-01")
shapes = dict(sorted(models().items(), key=lambda item: item[0] != "llama-3.1-8b"))
kept = "num_heads num_kv_heads head_dim hidden_size intermediate_size vocab_size num_layers".split()
for name in ("qwen2.5-7b", "phi-4"):  # whose heads eight ranks do not divide; shaped as a Llama
    config = capture(f"capstone/models/{name}.json") | {"architectures": ["LlamaForCausalLM"]}
    shapes[name] = solution("lab-02").model_shape(config)
presets = {name: {key: shape[key] for key in kept} for name, shape in shapes.items()}
rows = []
for name in ("llama-3.1-8b", "llama-2-7b", "qwen2.5-7b", "phi-4"):
    config = capture(f"capstone/models/{name}.json")
    heads = [config["num_attention_heads"], config["num_key_value_heads"]]
    sizes = lab01.legal_tp_sizes(
        *heads, [config["intermediate_size"], -(-config["vocab_size"] // 64) * 64], 16
    )
    rows.append([name, *heads, ", ".join(map(str, sizes))])
phi = rows[-1][1:3]
phi_vocab = config["vocab_size"]
ones = np.array([[1.0, 1.0]])
added = float(lab01.row_parallel(ones, ones, 2)[0, 0])


def refused(x, W, mine):
    """Whether numpy refuses the whole x times a rank's slice of W."""
    try:
        x @ W[:, mine].T
    except ValueError:
        return True


def babble():
    """What generate.py says when rank r loads KV head r % num_kv_heads."""
    with tempfile.TemporaryDirectory() as folder:
        (copy,) = copy_course(Path(folder), lab("lab-01"))
        wrong = mistakes("lab-01")["attention_shards__deals_the_kv_heads_out_in_turn"]
        plant(copy, wrong.source)
        words = ("generate.py", "--letters", "60")
        return program("lab-01", *words, of=copy, which="starter", check=False)  # it is wrong


# What the page says, held.
phi_needs_padding = (
    sizes == [1, 2] and lab01.legal_tp_sizes(*phi, [], 16) == [1, 2, 5, 10] and phi_vocab % 5
)
powers_of_two = lab01.legal_tp_sizes(32, 8, [14336]) == [1, 2, 4, 8, 16, 32]
differs_in_words = "is another than one machine writes" in babble()
refuses_another_width = refused(np.ones((5, 12)), np.ones((7, 12)), lab01.shards("in", 12, 4)[0])
