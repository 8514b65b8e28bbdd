"""Plausible mistakes in a tensor-parallel model, each of which the equality suite must notice.

Every function here takes the place of one of the package; its first argument is the right one, and
its docstring says why people write it so. `python -m tensor_parallel_toy mistakes` prints which
comparison rejects which mistake. (Mistakes in the order of operations stand in the lab's own
mistakes.py.)
"""

import functools
import itertools
from unittest.mock import patch

import torch

from . import equality, model, parallel_linear, train
from .config import ModelConfig
from .deferred import Deferred
from .parallel_linear import ColumnParallelLinear, RowParallelLinear

BANK = []


def mistake(rejected_by, owner, name):
    """Register a function as a wrong `owner.name`."""

    def register(function):
        right = getattr(owner, name)

        def wrong(*arguments, **more):
            return function(right, *arguments, **more)

        put_in = functools.partial(patch.object, owner, name, wrong)
        BANK.append((function.__name__, rejected_by, put_in))
        return function

    return register


@mistake("replicated", equality, "reduce_replicated")
def norm_gradients_not_reduced(right, m, tp):
    """The norms are the same on all ranks, so their gradients look the same too; they are not."""
    with patch.object(m, "replicated", lambda: [m.embedding, m.head]):
        right(m, tp)


@mistake("replicated", equality, "reduce_replicated")
def replicated_gradients_averaged(right, m, tp):
    """Averaging is what data parallelism does; here each rank holds a part of one sum."""
    right(m, tp)
    for parameter in m.replicated() if tp else []:
        parameter.grad.div_(tp.size)


@mistake("after_sgd", equality, "loss_sum")
def loss_is_the_mean_of_the_own_positions(right, m, tokens, labels, tp):
    """All gradients come out p times too large; Adam hides it, SGD does not."""
    return right(m, tokens, labels, tp) * (tp.size if tp else 1)


@mistake("logits", RowParallelLinear, "forward")
def bias_added_on_every_rank(right, layer, x):
    """Added before the partial sums meet, the bias counts p times."""
    y = right(layer, x)
    return y if layer.tp is None else y + (layer.tp.size - 1) * layer.bias


@mistake("logits", model, "drawer")
def weights_drawn_per_rank(right, config, device):
    """Each rank seeds with its rank, or draws its shard alone: together another model."""
    rank = torch.distributed.get_rank()
    return right(ModelConfig(**{**vars(config), "seed": config.seed + rank}), device)


@mistake("logits", parallel_linear, "_buffers")
def gathered_in_the_wrong_order(right, *arguments):
    """Chunks stored as they arrive, own one first, instead of where they belong."""
    return right(*arguments)[::-1]


@mistake("logits", parallel_linear, "row_forward")
def scattered_to_the_wrong_rank(right, tp, x, weight, ops=None):
    """Chunk i is summed at rank i + 1: easy when peers are global ranks and the group is not."""
    return right(tp, x.roll(x.shape[0] // tp.size, 0), weight, ops)


@mistake("logits", ColumnParallelLinear, "shard")
def fused_weight_split_in_one_piece(_, layer, full):
    """The fused qkv matrix cut into p blocks: the first rank holds all the queries."""
    return full if layer.tp is None else full.chunk(layer.tp.size)[layer.tp.rank]


@mistake("sharded", train, "local_positions")
def positions_dealt_round_robin(_, full, tp):
    """Rank r takes positions r, r + p, ...: the gathered sequence is in another order."""
    return full if tp is None else full[tp.rank :: tp.size].clone()


@mistake("sharded", parallel_linear, "column_backward")
def input_gradient_not_summed(right, tp, dy, x, weight, **others):
    """Column backward keeps its own partial dx; only 1/p of the gradient is there."""
    dw = right(tp, dy, x, weight, **others)[1]
    return (dy @ weight).chunk(tp.size)[tp.rank].clone(), dw


@mistake("sharded", parallel_linear, "column_backward")
def weight_gradient_from_the_own_positions(right, tp, dy, x, weight, **others):
    """Column backward forgets to gather x again and multiplies with the shard that was saved."""
    dx = right(tp, dy, x, weight, **others)[0]
    return dx, dy.chunk(tp.size)[tp.rank].t() @ x


@mistake("sharded", Deferred, "_end_backward")
def weight_gradients_taken_before_they_are_finished(_, deferred):
    """GEMMs of dw are left to fill later layers' waits; nobody comes after the last layers."""
    for weight, gradient in deferred.gradients:
        weight.grad = gradient.clone()
    deferred.gradients.clear()
    deferred.finish()


@mistake("same_bits_again", parallel_linear, "row_forward")
def sum_in_order_of_arrival(right, tp, x, weight, ops=None, *, runs=itertools.count(1)):  # noqa: B008
    """Partial sums added as they come: right to rounding, and different in every run."""
    y = right(tp, x, weight, ops)
    third = y / 3  # another order of three terms, another last bit
    return y if next(runs) % 3 else third + (third + third)


@mistake("saved_ratio", ColumnParallelLinear, "forward")
def saves_the_gathered_input(right, layer, x):
    """Without the gather in backward most of sequence parallelism's memory is given back."""
    y = right(layer, x)
    return y if layer.tp is None else _Keep.apply(y, layer.tp.all_gather(x.detach().flatten(1)))


class _Keep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, kept):
        ctx.save_for_backward(kept)
        return y.view_as(y)

    @staticmethod
    def backward(ctx, dy):
        return dy, None


def kill_table(tp):
    """Run the whole bank -> {"ok", "rows": [{"mistake", "expected", "rejected_by", "why"}]}."""
    rows = []
    config = ModelConfig(**equality.SIZES, bias=True, num_kv_heads=4)
    for name, expected, wrong in BANK:
        tp.order = "overlap"
        with wrong():
            row = equality.worst_of_all_ranks(tp, equality.compare(tp, config))
        rejected_by = equality.rejections(row)
        rows.append({"mistake": name, "expected": expected, "rejected_by": rejected_by})
    right = equality.rejections(equality.worst_of_all_ranks(tp, equality.compare(tp, config)))
    ok = all(row["expected"] in row["rejected_by"] for row in rows) and not right
    if tp.rank == 0:
        for row in rows:
            by = ", ".join(row["rejected_by"])
            print(f"{row['mistake']:40} {'rejected by ' + by if by else 'SURVIVES'}", flush=True)
        print(f"without a mistake: {'REJECTED' if right else 'accepted'}")
    return {"ok": ok, "rows": rows}
