"""One pool or two: the recorded run, the transfer, the loads."""

import figures
from labbook.labs import capture, model, solution
from planner import hardware, models, plans, two_pools
from planner.timing import Load

lab02 = solution("lab-02")
lab03 = solution("lab-03")
capstone = solution("capstone")

run = capture("lab-02/captures/pools/report.json")
shape = lab02.model_shape(run["model_config"])
moved = run["decode"]["cached_tokens"]
counted = sum(file["bytes"] for file in run["files"])
block = run["decode"]["kv_cache"]["block_size"]

large, context = model("qwen2.5-72b"), 131072
cache_bytes = context * lab02.kv_bytes_per_token(large, 1)
_, _, rate = figures.cost.middle("400 GbE")
at_end = capstone.transfer_s(cache_bytes, rate, 3e-5, large["num_layers"], 1, False)

small = model("llama-3.1-8b")
prefill_s, step_s = figures.pools.prompt_and_step(2000)
prompt_bytes = 2000 * lab02.kv_bytes_per_token(small, 1)


def sent(name, layer_by_layer):
    _, hop_s, speed = figures.cost.middle(name)
    return capstone.transfer_s(
        prompt_bytes, speed, hop_s, small["num_layers"], prefill_s, layer_by_layer
    )


sequence_s = (
    (2000 + 200 / 2)
    * lab02.kv_bytes_per_token(small, 1)
    / (lab03.GPUS["H100"]["memory_bytes_per_s"] * lab03.ACHIEVED_BANDWIDTH)
)


def choice(requests_per_s, output_tokens, prefill=prefill_s, engines=8):
    asked = (requests_per_s, engines, prefill, output_tokens, step_s, sequence_s)
    return capstone.pools_or_one(*asked, sent("400 GbE", True))


def one_pool_tpot(requests_per_s, output_tokens):
    """Of one pool, by letting it be the only choice within reach."""
    busy = requests_per_s * prefill_s / 8
    return step_s / (1 - busy - requests_per_s / 8 * output_tokens * sequence_s)


def one_pool_ttft(requests_per_s, output_tokens):
    busy = requests_per_s * prefill_s / 8
    return prefill_s * (1 + busy / (1 - busy) / 2) + one_pool_tpot(requests_per_s, output_tokens)


roles = {"alone": "one engine", "prefill": "first pool", "decode": "second pool"}
rows = []
for role, name in roles.items():
    cached = run[role]["cached_tokens"]
    rows.append([name, run["num_prompt"] - cached, cached, len(run[role]["tokens"])])

load_rows = []
for load in (4, 16, 32, 48):
    best, alone = choice(load, 200), one_pool_tpot(load, 200)
    pools = best["first_pool"]
    load_rows.append(
        [
            load,
            f"{load * prefill_s / 8:.0%}",
            f"{alone * 1e3:.1f}",
            f"{best['tpot_s'] * 1e3:.1f}",
            f"{pools} + {8 - pools}" if pools else "one pool",
            f"{load * prefill_s / pools:.0%}" if pools else "",
            f"{best['ttft_s'] * 1e3:,.0f}",
        ]
    )
crowded = choice(48, 200)

eight, asked = hardware.box("h100", 1), Load(2000, 200, 64)
found, _ = plans.evaluate_all(models.read("llama-3.1-8b"), eight, asked)
placed = plans.choose(found)["choice"]
planned = two_pools.compared(models.read("llama-3.1-8b"), eight, asked, placed)
gain_16 = 1 - choice(16, 200)["tpot_s"] / one_pool_tpot(16, 200)

# What the page says, held.
about_a_second = 40 < cache_bytes / 1e9 < 45 and 0.7 < at_end < 1.2
layer_by_layer_hides = sent("400 GbE", True) < sent("400 GbE", False) / 5
about_as_much = 0.5 < gain_16 / (2 * prefill_s) < 1.5
pays_when_crowded = crowded["first_pool"] and one_pool_tpot(48, 200) > 1.2 * crowded["tpot_s"]
two_win_here = planned["first_pool"] and planned["tpot_s"] < 0.8 * planned["together"]["tpot_s"]
as_long_as_some_steps = 5 < prefill_s / step_s < 40
counted_to_the_byte = counted == moved * lab02.kv_bytes_per_token(shape, 1)
the_first_pool_is_full = crowded["ttft_s"] > 2 * one_pool_ttft(48, 200)
