"""Communication beside computation: schedules of lab 02, replayed on its simulated machine."""

import json
import re
from functools import cache
from math import prod

from labbook.labs import capture, facts, lab, mistakes, model, solution

from labkit.loading import load_module
from labkit.svg import Drawing

from .panels import WIDTH, panels, part

ORDERS = (
    ("all_gather_gemm_schedule__waits_for_all_chunks_first", "Gather everything, then multiply"),
    ("all_gather_gemm_schedule__sends_after_the_gemm", "Send a chunk after its own GEMM"),
    ("", "Send first, multiply meanwhile, wait late"),
)


@cache
def replays(num_ranks, comm):
    """[(title, simulate()'s result)] for the orders above; a GEMM of one chunk takes 1."""
    machine = load_module(lab("lab-02").path / "tensor_parallel_toy" / "stream_machine.py")
    bank, right = mistakes("lab-02"), solution("lab-02").all_gather_gemm_schedule
    found = []
    for name, title in ORDERS:
        order = bank[name].function if name else right
        schedules = [order(num_ranks, rank) for rank in range(num_ranks)]
        found.append((title, machine.simulate(schedules, "all_gather_gemm", 1, comm)))
    return found


def overlap(num_ranks=4, comm=1):
    """What rank 0 does in each order, unit by unit: GEMM, wire, waiting."""
    runs = replays(num_ranks, comm)
    longest = max(run["makespan"] for _, run in runs)
    d = Drawing(WIDTH, 40 + len(runs) * 104)
    left, scale = 86, 326 / longest
    lanes = (("gemm", "GEMM", "c0"), ("send", "on the wire", "c2"), ("wait", "waiting", "c1"))
    said = []
    for k, (title, run) in enumerate(runs):
        top = 8 + k * 104
        d.text(4, top + 14, f"{title}: {run['makespan']} units", "fg", "start", 14, "bold")
        for row, (lane, label, fill) in enumerate(lanes):
            y = top + 24 + row * 23
            d.text(left - 8, y + 14, label, "muted", "end", 13)
            d.rect(left, y, longest * scale, 19, "idle")
            for unit, start, end in _units(run, lane, longest):
                with part(d, "from", unit):
                    d.rect(left + start * scale, y, (end - start) * scale, 19, fill, "edge")
        waits = run["exposed"][0]
        said.append(f"{title}: {run['makespan']} units, of which rank 0 waits {waits}")
    for unit in range(longest):
        now = left + (unit + 1) * scale
        with part(d, "step", unit):
            d.line([(now, 8), (now, 18 + len(runs) * 104)], "fg", "dash thin")
    y = 24 + len(runs) * 104
    d.text(left, y, "time; one GEMM of one chunk takes one unit", "muted", "start", 13)
    alt = (
        f"An all-gather and a matrix product on {num_ranks} ranks in three orders, as rank 0 sees "
        "them. " + ". ".join(said) + "."
    )
    caption = "The same work in three orders, replayed on lab 02's simulated machine."
    return panels(
        [(d, alt)],
        caption,
        [_told(runs, num_ranks, unit + 1) for unit in range(longest)],
        start=longest - 1,
    )


def _units(run, lane, longest):
    """(unit, start, end): rank 0's spans of a lane, cut where a unit of time ends."""
    spans = [(s["start"], s["end"]) for s in run["spans"] if (s["rank"], s["lane"]) == (0, lane)]
    pieces = [(u, max(a, u), min(b, u + 1)) for a, b in spans for u in range(longest)]
    return [piece for piece in pieces if piece[1] < piece[2]]


def _told(runs, chunks, now):
    """One sentence: how far rank 0 is in each order."""
    done = []
    for _, run in runs:
        gemms = [s for s in run["spans"] if (s["rank"], s["lane"]) == (0, "gemm")]
        done.append(sum(s["end"] <= now for s in gemms))
    first, second, third = done
    units = "1 unit" if now == 1 else f"{now} units"
    return (
        f"After {units} rank 0 has multiplied {first} of {chunks} chunks in the first order, "
        f"{second} in the second and {third} in the third."
    )


def recorded(name="toy-simulated-1gbit"):
    """One MLP's forward and backward as lab 02's Torch package recorded it: a lane per activity."""
    folder = lab("lab-02").path
    figures = load_module(folder / "tensor_parallel_toy" / "figures.py")
    runs = json.loads((folder / "captures" / name / "timeline.json").read_text())
    drawing, said = figures.timeline(runs, WIDTH)
    alt = (
        f"Lanes of {len(runs['overlap'])} ranks in one MLP, forward and backward, as recorded. "
        f"{said}. Overlapped, the lanes of waiting are emptier, for messages travel during "
        "GEMMs; in sequence GEMMs and waiting take turns."
    )
    caption = (
        "One MLP of one step, recorded on two processor cores: real gloo messages, which arrive no "
        "earlier than a link of 1 Gbit/s would bring them."
    )
    return drawing.figure(alt, caption)


def prefill_halves(tokens=4096, ranks=8):
    """A prefill's GEMMs beside the halves of its all-reduces, in one layer on H100s over NVLink.

    {"rows", "gemms_s": of a layer, "before_ms" and "after_ms": of all layers}. The messages are
    measured ones: a half takes longer than half an all-reduce, to which the switch adds.
    """
    lab02, lab03, shape = solution("lab-02"), solution("lab-03"), model("llama-3.1-8b")
    reached = capture("lab-03/hardware.json")["reached"]["flops_share"][1]
    rate = lab03.GPUS["H100"]["flops_per_s"] * reached
    layer = {
        p["name"]: prod(p["shape"]) for p in lab02.parameters(shape) if ".layers.0." in p["name"]
    }
    gemms_s = 2 * sum(layer.values()) * tokens / ranks / rate
    payload = tokens * shape["hidden_size"] * shape["dtype_bytes"]
    measured = [facts()[key] for key in ("nag0005", "nrs0005", "bus0009")]
    assert all(row["setting"]["gpus"] == ranks for row in measured)
    assert all(row["setting"]["bytes"] == payload for row in measured)
    gather_us, scatter_us, busbw_gb_per_s = (row["value"] for row in measured)
    all_reduce_s = 2 * (ranks - 1) / ranks * payload / (busbw_gb_per_s * 1e9)
    rows, gemms, beside = [], [], []
    for name, kind, half, half_us in (
        ("q, k, v", "q_|k_|v_|qkv", "all-gather before it", gather_us),
        ("o", "o_", "reduce-scatter after it", scatter_us),
        ("gate, up", "gate|up", "all-gather before it", gather_us),
        ("down", "down", "reduce-scatter after it", scatter_us),
    ):
        mine = sum(n for said, n in layer.items() if re.search(rf"\.({kind})", said))
        gemm = gemms_s * mine / sum(layer.values())
        gemms.append(gemm)
        beside.append(half_us * 1e-6)
        times = gemm * 1e6, half_us, max(0, half_us - gemm * 1e6)
        rows.append([name, f"{times[0]:.0f}", half, *(f"{time:.0f}" for time in times[1:])])
    assert gemms[2] > beside[2] and min(beside) / 2 > gemms[0] > gemms[1]
    assert beside[3] > gemms[3] > 0.8 * beside[3]
    assert 0.99 < sum(gemms) / gemms_s <= 1
    layers = shape["num_layers"]
    before = layers * (gemms_s + 2 * all_reduce_s) * 1e3
    after = layers * sum(map(max, gemms, beside)) * 1e3
    return {"rows": rows, "gemms_s": gemms_s, "before_ms": before, "after_ms": after}
