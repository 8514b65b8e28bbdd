"""A small Llama on [s/p, b, h] activations; tp=None is the same model unsharded, plain Torch."""

import torch
import torch.nn.functional as F
from torch import nn

from .parallel_linear import ColumnParallelLinear, RowParallelLinear


def drawer(config, device):
    """draw(*shape): the next random tensor; every rank draws the same ones in the same order."""
    generator = torch.Generator().manual_seed(config.seed)

    def draw(*shape):
        scale = shape[-1] ** -0.5  # keeps the activations' size; small biases come out alike
        full = torch.randn(*shape, generator=generator, dtype=torch.float64) * scale
        return full.to(device, getattr(torch, config.dtype))

    return draw


class RMSNorm(nn.Module):
    """Replicated: each rank normalises its own positions, so its gradient is a partial sum."""

    def __init__(self, size, draw):
        super().__init__()
        self.weight = nn.Parameter(1 + draw(size))

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, 1e-6)


def rotary_table(config, device):
    """Unit complex numbers [s, 1, 1, head_size / 2], stored as (cos, sin) pairs, never bfloat16."""
    half = config.head_size // 2
    frequency = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.outer(torch.arange(config.seq_len, dtype=torch.float64), frequency)
    pairs = torch.stack([torch.cos(angle), torch.sin(angle)], dim=-1)[:, None, None]
    return pairs.to(device, torch.promote_types(getattr(torch, config.dtype), torch.float32))


def rotate(x, table):
    """Turn the pairs (2i, 2i + 1) of x [s, b, heads, d] by their position."""
    pairs = torch.view_as_complex(x.to(table.dtype).unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * torch.view_as_complex(table)).flatten(-2).to(x.dtype)


class Attention(nn.Module):
    """Causal grouped-query attention; a rank holds its share of the heads and all positions."""

    def __init__(self, config, tp, draw):
        super().__init__()
        self.head_size, self.group = config.head_size, config.num_heads // config.num_kv_heads
        hidden, bias = config.hidden_size, config.bias
        self.qkv = ColumnParallelLinear(hidden, config.qkv_sizes, tp, draw, bias)
        self.out = RowParallelLinear(hidden, hidden, tp, draw, bias)

    def project(self, x):
        return self.qkv.split(self.qkv(x))

    def forward(self, x, table):
        q, k, v = [t.unflatten(-1, (-1, self.head_size)) for t in self.project(x)]
        q, k, v = rotate(q, table), rotate(k, table), v.clone()  # a view would keep all of qkv
        if self.group > 1:
            k, v = [t.repeat_interleave(self.group, dim=2) for t in (k, v)]
        q, k, v = [t.permute(1, 2, 0, 3) for t in (q, k, v)]  # [b, heads, s, d]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.permute(2, 0, 1, 3).flatten(2))


class MLP(nn.Module):
    """down(silu(gate(x)) * up(x)); gate and up share one gather."""

    def __init__(self, config, tp, draw):
        super().__init__()
        hidden, bias = config.hidden_size, config.bias
        self.gate_up = ColumnParallelLinear(hidden, [config.ffn_size] * 2, tp, draw, bias)
        self.down = RowParallelLinear(config.ffn_size, hidden, tp, draw, bias)

    def project(self, x):
        return self.gate_up.split(self.gate_up(x))

    def forward(self, x):
        gate, up = self.project(x)
        return self.down(F.silu(gate) * up)


class Block(nn.Module):
    def __init__(self, config, tp, draw):
        super().__init__()
        self.norm1 = RMSNorm(config.hidden_size, draw)
        self.attention = Attention(config, tp, draw)
        self.norm2 = RMSNorm(config.hidden_size, draw)
        self.mlp = MLP(config, tp, draw)

    def forward(self, x, table):
        x = x + self.attention(self.norm1(x), table)
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """tokens [s/p, b] -> logits [s/p, b, vocab]; embedding, norms and head are replicated."""

    def __init__(self, config, tp=None, device="cpu"):
        super().__init__()
        config.check(tp.size if tp else 1)
        device = tp.device if tp else device
        draw = drawer(config, device)
        embedding = draw(config.vocab_size, config.hidden_size)
        self.embedding = nn.Parameter(embedding * config.hidden_size**0.5)
        self.blocks = nn.ModuleList(Block(config, tp, draw) for _ in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, draw)
        self.head = nn.Parameter(draw(config.vocab_size, config.hidden_size))
        self.register_buffer("table", rotary_table(config, device))

    def forward(self, tokens):
        x = F.embedding(tokens, self.embedding)
        for block in self.blocks:
            x = block(x, self.table)
        return self.norm(x) @ self.head.t()

    def replicated(self):
        """Parameters that all ranks hold whole, in one fixed order."""
        rows = [m.bias for m in self.modules() if isinstance(m, RowParallelLinear)]
        norms = [m.weight for m in self.modules() if isinstance(m, RMSNorm)]
        return [self.embedding, self.head, *norms, *(bias for bias in rows if bias is not None)]
