"""The peer a user would pick instead: the same model sharded by torch.distributed.tensor."""

import functools

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from ..model import Transformer
from ..train import gradient_norm, loss_sum, reduce_replicated


class _Unfused(nn.Module):
    """q, k, v (or gate, up) as separate linear layers: DTensor cannot split a fused weight."""

    def __init__(self, fused):
        super().__init__()
        self.parts = nn.ModuleList(_linear(part, None) for part in fused.weight.split(fused.parts))
        if fused.bias is not None:
            for linear, bias in zip(self.parts, fused.bias.split(fused.parts), strict=True):
                linear.bias = nn.Parameter(bias.detach().clone())

    def forward(self, x):
        return torch.cat([part(x) for part in self.parts], dim=-1)


def _project(columns, x):
    return [column(x) for column in columns]


def _linear(weight, bias):
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
    linear.weight = nn.Parameter(weight.detach().clone())
    linear.bias = None if bias is None else nn.Parameter(bias.detach().clone())
    return linear


def build(config, tp):
    """Transformer with its blocks sharded by DTensor; embedding, last norm and head stay local."""
    model = Transformer(config, device=tp.device)
    mesh = DeviceMesh.from_group(tp.group, tp.device.type)
    gathered = PrepareModuleInput(input_layouts=(Shard(0),), desired_input_layouts=(Replicate(),))
    for block in model.blocks:
        attention, mlp = block.attention, block.mlp
        for module, name in ((attention, "qkv"), (mlp, "gate_up")):
            module.columns = _Unfused(getattr(module, name)).parts
            delattr(module, name)
            module.project = functools.partial(_project, module.columns)
        attention.out = _linear(attention.out.weight, attention.out.bias)
        mlp.down = _linear(mlp.down.weight, mlp.down.bias)
        attention_inputs = PrepareModuleInput(
            input_layouts=(Shard(0), None), desired_input_layouts=(Replicate(), None)
        )
        parallelize_module(
            block,
            mesh,
            {
                "norm1": SequenceParallel(sequence_dim=0),
                "norm2": SequenceParallel(sequence_dim=0),
                "attention": attention_inputs,
                "mlp": gathered,
                "attention.columns.*": ColwiseParallel(),
                "mlp.columns.*": ColwiseParallel(),
                "attention.out": RowwiseParallel(output_layouts=Shard(0)),
                "mlp.down": RowwiseParallel(output_layouts=Shard(0)),
            },
        )
    # outside DTensor; inside it, DTensor sums the norms' gradients itself
    model.replicated = lambda: [p for p in model.parameters() if not isinstance(p, DTensor)]
    return model


def train_step(model, optimizers, tokens, labels, tp):
    """train.train_step, with DTensor's pending sums carried out before the norm is taken.

    The gradients of the norms stay Partial until somebody redistributes them; fused Adam cannot
    mix DTensors with tensors, hence two optimizers.
    """
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss = loss_sum(model, tokens, labels, tp)
    loss.backward()
    for parameter in model.parameters():
        gradient = parameter.grad
        if isinstance(gradient, DTensor) and any(p.is_partial() for p in gradient.placements):
            parameter.grad = gradient.redistribute(placements=parameter.placements)
    reduce_replicated(model, tp)
    whole = [
        p for p in model.parameters() if isinstance(p, DTensor) and p.placements[0].is_replicate()
    ]
    norm = gradient_norm(list(model.parameters()), model.replicated() + whole, tp)
    for optimizer in optimizers:
        optimizer.step()
    total = loss.detach().double()
    dist.all_reduce(total, group=tp.group)
    return total, norm
