"""Two GPUs: floors and the planner's rates, by the number of clients."""

import figures
from labbook.labs import model, read_bytes, solution

lab02 = solution("lab-02")
lab03 = solution("lab-03")

llama, H100 = model("llama-3.1-8b"), lab03.GPUS["H100"]
h100 = H100["memory_bytes_per_s"] * lab03.ACHIEVED_BANDWIDTH
rate, step = figures.times.rate, figures.times.step
counts = (2, 16, 64, 128, 192, 256, 384)
pair, two = (
    {n: rate(clients=n, **asked) for n in counts} for asked in ({"tp": 2}, {"replicas": 2})
)
lead = {n: pair[n]["typical"] / two[n]["typical"] for n in counts}
floors = {n: step(replicas=2, clients=n)["floor"] / step(tp=2, clients=n)["floor"] for n in counts}
bound = read_bytes("llama-3.1-8b") / 2 / h100 / (2 * llama["num_layers"] + 1)


def said(n):
    return "a tie" if figures.times.tie(lead[n], 1) else "TP=2" if lead[n] > 1 else "replicas"


rate_rows = []
for n in counts:
    both = (figures.times.tokens(found[n]).replace(" (", "<br>(") for found in (pair, two))
    rate_rows.append([n, *both, f"{lead[n] - 1:+.0%}", f"{floors[n] - 1:+.0%}", said(n)])


def choose(slow=(1.0, 1.0)):
    room = H100["memory_bytes"]
    return lab02.replicas_or_tp(llama, room, h100, 10e-6, 1000, 64, slow)


well, slower = choose(), choose((1.0, 1.5))
loss = {k: 1 - slower[k]["tokens_per_s"] / well[k]["tokens_per_s"] for k in ("replicas", "tp")}

a_third = 0.25 < (lead[64] - 1) / (floors[64] - 1) < 0.42 and 1.1 < lead[64] < 1.2
lead_goes = abs(lead[192] - 1) < 0.03 and lead[256] < 1 and lead[384] < 0.95 and floors[256] > 1.1


def message_s(link):
    return lab03.all_reduce_range_s(link, 2, 64 * 8192)


# What the page says, held.
between_the_links = message_s("NVLink 4")[1] < bound < message_s("10 GbE")[0]
