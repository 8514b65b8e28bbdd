"""The peer a user would pick instead: the same model sharded by torch.distributed.tensor."""

import functools

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

from .model import Transformer


def _unfused(layer):
    """q, k, v (or gate, up) as separate linear layers: DTensor cannot split a fused weight."""
    biases = [None] * len(layer.parts) if layer.bias is None else layer.bias.split(layer.parts)
    return nn.ModuleList(map(_linear, layer.weight.split(layer.parts), biases))


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
            module.columns = _unfused(getattr(module, name))
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


def settle(model):
    """Carry out DTensor's pending sums; returns the DTensors that every rank holds whole.

    The gradients of the norms stay Partial until somebody redistributes them.
    """
    sharded = [p for p in model.parameters() if isinstance(p, DTensor)]
    for parameter in sharded:
        if any(p.is_partial() for p in parameter.grad.placements):
            parameter.grad = parameter.grad.redistribute(placements=parameter.placements)
    return [p for p in sharded if p.placements[0].is_replicate()]
