"""The capstone: one 72B model on two boxes, as the planner places it."""

import contextlib
import dataclasses
import io
import itertools
import re
import shlex
import textwrap

import figures
import place
from labbook.labs import solution
from planner import facts, hardware, memory, models, plans, rules_of_thumb, timing
from planner.timing import Load

capstone = solution("capstone")
big = models.read("qwen2.5-72b")
box = hardware.box("h100", 2, 8, network="10 GbE")
faster = hardware.box("h100", 2, 8)
load = Load(2000, 500, 64, max_model_len=big.max_positions)
TTFT_S, TPOT_S = 0.5, 0.03
candidates, _ = plans.evaluate_all(big, box, load)
found = plans.choose(candidates, TTFT_S, TPOT_S)
by_name = {c.name: c for c in candidates}


def one(tp):
    return plans.evaluate(big, box, memory.Plan(1, tp), load).memory


def run(arguments):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        place.main(shlex.split(arguments))
    return printed.getvalue().rstrip("\n").split("\n")


two, four = one(2), one(4)
roomiest, tightest = (
    memory.verdicts(big, memory.Plan(1, 2), box.at(mood), load)
    for mood in (hardware.BEST, hardware.WORST)
)

bus = plans.evaluate(big, box, memory.Plan(2, 8), load)
riders, stop_s = load.concurrency // 2, bus.terms["total"]
together = min(riders, load.batched_tokens // load.prompt)
board_s = timing.prefill_s(big, bus.plan, box.at(hardware.TYPICAL), load, together)
lap_s = load.output * stop_s + riders * board_s

where = plans.MEASUREMENTS
meaning = {
    "memory_share": "of the printed bandwidth",
    "flops_share": "of the printed FLOP/s",
    "gather_share": "of an NVLink's bus bandwidth, gathering or scattering",
    "overlap_lost": "of the shorter roof, not hidden",
    "attention_share": "of the FLOP/s, in attention",
    "expert_skew": "tokens^x of them choose independently",
    "hop_us": "µs to hand on to the next stage, beside the link's own hop",
    "lockstep": "lost per doubling of ranks",
    "uneven": "stages wait for the largest microbatch",
    "runtime_gb": "GB of libraries",
    "graphs_gb": "GB of CUDA graphs",
    "peers_gb": "GB of NCCL's buffers",
    "activations": "times our sum of activations",
}
constant_rows = [[f"`{n}`: {meaning[n]}", *hardware.CONSTANTS[n], where[n]] for n in meaning]
engine = {
    "layer_us": "µs of pauses a layer (*gaps*)",
    "experts_us": "and of a sparse layer's experts",
    "step_us": "µs of the *host* a step",
    "sequence_us": "and for each sequence",
}
constant_rows += [[f"`{n}`: {engine[n]}", *hardware.ENGINES["vllm"][n], where[n]] for n in engine]

command = (
    f"--model qwen2.5-72b --gpu h100 --gpus 8 --nodes 2 --prompt {load.prompt} --output"
    f" {load.output} --concurrency {load.concurrency} --ttft {TTFT_S} --tpot {TPOT_S}"
    ' --network "10 GbE"'
)
lines = run(command)
start = next(i for i, line in enumerate(lines) if line.startswith("All "))
end = next(i for i, line in enumerate(lines) if line == "Type")
closer = [
    line
    for line in run(command.replace("h100", "b200").replace("--nodes 2", "--nodes 1"))
    if line.startswith(("Choice", "Runner-up", "It would")) and " clients " not in line
]
turning, closer = len(closer) - 2, closer[:3]
doubled = [
    float(n)
    for n in re.findall(r"(\d+\.\d+)", next(row for row in lines if "messages for reading" in row))
]
verdict = next(i for i, line in enumerate(lines) if line.startswith("Choice"))
rates = figures.choice.rates(candidates)
by_rdma = figures.choice.rates(plans.evaluate_all(big, faster, load)[0])
best_plan, roomy = found["choice"], by_name["4 x TP4"]
per_replica = load.concurrency // best_plan.plan.replicas
step_s = best_plan.terms["total"]
prompts = min(per_replica, load.batched_tokens // load.prompt)
prompt_s = timing.prefill_s(big, best_plan.plan, box.at(hardware.TYPICAL), load, prompts)
served = capstone.serve(step_s, prompt_s, load.output, per_replica, per_replica)
kept = load.prompt + round(box.at(hardware.TYPICAL)["reserved_output"] * load.output)
share = per_replica * prompt_s / (load.output * step_s + per_replica * prompt_s)
ahead_s = share * (per_replica - 1) * prompt_s / 2
crowd = dataclasses.replace(load, concurrency=512)
crowded = plans.evaluate(big, box, best_plan.plan, crowd).terms
many = figures.choice.rates(plans.evaluate_all(big, box, crowd)[0])


def span(c, key):
    low, middle, high = (1e3 * n for n in c.times[key])
    return f"{middle:,.3g} ({low:,.3g} to {high:,.3g})"


plan_rows = []
for c in sorted(candidates, key=lambda c: -rates.get(c.name, 0)):
    if c.times and c.times["ttft_s"][1] < 1 and rates[c.name] > 2000:
        times = span(c, "ttft_s"), span(c, "tpot_s"), f"{rates[c.name]:,.0f}"
        plan_rows.append([c.name, f"{c.memory['longest_context']:,}", *times])


def shown(part):
    how = dict(width=88, subsequent_indent=" " * 6, break_on_hyphens=False)
    folded = [piece for line in part for piece in textwrap.wrap(line, **how) or [""]]
    return "```text\n" + "\n".join(folded) + "\n```"


axes = {
    "model": ["Llama-3.1-8B", "Qwen2.5-72B", "gpt-oss-120b", "DeepSeek-V3"],
    "gpu": ["H100"],
    "gpus": [1, 2, 4, 8, 16],
    "prompt": [2000],
    "output": [500],
    "clients": [1, 16, 64, 256],
}


def rates_with(name, gpu, gpus, prompt, output, clients):
    on = hardware.box(gpu, max(1, gpus // 8), min(gpus, 8))
    asked = models.read(name.lower()), on, Load(prompt, output, clients)
    return figures.choice.rates(plans.evaluate_all(*asked)[0])


rates_in = {case: rates_with(*case) for case in itertools.product(*axes.values())}
best_of = {c: max(found, key=found.get, default="does not fit") for c, found in rates_in.items()}
tied = {
    case: sum(figures.times.tie(rate, max(found.values())) for rate in found.values()) > 1
    for case, found in rates_in.items()
}
rates_of = {case: max(found.values()) for case, found in rates_in.items() if found}


def named(*case):
    return best_of[case] + " (a tie)" * tied[case]


table_rows = [
    [n, *(named(n, "H100", g, 2000, 500, 64) for g in axes["gpus"])] for n in axes["model"]
]
turned = [
    case
    for case in rates_of
    if case[-1] == 1  # and its plan loses more than a tie where there are many clients
    for many in [(*case[:-1], axes["clients"][-1])]
    if rates_in[many][best_of[case]] < 0.95 * rates_of[many]
]
small_gain = [
    c for c in rates_of if rates_of.get((*c[:2], 2 * c[2], *c[3:]), 1e9) < 1.5 * rates_of[c]
]


def one_of_each(first, second):
    """A sentence for each half of the exercise, of one of the cases that answer it."""

    def case(name, gpu, gpus, prompt, output):
        return f"{name} on {gpus} × {gpu}, {prompt:,} tokens in and {output} out"

    best = ", ".join(f"{n}: {named(*first[:-1], n)}" for n in axes["clients"])
    more = (*second[:2], 2 * second[2], *second[3:])
    rates = f"{rates_of[second]:,.0f} tokens/s become {rates_of[more]:,.0f}"
    return (
        f"{case(*first[:-1])}, by the number of clients: {best}. {case(*second[:-1])}, "
        f"{second[-1]} clients: with twice as many GPUs {rates}."
    )


told = run("facts")
first = next(i for i, line in enumerate(told) if "sources judged" in line)
last = next(i for i, line in enumerate(told) if "best plan in all" in line)
rows = facts.load_rows()
judged = [facts.judge(row) for row in rows]
apart = [fact.left_out for fact in judged]
regrets = {
    rule: rules_of_thumb.judge(rule, judged)["regret"]
    for rule in (*rules_of_thumb.TAKES, *rules_of_thumb.FITS)
}
largest_is_worst = regrets["always the largest"] == max(r for r in regrets.values() if r)
round_rows = [
    [
        "a round lasts",
        f"{load.output} × {stop_s * 1e3:.1f} ms + {riders} × {board_s * 1e3:.0f} ms",
        f"{lap_s:.1f} s",
    ],
    ["and gives each client", f"{load.output} tokens", ""],
    [
        "a token costs",
        f"{stop_s * 1e3:.1f} ms for the step + {(lap_s / load.output - stop_s) * 1e3:.1f} "
        "for other people's prompts",
        f"{lap_s / load.output * 1e3:.1f} ms",
    ],
]
first_rows = [
    [
        f"½ × {per_replica - 1} others' prompts of {prompt_s * 1e3:.1f} ms, "
        f"in {share:.1%} of a round",
        f"{ahead_s * 1e3:.0f}",
    ],
    ["its own prompt", f"{best_plan.prefill_s * 1e3:.0f}"],
    ["one step", f"{step_s * 1e3:.0f}"],
    ["**in all**", f"{(ahead_s + best_plan.prefill_s + step_s) * 1e3:.0f}"],
]
touched = [[n, f"{capstone.touched_bytes(0.0, 1.0, 256, 8, n):.0%}"] for n in (1, 8, 32, 128, 512)]

# What the page says, held: each name stands in one of its checks.
crowds_gain = many["4 x TP4"] / many["2 x TP8"] - 1
turns = max(many, key=many.get) == "4 x TP4" and crowds_gain > 0.05
round_adds_up = (
    abs(served["tpot_s"] / best_plan.times["tpot_s"][1] - 1) < 0.001
    and abs((step_s + per_replica * prompt_s / load.output) / served["tpot_s"] - 1) < 1e-9
)
first_s = ahead_s + best_plan.prefill_s + step_s
first_adds_up = abs(first_s / best_plan.times["ttft_s"][1] - 1) < 0.001
constant_turns = any(" were at its " in line for line in closer)
usual = best_plan.terms
weights_shrink = (
    crowded["weights, arithmetic"] / crowded["total"] < 0.8 * usual["weights, arithmetic"] / step_s
    and crowded["messages"] > 2 * usual["messages"]
)
kept_at_worst = [
    c
    for c in candidates
    if c.times and c.times["ttft_s"][2] <= TTFT_S and c.times["tpot_s"][2] <= TPOT_S
]


def latent_of(ranks):
    layer = {"kind": "latent", "count": 61, "element_bytes": 2, "width": 576}
    return capstone.sequence_kv_bytes([layer], 1000, ranks)


late_s = by_name["TP8 x PP2"].times["ttft_s"][1] - TTFT_S
networks = (name for name, link in hardware.known_links().items() if link["kind"] == "network")
offered = {
    "models": ";".join(models.shipped_names()),
    "gpus": ";".join({row["name"]: 0 for row in hardware.known_gpus().values()}),
    "networks": ";".join(networks),
}
rounds_are_tokens = abs(lap_s / load.output / bus.times["tpot_s"][1] - 1) < 0.01
slots_fit = best_plan.slots == 2 * int(
    best_plan.memory["kv_bytes"] // memory.sequence_bytes(best_plan.memory, best_plan.plan, kept)
)
sixteen_is_absurd = (
    rates["TP16"] < 0.2 * rates[best_plan.name] and by_name["TP16"].times["ttft_s"][1] > 10
)
still_wrong = 0.7 < by_rdma["TP16"] / by_rdma[best_plan.name] < 0.8
breaks_at_worst = best_plan.times["ttft_s"][2] > TTFT_S and best_plan.times["tpot_s"][2] > TPOT_S
all_constants_told = set(meaning) == set(hardware.CONSTANTS) and len(meaning) == 13
loads_on_two = two["weights_load"] and not one(1)["weights_load"] and two["tokens_fit"]
