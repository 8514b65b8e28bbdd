"""Time the experts of one sparse layer here, sliced and dealt out, beside your experts_s.

`make measure-experts`, or `python measure_experts.py --out DIR`. The experts of DeepSeek-R1 with
random weights, as eight ranks would hold them, and tokens that choose by chance. Every rank's part
is timed on this one machine, in a CUDA graph where it has a GPU, and the eight are averaged: so
the loads are equal (busiest = 1). Routing and messages, which both ways share, are left out. It
writes measurements.json and provenance.json into DIR.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from given_experts import MACHINES, MODELS
from timing import BATCHES, graph_of, roofs, roofs_text, seconds, this_machine, write

from labkit.loading import load_and_say, run_program
from labkit.table import columns, seconds_text

HERE = Path(__file__).resolve().parent
RANKS = MACHINES["8 x H200"]["num_ranks"]
SHAPES = {  # the small one is for a laptop
    "R1": MODELS["DeepSeek-R1"],
    "small": {"hidden_size": 512, "expert_ffn": 512, "num_experts": 64, "top_k": 4},
}


class Rank:
    """One rank's part of a sparse layer: its experts' matrices, and the rows that it computes."""

    def __init__(self, shape, ids, rank, ep_size, device, dtype):
        import torch

        def matrix(*size):
            drawn = torch.empty(size, device=device, dtype=dtype)
            return drawn.normal_(std=size[-1] ** -0.5)

        hidden, held = shape["hidden_size"], shape["num_experts"] // ep_size
        width = shape["expert_ffn"] * ep_size // RANKS
        first = rank * held if ep_size > 1 else 0
        mine = (ids >= first) & (ids < first + held)
        tokens, experts = np.nonzero(mine)[0], ids[mine] - first
        order = np.argsort(experts, kind="stable")
        ends = np.cumsum(np.bincount(experts, minlength=held))
        self.tokens = torch.tensor(tokens[order], device=device)
        self.ends = torch.tensor(ends, device=device, dtype=torch.int32)
        self.gate_up = matrix(held, 2 * width, hidden).transpose(1, 2)
        self.down = matrix(held, hidden, width).transpose(1, 2)
        self.x = matrix(len(ids), hidden)
        self.y = torch.zeros_like(self.x)
        self.weights = torch.full((len(order), 1), 1 / shape["top_k"], device=device, dtype=dtype)

    def multiply(self, rows):
        """The products alone, of rows that stand in order of their experts."""
        from torch.nn import functional as F

        gate, up = F.grouped_mm(rows, self.gate_up, offs=self.ends).chunk(2, dim=1)
        return F.grouped_mm(F.silu(gate) * up, self.down, offs=self.ends)

    def step(self):
        """The rank's addend of every token: a row gathered for each choice, multiplied, added."""
        rows = self.multiply(self.x[self.tokens])
        self.y.zero_().index_add_(0, self.tokens, rows * self.weights)


def measure(shape, tokens, ep_size, device, dtype):
    """(seconds of the layer's experts on a rank, of its products alone): means over the ranks."""
    import torch

    rng = np.random.default_rng(tokens)
    ids = rng.random((tokens, shape["num_experts"])).argsort(axis=1)[:, : shape["top_k"]]
    with torch.inference_mode():
        ranks = [Rank(shape, ids, rank, ep_size, device, dtype) for rank in range(RANKS)]
        ranks = [(rank, rank.x[rank.tokens]) for rank in ranks if len(rank.tokens)]

        def steps():
            for rank, _ in ranks:  # in turn, so that none finds its weights in a cache
                rank.step()

        def products():
            for rank, rows in ranks:
                rank.multiply(rows)

        as_engine = graph_of if device == "cuda" else lambda run: run
        return [seconds(as_engine(run), device) / RANKS for run in (steps, products)]


def report(lab, rows, model, machine):
    """The text: your floor and the machine's time, both ways, for each number of tokens."""
    table = [["tokens", "sliced: floor", "products", "in all"]]
    table[0] += ["dealt out: floor", "products", "in all", "sliced / dealt out"]
    for row in rows:
        line = [f"{row['tokens']:,}"]
        for ep_size, name in ((1, "sliced"), (RANKS, "dealt")):
            floor_s = lab.experts_s(row["tokens"], ep_size, 1, model, machine)
            line += map(seconds_text, (floor_s, row[f"{name}_products_s"], row[f"{name}_s"]))
        table.append([*line, f"{row['sliced_s'] / row['dealt_s']:.2f}"])
    said = "in all: with a row of the token for each of its choices, copied before and added after."
    return "\n".join([*columns(table, "rrrrrrrr"), said])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="out/measure-experts", help="folder for the two files")
    parser.add_argument("--model", choices=SHAPES, help="default: R1 on a GPU, small without")
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 8, 32, 128, 512, 2048])
    options = parser.parse_args()
    if min(options.tokens) < 1:
        sys.exit("--tokens must be 1 or more")
    return options


def main():
    options = arguments()
    _, device, dtype = this_machine()
    name = options.model or ("R1" if device == "cuda" else "small")
    lab = load_and_say(HERE)
    model = SHAPES[name] | {"expert_weight_bytes": dtype.itemsize}
    bandwidth, flops = roofs(device, dtype)
    machine = {"num_ranks": RANKS, "memory_bytes_per_s": bandwidth, "flops_per_s": flops}
    lab.experts_s(1, 1, 1, model, machine)  # not written yet? then say so before measuring
    print(f"a layer of {name} on {device}, {RANKS} ranks; {roofs_text(bandwidth, flops)}",
          flush=True)  # fmt: skip
    rows = []
    for tokens in options.tokens:
        print(f"tokens {tokens:,} ...", flush=True)
        rows.append({"tokens": tokens})
        for way, ep_size in (("sliced", 1), ("dealt", RANKS)):
            times = measure(model, tokens, ep_size, device, dtype)
            rows[-1] |= dict(zip((f"{way}_s", f"{way}_products_s"), times, strict=True))
    print(report(lab, rows, model, machine))
    write(options.out, {"batches": BATCHES, "model": model, "machine": machine, "rows": rows})


if __name__ == "__main__":
    run_program(main)
