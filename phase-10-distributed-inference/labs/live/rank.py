"""One rank of a live run, started by run.py with the interpreter that has vLLM.

    RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LAB_PROCESS=0 LAB_MEETING=FILE python rank.py job-0.json

Or imported once and forked for each rank, which then calls main().

Writes job-0-rank-0.json: what this rank stored, and which collectives each engine step made.
probe.py does the noting.
"""

import json
import os
import sys
import time
from pathlib import Path

STARTED = time.monotonic()

import probe  # noqa: E402
import torch  # noqa: E402
from vllm import LLM, ModelRegistry  # noqa: E402
from vllm.model_executor.models.llama import LlamaForCausalLM  # noqa: E402
from vllm.platforms import current_platform  # noqa: E402
from vllm.v1.executor.uniproc_executor import ExecutorWithExternalLauncher  # noqa: E402
from vllm.v1.worker import gpu_model_runner  # noqa: E402, F401, here once and not in each fork

# Else each rank, on a first run, starts a process that imports vLLM again to look at the class.
ModelRegistry.register_model("LlamaForCausalLM", LlamaForCausalLM)
IMPORTED = time.monotonic()
engines = []  # kept to the end of the process: vLLM takes a second to take one down


def meet_in_a_file(_):
    """Where vLLM's external launcher meets: a file instead of a TCP port.

    No port is taken, and vLLM names its shared memory after the file, so that runs cannot collide
    and leftovers can be told apart (v1/worker/cpu_worker.py, VLLM_DIST_IDENT).
    """
    meeting = f"file://{os.environ['LAB_MEETING']}"
    return meeting, int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])


ExecutorWithExternalLauncher._distributed_args = meet_in_a_file


def start_engine(arguments):
    """The engine of this rank, in this process; every rank schedules for itself.

    Ranks of one tensor-parallel group schedule all alike, those of data parallelism each its own.
    """
    llm = LLM(**arguments, distributed_executor_backend="external_launcher", async_scheduling=False)
    engines.append(llm.llm_engine)
    return llm.llm_engine


def run_steps(engine, requests, calls):
    """Generate greedily, one engine step at a time. requests: [prompt, how many tokens] each.

    Returns (token ids per request, each step's collectives, seconds of the first step).
    """
    for i, (prompt, num_tokens) in enumerate(requests):
        engine.add_request(str(i), {"prompt_token_ids": prompt}, probe.greedy(num_tokens))
    tokens, steps, seconds = {}, [], []
    while engine.has_unfinished_requests():  # of any data-parallel rank
        calls.clear()
        began = time.perf_counter()
        outputs = engine.step()
        seconds.append(time.perf_counter() - began)
        steps.append(list(calls))
        for output in outputs:
            tokens[output.request_id] = list(output.outputs[0].token_ids)
    return [tokens[str(i)] for i in range(len(requests))], steps, seconds[0]


def report(job):
    """Start the engine of `job`, generate, and return everything a page or a test wants to know."""
    engine, calls = start_engine(job["engine"]), []
    probe.count_collectives(calls)
    prompts = [[prompt, job["num_tokens"]] for prompt in job["prompts"]]
    run_steps(engine, [[job["prompts"][0], 1]], calls)
    first_token_s = time.monotonic() - STARTED
    tokens, steps, warm_s = run_steps(engine, prompts[:1], calls)
    together, steps_together, _ = run_steps(engine, prompts, calls)
    return held(engine) | {
        "times": {
            "imported_s": IMPORTED - STARTED,
            "first_token_s": first_token_s,
            "warm_first_token_s": warm_s,
        },
        "tokens": tokens[0],
        "tokens_together": together,
        "steps": steps,
        "steps_together": steps_together,
    }


def runner(engine):
    return engine.model_executor.driver_worker.worker.model_runner


def held(engine):
    """What this rank stores, and where it runs."""
    found = probe.held(int(os.environ["RANK"]), runner(engine))
    found["kv_cache"]["tokens_reported"] = engine.vllm_config.cache_config.kv_cache_size_tokens
    return found | {
        "world_size": engine.vllm_config.parallel_config.world_size,
        "platform": "cuda" if current_platform.is_cuda() else "cpu",
        "device": current_platform.get_device_name(),
        "backend": torch.distributed.get_backend(),
        "versions": {"torch": torch.__version__, "vllm": __import__("vllm").__version__},
    }


def main(make_report=report):
    """Write the report of the job named on the command line beside it, and end at once."""
    path, rank = Path(sys.argv[1]), os.environ["RANK"]
    try:
        found = make_report(json.loads(path.read_text()))
    except Exception as error:
        # The launcher quotes this line. Which size it was: a launch may run several.
        who = f"rank {os.environ['LAB_PROCESS']}: (of tp_size={os.environ['WORLD_SIZE']})"
        print(f"{who} {type(error).__name__}: {error}".replace("\n", " ")[:300], flush=True)
        raise
    path.with_name(f"{path.stem}-rank-{rank}.json").write_text(json.dumps(found, indent=1))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # nothing is left to tear down but seconds; the launcher removes the shared memory


if __name__ == "__main__":
    main()
