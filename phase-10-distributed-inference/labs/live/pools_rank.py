"""One engine of a live run in two pools: it serves alone, prefills for the other, or decodes.

The job names `role`, `prompt`, `num_tokens`, and `sent`, the file that says that the cache lies
where the decoding engine finds it. The engines start at the same time; only this is awaited.
"""

import time
from pathlib import Path

import probe
import rank


def report(job):
    engine, sent = rank.start_engine(job["engine"]), Path(job["sent"])
    ready_s = time.monotonic() - rank.STARTED
    while job["role"] == "decode" and not sent.exists():
        time.sleep(0.01)
    began = time.monotonic()
    sampling = probe.greedy(job["num_tokens"])
    engine.add_request("0", {"prompt_token_ids": job["prompt"]}, sampling)
    outputs, first_s = [], None
    while engine.has_unfinished_requests():
        outputs += engine.step()
        if outputs and first_s is None:
            first_s = time.monotonic() - began
    if job["role"] == "prefill":
        sent.touch()
    return rank.held(engine) | {
        "tokens": list(outputs[-1].outputs[0].token_ids),
        "cached_tokens": outputs[-1].num_cached_tokens or 0,
        "times": {"ready_s": ready_s, "first_token_s": first_s},
    }


def main():
    rank.main(report)


if __name__ == "__main__":
    main()
