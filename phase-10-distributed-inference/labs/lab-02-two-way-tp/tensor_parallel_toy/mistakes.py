"""Plausible mistakes in a tensor-parallel model, each of which the equality suite must notice.

Every function puts one mistake into the package while it is active; its docstring says why people
make it. `python -m tensor_parallel_toy mistakes` prints which comparison rejects which mistake.
(Mistakes in the order of operations stand in the lab's own mistakes.py.)
"""

import contextlib
from unittest.mock import patch

import torch

from . import equality, model, parallel_linear, train
from .config import ModelConfig
from .deferred import Deferred
from .parallel_linear import ColumnParallelLinear, RowParallelLinear

BANK = []


def mistake(rejected_by):
    def register(function):
        BANK.append((function.__name__, rejected_by, contextlib.contextmanager(function)))
        return function

    return register


@mistake("replicated")
def norm_gradients_not_reduced():
    """The norms are the same on all ranks, so their gradients look the same too; they are not."""
    right = train.reduce_replicated

    def without_norms(m, tp):
        with patch.object(m, "replicated", lambda: [m.embedding, m.head]):
            right(m, tp)

    with patch.object(equality, "reduce_replicated", without_norms):
        yield


@mistake("replicated")
def replicated_gradients_averaged():
    """Averaging is what data parallelism does; here each rank holds a part of one sum."""
    right = train.reduce_replicated

    def averaged(m, tp):
        right(m, tp)
        for parameter in m.replicated() if tp else []:
            parameter.grad.div_(tp.size)

    with patch.object(equality, "reduce_replicated", averaged):
        yield


@mistake("after_sgd")
def loss_is_the_mean_of_the_own_positions():
    """All gradients come out p times too large; Adam hides it, SGD does not."""
    right = train.loss_sum

    def own_mean(m, tokens, labels, tp):
        return right(m, tokens, labels, tp) * (tp.size if tp else 1)

    with patch.object(equality, "loss_sum", own_mean):
        yield


@mistake("logits")
def bias_added_on_every_rank():
    """Added before the partial sums meet, the bias counts p times."""

    right = RowParallelLinear.forward

    def forward(self, x):
        y = right(self, x)
        return y if self.tp is None else y + (self.tp.size - 1) * self.bias

    with patch.object(RowParallelLinear, "forward", forward):
        yield


@mistake("logits")
def weights_drawn_per_rank():
    """Each rank seeds with its rank, or draws its shard alone: together another model."""
    right = model.drawer

    def by_rank(config, device):
        rank = torch.distributed.get_rank()
        return right(ModelConfig(**{**vars(config), "seed": config.seed + rank}), device)

    with patch.object(model, "drawer", by_rank):
        yield


@mistake("logits")
def gathered_in_the_wrong_order():
    """Chunks stored as they arrive, own one first, instead of where they belong."""
    right = parallel_linear._buffers

    def own_first(tp, own, pieces, *others):
        chunks = right(tp, own, pieces, *others)
        return chunks[::-1]

    with patch.object(parallel_linear, "_buffers", own_first):
        yield


@mistake("logits")
def scattered_to_the_wrong_rank():
    """Chunk i is summed at rank i + 1: easy when peers are global ranks and the group is not."""
    right = parallel_linear.row_forward

    def rotated(tp, x, weight, ops=None):
        return right(tp, x.roll(x.shape[0] // tp.size, 0), weight, ops)

    with patch.object(parallel_linear, "row_forward", rotated):
        yield


@mistake("logits")
def fused_weight_split_in_one_piece():
    """The fused qkv matrix cut into p blocks: the first rank holds all the queries."""

    def shard(self, full):
        return full if self.tp is None else full.chunk(self.tp.size)[self.tp.rank]

    with patch.object(ColumnParallelLinear, "shard", shard):
        yield


@mistake("sharded")
def positions_dealt_round_robin():
    """Rank r takes positions r, r + p, ...: the gathered sequence is in another order."""

    def dealt(full, tp):
        return full if tp is None else full[tp.rank :: tp.size].clone()

    with patch.object(train, "local_positions", dealt):
        yield


@mistake("sharded")
def input_gradient_not_summed():
    """Column backward keeps its own partial dx; only 1/p of the gradient is there."""
    right = parallel_linear.column_backward

    def partial(tp, dy, x, weight, **others):
        dw = right(tp, dy, x, weight, **others)[1]
        return (dy @ weight).chunk(tp.size)[tp.rank].clone(), dw

    with patch.object(parallel_linear, "column_backward", partial):
        yield


@mistake("sharded")
def weight_gradient_from_the_own_positions():
    """Column backward forgets to gather x again and multiplies with the shard that was saved."""
    right = parallel_linear.column_backward

    def own(tp, dy, x, weight, **others):
        dx = right(tp, dy, x, weight, **others)[0]
        return dx, dy.chunk(tp.size)[tp.rank].t() @ x

    with patch.object(parallel_linear, "column_backward", own):
        yield


@mistake("sharded")
def weight_gradients_taken_before_they_are_finished():
    """GEMMs of dw are left to fill later layers' waits; nobody comes after the last layers."""

    def unfinished(deferred):
        for weight, gradient in deferred.gradients:
            weight.grad = gradient.clone()
        deferred.gradients.clear()
        deferred.finish()

    with patch.object(Deferred, "_end_backward", unfinished):
        yield


@mistake("same_bits_again")
def sum_in_order_of_arrival():
    """Partial sums added as they come: right to rounding, and different in every run."""
    right = parallel_linear.row_forward
    runs = []

    def arrival(tp, x, weight, ops=None):
        runs.append(None)
        y = right(tp, x, weight, ops)
        third = y / 3  # another order of three terms, another last bit
        return y if len(runs) % 3 else third + (third + third)

    with patch.object(parallel_linear, "row_forward", arrival):
        yield


@mistake("saved_ratio")
def saves_the_gathered_input():
    """Without the gather in backward most of sequence parallelism's memory is given back."""
    right = model.ColumnParallelLinear.__init__

    def keeping(self, in_size, parts, tp, draw, bias=False, keep_gathered=False):
        right(self, in_size, parts, tp, draw, bias, keep_gathered=tp is not None)

    with patch.object(model.ColumnParallelLinear, "__init__", keeping):
        yield


def rejections(row):
    """The comparisons that a row of the equality suite fails."""
    failed = [name for name in equality.COLUMNS if not row[name] <= equality.TOLERANCE]
    failed += ["same_bits_again"] if not row["same_bits_again"] else []
    return failed + (["saved_ratio"] if row["saved_ratio"] != 1.0 else [])


def kill_table(tp):
    """Run the whole bank -> {"ok", "rows": [{"mistake", "expected", "rejected_by", "why"}]}."""
    rows = []
    config = ModelConfig(**equality.SIZES, bias=True, num_kv_heads=4)
    for name, expected, active in BANK:
        tp.overlap, tp.default_plan = equality.MODES["overlap"]
        with active():
            row = equality.worst_of_all_ranks(tp, equality.compare(tp, config))
        rows.append({"mistake": name, "expected": expected, "rejected_by": rejections(row)})
    right = equality.worst_of_all_ranks(tp, equality.compare(tp, config))
    ok = all(row["expected"] in row["rejected_by"] for row in rows) and not rejections(right)
    if tp.rank == 0:
        for row in rows:
            by = ", ".join(row["rejected_by"])
            print(f"{row['mistake']:40} {'rejected by ' + by if by else 'SURVIVES'}", flush=True)
        print(f"without a mistake: {'accepted' if not rejections(right) else 'REJECTED'}")
    return {"ok": ok, "rows": rows}
