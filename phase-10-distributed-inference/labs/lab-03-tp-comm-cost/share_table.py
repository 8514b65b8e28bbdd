"""Print the share of a decode step that is communication, from published latencies.

`python share_table.py`; LAB_IMPL=starter takes your functions instead of the solution's. The
latencies of 8 KiB all-reduces are read from measurements.jsonl, where each row names its source,
and printed beside the shares. A latency that is not there is predicted, and marked ~. Shares that
were measured as shares stand in a table of their own.
"""

import argparse
import json
from pathlib import Path

from labkit.loading import load_and_say, run_program
from labkit.table import columns

HERE = Path(__file__).resolve().parent
KiB, US = 1024, 1e-6

# name: BF16 bytes that a step reads, layers, hidden size. Of the input embedding, 128,256 rows of
# the hidden size, a step looks up a row per token; so it is not among them.
MODELS = {
    "8B": (16.06e9 - 128_256 * 4096 * 2, 32, 4096),
    "70B": (141.1e9 - 128_256 * 8192 * 2, 80, 8192),
}

# Decode, batch 1, step = W / (p x 0.93 x bandwidth): (model, GPU, kernel).
WITHIN = (
    ("8B", "H100", "NCCL"),
    ("8B", "H100", "vLLM graph"),
    ("8B", "H100", "vLLM eager"),
    ("8B", "A100", "NCCL"),
    ("8B", "A100", "vLLM graph"),
    ("8B", "B200", "NCCL"),
    ("8B", "L40S", "NCCL"),
    ("70B", "H100", "NCCL"),
    ("70B", "H100", "vLLM graph"),
)
# TP=2 across two nodes on 10 GbE over TCP sockets.
ACROSS = (
    ("8B", "A100"),
    ("8B", "H100"),
    ("8B", "L40S"),
    ("8B", "B200"),
    ("70B", "A100"),
    ("70B", "H100"),
)
KERNELS = {
    "NCCL": ("nccl_all_reduce", None),
    "vLLM graph": ("custom_all_reduce", "CUDA graph"),
    "vLLM eager": ("custom_all_reduce", "eager"),
}


def read_measurements():
    text = (HERE / "measurements.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def all_reduces(rows, kernel="NCCL"):
    """{GPU: {ranks: {bytes: seconds}}} of a kernel's measured all-reduces within one node."""
    (kind, mode), found = KERNELS[kernel], {}
    for row in rows:
        setting = row["setting"]
        if row["kind"] == kind and setting.get("mode") == mode:
            gpu = setting["gpu"].removeprefix("NVIDIA ").split("-")[0].split()[0]
            times = found.setdefault(gpu, {}).setdefault(setting["gpus"], {})
            times[setting["bytes"]] = row["value"] * US
    return found


def message_s(lab, rows, gpu, kernel, ranks):
    """(seconds of an 8 KiB all-reduce, whether it is predicted rather than measured)."""
    measured = all_reduces(rows, kernel).get(gpu, {})
    known = {p: times[8 * KiB] for p, times in measured.items() if 8 * KiB in times}
    if ranks in known:
        return known[ranks], False
    if len(known) >= 2:  # TP=4 of a kernel measured at 2 and 8: latency is linear in the hops
        (low, low_s), (high, high_s) = sorted(known.items())
        return low_s + (high_s - low_s) * (ranks - low) / (high - low), True
    link = lab.LINKS[lab.GPUS[gpu]["link"]]
    worst = (link["c_s"][1], link["a_s"][1], link["busbw_bytes_per_s"][0])
    return lab.ring_all_reduce_s(ranks, 8 * KiB, *worst), True


def share(lab, model, ranks, seconds, memory_bytes_per_s, step_ranks=None):
    """The share of a decode step on `ranks` ranks; step_ranks=1 is the comforting denominator."""
    weights, layers, hidden = MODELS[model]
    messages, _ = lab.step_messages(layers, 1, hidden, 2)
    rate = lab.ACHIEVED_BANDWIDTH * memory_bytes_per_s
    step_s = lab.decode_step_s(weights, step_ranks or ranks, rate)
    return lab.communication_share(messages, seconds, step_s)


def table(lab, rows):
    """One row per line of WITHIN: (label, [(share %, seconds of a message, predicted?), ...])."""
    lines = []
    for model, gpu, kernel in WITHIN:
        rate = lab.GPUS[gpu]["memory_bytes_per_s"]
        cells = []
        for ranks, step_ranks in ((2, None), (4, None), (8, None), (8, 1)):
            seconds, predicted = message_s(lab, rows, gpu, kernel, ranks)
            value = 100 * share(lab, model, ranks, seconds, rate, step_ranks)
            cells.append((value, seconds, predicted))
        lines.append((f"{model} {gpu} {kernel}", cells))
    return lines


def ethernet(lab):
    """(c, a, busbw) of 10 GbE: the middle of its ranges in LINKS."""
    row = lab.LINKS["10 GbE"]
    return [sum(row[name]) / 2 for name in ("c_s", "a_s", "busbw_bytes_per_s")]


def ethernet_table(lab):
    """[(label, share %, seconds of a message)] and the latency's part of an 8 KiB message."""
    lines, middle = [], ethernet(lab)
    for model, gpu in ACROSS:
        rate = lab.GPUS[gpu]["memory_bytes_per_s"]
        _, layers, hidden = MODELS[model]
        seconds = lab.ring_all_reduce_s(2, lab.step_messages(layers, 1, hidden, 2)[1], *middle)
        lines.append((f"{model} {gpu}", 100 * share(lab, model, 2, seconds, rate), seconds))
    return lines, lab.latency_share(2, 8 * KiB, *middle)


def latency_sources(rows):
    """Who published the latencies that the table uses: `owner/repository`, each once."""
    kinds = {kind for kind, _ in KERNELS.values()}
    return sorted({row["source"].split("@")[0] for row in rows if row["kind"] in kinds})


def print_within(lab, rows_of_file):
    print("Share of a decode step that is communication, % (us of one 8 KiB all-reduce)")
    print("Batch 1, BF16, two messages per layer, sharded step; the input embedding is not read.")
    print("~ latency predicted: between two measured rank counts, or from the slow ends of LINKS.")
    print("Last column: TP8 over the unsharded step, the comforting mistake.")
    print("70B sends 16 KiB at a time; its rows use the latency of 8 KiB.")
    print(f"Latencies: {', '.join(latency_sources(rows_of_file))} (measurements.jsonl)\n")
    rows = [["within a node", "TP2", "", "TP4", "", "TP8", "", "(TP8)"]]
    for label, cells in table(lab, rows_of_file):
        shares = [f"{'~' * predicted}{value:.0f}" for value, _, predicted in cells]
        latencies = [f"({seconds / US:.1f})" for _, seconds, _ in cells]
        pairs = [cell for pair in zip(shares, latencies, strict=True) for cell in pair]
        rows.append([label, *pairs[:-1]])
    print("\n".join(columns(rows, "lrrrrrrr")))


def print_across(lab, rows):
    lines, latency = ethernet_table(lab)
    print(f"\nTP2 across nodes, 10 GbE, TCP: {latency:.0%} of an 8 KiB message is latency")
    c_s, a_s, busbw = ethernet(lab)
    print(
        f"Predicted: c {c_s / US:.1f} us, a {a_s / US:.1f} us, {busbw / 1e9:.2f} GB/s, the middle "
        "of LINKS"
    )
    shown = [[label, f"~{value:.0f}", f"({seconds / US:.1f})"] for label, value, seconds in lines]
    print("\n".join(columns(shown, "lrr")))
    print(
        "\nMeasured: transfer's share of a token on Raspberry Pi 4B, 1 GbE, % (distributed-llama)"
    )
    parts = [row["setting"] for row in rows if row["kind"] == "tp_ethernet_token"]
    shares = [100 * p["transfer_ms"] / (p["compute_ms"] + p["transfer_ms"]) for p in parts]
    names = [f"{part['model']} TP{part['tp']}" for part in parts]
    shown = [[name, f"{share:.0f}"] for name, share in zip(names, shares, strict=True)]
    print("\n".join(columns(shown, "lr")))


def rule(lab, rows):
    """[(GPU and link, [(paid s, saved s) of the best and the worst box])], 8B on two GPUs."""
    weights, layers, hidden = MODELS["8B"]
    messages, payload = lab.step_messages(layers, 1, hidden, 2)
    measured = message_s(lab, rows, "H100", "vLLM graph", 2)[0]
    ethernet = lab.all_reduce_range_s("10 GbE", 2, payload)
    lines = []
    for gpu, where, seconds in (
        ("H100", "NVLink 4, vLLM graph", (measured,)),
        ("A100", "10 GbE", ethernet),
        ("H100", "10 GbE", ethernet),
    ):
        rate = lab.ACHIEVED_BANDWIDTH * lab.GPUS[gpu]["memory_bytes_per_s"]
        sides = [lab.tensor_parallel_sides(weights, rate, 2, messages, s) for s in seconds]
        lines.append((f"{gpu}, {where}", sides))
    return lines


def print_rule(lab, rows):
    print("\nBoth sides of the rule, 8B TP2, per token: paid < saved means TP is faster")
    print("10 GbE: from the best to the worst box of LINKS")
    shown = []
    for label, sides in rule(lab, rows):
        wins = {paid < saved for paid, saved in sides}
        verdict = "either" if len(wins) == 2 else "TP" if True in wins else "one GPU"
        paid = " to ".join(f"{paid * 1e3:.2f}" for paid, _ in sides)
        saved = f"{sides[0][1] * 1e3:.2f} ms"
        shown.append([label, "paid", f"{paid} ms", "saved", saved, "faster:", verdict])
    print("\n".join(columns(shown, "llrlrll")))


def print_roofs(lab):
    """What more tokens do to the same step: messages grow, and so does the arithmetic."""
    weights, layers, hidden = MODELS["8B"]
    gpu = lab.GPUS["H100"]
    rate = lab.ACHIEVED_BANDWIDTH * gpu["memory_bytes_per_s"]
    flops = lab.ACHIEVED_ARITHMETIC * gpu["flops_per_s"]
    print("\n8B on eight H100s, NVLink 4, more tokens per step: share of messages, times faster")
    shown = []
    for tokens in (1, 64, 256, 1024, 4096):
        messages, payload = lab.step_messages(layers, tokens, hidden, 2)
        alone_s, together_s = (lab.step_s(weights, p, rate, tokens, flops) for p in (1, 8))
        texts = []
        for message in lab.all_reduce_range_s(gpu["link"], 8, payload):
            part = lab.communication_share(messages, message, together_s)
            texts.append((f"{part:.0%}", f"{alone_s * (1 - part) / together_s:.1f}"))
        parts, gains = (" to ".join(column) for column in zip(*texts, strict=True))
        shown.append([f"{tokens} tokens", parts, gains])
    print("\n".join(columns(shown, "rrr")))


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    lab, rows = load_and_say(HERE), read_measurements()
    print_within(lab, rows)
    print_across(lab, rows)
    print_rule(lab, rows)
    print_roofs(lab)


if __name__ == "__main__":
    run_program(main)
