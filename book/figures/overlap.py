"""Communication beside computation: schedules of lab 02, replayed on its simulated machine."""

import json
from functools import cache

from labbook.labs import capture, lab, solution

from labkit.loading import load_module
from labkit.mistakes import read_bank
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
    bank = {mistake.name: mistake.function for mistake in read_bank(lab("lab-02")).mistakes}
    found = []
    for name, title in ORDERS:
        order = bank.get(name) or solution("lab-02").all_gather_gemm_schedule
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
    caption = "The same operations in three orders, replayed on lab 02's simulated machine."
    return panels(
        [(d, alt)], caption, [_told(runs, num_ranks, unit + 1) for unit in range(longest)]
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


def recorded(name="toy-2-ranks-1gbit", modes=("sequential", "overlap")):
    """One MLP's forward and backward as lab 02's Torch package recorded it: a lane per activity."""
    folder = lab("lab-02").path
    trace, figures = [
        load_module(folder / "tensor_parallel_toy" / "measure" / f"{module}.py")
        for module in ("trace", "figures")
    ]
    runs = json.loads((folder / "captures" / name / "timeline.json").read_text())
    drawing, said = figures.timeline({mode: trace.with_flights(runs[mode]) for mode in modes})
    alt = (
        f"Lanes of {len(runs[modes[0]])} ranks in one MLP, forward and backward, as recorded. "
        f"{said}. Overlapped, messages arrive while GEMMs run; in sequence they arrive while ranks "
        "wait."
    )
    caption = (
        "One MLP of one step, recorded on two processor cores: real gloo messages, each rank "
        "behind a shaped link. The whole step is longer; the next figure has it."
    )
    return drawing.figure(alt, caption, min_width=int(drawing.width))


def steps_compared():
    """Whole training steps of every capture, as parts of the sequential order's."""
    names = [f"toy-{p}-ranks-{link}" for p in (2, 4) for link in ("1gbit", "loopback", "shm")]
    kinds = {"overlap": "c0", "DTensor": "c1", "DTensor, patient": "c3"}
    words = ("overlap", "DTensor", "DTensor, helped")
    left, lane, low, high = 168, 34, 0.4, 2.1
    d = Drawing(WIDTH, 24 + lane * len(names) + 60)

    def at(share):
        return left + (min(share, high) - low) / (high - low) * (WIDTH - left - 14)

    for share in (0.5, 1.0, 1.5, 2.0):
        d.line([(at(share), 24), (at(share), 24 + lane * len(names))], "grid", "thin")
        d.text(at(share), 16, f"{share:.0%}", "muted", size=12)
    said = []
    for row, name in enumerate(names):
        run, y = capture(f"lab-02/captures/{name}/profile.json"), 24 + lane * (row + 0.5)
        steps = {mode: found["median_step_s"] for mode, found in run["modes"].items()}
        ranks, link = name.split("-")[1], name.split("-")[3]
        shown = {"1gbit": "1 Gbit/s", "shm": "shared memory"}.get(link, link)
        d.text(left - 10, y + 4, f"{ranks} ranks, {shown}", "fg", "end", 12)
        bound = at(run["bound_s"] / steps["sequential"])
        d.line([(bound, y - 11), (bound, y + 11)], "fg", "thick")
        shares = {mode: steps[mode] / steps["sequential"] for mode in kinds}
        for shape, (mode, share) in enumerate(shares.items()):
            d.dot(at(share), y, kinds[mode], shape, 5)
        told = ", ".join(
            f"{word} {share:.0%}" for word, share in zip(words, shares.values(), strict=True)
        )
        said.append(
            f"{ranks} ranks, {shown}: {told}, bound {run['bound_s'] / steps['sequential']:.0%}"
        )
    for k, (word, fill) in enumerate(zip(words, kinds.values(), strict=True)):
        x, y = 14 + (k % 2) * 200, 24 + lane * len(names) + 24 + (k // 2) * 24
        d.dot(x + 7, y - 4, fill, k, 5)
        d.text(x + 20, y, word, "fg", "start", 13)
    x, y = 214, 24 + lane * len(names) + 48
    d.line([(x + 7, y - 14), (x + 7, y + 4)], "fg", "thick")
    d.text(x + 20, y, "bound", "fg", "start", 13)
    return d.figure(
        "Steps as parts of the sequential order's. " + "; ".join(said) + ".",
        "Median training steps of the captures; the sequential order of each is 100%. The bound is "
        "what an order could reach if only the arithmetic, or only the messages, took time.",
    )
