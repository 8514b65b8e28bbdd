"""The ledger of a start-up, term by term."""

import math
import re

import figures
from labbook.labs import capture, model, quotations, solution

lab02 = solution("lab-02")
vllm = quotations()
fitting = [figures.memory.cached_tokens("llama-3.1-8b", tp) for tp in (1, 2)]
gained = fitting[1] / fitting[0]


KEEP = float(re.search(r"default=([\d.]+)", vllm["quotes"]["utilization"]["text"])[1])
beyond = figures.memory.beyond_a_share("llama-3.1-8b", 2)
rounding = "allocator's rounding"
extras = [
    [f"{beyond['whole on every rank']:.1f}", "half of the norms", "whole on every rank"],
    [
        f"{beyond['rope table']:.0f}",
        "the [rope table](glossary.md#rope-table)",
        "the rotations that tell attention where a token stands; in no checkpoint",
    ],
    [f"{beyond[rounding]:.0f}", "the allocator", "an odd number of MiB costs one more"],
]
quoted = capture("lab-02/captures/quoted-logs/quoted.json")
odd = quoted["not_explained"][1]
llama = model("llama-3.1-8b")
W1, W2 = (lab02.rank_weights(llama, tp) for tp in (1, 2))
embedding = lab02.parameters(llama)[0]
half = math.prod(lab02.rank_shape(embedding, llama, 2)) * llama["dtype_bytes"]
