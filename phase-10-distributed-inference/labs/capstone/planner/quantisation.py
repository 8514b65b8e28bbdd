"""Which tensors a checkpoint holds in fewer bits, and what an element of them takes.

From config.json's `quantization_config`; exact bytes from safetensors where a folder holds them.
Scales are counted with the elements: AWQ and GPTQ keep one 2-byte scale and a zero per group.
"""

import fnmatch
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Quantisation:
    """compute_bits: the column of FLOP/s that counts, 16 where only the weights are small."""

    name: str
    element_bytes: float | None  # of a quantised element with its scales; None: nothing is
    compute_bits: int
    block: int = 1  # dimensions may be cut between blocks only
    ignored: tuple = ()  # patterns of modules left as they are
    experts_only: bool = False
    kept: tuple = ("mlp.gate", "embed_tokens", "lm_head", "in_proj_ba", "_bias")  # names' ends

    def bytes_of(self, entry, dtype_bytes):
        """Bytes per element of a parameter, whose name is vLLM's fused one."""
        name = entry["name"].removesuffix(".weight")
        as_it_was = (
            self.element_bytes is None
            or len(entry["shape"]) == 1
            or name.endswith(self.kept)
            or (self.experts_only and ".experts." not in name)
            or _named(name, self.ignored)
        )
        return dtype_bytes if as_it_was else self.element_bytes

    def key(self, layer):
        """What tells apart layers of one kind: how the ignore list treats them."""
        parts = ("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.experts.w13")
        return tuple(_named(f"model.layers.{layer}.{part}", self.ignored) for part in parts)


# Names people type after --quant. (bytes per element, compute bits, block)
NAMED = {
    "bf16": Quantisation("bf16", None, 16),
    "fp8": Quantisation("fp8", 1.0, 8),
    "fp8-block": Quantisation("fp8-block", 1 + 4 / 128**2, 8, block=128),
    "int4": Quantisation("int4", 0.5 + 2.5 / 128, 16, block=128),
    # vLLM rounds a rank's share of the blocks up: any tp that divides the width will do
    # (vllm/model_executor/models/gpt_oss.py, per_rank_intermediate_size)
    "mxfp4": Quantisation("mxfp4", 0.5 + 1 / 32, 16, experts_only=True),
    # experts, attention and head: --mxfp4-layers moe,qkv,o,lm_head of eugr/spark-vllm-docker
    "mxfp4-all": Quantisation(
        "mxfp4-all", 0.5 + 1 / 32, 16, kept=("mlp.gate", "embed_tokens", "_bias")
    ),
    "nvfp4": Quantisation("nvfp4", 0.5 + 1 / 16, 4, block=16),
}
FUSED = {  # vLLM's name: what a checkpoint may call one of its parts
    "qkv_proj": ("qkv_proj", "q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_up_proj", "gate_proj", "up_proj"),
    "experts.w13": ("experts", "experts.0.gate_proj", "experts.0.w1", "experts.gate_up_proj"),
    "experts.w2": ("experts", "experts.0.down_proj", "experts.0.w2", "experts.down_proj"),
    "q_a_proj": ("q_a_proj", "fused_qkv_a_proj"),
}


def _named(name, patterns):
    """Whether an ignore list names a module, or a part of one that vLLM fuses."""
    names = [name]
    for fused, parts in FUSED.items():
        if name.endswith(fused):
            names = [name[: -len(fused)] + part for part in parts]
    return any(_meets(one, pattern) for pattern in patterns for one in names)


def _meets(name, pattern):
    """Whether a pattern of an ignore list, `re:...`, a wildcard, a name or a part, is this name."""
    if pattern.startswith("re:"):
        return re.match(pattern[3:], name)
    if "*" in pattern:
        return fnmatch.fnmatch(name, pattern)
    if pattern.startswith("model."):
        return f"{name}.".startswith(f"{pattern}.")
    return f".{pattern}." in f".{name}."


def understand(config, asked):
    """The Quantisation of a config, or the one asked for by name. ValueError: not understood."""
    if asked:
        if asked not in NAMED:
            raise ValueError(f"--quant {asked!r} is none of {', '.join(NAMED)}")
        return NAMED[asked]
    found = config.get("quantization_config") or config.get("compression_config")
    if not found:
        return NAMED["bf16"]
    method = found.get("quant_method")
    ignored = found.get("modules_to_not_convert") or found.get("ignore") or []
    ignored = tuple(ignored + (found.get("exclude_modules") or []))
    if method in ("awq", "gptq", "gptq_marlin", "awq_marlin"):
        bits, group = found.get("bits", found.get("w_bit")), found.get("group_size", 128)
        return _integer(method, bits, group, ignored)
    if method == "fp8":
        if block := found.get("weight_block_size"):
            size = 1 + 4 / (block[0] * block[1])
            return Quantisation("fp8, blocks", size, 8, max(block), ignored)
    if method in ("fp8", "fbgemm_fp8"):
        return replace(NAMED["fp8"], ignored=ignored)
    if method == "mxfp4":
        # exact names in its list are modules of every layer; experts alone are quantised
        return NAMED["mxfp4"]
    if method == "modelopt" or found.get("quant_algo"):
        algorithm = str(found.get("quant_algo") or found.get("quant_method")).upper()
        if algorithm in ("FP8", "NVFP4"):
            return replace(NAMED[algorithm.lower()], ignored=ignored)
        raise ValueError(f"quantization_config: quant_algo {algorithm!r} is neither FP8 nor NVFP4")
    if method == "compressed-tensors":
        return _compressed(found, ignored)
    raise ValueError(
        f"quantization_config: quant_method {method!r} is none of awq, gptq, fp8, fbgemm_fp8, "
        "mxfp4, modelopt, compressed-tensors"
    )


def _integer(method, bits, group, ignored):
    if bits not in (4, 8) or not isinstance(group, int):
        raise ValueError(f"quantization_config: {method} with bits={bits!r}, group_size={group!r}")
    scales = (2 + bits / 8) / group if group > 0 else 0
    return Quantisation(method, bits / 8 + scales, 16, max(1, group), ignored)


def _compressed(found, ignored):
    groups = list((found.get("config_groups") or {}).values())
    if len(groups) != 1:
        raise ValueError(f"quantization_config: {len(groups)} config_groups; one is understood")
    weights = groups[0].get("weights") or {}
    bits, kind, group = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
    activations = groups[0].get("input_activations")
    if kind == "float" and bits == 8:
        return Quantisation("fp8", 1.0, 8 if activations else 16, ignored=ignored)
    if kind == "float" and bits == 4:
        size = 0.5 + 1 / (group or 16)
        return Quantisation("nvfp4", size, 4 if activations else 16, group or 16, ignored)
    if kind == "int" and bits in (4, 8):
        scales = 2 / group if group and group > 0 else 0
        compute = 8 if activations and bits == 8 else 16
        return Quantisation(f"int{bits}", bits / 8 + scales, compute, max(1, group or 1), ignored)
    raise ValueError(f"quantization_config: weights of {bits!r} bits, type {kind!r}")


def safetensors_bytes(folder):
    """Bytes of all tensors of a folder's safetensors, from the index file or the headers; or None.

    A safetensors file begins with 8 bytes, the length of a JSON header with every tensor's offsets.
    """
    index = Path(folder) / "model.safetensors.index.json"
    if index.is_file():
        try:
            total = json.loads(index.read_text(encoding="utf-8"))["metadata"]["total_size"]
            if isinstance(total, int) and total > 0:
                return total
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{index.name} has no metadata.total_size in bytes") from None
    total = 0
    for path in sorted(Path(folder).glob("*.safetensors")):
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(100_000_000, path.stat().st_size):
                raise ValueError(f"{path.name} is no safetensors file: its header is cut off")
            try:
                header = json.loads(file.read(length))
                header.pop("__metadata__", None)
                offsets = (entry["data_offsets"] for entry in header.values())
                total += sum(end - begin for begin, end in offsets)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise ValueError(f"{path.name} is no safetensors file: broken header") from None
    return total or None
