"""Rows of the chapters' tables that take more than a line to work out."""

import os
import re
import subprocess
import sys

from labbook.amounts import GIB
from labbook.labs import capture, lab, model, read_bytes, solution

from .cost import achieved, measured, messages_of, middle
from .times import ms, step


def two_gpus(gpu, link):
    """(a row of lab 03's two GPUs, its verdict by the floor, whether the planner's pair wins)."""
    lab03, weights = solution("lab-03"), read_bytes("llama-3.1-8b")
    messages, payload = messages_of()
    low, high = lab03.all_reduce_range_s(link, 2, payload)
    paid, saved = lab03.tensor_parallel_sides(weights, achieved(gpu)[0], 2, messages, low)
    verdict = "yes" if messages * high < saved else "open" if paid < saved else "no"
    where = {} if link.startswith("NVLink") else dict(nodes=2, per_node=1, network=link)
    both, lone = step(tp=2, gpu=gpu.lower(), **where), step(gpu=gpu.lower())
    bill, alone = f"{paid * 1e3:.1f} to {messages * high * 1e3:.1f}", f"{lone['typical'] * 1e3:.1f}"
    row = [f"2 × {gpu}, {link}", bill, f"{saved * 1e3:.1f}", verdict, ms(both), alone]
    return row, verdict, both["typical"] < lone["typical"]


def tensors(name="llama-3.1-8b"):
    """Each parameter of one layer and beside the layers: its shape on 1, 2 and 8 ranks, its cut."""
    lab02, shape, rows = solution("lab-02"), model(name), []
    for parameter in lab02.parameters(shape):
        if said := _short(parameter["name"]):
            cut = [lab02.rank_shape(parameter, shape, tp) for tp in (2, 8)]
            rows.append([said, parameter["shape"], *cut, parameter["split"]])
    return rows


def _short(name):
    """A tensor of the first layer or beside the layers, without what all have; else ''."""
    if "layers." in name and "layers.0." not in name:
        return ""
    return "`" + re.sub(r"^model\.|layers\.0\.|self_attn\.|mlp\.|\.weight$", "", name) + "`"


def published_weights():
    """(rows of the weights that start-up logs published, the ledger's worst miss in MiB)."""
    rows, worst = [], 0
    for said in capture("lab-02/captures/quoted-logs/quoted.json")["weights"]:
        held = solution("lab-02").rank_weights(model(said["config"]), said["tp_size"])
        naive, rest = (
            (said["weights_gib"] - held[which] / GIB) * 1024
            for which in ("parameters_bytes", "total_bytes")
        )
        worst, where = max(worst, abs(rest)), "no page"
        if issue := re.search(r"(\S+)/(\S+) issue #(\d+)", said["source"]):
            link = f"https://github.com/{issue[1]}/{issue[2]}/issues/{issue[3]}"
            where = f"[{issue[2]} #{issue[3]}]({link})"
        log = f"{said['weights_gib']:.4f}"
        rows.append([said["config"], said["tp_size"], log, f"{naive:+.1f}", f"{rest:+.2f}", where])
    return sorted(rows, key=lambda row: row[-1] == "no page"), worst


def tokens_by_release():
    """How three releases count 100 blocks of 16 tokens, for requests of at most 20."""
    rows = []
    for releases, version, tokens, requests in (
        ("before 0.9.1", "0.9.0", "blocks x 16", "tokens / 20"),
        ("0.9.1 to 0.20.0", "0.20.0", "blocks x 16", "blocks / 2, whole blocks of one request"),
        ("from 0.20.1", "0.20.1", "concurrency x 20", "blocks / 2, whole blocks of one request"),
    ):
        said = solution("lab-02").kv_capacity(100 * 16, 1, 16, 20, version)
        counted = f"{said['tokens']:,} = {tokens}"
        rows.append([releases, counted, f"{said['max_concurrency']:.0f} = {requests}"])
    return rows


def published_start():
    """(what a log published of our model on one GPU, blocks by the ledger, rows beside it)."""
    lab02, shape = solution("lab-02"), model("llama-3.1-8b")
    quoted = capture("lab-02/captures/quoted-logs/quoted.json")
    weights = next(
        w for w in quoted["weights"] if (w["config"], w["tp_size"]) == ("llama-3.1-8b", 1)
    )
    kv = next(c for c in quoted["cache"] if c["config"] == "llama-3.1-8b")
    ledger = lab02.rank_weights(shape, 1)["total_bytes"] / GIB
    block = 16 * lab02.kv_bytes_per_token(shape, 1)
    blocks = int(kv["kv_memory_gib"] * GIB // block)  # whole ones, as kv_capacity counts them
    served = kv["gpu_blocks"] * 16 / kv["tokens_per_request"]
    assert abs(ledger - weights["weights_gib"]) < 3e-4
    assert abs(served - kv["max_concurrency"]) < 0.005
    assert abs(blocks - kv["gpu_blocks"]) * block < 0.005 * GIB
    asked = f"requests of {kv['tokens_per_request']:,} tokens"
    return kv, blocks, [
        ["weights, GiB", weights["weights_gib"], f"{ledger:.4f}"],
        ["memory for the cache, GiB", kv["kv_memory_gib"], "not computed: what is left"],
        ["blocks of 16 tokens", f"{kv['gpu_blocks']:,}", f"{blocks:,}"],
        [asked, kv["max_concurrency"], f"{served:.2f}"],
    ]  # fmt: skip


def captured(shown):
    """{capture: a row of its bytes of parameters by rank and its blocks} for {capture: what}."""
    rows = {}
    for name, what in shown.items():
        ranks = capture(f"lab-02/captures/{name}/report.json")["ranks"]
        held = [sum(p["bytes"] for p in rank["parameters"].values()) for rank in ranks]
        blocks = ranks[0]["kv_cache"]["blocks"]
        rows[name] = [f"`{name}`", what, " + ".join(f"{b:,}" for b in held), blocks]
    return rows


def treatments(one, two):
    """Rows of what was done to each tensor of a live engine, from the shapes on 1 and 2 ranks."""
    rows = []
    for name, whole in one["ranks"][0]["parameters"].items():
        if said := _short(name):
            shapes = [rank["parameters"][name]["shape"] for rank in two["ranks"]]
            done = solution("lab-02").treatment(whole["shape"], shapes)
            rows.append([said, whole["shape"], shapes[0], done])
    return rows


def pair(gpu):
    """(memory, one message, share) of a pair: predicted where no time is published."""
    lab03, (_, payload) = solution("lab-03"), messages_of()
    worst = lab03.all_reduce_range_s(lab03.GPUS[gpu]["link"], 2, payload)[1]
    seconds = dict(measured(gpu, 2)).get(payload, worst)
    memory = f"{lab03.GPUS[gpu]['memory_bytes_per_s'] / 1e12:g} TB/s"
    return memory, f"{seconds * 1e6:.1f} µs", f"{_share(gpu, 2, seconds):.0%}"


def over_ethernet(name):
    """(paid, saved) seconds of a token on two H100s joined by 10-Gbit Ethernet."""
    lab03, (messages, payload) = solution("lab-03"), messages_of(name=name)
    one_s = lab03.ring_all_reduce_s(2, payload, *middle("10 GbE"))
    return lab03.tensor_parallel_sides(read_bytes(name), achieved("H100")[0], 2, messages, one_s)


def share(tokens):
    """Share of the floor that messages are at TP=8 on H100s, by tokens per step."""
    lab03, (reads, flops) = solution("lab-03"), achieved("H100")
    messages, payload = messages_of(tokens)
    one_s = lab03.ring_all_reduce_s(8, payload, *middle("NVLink 4"))
    step_s = lab03.step_s(read_bytes("llama-3.1-8b"), 8, reads, tokens, flops)
    return lab03.communication_share(messages, one_s, step_s)


def _share(gpu, tp, one_s):
    """Share of a decode step's floor that messages of one_s seconds are."""
    lab03 = solution("lab-03")
    step_s = lab03.decode_step_s(read_bytes("llama-3.1-8b"), tp, achieved(gpu)[0])
    return lab03.communication_share(messages_of()[0], one_s, step_s)


def shares_of(gpu, tp=8):
    """Share of the floor that messages are on a GPU's own link, at its best and at its worst."""
    lab03, (_, payload) = solution("lab-03"), messages_of()
    ends = lab03.all_reduce_range_s(lab03.GPUS[gpu]["link"], tp, payload)
    return [_share(gpu, tp, one_s) for one_s in ends]


def shares():
    """Rows of the share of the floor that messages are, by GPU, at TP=2, 4 and 8."""
    rows = []
    for gpu, facts in solution("lab-03").GPUS.items():
        cells = ["{:.0%} to {:.0%}".format(*shares_of(gpu, tp)) for tp in (2, 4, 8)]
        rows.append([f"{gpu}, {facts['link']}", *cells])
    return rows


def program(prefix, name, *words, of=None, which="solution", stdin=None, check=True):
    """What a lab's program prints with the functions of `which`; of: a copy of the lab."""
    home = lab(prefix).path
    folder = of.path if of else home
    path = os.pathsep.join(map(str, (folder.parents[2], folder.parent, home.parent)))
    environment = os.environ | {"LAB_IMPL": which, "PYTHONPATH": path}
    command = [sys.executable, folder / name, *words]
    how = dict(env=environment, input=stdin, capture_output=True, text=True, check=check)
    return subprocess.run(command, **how).stdout
