"""Short quotations of vLLM for the deep dive, with file, symbol and lines.

python book/quotes/collect.py FOLDER    FOLDER holds the package `vllm` of the version below
Writes vllm.json beside this file; the book reads only that.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from pathlib import Path

VERSION = "0.32.0"
# id: (file, symbol or "" for the module, first line starts with, last line starts with)
WANTED = {
    "enqueue": (
        "v1/executor/multiproc_executor.py",
        "MultiprocExecutor.collective_rpc",
        "self.rpc_broadcast_mq.enqueue(",
        "response_mqs = (response_mqs[output_rank],)",
    ),
    "busy-loop": (
        "v1/executor/multiproc_executor.py",
        "WorkerProc.worker_busy_loop",
        "def worker_busy_loop",
        "self._execute_worker_rpc",
    ),
    "masked-fill": (
        "model_executor/layers/vocab_parallel_embedding.py",
        "VocabParallelEmbedding.forward",
        "if not self.use_fused_embedding:",
        ")",
    ),
    "kv-replicas": (
        "model_executor/layers/linear.py",
        "QKVParallelLinear.__init__",
        "self.num_heads = divide",
        "self.num_kv_head_replicas = 1",
    ),
    "attention": (
        "model_executor/models/llama.py",
        "LlamaAttention.forward",
        "qkv, _ = self.qkv_proj",
        "return output",
    ),
    "row-forward": (
        "model_executor/layers/linear.py",
        "RowParallelLinear.forward",
        "# Matrix multiply.",
        "output = output_parallel",
    ),
    "column-forward": (
        "model_executor/layers/linear.py",
        "ColumnParallelLinear.forward",
        "if self.gather_output",
        "output = output_parallel",
    ),
    "mlp": (
        "model_executor/models/llama.py",
        "LlamaMLP.forward",
        "x, _ = self.gate_up",
        "return x",
    ),
    "all-reduce": (
        "distributed/communication_op.py",
        "tensor_model_parallel_all_reduce",
        "def tensor_model_parallel_all_reduce",
        "return get_tp_group",
    ),
    "coordinator": (
        "distributed/parallel_state.py",
        "GroupCoordinator.all_reduce",
        "# Bypass the function",
        "return self._all_reduce_out_place",
    ),
    "custom": (
        "distributed/device_communicators/custom_all_reduce.py",
        "CustomAllreduce.should_custom_ar",
        "# for 4 or more non NVLink",
        "return False",
    ),
    "logits": (
        "model_executor/layers/logits_processor.py",
        "LogitsProcessor._gather_logits",
        "if self.use_all_gather:",
        "logits = tensor_model_parallel_gather",
    ),
    "engine-process": (
        "v1/engine/utils.py",
        "CoreEngineProcManager.__init__",
        "context.Process(",
        "name=",
    ),
    "dispatch": (
        "distributed/device_communicators/cuda_communicator.py",
        "CudaCommunicator._log_all_reduce_backend_selection",
        "all_potential_ar_backends = [",
        "]",
    ),
    "flashinfer-default": (
        "envs.py",
        "",
        "VLLM_ALLREDUCE_USE_FLASHINFER: bool",
        "VLLM_ALLREDUCE_USE_FLASHINFER: bool",
    ),
    "flashinfer-sizes": (
        "compilation/passes/fusion/allreduce_rms_fusion.py",
        "",
        "FI_ALLREDUCE_FUSION_MAX_SIZE_MB",
        "},",
    ),
    "custom-sizes": (
        "distributed/device_communicators/all_reduce_utils.py",
        "",
        "CUSTOM_ALL_REDUCE_MAX_SIZES",
        "},",
    ),
    "sample": (
        "v1/worker/gpu/model_runner.py",
        "GPUModelRunner.sample",
        "assert self.sampler is not None",
        "sampler_output = self.sampler(",
    ),
    "stage-tensors": (
        "model_executor/models/llama.py",
        "LlamaModel.__init__",
        "self.make_empty_intermediate_tensors",
        ")",
    ),
    "utilization": (
        "config/cache.py",
        "CacheConfig",
        "gpu_memory_utilization: float",
        "gpu_memory_utilization: float",
    ),
}


def find(text: str, symbol: str) -> ast.AST:
    node: ast.AST = ast.parse(text)
    for step in filter(None, symbol.split(".")):
        node = next(n for n in ast.iter_child_nodes(node) if getattr(n, "name", "") == step)
    return node


def collect(package: Path) -> dict[str, object]:
    quotes = {}
    for key, (file, symbol, start, end) in WANTED.items():
        text = (package / file).read_text(encoding="utf-8")
        node = find(text, symbol)
        lines = text.splitlines()
        inside = range(getattr(node, "lineno", 1) - 1, getattr(node, "end_lineno", len(lines)))
        first = next(i for i in inside if lines[i].lstrip().startswith(start))
        last = next(i for i in inside if i >= first and lines[i].lstrip().startswith(end))
        body = "\n".join(lines[first : last + 1])
        quotes[key] = {
            "file": file,
            "symbol": symbol or "module level",
            "lines": [first + 1, last + 1],
        }
        quotes[key] |= {"text": body, "sha256": hashlib.sha256(body.encode()).hexdigest()}
    return {
        "project": "vLLM",
        "version": VERSION,
        "licence": "Apache-2.0",
        "copyright": "Copyright contributors to the vLLM project",
        "url": f"https://github.com/vllm-project/vllm/tree/v{VERSION}",
        "quotes": quotes,
    }


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "vllm").is_dir():
        sys.exit(f"{__doc__}\nGive the folder that holds the package vllm, such as site-packages.")
    found = collect(Path(sys.argv[1]) / "vllm")
    target = Path(__file__).with_name("vllm.json")
    target.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"{len(found['quotes'])} quotations written to {target.name}")
