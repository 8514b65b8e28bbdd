"""One rank of a recorded run, started by tp.py with the interpreter that has vLLM.

It notes every engine step and, in it, every collective as [operation, payload bytes, entered,
left], the last two in microseconds from the step's start. Steps count from this rank's own first
one: the clocks of real ranks do not agree.
"""

import os
import sys
import time
from pathlib import Path

import probe
import rank
from vllm.distributed import parallel_state


def time_collectives(calls):
    group = parallel_state.get_tp_group()

    def wrap(name, original):
        def timed(x, *args, **kwargs):
            entered = time.monotonic()
            result = original(x, *args, **kwargs)
            calls.append([name, x.numel() * x.element_size(), entered, time.monotonic()])
            return result

        setattr(group, name, timed)

    if group.world_size > 1:  # vLLM asks its group also when there is nobody to talk to
        wrap("all_reduce", group.all_reduce)
        wrap("all_gather", group.all_gather)


def serve(engine, requests, calls, name, hidden_size):
    """Returns (when each request's tokens came, the steps); times from the first step's start."""
    waiting, seen, steps, number, zero = list(requests), {}, [], 0, time.monotonic()
    while waiting or engine.has_unfinished_requests():
        while waiting and waiting[0]["arrives_at_step"] <= number:
            request = waiting.pop(0)
            key = f"{name}-{request['id']}"
            sampling = probe.greedy(request["num_tokens"])
            engine.add_request(key, {"prompt_token_ids": request["prompt"]}, sampling)
            seen[key] = {"arrived_us": _us(time.monotonic() - zero), "token_us": []}
        number += 1
        calls.clear()
        began = time.monotonic()
        outputs = engine.step()
        ended = time.monotonic()
        for output in outputs:
            times = seen[output.request_id]["token_us"]
            times += [_us(ended - zero)] * (len(output.outputs[0].token_ids) - len(times))
        steps.append(
            {
                "start_us": _us(began - zero),
                "end_us": _us(ended - zero),
                "requests": len(outputs),
                "tokens": calls[0][1] // (4 * hidden_size) if calls else None,
                "collectives": [
                    [what, nbytes, _us(came - began), _us(left - began)]
                    for what, nbytes, came, left in calls
                ],
            }
        )
    return list(seen.values()), steps


def _us(seconds):
    return round(1e6 * seconds)


def report(job):
    process = int(os.environ["LAB_PROCESS"])
    os.sched_setaffinity(0, {process})  # a core per rank, or the scheduler's moves are the evidence
    engine, calls, runs = rank.start_engine(job["engine"]), [], []
    time_collectives(calls)
    for thread in Path("/proc/self/task").iterdir():  # gloo's thread then interrupts nobody
        if "gloo_tcp" in (thread / "comm").read_text():
            os.sched_setscheduler(int(thread.name), os.SCHED_BATCH, os.sched_param(0))
    folder = Path(sys.argv[1]).parent
    hidden_size = engine.vllm_config.model_config.get_hidden_size()
    serve(engine, job["load"][:2], calls, "warm", hidden_size)
    for number in range(job["runs"]):
        (folder / f"ready-{number}-{process}").touch()
        while not (folder / f"go-{number}").exists():  # the fault is put in place now
            time.sleep(0.005)
        requests, steps = serve(engine, job["load"], calls, f"run-{number}", hidden_size)
        (folder / f"done-{number}-{process}").touch()
        runs.append({"requests": requests, "steps": steps})
    cache = probe.kv_cache(engine.model_executor.driver_worker.worker.model_runner)
    start_up = {
        "rank": int(os.environ["RANK"]),
        "world_size": int(os.environ["WORLD_SIZE"]),
        "parameters_bytes": sum(facts["bytes"] for facts in probe.STORED.values()),
        "kv_cache": cache
        | {"tokens_reported": engine.vllm_config.cache_config.kv_cache_size_tokens},
    }
    return {"start_up": start_up, "runs": runs}


def main():
    rank.main(report)


if __name__ == "__main__":
    main()
