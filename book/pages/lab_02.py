"""The ledger of a start-up, term by term."""

import math
import tempfile
from pathlib import Path

import figures
from figures.tables import program
from labbook.labs import capture, lab, model, solution

from labkit.starters import copy_course

lab02 = solution("lab-02")
fitting = [figures.memory.cached_tokens("llama-3.1-8b", tp) for tp in (1, 2)]
gained = fitting[1] / fitting[0]
beyond, beyond8 = (figures.memory.beyond_a_share("llama-3.1-8b", tp) for tp in (2, 8))
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


def verdict(gib):
    """What startup_ledger.py says of our model's line with so many GiB, started at TP=2."""
    line = f"Loading model weights took {gib} GB"
    words = ("startup_ledger.py", "-", "--config", "llama-3.1-8b", "--tp", "2")
    return program("lab-02", *words, stdin=line, check=False).split("\n\n", 2)[2].strip()


def recorded_and_unwritten():
    """Two tables of two_way.py --recorded, as an untouched starter lets them look."""
    with tempfile.TemporaryDirectory() as folder:
        (copy,) = copy_course(Path(folder), lab("lab-02"))
        shown = program("lab-02", "two_way.py", "--recorded", of=copy, which="starter")
    blocks = shown.split("\n\n")
    return f"{blocks[2]}\n\n{blocks[4]}"


# What the page says, held.
verdicts = "verdict: consistent" in verdict("7.5122") and "an even share" in verdict("7.4944")
beyond_is_alike = abs(sum(beyond.values()) / sum(beyond8.values()) - 1) < 0.02
a_sixteenth = llama["rope_positions"] == 16 * model("llama-3-8b")["rope_positions"]
allocator_counts_most = (
    lab02.rank_weights(model("qwen2.5-72b"), 4)["allocator_rounding_bytes"]
    > lab02.rank_weights(model("qwen2.5-72b"), 4)["rope_table_bytes"]
)
