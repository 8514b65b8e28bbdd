"""A decode step's bill, and its shares by each denominator."""

import figures
from labbook.labs import capture, fact, model, read_bytes, solution

lab02 = solution("lab-02")
lab03 = solution("lab-03")
small = model("llama-3.1-8b")
W = read_bytes("llama-3.1-8b")
layers, hidden = small["num_layers"], small["hidden_size"]
h100, flops = figures.cost.achieved("H100")
messages, decode = figures.cost.messages_of()
_, prefill = figures.cost.messages_of(4096)
one_gpu, own = (lab03.decode_step_s(W, p, h100) for p in (1, 8))


pair = figures.tables.pair
faster = lab03.GPUS["B200"]["memory_bytes_per_s"] / lab03.GPUS["L40S"]["memory_bytes_per_s"]
printed = lab03.GPUS["H100"]
meet = printed["flops_per_s"] / printed["memory_bytes_per_s"]  # BF16: 2 bytes, 2 flops per weight
hardware = capture("lab-03/hardware.json")
reached = hardware["reached"]
meet_best = meet * lab03.ACHIEVED_ARITHMETIC / lab03.ACHIEVED_BANDWIDTH
achieved = meet * reached["flops_share"][1] / reached["memory_share"][1]
alone, eight = (lab03.step_s(W, p, h100, 4096, flops) for p in (1, 8))
large = [messages * t for t in lab03.all_reduce_range_s("NVLink 4", 8, prefill)]
gains = [alone / (t + eight) for t in large]
step = figures.times.step
decode_step_s, one_shot_all_reduce_s = lab03.decode_step_s, lab03.one_shot_all_reduce_s
all_reduce_range_s = lab03.all_reduce_range_s


def as_on_the_first_page(*floors):
    """Whether these are the floors of the first page's three machines, as they are printed."""
    pairs = zip(floors, figures.times.FIRST_PAGE.values(), strict=True)
    return all(abs(floor_s - step(**asked)["floor"]) < 0.03e-3 for floor_s, asked in pairs)


box8, ether16 = step(tp=8), step(tp=16, nodes=2)
rdma16 = step(tp=16, nodes=2, network="400 GbE")
nccl_s = messages * fact("ncc0049") * 1e-6
rest_s = box8["typical"] - box8["terms"]["messages"]
engine_share = box8["terms"]["messages"] / box8["typical"]
nccl_share = nccl_s / (nccl_s + rest_s)
of_one, of_floor = nccl_s / (nccl_s + one_gpu), nccl_s / (nccl_s + own)
pauses = sum(box8["terms"][name] for name in ("gaps", "host", "waits"))

asked = [("H100", "NVLink 4"), ("H100", "400 GbE")]
asked += [(gpu, "10 GbE") for gpu in ("H100", "A100", "L40S")]
rows, verdicts, wins = zip(*(figures.tables.two_gpus(*two) for two in asked), strict=True)
rows = [[*row[:3], *row[4:]] for row in rows]  # without the verdict: who pays less than it saves

nvlink = (lab03.LINKS["NVLink 4"][name] for name in ("c_s", "a_s", "busbw_bytes_per_s"))
# A low latency and a low bandwidth make the crossover small.
at_crossing = [lab03.crossover_bytes(8, *ends) / (hidden * 2) for ends in zip(*nvlink, strict=True)]
sides = {name: figures.tables.over_ethernet(name) for name in ("llama-3.1-8b", "qwen2.5-72b")}
share_at = {tokens: figures.tables.share(tokens) for tokens in range(1, 4097)}
ridge = round(meet_best)


def of_the_floor(tokens):
    """'57 to 67%': the share that the explorer says, of the best link and of the worst."""
    payload = lab03.step_messages(layers, tokens, hidden, 2)[1]
    step_s = lab03.step_s(W, 8, h100, tokens, flops)
    links_s = lab03.all_reduce_range_s("NVLink 4", 8, payload)
    best, worst = (100 * lab03.communication_share(messages, s, step_s) for s in links_s)
    return f"{best:.0f} to {worst:.0f}%"


turns_at_the_ridge = abs(max(share_at, key=share_at.get) - ridge) <= 1
floors = {gpu: figures.tables.shares_of(gpu)[0] for gpu in lab03.GPUS}

# one node, across, two replicas; 1, 16, 64 requests
sparks = [fact(f"gpt000{k}") for k in range(9)]
oss = capture("capstone/models/gpt-oss-120b.json")
oss_layers, oss_hidden = oss["num_hidden_layers"], oss["hidden_size"]
spark_bw = hardware["gpus"]["gb10"]["memory_gb_per_s"]
step_1, step_2 = 1e3 / sparks[0], 1e3 / sparks[1]
paid_ms = step_2 - step_1 / 2
oss_messages, oss_payload = lab03.step_messages(oss_layers, 1, oss_hidden, 2)
each_us = paid_ms / oss_messages * 1e3
spark = [t * 1e6 for t in lab03.all_reduce_range_s("200 GbE", 2, oss_payload)]
share_rows = [
    ["messages + one GPU's reading", f"{of_one:.0%}", "nothing: you no longer run one GPU"],
    ["messages + an eighth of it", f"{of_floor:.0%}", "how far the split itself can still go"],
    ["a real step, by the planner", f"{nccl_share:.0%}", "what a user would notice"],
    [
        "the same, its messages by the engine's kernel",
        f"{engine_share:.0%}",
        "what is left of it in an engine",
    ],
]

# One rank's part of a step on a real H200, without messages (lab 03's measure_step.py).
h200 = hardware["gpus"]["h200"]["memory_gb_per_s"] * 1e9
recorded = {
    name: capture(f"lab-03/captures/{folder}/measurements.json")["rows"]
    for name, folder in (("llama-3.1-8b", "h200-8b"), ("llama-3.1-70b", "h200-70b"))
}


def planned(name, row):
    run = (row["tp_size"], row["batch"], row["context"], name, "h200")
    return [*figures.times.between_messages(*run)]


beside = [(row, planned(name, row)) for name, found in recorded.items() for row in found]
long_rows = capture("lab-03/captures/h200-8b-long/measurements.json")["rows"]
long_off = [row["step_s"] / planned("llama-3.1-8b", row)[1] - 1 for row in long_rows]
off = [row["step_s"] / typical - 1 for row, (_, typical, _) in beside]
single = {row["tp_size"]: row for row in recorded["llama-3.1-8b"] if row["batch"] == 1}
one_rank, eighth = single[1], single[8]
best_s = {
    p: (row["weight_bytes"] + row["cache_bytes"]) / (lab03.ACHIEVED_BANDWIDTH * h200)
    for p, row in single.items()
}
lost_s = {p: row["step_s"] - best_s[p] for p, row in single.items()}
small_us = (eighth["step_s"] - eighth["products_s"]) / layers * 1e6
product_bytes_per_s = (one_rank["weight_bytes"] - eighth["weight_bytes"]) / (
    one_rank["products_s"] - eighth["products_s"]
)
each_product_us = (
    1e6 / (4 * layers + 1) * (eighth["products_s"] - eighth["weight_bytes"] / product_bytes_per_s)
)
measured_rows = []
for row, (best, typical, worst) in beside:
    if row in single.values():
        said = f"{typical * 1e3:.1f} ({best * 1e3:.1f} to {worst * 1e3:.1f})"
        least, took = f"{best_s[row['tp_size']] * 1e3:.2f}", f"**{row['step_s'] * 1e3:.1f}**"
        measured_rows.append([row["tp_size"], least, said, took, f"{row['launched_s'] * 1e3:.1f}"])

four_shares = of_one < 0.2 < nccl_share < 0.3 and of_floor > 0.55 and engine_share < 0.1
all_inside = len(off) == 22 and all(
    best < row["step_s"] < worst for row, (best, _, worst) in beside
)

# What the page says, held.
large_batches_bear_it = gains[1] > 3 and large[0] > W / h100
the_same_loss = all(1.4e-3 < s < 1.7e-3 for s in lost_s.values())
rdma_wins_tcp_loses = verdicts[1:3] == ("yes", "no") and wins[1:3] == (True, False)
two_and_a_half = 2.4 < ether16["typical"] / box8["typical"] < 2.6
nearly_six = 5.5 < ether16["floor"] / box8["floor"] < 6
second_box_loses = rdma16["floor"] > box8["floor"] and rdma16["typical"] > box8["typical"]
large_affords_it = (
    sides["qwen2.5-72b"][0] < sides["qwen2.5-72b"][1]
    and sides["llama-3.1-8b"][0] > sides["llama-3.1-8b"][1]
)
