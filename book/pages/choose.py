"""How full fewer microbatches than stages keep a pipeline, and the sheet, asked and judged."""

from itertools import product

import figures
from labbook.labs import solution
from planner import hardware, memory, models, plans, sheet
from planner.timing import Load

lab04 = solution("lab-04")

busy = {
    (p, m): lab04.decode_steps_per_s(p, m, 1.0, 0.0) / lab04.decode_steps_per_s(p, p, 1.0, 0.0)
    for p in range(2, 9)
    for m in range(1, p + 1)
}
idle_by_the_formula = all(abs(share - m / p) < 1e-9 for (p, m), share in busy.items())


# --- once through -----------------------------------------------------------------------------

big, box = models.read("qwen2.5-72b"), hardware.box("h100", 2, 8, network="400 GbE")
load, LIMITS = Load(2000, 500, 64), {"ttft_s": 0.5, "tpot_s": 0.03}
tp, pp, asked = sheet.follow(big, box, load)
of_tp = {(question, p): (left, right) for question, p, _, left, right in asked}
taken = memory.Plan(16 // tp // pp, tp, pp)
chosen, typical = plans.evaluate(big, box, taken, load), box.at(hardware.TYPICAL)
read_s = chosen.memory["rank"].always_bytes / typical.memory_bytes_per_s
parts_s = [read_s, chosen.terms["cache"], chosen.terms["messages"]]
token_s = chosen.times["tpot_s"][1]
parts_s += [chosen.terms["total"] - sum(parts_s), token_s - chosen.terms["total"]]
timed = [c for c in plans.evaluate_all(big, box, load)[0] if c.times]
kept = figures.choice.rates(
    c for c in timed if all(c.times[name][1] <= limit for name, limit in LIMITS.items())
)
first, second = sorted(kept, key=kept.get)[:-3:-1]
adds_s, saves_s = of_tp["pays", 8]


def fits(p):
    left, right = of_tp["fits", p]
    return f"p = {p}: {left / 1e9:.0f} {'<' if left <= right else '>'} {right / 1e9:.0f} GB"


def pays(p):
    """2L (t(2p) - t(p)) against W / 2pB; each doubling adds its difference to the messages."""
    adds, saves = of_tp["pays", p]
    before = sum(left for (asks, k), (left, _) in of_tp.items() if asks == "pays" and k < p)
    told = f"{(before + adds) * 1e3:.1f}" + f" − {before * 1e3:.1f}" * (p > 1)
    return f"p = {p}: {told} {'<' if adds <= saves else '>'} {saves * 1e3:.1f} ms"


whole = memory.ranks(big, memory.Plan())[0]
layers = {"layers": big.kv_layers(range(big.num_layers), load.kv_bytes)}
user = memory.sequence_bytes(layers, memory.Plan(), load.prompt + load.output // 2)
rests = [
    f"{(of_tp['fits', p][0] - whole.held_bytes / p - load.concurrency / 16 * user) / 1e9:.1f}"
    for p in (1, 2, 4)
]
prompt_s = parts_s[-1] * load.output / (load.concurrency / 2)
names = ("weights", "cache", "messages", "pauses", "prompts")
walk = [
    [
        "the letters",
        f"H {whole.held_bytes / 1e9:.1f}, W {whole.always_bytes / 1e9:.1f}, C {user / 1e9:.2f} a "
        f"user, {load.concurrency // 16}p users a copy; rest {', '.join(rests)} GB; "
        f"B {typical.memory_bytes_per_s / 1e12:.2f} TB/s; "
        f"L {big.num_layers}; a prompt {prompt_s * 1e3:.0f} ms",
        "",
    ],
    [
        "1, fits",
        "; ".join(map(fits, (1, 2, 4))),
        "split",
    ],
    ["2, how", "; ".join(map(pays, (1, 2))), "TP=4"],
    ["3, wider", f"{'; '.join(map(pays, (4, 8)))}, {adds_s / saves_s:.1f} times", "TP=8"],
    [
        "4, too slow",
        " + ".join(f"{name} {s * 1e3:.1f}" for name, s in zip(names, parts_s, strict=True))
        + f" = {token_s * 1e3:.0f} < 30 ms",
        "no",
    ],
    ["5 to 7", f"no pipeline, no experts, {big.num_kv_heads} KV heads for {tp} ranks", "no"],
    ["8, a tie", f"{first}: {kept[first]:,.0f} tokens/s; {second}: {kept[second]:,.0f}", first],
]
walked = [
    (tp, pp) == (8, 1),
    [p for question, p, *_ in asked if question == "fits"] == [1, 2, 4],
    token_s < LIMITS["tpot_s"] == 0.03 and min(parts_s) > 0,
    big.num_kv_heads >= tp and not big.num_experts,
    first == taken.name and not figures.times.tie(kept[first], kept[second]),
]

# --- judged -----------------------------------------------------------------------------------

boxes = [hardware.box(gpu, 1, 8) for gpu in ("h100", "b200", "a100-80gb", "l40s")] + [box]
dense = [models.read(n) for n in ("llama-3.1-8b", "qwen2.5-32b", "qwen2.5-72b", "llama-3.1-405b")]
lost = {}  # by the sheet, and by TP over a whole node
for model, on, clients, prompt in product(dense, boxes, (8, 64, 256, 1024), (1000, 8000)):
    one = Load(prompt, 500, clients)
    found = figures.choice.rates(plans.evaluate_all(model, on, one)[0])
    tp_size, pp_size, _ = sheet.follow(model, on, one)
    assert bool(found) == bool(tp_size), "the sheet starts what the planner starts"
    if found:
        gpus = on.nodes * on.gpus_per_node
        names = [memory.Plan(gpus // tp_size // pp_size, tp_size, pp_size).name]
        names += [memory.Plan(on.nodes, 8).name]
        best = max(found.values())
        lost[model.name, on.gpu, on.nodes, clients, prompt] = [
            1 - found[name] / best if name in found else None for name in names
        ]
losses = [sheets for sheets, _ in lost.values()]
node_losses = [node for _, node in lost.values() if node is not None]  # where TP=8 starts
mean, whole_node = (sum(column) / len(column) for column in (losses, node_losses))
worst = max(lost, key=lambda case: lost[case][0])

# What the page says, held.
worst_is_large_on_pcie = worst[1] == "l40s" and worst[0] == "qwen2.5-72b" and mean < whole_node / 4
