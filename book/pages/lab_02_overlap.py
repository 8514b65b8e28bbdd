"""What overlap hides on two links."""

import json

import figures
from figures.overlap import replays
from labbook.labs import capture, mistakes, model, solution

lab03 = solution("lab-03")

gather_first, after_gemm, early = (run["makespan"] for _, run in replays(4, 1))
pair = [run["makespan"] for _, run in replays(2, 1)]

llama, tokens, ranks = model("llama-3.1-8b"), 4096, 8
found = figures.prefill_halves(tokens, ranks)
before, after, gemms = found["before_ms"], found["after_ms"], found["gemms_s"]
payload, layers = llama["hidden_size"] * llama["dtype_bytes"], llama["num_layers"]
unsplit_us = (before / layers - gemms * 1e3) / 2 * 1e3  # of each all-reduce
token_s = lab03.all_reduce_range_s("NVLink 4", ranks, payload)
slow_link = [2 * s for s in lab03.all_reduce_range_s("10 GbE", 2, tokens * payload)]

runs = [
    capture(f"lab-02/captures/{name}/profile.json")
    for name in ("toy-simulated-1gbit", "toy-loopback")
]
slow, fast = (run["modes"] for run in runs)
speed = runs[0]["link"].removeprefix("simulated ")


def gain(modes):
    return 1 - modes["overlap"]["median_step_s"] / modes["sequential"]["median_step_s"]


step_rows = []
for name, modes in ((f"a link of {speed}", slow), ("loopback", fast)):
    both = (f"{modes[how]['median_step_s'] * 1e3:.0f}" for how in ("sequential", "overlap"))
    step_rows.append([name, *both, f"{gain(modes):.0%}"])
wrong = mistakes("lab-02")["all_gather_gemm_schedule__waits_for_all_chunks_first"]
gathered_first = wrong.function(2, 0)
in_order = [json.dumps(operation) for operation in gathered_first]
first_order = "\n".join("  ".join(in_order[at : at + 3]) for at in range(0, len(in_order), 3))

# What the page says, held.
as_drawn = (pair[0], pair[2], gather_first, early) == (3, 2, 7, 4)
the_wait_stays = slow_link[0] > 20 * gemms * ranks / 2
