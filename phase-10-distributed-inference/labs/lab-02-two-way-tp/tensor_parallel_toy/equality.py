"""Outputs, gradients and an SGD step of the sharded model against the unsharded one, float64."""

import torch
import torch.distributed as dist

from .config import ModelConfig
from .group import TensorParallel
from .memory import saved_bytes
from .model import Transformer
from .parallel_linear import RowParallelLinear
from .train import loss_sum, make_batch, reduce_replicated

TOLERANCE = 1e-12  # float64; sums over at most 192 numbers near 1, in another order
SIZES = {
    "hidden_size": 32,
    "num_layers": 2,
    "num_heads": 8,
    "ffn_size": 48,
    "vocab_size": 20,
    "seq_len": 16,
    "batch_size": 3,
    "dtype": "float64",
}
MODES = ("plain", "sequential", "overlap")
COLUMNS = ("loss", "logits", "sharded", "replicated", "after_sgd")


def expected_slice(model, name, full):
    """What `full`, of the unsharded model, is on this rank for parameter `name`."""
    module = model.get_submodule(name.rpartition(".")[0])
    replicated = isinstance(module, RowParallelLinear) and name.endswith("bias")
    return module.shard(full) if hasattr(module, "shard") and not replicated else full


def compare(tp, config):
    """Largest differences on this rank -> {"loss", "logits", "sharded", ..., "saved_ratio"}."""
    tokens, labels = make_batch(config, tp.device)
    reference, model = Transformer(config, device=tp.device), Transformer(config, tp)
    models = ((reference, None), (model, tp))
    losses = [loss_sum(m, tokens, labels, who) for m, who in models]
    for loss in losses:
        loss.backward()
    reduce_replicated(model, tp)
    total = losses[1].detach().clone()
    dist.all_reduce(total, group=tp.group)
    with torch.no_grad():
        share = tokens.chunk(tp.size)[tp.rank]
        logits = reference(tokens).chunk(tp.size)[tp.rank] - model(share)
    worst = dict.fromkeys(COLUMNS, 0.0)
    worst |= {"loss": _off(total, losses[0].detach()), "logits": _off(logits, 0.0)}
    replicated = {id(parameter) for parameter in model.replicated()}
    pairs = [
        (name, parameter, full)
        for (name, parameter), full in zip(
            model.named_parameters(), reference.parameters(), strict=True
        )
    ]
    for name, parameter, full in pairs:
        off = _off(parameter.grad, expected_slice(model, name, full.grad))
        kind = "replicated" if id(parameter) in replicated else "sharded"
        worst[kind] = max(worst[kind], off)
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    for m, _ in models:
        torch.optim.SGD(m.parameters(), lr=0.1).step()
    for name, parameter, full in pairs:
        off = _off(parameter.detach(), expected_slice(model, name, full.detach()))
        worst["after_sgd"] = max(worst["after_sgd"], off)
    worst["same_bits_again"] = _same_gradients(config, tp, tokens, labels, gradients)
    whole = saved_bytes(Transformer(config, device=tp.device), tokens, labels, None)
    worst["saved_ratio"] = (
        saved_bytes(Transformer(config, tp), tokens, labels, tp) * tp.size / whole
    )
    return worst


def _off(actual, expected):
    """Largest difference; not-a-number counts as infinite."""
    return torch.nan_to_num(abs(actual - expected), nan=float("inf")).max().item()


def _same_gradients(config, tp, tokens, labels, gradients):
    """Is a second run equal to the first, bit for bit?"""
    model = Transformer(config, tp)
    loss_sum(model, tokens, labels, tp).backward()
    reduce_replicated(model, tp)
    again = [parameter.grad for parameter in model.parameters()]
    return all(torch.equal(a, b) for a, b in zip(gradients, again, strict=True))


def cases(num_ranks):
    """[(mode, bias, KV heads, ranks of the group)]"""
    kv_heads = 4 if num_ranks <= 4 else 8
    world = list(range(num_ranks))
    rows = [
        (mode, bias, kv, world) for mode in MODES for bias, kv in ((False, 8), (True, kv_heads))
    ]
    if num_ranks >= 4:  # every second rank: two groups side by side, as with DP x TP
        rows += [(mode, True, kv_heads, world[1::2]) for mode in ("plain", "overlap")]
    return rows


def check(tp):
    """Every case -> list of rows, the worst rank's numbers; the same list on every rank."""
    odd = tp
    if tp.size >= 4:
        groups = [dist.new_group(list(range(start, tp.size, 2))) for start in (0, 1)]
        odd = TensorParallel(groups[tp.rank % 2], tp.device, tp.store, tp.link_spec, tp.timeout_s)
    rows = []
    for mode, bias, kv_heads, members in cases(tp.size):
        place = tp if len(members) == tp.size else odd
        place.order = mode
        result = compare(place, ModelConfig(**SIZES, bias=bias, num_kv_heads=kv_heads))
        row = worst_of_all_ranks(tp, result)
        row |= {"mode": mode, "bias": bias, "kv_heads": kv_heads, "group": members}
        rows.append(row | {"ok": not rejections(row)})
    return rows


def rejections(row):
    """The comparisons that a row fails; not-a-number fails too."""
    failed = [name for name in COLUMNS if not row[name] <= TOLERANCE]
    failed += [] if row["same_bits_again"] else ["same_bits_again"]
    return failed + ([] if row["saved_ratio"] == 1.0 else ["saved_ratio"])


def worst_of_all_ranks(tp, result):
    """The largest differences over the ranks of the world."""
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, result)
    row = {name: max(r[name] for r in everyone) for name in (*COLUMNS, "saved_ratio")}
    return row | {"same_bits_again": all(r["same_bits_again"] for r in everyone)}


def report(tp):
    """Print the table (rank 0) -> {"ok", "rows"}."""
    rows = check(tp)
    if tp.rank == 0:
        print(
            f"{tp.size} ranks, float64: largest difference from the unsharded model (limit "
            f"{TOLERANCE:g}), saved bytes x ranks / unsharded, same bits twice"
        )
        print(
            f"{'mode':18} {'bias':5} {'kv':>2} {'group':12}"
            + "".join(f"{name:>11}" for name in COLUMNS)
            + "   saved  bits"
        )
        for row in rows:
            group = ",".join(map(str, row["group"]))
            print(
                f"{row['mode']:18} {row['bias']!s:5} {row['kv_heads']:2} {group:12}"
                + "".join(f"{row[name]:11.1e}" for name in COLUMNS)
                + f" {row['saved_ratio']:7.4f}  {'same' if row['same_bits_again'] else 'DIFFER'}"
                + ("" if row["ok"] else "   FAILED"),
                flush=True,
            )
        wrong = sum(not row["ok"] for row in rows)
        print(f"{len(rows)} cases, {wrong} wrong")
    return {"ok": all(row["ok"] for row in rows), "rows": rows}
