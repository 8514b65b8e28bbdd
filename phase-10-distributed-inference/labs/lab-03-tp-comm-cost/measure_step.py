"""Time one rank's part of a decode step on this machine, without its messages, beside your floor.

`make measure-step`, or `python measure_step.py --out DIR`. The layers of a Llama with random
weights, cut for each tp_size as lab 01 cuts them. On a CUDA GPU a step runs twice: as an engine
does it, in a CUDA graph, and launched kernel by kernel. The floor is your `step_s`, with the
bandwidth and the arithmetic that one large read or copy and one large product reach here. It
writes measurements.json and provenance.json into DIR.
"""

import argparse
import sys

from share_table import HERE
from timing import BATCHES, graph_of, roofs, roofs_text, seconds, this_machine, write

from labkit.loading import load_and_say, run_program
from labkit.table import columns, seconds_text

# config.json of Llama-3.1-8B and -70B; the third is for a laptop.
SHAPES = {
    "8B": {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "mlp": 14336, "vocab": 128256},
    "70B": {
        "layers": 80,
        "hidden": 8192,
        "heads": 64,
        "kv_heads": 8,
        "mlp": 28672,
        "vocab": 128256,
    },
    "small": {"layers": 4, "hidden": 1024, "heads": 16, "kv_heads": 8, "mlp": 2816, "vocab": 32000},
}


class Rank:
    """What one rank of `tp_size` holds and does: matrices [out, in], a cache, a step over both."""

    def __init__(self, shape, tp_size, batch, context, device, dtype):
        import torch

        def matrix(rows, columns):
            drawn = torch.empty(rows, columns, device=device, dtype=dtype)
            return drawn.normal_(std=columns**-0.5)

        hidden, head = shape["hidden"], shape["hidden"] // shape["heads"]
        self.heads = shape["heads"] // tp_size
        self.kv_heads = max(1, shape["kv_heads"] // tp_size)
        mlp, rows = shape["mlp"] // tp_size, (self.heads + 2 * self.kv_heads) * head
        self.matrices, self.caches = [], []
        for _ in range(shape["layers"]):
            self.matrices.append(
                [
                    matrix(rows, hidden),  # query, key, value
                    matrix(hidden, self.heads * head),
                    matrix(2 * mlp, hidden),  # gate and up
                    matrix(hidden, mlp),
                ]
            )
            size = (2, batch, self.kv_heads, context, head)
            self.caches.append(torch.zeros(size, device=device, dtype=dtype))
        self.output = matrix(shape["vocab"] // tp_size, hidden)
        self.norm = torch.ones(hidden, device=device, dtype=dtype)
        self.x = matrix(batch, hidden)
        flat = [self.output, *(m for layer in self.matrices for m in layer)]
        self.inputs = {m.shape[1]: matrix(batch, m.shape[1]) for m in flat}
        self.weight_bytes = sum(m.nbytes for m in flat)
        self.cache_bytes = sum(c.nbytes for c in self.caches)

    def multiply(self):
        """Only the products with the matrices, which read all of the weights."""
        from torch.nn.functional import linear

        for matrix in (m for layer in self.matrices for m in layer):
            linear(self.inputs[matrix.shape[1]], matrix)
        linear(self.x, self.output)

    def step(self):
        """A step: norms, attention over the cache, MLP, logits. Without rotations and messages."""
        from torch.nn import functional as F

        x, batch = self.x, len(self.x)
        for (qkv, out, gate_up, down), cache in zip(self.matrices, self.caches, strict=True):
            found = F.linear(F.rms_norm(x, self.norm.shape, self.norm), qkv)
            found = found.view(batch, self.heads + 2 * self.kv_heads, 1, -1)
            q, k, v = found.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
            cache[0, :, :, -1:], cache[1, :, :, -1:] = k, v
            attended = F.scaled_dot_product_attention(q, cache[0], cache[1], enable_gqa=True)
            x = x + F.linear(attended.reshape(batch, -1), out)
            gate, up = F.linear(F.rms_norm(x, self.norm.shape, self.norm), gate_up).chunk(2, dim=1)
            x = x + F.linear(F.silu(gate) * up, down)
        return F.linear(F.rms_norm(x, self.norm.shape, self.norm), self.output)


def measure(shape, tp_size, batch, context, device, dtype):
    """A row: bytes that the rank reads, seconds of its products and of its step, both ways."""
    import torch

    with torch.inference_mode():
        rank = Rank(shape, tp_size, batch, context, device, dtype)
        as_engine = graph_of if device == "cuda" else lambda run: run
        row = {"tp_size": tp_size, "batch": batch, "context": context}
        row |= {"weight_bytes": rank.weight_bytes, "cache_bytes": rank.cache_bytes}
        row["products_s"] = seconds(as_engine(rank.multiply), device)
        row["step_s"] = seconds(as_engine(rank.step), device)
        if device == "cuda":
            row["launched_s"] = seconds(rank.step, device)
    return row


def report(lab, rows, bandwidth, flops):
    """The text: for each row your floor, and how far above it the machine is."""
    below = False
    table = [["tp", "batch", "your floor", "products", "step", "over floor", "kernel by kernel"]]
    for row in rows:
        whole = row["weight_bytes"] * row["tp_size"]
        of_products_s = lab.step_s(whole, row["tp_size"], bandwidth, row["batch"], flops)
        floor_s = of_products_s + row["cache_bytes"] / bandwidth
        products, step, launched = (
            seconds_text(row[name]) if name in row else ""
            for name in ("products_s", "step_s", "launched_s")
        )
        over = f"{row['step_s'] / floor_s:.2f} x"
        below |= row["products_s"] < of_products_s or row["step_s"] < floor_s
        asked = [row["tp_size"], row["batch"], seconds_text(floor_s)]
        table.append([*asked, products, step, over, launched])
    said = "products: with the matrices alone. step: with the small kernels and the cache, too."
    if any(row["products_s"] > row["step_s"] for row in rows):
        said += " Some products take longer than their step: other programs use this machine."
    if below:
        said += (
            " Some times are below their floor: other programs ran as that was measured; run it "
        )
        said += "again."
    return "\n".join([*columns(table, "rrrrrrr"), said])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="out/measure-step", help="folder for the two files")
    parser.add_argument("--model", choices=SHAPES, help="default: 8B on a GPU, small without")
    parser.add_argument("--tp", type=int, nargs="+", default=[1, 2, 4, 8], choices=(1, 2, 4, 8))
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--context", type=int, default=1000, help="tokens in each cache")
    options = parser.parse_args()
    if min(options.batch) < 1 or options.context < 1:
        sys.exit("--batch and --context must be 1 or more")
    return options


def main():
    options = arguments()
    torch, device, dtype = this_machine()
    model = options.model or ("8B" if device == "cuda" else "small")
    lab = load_and_say(HERE)
    bandwidth, flops = roofs(device, dtype)
    print(f"{model} on {device}, without messages; {roofs_text(bandwidth, flops)}", flush=True)
    rows = []
    for tp_size in options.tp:
        for batch in options.batch:
            print(f"tp {tp_size}, batch {batch} ...", flush=True)
            try:
                how = (batch, options.context, device, dtype)
                rows.append(measure(SHAPES[model], tp_size, *how))
            except torch.OutOfMemoryError:
                print(f"tp {tp_size}, batch {batch}: this GPU's memory is too small, left out")
    print(report(lab, rows, bandwidth, flops))
    found = {"model": model, "dtype": str(dtype).removeprefix("torch."), "batches": BATCHES}
    found |= {"memory_bytes_per_s": bandwidth, "product_flops_per_s": flops, "rows": rows}
    write(options.out, found)


if __name__ == "__main__":
    run_program(main)
