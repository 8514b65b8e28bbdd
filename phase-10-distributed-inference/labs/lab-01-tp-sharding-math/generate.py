"""Your own attention and MLP write text: a tiny model on four simulated ranks, letter by letter.

    LAB_IMPL=starter python generate.py ["no rank "] [--ranks 4] [--letters 240] [--seed 3]

Needs tasks 1, 4 and 6. The model is captures/tiny-model (train.py made it). What four ranks write
is compared, letter for letter, with what one machine writes that never heard of ranks.
"""

import argparse
import sys
import textwrap
from pathlib import Path

try:
    import numpy as np
    from collectives import record, run_ranks
except ModuleNotFoundError as missing:
    sys.exit(f"generate.py: {missing}: run `. .venv/bin/activate` in the course's folder first")
from who_holds_what import table

from labkit.loading import load_and_say, run_program

HERE = Path(__file__).resolve().parent
LAYERS, HEADS, KV_HEADS, HEAD_DIM = 2, 8, 2, 6


def norm(x):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)


def on_ranks(lab, num_ranks):
    """(attention, mlp) of the learner's functions; each takes (x, weights of a layer)."""

    def attention(x, Wq, Wk, Wv, Wo, W1, W2):
        ranks, whole = range(num_ranks), (Wq, Wk, Wv, Wo)
        held = [lab.attention_shards(*whole, HEADS, KV_HEADS, num_ranks, rank) for rank in ranks]
        each = run_ranks(lab.attention_rank, [(x, *mine, HEAD_DIM) for mine in held])
        return each[0]

    return attention, lambda x, *weights: lab.mlp_tp(x, *weights[-2:], num_ranks)


def alone(lab):
    """The same two on one machine: no ranks, no collectives, nothing of the learner's."""

    def attention(x, Wq, Wk, Wv, Wo, W1, W2):
        q, k, v = ((x @ W.T).reshape(len(x), -1, HEAD_DIM) for W in (Wq, Wk, Wv))
        return lab.causal_attention(q, k, v) @ Wo.T

    return attention, lambda x, *weights: np.maximum(x @ weights[-2], 0.0) @ weights[-1]


def next_letter(model, ids, attention, mlp, chance):
    """The id of the letter that follows; chance: a number from 0 to 1, the same for everybody."""
    ids = ids[-len(model["P"]) :]
    x = model["E"][ids] + model["P"][: len(ids)]
    for layer in range(LAYERS):
        weights = [model[f"{name}{layer}"] for name in ("Wq", "Wk", "Wv", "Wo", "W1", "W2")]
        x = x + attention(norm(x), *weights)
        x = x + mlp(norm(x), *weights)
    scores = norm(x[-1]) @ model["E"].T / 0.9  # a little sharper than it was trained
    shares = np.exp(scores - scores.max()).cumsum()
    return int(np.searchsorted(shares, chance * shares[-1]))


def write(model, begin, letters, seed, attention, mlp):
    """The text that begins so, and the ids of its letters."""
    alphabet = str(model["letters"])
    ids = [alphabet.index(letter) for letter in begin]
    for chance in np.random.default_rng(seed).uniform(size=letters):
        ids.append(next_letter(model, ids, attention, mlp, chance))
    return "".join(alphabet[i] for i in ids)


def show(text, other, begin, num_ranks):
    """The text, and whether one machine wrote the same; 1 if it did not."""
    print("\n" + "\n".join(textwrap.wrap(text, 72, initial_indent="  ", subsequent_indent="  ")))
    same = next(
        (at for at, pair in enumerate(zip(text, other, strict=True)) if len({*pair}) > 1), 0
    )
    count = len(text) - len(begin)
    if not same:
        print(f"\n{count} of {count} letters are those that one machine writes on its own.")
        return 0
    right = other[max(0, same - 40) : same + 1]
    print(
        f"\nLetter {same - len(begin) + 1} is another than one machine writes: after "
        f"{right[:-1]!r} comes {right[-1]!r},\nand your {num_ranks} ranks say {text[same]!r}. "
        "LAB_IMPL=starter pytest lab-01 says which function it is."
    )
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("begin", nargs="?", default="no rank ", help="how the text begins, in small letters")
    add("--ranks", type=int, default=4, choices=(1, 2, 4, 8), help="simulated ranks (default 4)")
    add("--letters", type=int, default=240, help="letters to write after that (default 240)")
    add("--seed", type=int, default=3, help="another seed draws another text (default 3)")
    chosen = parser.parse_args()
    with np.load(HERE / "captures" / "tiny-model" / "weights.npz") as arrays:
        model = {name: arrays[name] for name in arrays.files}
    model = {name: a if name == "letters" else a.astype(float) for name, a in model.items()}
    begin = chosen.begin.lower()
    if not begin or not set(begin) <= set(str(model["letters"])):
        parser.error(f"begin with some of these: {str(model['letters'])!r}")
    lab = load_and_say(HERE, default="starter")
    print("\nWho holds what, in each of two layers:")
    print("\n".join("  " + line for line in table(lab, chosen.ranks, HEADS, KV_HEADS)))
    how = model, begin, chosen.letters, chosen.seed
    with record() as ledger:
        text = write(*how, *on_ranks(lab, chosen.ranks))
    status = show(text, write(*how, *alone(lab)), begin, chosen.ranks)
    each = len(ledger.calls) / max(1, chosen.letters)
    told = f"{2 * LAYERS} is two a layer" if chosen.ranks > 1 else "one rank alone meets nobody"
    print(f"On the way the ranks met {each:.0f} times per letter: {told}.")
    return status


if __name__ == "__main__":
    run_program(main)
