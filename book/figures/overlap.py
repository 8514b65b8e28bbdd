"""Communication beside computation: schedules of lab 02, replayed on its simulated machine."""

import json
from functools import cache

from labbook.labs import lab
from labbook.names import solution

from labkit.svg import Drawing

ORDERS = (
    ("all_gather_gemm_schedule__waits_for_all_chunks_first", "Gather everything, then multiply"),
    ("all_gather_gemm_schedule__sends_after_the_gemm", "Send a chunk after its own GEMM"),
    ("", "Send first, multiply what is here, wait late"),
)


@cache
def replays(num_ranks, comm):
    """[(title, simulate()'s result)] for the orders above; a GEMM of one chunk takes 1."""
    from labkit.loading import load_module
    from labkit.mistakes import read_bank

    machine = load_module(lab("lab-02").path / "tensor_parallel_toy" / "stream_machine.py")
    bank = {mistake.name: mistake.function for mistake in read_bank(lab("lab-02")).mistakes}
    found = []
    for name, title in ORDERS:
        order = bank.get(name) or solution("lab-02").all_gather_gemm_schedule
        schedules = [order(num_ranks, rank) for rank in range(num_ranks)]
        found.append((title, machine.simulate(schedules, "all_gather_gemm", 1, comm)))
    return found


def overlap(num_ranks=4, comm=1):
    """What rank 0 does in each order: GEMM, wire, waiting."""
    runs = replays(num_ranks, comm)
    longest = max(run["makespan"] for _, run in runs)
    d = Drawing(680, 40 + len(runs) * 104)
    left, scale = 86, 570 / longest
    lanes = (("gemm", "GEMM", "c0"), ("send", "on the wire", "c2"), ("wait", "waiting", "c1"))
    said = []
    for k, (title, run) in enumerate(runs):
        top = 8 + k * 104
        exposed = run["exposed"][0]
        d.text(left, top + 14, f"{title}: {run['makespan']} units", "fg", "start", 14, "bold")
        for row, (lane, label, fill) in enumerate(lanes):
            y = top + 24 + row * 23
            d.text(left - 8, y + 14, label, "muted", "end", 12)
            d.rect(left, y, longest * scale, 19, "idle")
            for span in run["spans"]:
                if span["rank"] == 0 and span["lane"] == lane and span["end"] > span["start"]:
                    width = (span["end"] - span["start"]) * scale
                    d.rect(left + span["start"] * scale, y, width, 19, fill, "edge")
        said.append(f"{title}: {run['makespan']} units, of which rank 0 waits {exposed}")
    y = 24 + len(runs) * 104
    d.text(left, y, "time; one GEMM of one chunk takes one unit", "muted", "start", 12)
    alt = (
        f"An all-gather and a matrix product on {num_ranks} ranks in three orders, as rank 0 sees "
        "them. " + ". ".join(said) + "."
    )
    caption = "The same operations in three orders, replayed on lab 02's simulated machine."
    return d.figure(alt, caption, min_width=560)


def recorded(name="toy-2-ranks-1gbit", modes=("sequential", "overlap")):
    """One MLP's forward and backward as lab 02's Torch package recorded it: a lane per activity."""
    from labkit.loading import load_module

    folder = lab("lab-02").path
    trace = load_module(folder / "tensor_parallel_toy" / "trace.py")
    runs = json.loads((folder / "captures" / name / "timeline.json").read_text())
    runs = {mode: runs[mode] for mode in modes}
    begins = {
        mode: min(span[2] for rank in ranks for span in rank["spans"])
        for mode, ranks in runs.items()
    }
    took = {
        mode: max(span[3] for rank in ranks for span in rank["spans"]) - begins[mode]
        for mode, ranks in runs.items()
    }
    left, scale, lane = 112, 548 / max(took.values()), 17
    lanes = (("GEMM", "GEMM", "c0"), ("in flight", "arriving", "c2"), ("wait", "waiting", "c1"))
    num_ranks = len(next(iter(runs.values())))
    per_mode = 28 + num_ranks * (len(lanes) * lane + 8)
    d = Drawing(680, 24 + len(runs) * per_mode)
    said = []
    for k, (mode, ranks) in enumerate(runs.items()):
        y = 8 + k * per_mode
        d.text(left, y + 14, f"{mode}: {1e3 * took[mode]:.0f} ms", "fg", "start", 14, "bold")
        y += 22
        waits = []
        for rank, (record, flights) in enumerate(zip(ranks, trace.in_flight(ranks), strict=True)):
            spans = record["spans"] + [("in flight", *flight) for flight in flights]
            waits.append(sum(end - start for kind, _, start, end in spans if kind == "wait"))
            for kind, label, fill in lanes:
                d.text(left - 8, y + 12, f"rank {rank} {label}", "muted", "end", 12)
                d.rect(left, y, took[mode] * scale, lane - 3, "idle")
                for what, _, start, end in spans:
                    start = max(start, begins[mode])
                    if what == kind and (end - start) * scale >= 0.3:
                        at = left + (start - begins[mode]) * scale
                        d.rect(at, y, (end - start) * scale, lane - 3, fill)
                y += lane
            y += 8
        said.append(f"{mode}: {1e3 * took[mode]:.0f} ms, blocked {1e3 * max(waits):.0f} ms of it")
    d.text(left, 16 + len(runs) * per_mode, "time, one scale for both", "muted", "start", 12)
    alt = (
        f"Lanes of {num_ranks} ranks in one MLP, forward and backward, as recorded. "
        + "; ".join(said)
        + ". Overlapped, messages arrive while GEMMs run; in sequence they arrive while ranks wait."
    )
    caption = "Recorded on two processor cores: real gloo messages, each rank behind a shaped link."
    return d.figure(alt, caption, min_width=560)
