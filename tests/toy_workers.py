"""What ranks do in tests/test_toy_*.py: each function is one rank's part.

To start a rank is to import Torch, so what can share a launch does: `one_after_the_other`.
"""

import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from tensor_parallel_toy.config import ModelConfig
from tensor_parallel_toy.equality import COLUMNS, SIZES, check, compare
from tensor_parallel_toy.group import TensorParallel
from tensor_parallel_toy.lost_rank import explain
from tensor_parallel_toy.mistakes import kill_table  # noqa: F401
from tensor_parallel_toy.model import Transformer
from tensor_parallel_toy.nccl_link import NcclLink
from tensor_parallel_toy.parallel_linear import ColumnParallelLinear, RowParallelLinear, _Column
from tensor_parallel_toy.train import loss_sum, make_batch
from torch.utils.checkpoint import checkpoint


def one_after_the_other(tp, functions):
    """{name: what it returned}; functions: name -> [name of a function here, its link].

    Each gets a TensorParallel of its own on the same ranks, which lives until all have done.
    """
    found = {}
    for name, (function, link) in functions.items():
        own = TensorParallel(tp.group, tp.device, tp.store, link, timeout_s=tp.timeout_s)
        found[name] = globals()[function](own)
        dist.barrier()
    return found


def each_alone(tp):
    """The equality suite with every rank in a group of its own: one rank, nobody to talk to."""
    alone = [dist.new_group([rank]) for rank in range(tp.size)][tp.rank]
    return check(TensorParallel(alone, tp.device, tp.store, timeout_s=tp.timeout_s))


def layers(tp, column_in=8):
    generator = torch.Generator().manual_seed(1)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    column = ColumnParallelLinear(column_in, [8], tp, draw)
    return column, RowParallelLinear(8, 8, tp, draw)


def positions(tp, features=8):
    return torch.ones(2, 1, features, dtype=torch.float64)


def other_layer(tp):
    """Rank 0 calls its column layer, rank 1 its row layer."""
    column, row = layers(tp)
    if tp.rank == 0:
        return column(positions(tp)).sum().item()
    return row(torch.ones(4, 1, 4, dtype=torch.float64)).sum().item()


def other_shape(tp):
    column, _ = layers(tp)
    x = torch.ones(2 + tp.rank, 1, 8, dtype=torch.float64)
    return column(x).sum().item()


def one_call_more(tp):
    """Both ranks agree on the layer; then rank 0 calls it once more than rank 1."""
    column, _ = layers(tp)
    column(positions(tp))
    if tp.rank == 0:
        column(positions(tp))
    else:
        time.sleep(60)


def one_dies(tp):
    column, _ = layers(tp)
    column(positions(tp))
    if tp.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    column(positions(tp))
    column(positions(tp))


def one_raises(tp):
    tp.store.set(f"joined-{tp.rank}", "")  # whom a rank leaves while joining sees a lost connection
    if tp.rank == 1:
        tp.store.wait(["joined-0"])
        raise ValueError("this rank cannot go on")
    column, _ = layers(tp)
    column(positions(tp))


def sleep_and_tell(tp, folder):
    Path(folder, f"pid-{tp.rank}").write_text(str(os.getpid()))
    time.sleep(60)


def over_grouped_messages(tp):
    """NCCL's pairing of sends and receives, carried by gloo: how far from the unsharded model?"""
    tp.link = NcclLink(tp.group)
    worst = []
    for tp.order in ("overlap", "sequential"):
        result = compare(tp, ModelConfig(**SIZES, bias=True, num_kv_heads=4))
        worst.append(max(result[name] for name in COLUMNS))
    assert not tp.link.posted
    return worst


def two_backwards(tp):
    """Gradients add up over two backwards; frozen and computed weights are treated right."""
    column, row = layers(tp)

    def backward():
        row(column(positions(tp))).sum().backward()

    backward()
    once = [column.weight.grad.clone(), row.weight.grad.clone()]
    row.weight.requires_grad_(False)
    backward()
    third = (column.weight.detach() / 3).requires_grad_()
    y = _Column.apply(positions(tp), 3 * third, None, tp)
    row(y.unflatten(0, (-1, 1))).sum().backward()
    computed = third.grad
    return [
        torch.equal(column.weight.grad, 2 * once[0]),
        torch.equal(row.weight.grad, once[1]),
        torch.equal(computed, 3 * once[0]),
    ]


def split_unevenly(tp):
    _, row = layers(tp)
    row(torch.ones(5, 1, 4, dtype=torch.float64))


def weight_split_unevenly(tp):
    ColumnParallelLinear(8, [8, 7], tp, torch.ones)


def refused(tp, function):
    try:
        function(TensorParallel(tp.group, tp.device, tp.store, timeout_s=tp.timeout_s))
    except Exception as error:
        return explain(error, tp.timeout_s)


def refusals(tp):
    """What is said of each step that all ranks refuse before anything is sent."""
    functions = (other_layer, other_shape, split_unevenly, weight_split_unevenly)
    return {function.__name__: refused(tp, function) for function in functions}


def gradients(losses, *models):
    """Every parameter's gradient after one backward; none stays in the models."""
    for model in models:
        model.zero_grad()
    losses.backward()
    return [p.grad.clone() for model in models for p in model.parameters()]


def equal(these, those):
    return all(torch.equal(a, b) for a, b in zip(these, those, strict=True))


def small_model(tp, **sizes):
    config = ModelConfig(**(SIZES | {"bias": True, "num_kv_heads": 4} | sizes))
    model, batch = Transformer(config, tp), make_batch(config)
    return model, lambda: loss_sum(model, *batch, tp)


def checkpointed(tp, reentrant):
    """Are gradients the same if each block is computed a second time in backward?"""
    model, loss = small_model(tp)
    expected = gradients(loss(), model)

    def forward(tokens):
        x = F.embedding(tokens, model.embedding)
        for block in model.blocks:
            x = checkpoint(block, x, model.table, use_reentrant=reentrant)
        return model.norm(x) @ model.head.t()

    model.forward = forward
    return all(equal(gradients(loss(), model), expected) for _ in range(3))


def two_models_at_once(tp):
    """Two models, each with a TensorParallel of its own on one group, in one backward."""
    one, one_loss = small_model(tp)
    other, other_loss = small_model(
        TensorParallel(tp.group, tp.device, tp.store, timeout_s=tp.timeout_s), hidden_size=64
    )
    alone = gradients(one_loss(), one) + gradients(other_loss(), other)
    return equal(gradients(one_loss() + other_loss(), one, other), alone)


def after_a_failed_backward(tp):
    """Does a backward that raised leave anything in the next one's gradients?"""
    model, loss = small_model(tp)
    expected = gradients(loss(), model)

    def fail(_):
        raise ArithmeticError

    hook = model.embedding.register_hook(fail)
    try:
        loss().backward()
    except ArithmeticError:
        hook.remove()
    return equal(gradients(loss(), model), expected)


def bfloat16_near_float64(tp):
    losses = []
    for dtype in ("float64", "bfloat16"):
        model, loss = small_model(tp, dtype=dtype)
        losses.append(loss())
        assert all(p.isfinite().all() for p in gradients(losses[-1], model))
    return abs(losses[0] - losses[1]).item() < 0.1


def other_uses(tp):
    return {
        "checkpoint": checkpointed(tp, reentrant=False),
        "reentrant checkpoint": checkpointed(tp, reentrant=True),
        "two models": two_models_at_once(tp),
        "failed backward": after_a_failed_backward(tp),
        "bfloat16": bfloat16_near_float64(tp),
    }
