"""Train the character model that generate.py runs: captures/tiny-model/weights.npz.

    make torch, then: python train.py [--steps 1500] [--keep]

Takes about a minute on a laptop, writes into out/tiny-model, and replaces the weights that
generate.py runs only with --keep. The text is ours and stands beside the weights. The model has
what the lab has: attention in which several query heads share a KV head, an MLP with relu, no
biases.
"""

import argparse
from pathlib import Path

import numpy as np

from labkit.loading import ROOT
from labkit.provenance import write_provenance

FOLDER = Path(__file__).resolve().parent / "captures" / "tiny-model"
LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, UNITS, WINDOW = 2, 48, 8, 2, 6, 192, 64
EVERY_LAYER = {
    "Wq": (HEADS * HEAD_DIM, HIDDEN),
    "Wk": (KV_HEADS * HEAD_DIM, HIDDEN),
    "Wv": (KV_HEADS * HEAD_DIM, HIDDEN),
    "Wo": (HIDDEN, HEADS * HEAD_DIM),
    "W1": (HIDDEN, UNITS),
    "W2": (UNITS, HIDDEN),
}


def logits(torch, weights, ids):
    """[batch, tokens] -> [batch, tokens, letters]; the same model as in generate.py."""
    norm = lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)  # noqa: E731
    batch, tokens = ids.shape
    x = weights["E"][ids] + weights["P"][:tokens]
    for layer in range(LAYERS):
        own = {name: weights[f"{name}{layer}"] for name in EVERY_LAYER}
        y = norm(x)
        q, k, v = (
            (y @ own[name].T).view(batch, tokens, -1, HEAD_DIM).transpose(1, 2)
            for name in ("Wq", "Wk", "Wv")
        )
        k, v = (part.repeat_interleave(HEADS // KV_HEADS, dim=1) for part in (k, v))
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + mixed.transpose(1, 2).reshape(batch, tokens, -1) @ own["Wo"].T
        x = x + torch.relu(norm(x) @ own["W1"]) @ own["W2"]
    return norm(x) @ weights["E"].T


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--keep", action="store_true", help="replace what generate.py runs")
    asked = parser.parse_args()
    steps, out = asked.steps, FOLDER if asked.keep else ROOT / "out" / "tiny-model"
    try:
        import torch
    except ModuleNotFoundError:
        raise SystemExit("train.py needs Torch: make torch installs it") from None
    out.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(1)
    text = " ".join((FOLDER / "text.txt").read_text(encoding="utf-8").split())
    letters = "".join(sorted(set(text)))
    ids = torch.tensor([letters.index(letter) for letter in text])
    shapes = {"E": (len(letters), HIDDEN), "P": (WINDOW, HIDDEN)}
    for layer in range(LAYERS):
        shapes |= {f"{name}{layer}": shape for name, shape in EVERY_LAYER.items()}
    weights = {name: torch.randn(shape) * 0.1 for name, shape in shapes.items()}
    parameters = [weight.requires_grad_() for weight in weights.values()]
    optimizer = torch.optim.AdamW(parameters, lr=3e-3, weight_decay=0.01)
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        starts = torch.randint(len(ids) - WINDOW, (32, 1))
        window = ids[starts + torch.arange(WINDOW + 1)]
        seen = window[:, :-1]
        slip = torch.rand(seen.shape) < 0.08  # so that the model finds back after a slip of its own
        seen = torch.where(slip, torch.randint(len(letters), seen.shape), seen)
        said = logits(torch, weights, seen)
        loss = torch.nn.functional.cross_entropy(said.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        slower.step()
        if step % 250 == 0 or step == steps - 1:
            print(f"step {step:5}  loss {loss.item():.3f}", flush=True)
    arrays = {name: weight.detach().numpy().astype(np.float16) for name, weight in weights.items()}
    np.savez_compressed(out / "weights.npz", letters=np.array(letters), **arrays)
    command = f"python train.py --steps {steps}{' --keep' * asked.keep}"
    last_loss = round(loss.item(), 3)
    files = ("weights.npz", "text.txt")
    (out / "text.txt").write_bytes((FOLDER / "text.txt").read_bytes())
    write_provenance(command, out, files, ("numpy", "torch"), last_loss=last_loss)


if __name__ == "__main__":
    main()
