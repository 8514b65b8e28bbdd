"""Sizes of the model and of the run, and the one place that refuses sizes that cannot be split."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class ModelConfig:
    """A small Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU."""

    hidden_size: int = 512
    num_layers: int = 4
    num_heads: int = 8
    num_kv_heads: int = 8
    ffn_size: int = 704  # about 2/3 of 2 x hidden: SwiGLU has three matrices where MLPs have two
    vocab_size: int = 128
    seq_len: int = 256
    batch_size: int = 4
    bias: bool = False
    dtype: str = "float32"
    seed: int = 0

    @property
    def head_size(self):
        return self.hidden_size // self.num_heads

    @property
    def qkv_sizes(self):
        """Output rows of the fused projection: queries, keys, values."""
        kv = self.num_kv_heads * self.head_size
        return [self.num_heads * self.head_size, kv, kv]

    def check(self, tp_size):
        """ValueError, in one sentence, for the first size that `tp_size` ranks cannot share."""
        for name in SIZES:
            if name != "seed" and getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.hidden_size % self.num_heads or self.head_size % 2:
            raise ValueError(
                f"hidden_size {self.hidden_size} must be num_heads {self.num_heads} "
                "times an even head size (rotary positions turn pairs)"
            )
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_heads {self.num_heads} must be a multiple of num_kv_heads "
                f"{self.num_kv_heads}: every KV head serves the same number of heads"
            )
        for name in ("num_heads", "num_kv_heads", "ffn_size", "seq_len"):
            if getattr(self, name) % tp_size:
                raise ValueError(
                    f"{name} {getattr(self, name)} cannot be split over {tp_size} "
                    f"ranks: choose a multiple of {tp_size}, or fewer ranks"
                )


SIZES = tuple(field.name for field in fields(ModelConfig) if field.type is int)
