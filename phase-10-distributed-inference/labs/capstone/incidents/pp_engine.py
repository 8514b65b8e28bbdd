"""The ordinary engine with two pipeline stages, started by pp.py: when does a stage compute?

`Stage` becomes a base class of the workers. Spans are [what, began, ended] in microseconds of one
clock: both stages run on this machine.
"""

import time

import engine
import probe


class Stage(probe.Probe):
    """Methods that `LLM.collective_rpc("name")` calls on every stage."""

    def stage_timing(self):
        from vllm.distributed.parallel_state import get_pp_group

        self.spans = []

        def wrap(owner, name, what):
            original = getattr(owner, name)

            def timed(*args, **kwargs):
                began = time.monotonic()
                result = original(*args, **kwargs)
                self.spans.append([what, began, time.monotonic()])
                return result

            setattr(owner, name, timed)

        wrap(self.model_runner, "execute_model", "execute")
        wrap(self.model_runner, "sample_tokens", "execute")
        wrap(get_pp_group(), "irecv_tensor_dict", "receive")

    def stage_spans(self):
        found, self.spans[:] = list(self.spans), []
        return {"cpu_s": time.process_time(), "spans": found}


def serve(llm, name, count, sampling):
    before, zero, seen = llm.collective_rpc("stage_spans"), time.monotonic(), {}
    for n in range(count):  # a prompt fills the budget of a step, so requests start one by one
        prompt = {"prompt_token_ids": [(7 * n + 13 * i) % 490 + 5 for i in range(32)]}
        llm.llm_engine.add_request(f"{name}-{n}", prompt, sampling)
        seen[f"{name}-{n}"] = {"arrived_us": _us(time.monotonic() - zero), "token_us": []}
    while llm.llm_engine.has_unfinished_requests():
        for output in llm.llm_engine.step():
            times = seen[output.request_id]["token_us"]
            now = _us(time.monotonic() - zero)
            times += [now] * (len(output.outputs[0].token_ids) - len(times))
    seconds, stages = time.monotonic() - zero, llm.collective_rpc("stage_spans")
    shares = [
        round((after["cpu_s"] - was["cpu_s"]) / seconds, 3)
        for after, was in zip(stages, before, strict=True)
    ]
    return {
        "in_flight": count,
        "requests": list(seen.values()),
        "processor": {"every_s": round(seconds, 3), "ranks": [shares], "cores": []},
        "stages": [
            [[what, _us(began - zero), _us(ended - zero)] for what, began, ended in stage["spans"]]
            for stage in stages
        ],
    }


def _us(seconds):
    return round(1e6 * seconds)


def report(job):
    llm = engine.start_engine(job["engine"], "pp_engine.Stage")
    ranks = llm.collective_rpc("probe_report")
    llm.collective_rpc("stage_timing")
    greedy = probe.greedy(32)
    serve(llm, "warm", 2, greedy)
    runs = [
        serve(llm, f"r{repeat}-{count}", count, greedy)
        for repeat in range(job["repeats"])
        for count in job["in_flight"]
    ]
    start_up = [
        {
            "rank": rank["rank"],
            "world_size": 2,
            "parameters_bytes": sum(facts["bytes"] for facts in rank["parameters"].values()),
            "kv_cache": rank["kv_cache"],
        }
        for rank in ranks
    ]
    return {"start_up": start_up, "runs": runs}


def main():
    engine.main(report)
