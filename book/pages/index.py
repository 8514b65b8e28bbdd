"""Before you start: one token on one GPU, on two, and far apart."""

import figures
from labbook.labs import model, solution

lab02 = solution("lab-02")
lab03 = solution("lab-03")
small = model("llama-3.1-8b")
whole = lab02.rank_weights(small, 1)["parameters_bytes"]
H100 = lab03.GPUS["H100"]
messages, _ = figures.cost.messages_of()
machines = figures.times.FIRST_PAGE
one, pair, far = (figures.times.step(**asked) for asked in machines.values())
near_us, far_us = (found["least"]["messages"] / messages * 1e6 for found in (pair, far))
# How long a message may take before the far pair, which halves the reading, is the slower one.
even_us = (one["floor"] - far["floor"] + far["least"]["messages"]) / messages * 1e6
guess = """width = size // num_ranks
return [slice(0, width) for rank in range(num_ranks)]"""
fence = 3 * "`"
time_rows = [figures.times.row(name, **asked) for name, asked in machines.items()]

# What the page says, held.
near_wins_far_loses = (
    far["floor"] > one["floor"] > pair["floor"]
    and far["typical"] > one["typical"] > pair["typical"]
)
