"""Five ways to divide the labour: the 8B model on one box."""

import figures
from labbook.labs import capture, model, read_bytes, solution

lab02 = solution("lab-02")
lab03 = solution("lab-03")
small, large = model("llama-3.1-8b"), model("qwen2.5-72b")
W8 = lab02.rank_weights(small, 1)["parameters_bytes"]
W72 = lab02.rank_weights(large, 1)["parameters_bytes"]
read8 = read_bytes("llama-3.1-8b")
embedding8 = W8 - read8
H100, B200 = lab03.GPUS["H100"], lab03.GPUS["B200"]
h100 = H100["memory_bytes_per_s"]
floor = lab03.decode_step_s(read8, 1, h100 * lab03.ACHIEVED_BANDWIDTH)
alone = figures.times.step()
messages, payload = figures.cost.messages_of()
corner = H100["flops_per_s"] / h100
kv_token = lab02.kv_bytes_per_token(small, 1)
kv_long = 131072 * kv_token
reached = capture("lab-03/hardware.json")["reached"]
ridge = corner * reached["flops_share"][1] / reached["memory_share"][1]
plans = {n: figures.choice.eight_gpus(n) for n in (8, 64, 256, 1024)}
best = [max(rates, key=rates.get) for rates in plans.values()]
smallest = [min(rates, key=rates.get) for rates in plans.values()]
names, rows = ["TP8", "2 x TP4", "4 x TP2", "8 x TP1", "TP1 x PP8"], []
for (clients, rates), first in zip(plans.items(), best, strict=True):
    bold = {n: "**" if figures.times.tie(rates[n], rates[first]) else "" for n in names}
    rows.append([f"{clients:,}", *(f"{bold[n]}{rates[n]:,.0f}{bold[n]}" for n in names)])
eight64 = figures.times.rate(tp=8, clients=64)
last = 8 * lab02.rank_weights(small, 1, 8, 7)["parameters_bytes"] / read8
worst = plans[64]["8 x TP1"] / plans[64]["TP1 x PP8"]
last_stage_is_why = set(smallest) == {"TP1 x PP8"} and abs(worst / last - 1) < 0.1
ahead = {n: rates["TP8"] / rates["8 x TP1"] for n, rates in plans.items()}

tokens, top_k, width = 128, 8, 7168  # the setting that DeepEP publishes
dispatch, combine = lab03.expert_parallel_bytes(tokens, top_k, width)
choices = tokens * top_k * width
in_8_and_16_bits = (dispatch, combine) == (choices * (1 + 4 / 128), choices * 2)

# What the page says, held.
floor_is_the_planner_s = (
    small["tied"] is False and abs(floor / alone["least"]["reading"] - 1) < 0.01
)
one_more_for_the_embedding = (
    lab02.collectives_per_step(small, 2, 1, 1)["all_reduces"] == messages + 1
)
smaller_with_users = [names.index(n) for n in best] == sorted(names.index(n) for n in best)
turns_with_users = ahead[8] > 1.9 and ahead[1024] < 0.7
cache_exceeds_weights = 1 < kv_long / W8 < 1.1
two_tie = figures.times.tie(plans[1024]["8 x TP1"], plans[1024]["4 x TP2"])
too_large_for_an_h100 = H100["memory_bytes"] < W72 < B200["memory_bytes"]
