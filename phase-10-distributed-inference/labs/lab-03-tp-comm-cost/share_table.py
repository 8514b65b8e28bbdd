"""Print the share of a decode step that is communication, next to reference figures.

`python share_table.py`; LAB_IMPL=starter takes your functions instead of the solution's. The
latencies of 8 KiB all-reduces are published ones, read from measurements.jsonl, where each row
names its source. A cell whose latency is not there is predicted from c and a, and marked ~. The
reference figures were computed from the same publications by another program, before this lab was
written; they check the arithmetic. What was measured as a share stands in a table of its own.
"""

import importlib
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
KiB, US = 1024, 1e-6

# name: parameters in BF16 bytes, layers, hidden size.
MODELS = {"8B": (16.06e9, 32, 4096), "70B": (141.1e9, 80, 8192)}

# Reference shares in percent: decode, batch 1, step = W / (p x 0.8 x bandwidth).
# (model, GPU, kernel): TP2, TP4, TP8, TP8 over the unsharded step. None where it gives none.
REFERENCE = {
    ("8B", "H100", "NCCL"): (13, 30, 58, 15),
    ("8B", "H100", "vLLM graph"): (9, 17, 30, 5),
    ("8B", "H100", "vLLM eager"): (31, 48, 67, None),
    ("8B", "A100", "NCCL"): (13, 28, 53, 12),
    ("8B", "A100", "vLLM graph"): (6, 13, 25, 4),
    ("8B", "B200", "NCCL"): (35, 62, 84, None),
    ("8B", "L40S", "NCCL"): (4, 13, 42, None),
    ("70B", "H100", "NCCL"): (4, 11, 29, 5),
    ("70B", "H100", "vLLM graph"): (3, 6, 11, 2),
}
# TP=2 across two nodes on 10 GbE over TCP sockets, 87 us a message whatever its bytes. The CPU
# reads 200 GB/s.
ETHERNET_REFERENCE = {
    ("8B", "A100"): 53,
    ("8B", "H100"): 65,
    ("8B", "L40S"): 32,
    ("8B", "B200"): 82,
    ("8B", "CPU"): 10,
    ("70B", "A100"): 26,
    ("70B", "H100"): 36,
}
CPU_BYTES_PER_S = 200e9
ETHERNET = (6.6 * US, 40 * US, 1.25e9)
KERNELS = {
    "NCCL": ("nccl_all_reduce", None),
    "vLLM graph": ("custom_all_reduce", "CUDA graph"),
    "vLLM eager": ("custom_all_reduce", "eager"),
}


def load_implementation():
    """The module LAB_IMPL names, from this folder: solution (default) or starter."""
    which = os.environ.get("LAB_IMPL", "solution")
    if which not in ("solution", "starter"):
        sys.exit(f"LAB_IMPL must be solution or starter, not {which!r}")
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    return importlib.import_module(which)


def run(main):
    """Run a program's main; what the learner has not written yet is one sentence, no traceback."""
    try:
        main()
    except NotImplementedError as error:
        sys.exit(str(error))


def read_measurements():
    text = (HERE / "measurements.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def latencies(rows, gpu, kernel):
    """{ranks: seconds} of measured 8 KiB all-reduces."""
    kind, mode = KERNELS[kernel]
    return {
        row["setting"]["gpus"]: row["value"] * US
        for row in rows
        if row["kind"] == kind
        and gpu in row["setting"]["gpu"]
        and row["setting"]["bytes"] == 8 * KiB
        and row["setting"].get("mode") == mode
    }


def message_s(lab, rows, gpu, kernel, ranks):
    """(seconds of an 8 KiB all-reduce, whether it is predicted rather than measured)."""
    known = latencies(rows, gpu, kernel)
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
    """One row per line of REFERENCE: (label, [(computed %, predicted?, reference %), ...])."""
    lines = []
    for (model, gpu, kernel), reference in REFERENCE.items():
        rate = lab.GPUS[gpu]["memory_bytes_per_s"]
        cells = []
        for (ranks, step_ranks), figure in zip(
            ((2, None), (4, None), (8, None), (8, 1)), reference, strict=True
        ):
            seconds, predicted = message_s(lab, rows, gpu, kernel, ranks)
            value = 100 * share(lab, model, ranks, seconds, rate, step_ranks)
            cells.append((value, predicted, figure))
        lines.append((f"{model} {gpu} {kernel}", cells))
    return lines


def ethernet_table(lab):
    """[(label, computed %, reference %)] and the latency's part of an 8 KiB message."""
    lines = []
    for (model, gpu), figure in ETHERNET_REFERENCE.items():
        rate = CPU_BYTES_PER_S if gpu == "CPU" else lab.GPUS[gpu]["memory_bytes_per_s"]
        _, layers, hidden = MODELS[model]
        seconds = lab.ring_all_reduce_s(2, lab.step_messages(layers, 1, hidden, 2)[1], *ETHERNET)
        lines.append((f"{model} {gpu}", 100 * share(lab, model, 2, seconds, rate), figure))
    return lines, lab.latency_share(2, 8 * KiB, *ETHERNET)


def main():
    lab, rows = load_implementation(), read_measurements()
    print("Share of a decode step that is communication, %: computed here / reference")
    print("Batch 1, BF16, two messages per layer, sharded step. ~ latency predicted, not measured.")
    print("Last column: TP8 over the unsharded step, the comforting mistake.\n")
    print(f"{'within a node':22}" + "".join(f"{t:>12}" for t in ("TP2", "TP4", "TP8", "(TP8)")))
    for label, cells in table(lab, rows):
        text = ""
        for value, predicted, figure in cells:
            mark = "~" if predicted else ""
            text += f"{f'{mark}{value:.0f}':>7} /{'-' if figure is None else figure:>3}"
        print(f"{label:22}{text}")
    lines, latency = ethernet_table(lab)
    print(f"\nTP2 across nodes, 10 GbE, TCP: {latency:.0%} of an 8 KiB message is latency")
    for label, value, figure in lines:
        print(f"{label:24}{value:7.0f} /{figure:3}")
    print(
        "\nMeasured: transfer's share of a token on Raspberry Pi 4B, 1 GbE (distributed-llama), %"
    )
    for row in rows:
        if row["kind"] == "tp_ethernet_token":
            part = row["setting"]
            whole = part["compute_ms"] + part["transfer_ms"]
            label = f"{part['model']} TP{part['tp']}"
            print(f"{label:24}{100 * part['transfer_ms'] / whole:7.0f}")
    print("\nBoth sides of the rule, 8B TP2, per token: paid < saved means TP is faster")
    weights, layers, hidden = MODELS["8B"]
    messages, payload = lab.step_messages(layers, 1, hidden, 2)
    for gpu, where, seconds in (
        ("H100", "NVLink 4, vLLM graph", message_s(lab, rows, "H100", "vLLM graph", 2)[0]),
        ("A100", "10 GbE", lab.ring_all_reduce_s(2, payload, *ETHERNET)),
        ("H100", "10 GbE", lab.ring_all_reduce_s(2, payload, *ETHERNET)),
    ):
        rate = lab.ACHIEVED_BANDWIDTH * lab.GPUS[gpu]["memory_bytes_per_s"]
        paid, saved = lab.tensor_parallel_sides(weights, rate, 2, messages, seconds)
        sign, verdict = ("<", "TP") if paid < saved else (">", "one GPU")
        print(
            f"{f'{gpu}, {where}':32} paid {paid * 1e3:5.2f} ms {sign} saved {saved * 1e3:5.2f} ms"
            f"   faster: {verdict}"
        )


if __name__ == "__main__":
    run(main)
