"""What can run here: the markers gpu(n), vllm, torch, threads; why a check does not run."""

import importlib.util
import os
import sys
from pathlib import Path

from labkit.loading import ROOT

NOT_HERE = "not run here: "


def missing(item) -> str:
    """What a pytest item needs and this machine lacks, with the command that helps; "" if nothing.

    Raises ValueError when $LAB_VLLM_PYTHON names no file.
    """
    if mark := item.get_closest_marker("gpu"):
        needed, found = (mark.args or (1,))[0], cuda_devices()
        if found < needed:
            wanted = f"needs {needed} CUDA device(s), found {found}"
            return f"{wanted}; on such a machine: pytest -m gpu"
    if item.get_closest_marker("vllm") and vllm_python() is None:
        return "needs vLLM: make vllm"
    if item.get_closest_marker("torch") and not torch_is_here():
        return "needs Torch: make torch"
    if item.get_closest_marker("threads") and sys.platform == "emscripten":
        return "needs threads, which Python has none of in a page; a terminal grades it"
    return ""


def torch_is_here() -> bool:
    """Whether Torch is installed; LAB_TORCH=none stands for no Torch."""
    return os.environ.get("LAB_TORCH") != "none" and importlib.util.find_spec("torch") is not None


def cuda_devices() -> int:
    """How many CUDA devices Torch sees; 0 without Torch."""
    if not torch_is_here():
        return 0
    import torch

    return torch.cuda.device_count()


def vllm_python() -> str | None:
    """The interpreter that has vLLM: $LAB_VLLM_PYTHON, this one, .venv-vllm; None without one.

    LAB_VLLM_PYTHON=none stands for no vLLM. Raises ValueError when it names no file.
    """
    named = os.environ.get("LAB_VLLM_PYTHON")
    if named == "none":
        return None
    if named:
        if not Path(named).is_file():
            raise ValueError(
                f"LAB_VLLM_PYTHON={named}: there is no such interpreter; name the Python of an "
                "environment with vLLM, or unset it"
            )
        return named
    if importlib.util.find_spec("vllm"):
        return sys.executable
    own = ROOT / ".venv-vllm" / "bin" / "python"
    return str(own) if own.exists() else None
