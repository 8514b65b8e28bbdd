"""One rank of a live run, started by two_way.py with the interpreter that has vLLM.

    RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 python live_rank.py job.json

Writes rank-0.json beside job.json: what this rank stored, and which collectives each engine step
made. live_probe.py does the noting.
"""

import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path

STARTED = time.monotonic()

import live_probe  # noqa: E402
import torch  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402
from vllm.platforms import current_platform  # noqa: E402
from vllm.v1.executor.uniproc_executor import ExecutorWithExternalLauncher  # noqa: E402

PR_SET_PDEATHSIG = 1


class RendezvousByFile(ExecutorWithExternalLauncher):
    """The external launcher of vLLM, meeting in a file instead of at a TCP port.

    No port is taken, and vLLM names its shared memory after the file, so that runs cannot collide
    and leftovers can be told apart (v1/worker/cpu_worker.py, VLLM_DIST_IDENT).
    """

    def _distributed_args(self):
        return f"file://{os.environ['LAB_RENDEZVOUS']}", RANK, int(os.environ["LOCAL_RANK"])


def run_steps(engine, prompts, num_tokens, calls):
    """Generate greedily, one engine step at a time. Returns (token ids per prompt, steps)."""
    sampling = SamplingParams(
        temperature=0, max_tokens=num_tokens, ignore_eos=True, detokenize=False
    )
    for i, prompt in enumerate(prompts):
        engine.add_request(str(i), {"prompt_token_ids": prompt}, sampling)
    tokens, steps = {}, []
    while engine.has_unfinished_requests():
        calls.clear()
        began = time.perf_counter()
        outputs = engine.step()
        steps.append({"seconds": time.perf_counter() - began, "calls": list(calls)})
        for output in outputs:
            tokens[output.request_id] = list(output.outputs[0].token_ids)
    return [tokens[str(i)] for i in range(len(prompts))], steps


def main():
    folder = Path(sys.argv[1]).parent
    job = json.loads(Path(sys.argv[1]).read_text())
    times = {"imported_s": time.monotonic() - STARTED}
    llm = LLM(
        model=job["model"],
        tensor_parallel_size=job["tp_size"],
        distributed_executor_backend=RendezvousByFile,
        load_format="noting",
        dtype=job["dtype"],
        enforce_eager=True,
        skip_tokenizer_init=True,
        async_scheduling=False,
        enable_prefix_caching=False,
        max_model_len=job["max_model_len"],
        max_num_seqs=4,
        max_num_batched_tokens=64,
        kv_cache_memory_bytes=job["kv_memory_bytes"],
        seed=0,
    )
    times["ready_s"] = time.monotonic() - STARTED
    engine = llm.llm_engine
    runner = engine.model_executor.driver_worker.worker.model_runner
    calls = []
    live_probe.count_collectives(calls)
    run_steps(engine, job["prompts"][:1], 1, calls)
    times["first_token_s"] = time.monotonic() - STARTED
    tokens, steps = run_steps(engine, job["prompts"][:1], job["num_tokens"], calls)
    together, steps_together = run_steps(engine, job["prompts"], job["num_tokens"], calls)
    result = {
        "rank": RANK,
        "world_size": job["tp_size"],
        "platform": "cuda" if current_platform.is_cuda() else "cpu",
        "device": current_platform.get_device_name(),
        "backend": torch.distributed.get_backend(),
        "versions": {"torch": torch.__version__, "vllm": __import__("vllm").__version__},
        "parameters": live_probe.STORED,
        "buffers": live_probe.buffers(runner.get_model()),
        "kv_cache": live_probe.kv_cache(runner)
        | {"tokens_reported": engine.vllm_config.cache_config.kv_cache_size_tokens},
        "times": times | {"warm_first_token_s": steps[0]["seconds"]},
        "tokens": tokens[0],
        "tokens_together": together,
        "steps": [step["calls"] for step in steps],
        "steps_together": [step["calls"] for step in steps_together],
    }
    (folder / f"rank-{RANK}.json").write_text(json.dumps(result, indent=1))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # nothing is left to tear down but seconds; the launcher removes the shared memory


if __name__ == "__main__":
    RANK = int(os.environ["RANK"])
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # never outlive the launcher
    main()
