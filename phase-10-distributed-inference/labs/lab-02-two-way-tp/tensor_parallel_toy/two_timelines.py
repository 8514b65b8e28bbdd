"""A schedule as two timelines, yours and one that takes what a pipeline takes: text, and SVG.

rank 0 gemm |0011..|   chunk 0 is multiplied, then chunk 1, then the rank waits
       wire |>>1   |   a message to rank 1 is on the wire
"""

from . import schedule
from .stream_machine import ScheduleError, simulate

WIDTH, MOST_RANKS = 48, 3  # letters of a lane; what a failure has of the screen
COLOURS = {"gemm": "c0", "wait": "c1", "send": "c2"}


def _runs(schedules, problem, gemm, comm):
    """([(whose, spans, when they end)], the later end); of a wrong schedule what went well."""
    num_ranks = len(schedules)
    bound = [getattr(schedule, problem)(num_ranks, rank) for rank in range(num_ranks)]
    try:
        yours = simulate(schedules, problem, gemm, comm)["spans"]
    except ScheduleError as error:
        yours = error.spans
    both = {"yours": yours, "a pipeline": simulate(bound, problem, gemm, comm)["spans"]}
    runs = [(who, own, max([0, *(span["end"] for span in own)])) for who, own in both.items()]
    return runs, max(1, *(took for *_, took in runs))


def text(schedules, problem, gemm=1, comm=1):
    """Both timelines on one scale, a lane for the GEMMs and one for the wire of each rank."""
    runs, end = _runs(schedules, problem, gemm, comm)
    scale = max(1, min(6, int(WIDTH / end))) if end <= WIDTH else WIDTH / end
    lines = []
    for name, spans, took in runs:
        legend = "" if lines else "; digits are chunks, . waits, > to a rank"
        lines.append(f"{name}: {took:g} unit{'s' * (took != 1)}{legend}")
        for rank in range(min(len(schedules), MOST_RANKS)):
            own = [span for span in spans if span["rank"] == rank]
            for lane, kinds in (("gemm", ("gemm", "wait")), ("wire", ("send",))):
                label = f"rank {rank} {lane}" if lane == "gemm" else f"       {lane}"
                lines.append(f"{label} |{_lane(own, kinds, scale, end)}|")
    return "\n".join(lines)


def _lane(spans, kinds, scale, end):
    letters = [" "] * round(end * scale)
    for span in spans:
        if span["lane"] in kinds:
            low, high = round(span["start"] * scale), round(span["end"] * scale)
            letters[low:high] = _letters(span, max(0, high - low))
    return "".join(letters)


def _letters(span, count):
    """The chunk of a GEMM all along; the rank that a message goes to at its end."""
    if span["lane"] == "wait":
        return "." * count
    if span["lane"] == "send":
        return (">" * count + span["name"].rsplit(" ", 1)[1])[-count:] if count else ""
    number = span["name"].split("[")[1].rstrip("]")
    return (number * count)[:count]


def svg(schedules, problem, gemm=1, comm=1):
    """The same as an .svg file."""
    from labkit.svg import Drawing

    runs, end = _runs(schedules, problem, gemm, comm)
    left, lane, scale = 110, 20, 560 / end
    d = Drawing(left + 580, len(runs) * (34 + len(schedules) * (2 * lane + 8)))
    y, said = 0, []
    for name, spans, took in runs:
        said.append(f"{name} takes {took:g} units")
        d.text(left, y + 20, said[-1], "fg", "start", 14, "bold")
        y += 28
        for rank in range(len(schedules)):
            for row, kinds in enumerate((("gemm", "wait"), ("send",))):
                label = f"rank {rank} {'wire' if row else 'gemm'}"
                d.text(left - 8, y + 14, label, "muted", "end", 12)
                for span in spans:
                    if span["rank"] == rank and span["lane"] in kinds:
                        x, wide = left + span["start"] * scale, span["end"] - span["start"]
                        d.rect(x, y, wide * scale - 1, lane - 3, COLOURS[span["lane"]])
                y += lane
            y += 8
        y += 6
    return d.standalone("; ".join(said) + ".")
