"""Draw which part of each weight a rank holds, as your own functions say.

    LAB_IMPL=starter python who_holds_what.py [--ranks 4] [--heads 8] [--kv-heads 2]

Needs tasks 1 and 6 (shards, attention_shards). A letter is a head or a block of units.
"""

import argparse
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase

import numpy as np

from labkit.loading import load_and_say, run_program

HERE = Path(__file__).resolve().parent
HEAD_DIM, LETTERS = 2, ascii_uppercase + ascii_lowercase


def bar(owned, count):
    """`..CD....`: which of `count` units a rank holds."""
    return "".join(LETTERS[unit % 52] if unit in owned else "." for unit in range(count))


def heads_of(weight, axis, head_dim):
    """Which heads a rank's part of a weight holds; the weight's values are its head's number."""
    values = np.unique(np.moveaxis(weight, axis, 0)[::head_dim].astype(int))
    return {int(value) for value in values}


def numbered(num_heads, hidden, head_dim):
    """A weight [heads * head_dim, hidden] whose every entry is the number of its head."""
    return np.repeat(np.arange(num_heads), head_dim)[:, None] * np.ones((1, hidden))


def table(lab, ranks, heads, kv_heads):
    """One line per rank: the MLP units, query heads, KV heads and columns of Wo that it holds."""
    units = 2 * ranks
    weights = [numbered(count, 4, HEAD_DIM) for count in (heads, kv_heads, kv_heads)]
    weights.append(numbered(heads, 4, HEAD_DIM).T)
    blocks = lab.shards("hidden", units, ranks)
    lines = [("", "MLP", "Wq", "Wk, Wv", "Wo")]
    for rank in range(ranks):
        Wq, Wk, _, Wo = lab.attention_shards(*weights, heads, kv_heads, ranks, rank)
        mlp = bar(set(range(units)[blocks[rank]]), units)
        query, shared = (bar(heads_of(W, 0, HEAD_DIM), n) for W, n in ((Wq, heads), (Wk, kv_heads)))
        lines.append((f"rank {rank}", mlp, query, shared, bar(heads_of(Wo, 1, HEAD_DIM), heads)))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--kv-heads", type=int, default=2)
    chosen = parser.parse_args()
    if min(chosen.ranks, chosen.heads, chosen.kv_heads) < 1:
        parser.error("ranks, heads and kv-heads must be at least 1")
    lab = load_and_say(HERE)
    try:
        print("\n".join(table(lab, chosen.ranks, chosen.heads, chosen.kv_heads)))
    except ValueError as error:
        parser.exit(2, f"who_holds_what.py: {error}\n")


if __name__ == "__main__":
    run_program(main)
