"""The ledger of a start-up, term by term."""

import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import figures
from labbook.labs import capture, lab, model, quotations, solution

from labkit.loading import ROOT
from labkit.starters import copy_course

lab02 = solution("lab-02")
vllm = quotations()
fitting = [figures.memory.cached_tokens("llama-3.1-8b", tp) for tp in (1, 2)]
gained = fitting[1] / fitting[0]


KEEP = float(re.search(r"default=([\d.]+)", vllm["quotes"]["utilization"]["text"])[1])
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
    folder = lab("lab-02").path
    path = os.pathsep.join([str(ROOT), str(folder.parent)])
    words = [folder / "startup_ledger.py", "-", "--config", "llama-3.1-8b", "--tp", "2"]
    environment = os.environ | {"LAB_IMPL": "solution", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, *words], input=line, env=environment, capture_output=True, text=True
    )
    return done.stdout.split("\n\n", 2)[2].strip()


def recorded_and_unwritten():
    """Two tables of two_way.py --recorded, as an untouched starter lets them look."""
    with tempfile.TemporaryDirectory() as folder:
        (copy,) = copy_course(Path(folder), lab("lab-02"))
        shared = [folder, str(copy.path.parent), str(lab("lab-02").path.parent)]
        environment = os.environ | {"LAB_IMPL": "starter", "PYTHONPATH": os.pathsep.join(shared)}
        command = [sys.executable, copy.path / "two_way.py", "--recorded"]
        shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    blocks = shown.stdout.split("\n\n")
    return f"{blocks[2]}\n\n{blocks[4]}"
