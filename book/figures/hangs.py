"""A hang as it comes about: collectives of two ranks of lab 06, entered and left, step by step."""

from labbook.labs import capture

from labkit.svg import Drawing

from .panels import WIDTH, panels, part

LANES = {"tp": "c1", "ep": "c4"}


def drift(number=5):
    """The last collectives of both ranks of a recording, until one waits for ever."""
    evidence = capture(f"lab-06/recordings/{number:02}-0.json")
    ranks = [rank["collectives"][-5:] for rank in evidence["ranks"]]
    keys = sorted({(c["entered_s"], c["group"], c["number"]) for rank in ranks for c in rank})
    order = list(dict.fromkeys((group, count) for _, group, count in keys))[-5:]
    d = Drawing(WIDTH, 178)
    left, width = 62, (WIDTH - 66) / (len(order) + 1)
    says = [_told(evidence, ranks, key) for key in order]
    for rank, own in enumerate(ranks):
        y = 30 + rank * 60
        d.text(left - 8, y + 21, f"rank {rank}", "muted", "end", 13)
        there = {(c["group"], c["number"]): c for c in own}
        for step, key in enumerate(order):
            x = left + step * width
            with part(d, "from", step):
                if key not in there:
                    d.rect(x, y, width - 4, 32, "idle", "edge")
                    d.text(x + (width - 4) / 2, y + 21, "absent", "fg", size=13)
                else:
                    _box(d, x, y, width, key, there[key])
    with part(d, "from", len(order) - 1):
        d.text(left, 170, "the last box has no end: rank 0 waits for rank 1", "fg", "start", 13)
    d.text(left, 16, "one box a collective, in the order in which they come", "muted", "start", 13)
    caption = (
        "A rank that has nothing to do leaves out its step, and the other waits for ever: the "
        "recorded collectives of two processes, in two groups, tp and ep."
    )
    return panels([(d, " ".join(says))], caption, says, start=len(says) - 1)


def _box(d, x, y, width, key, entry):
    group, count = key
    waits = entry["left_s"] is None
    d.rect(x, y, WIDTH + 4 - x if waits else width - 4, 32, LANES[group], "edge")
    d.text(x + width / 2 - 2, y + 21, f"{group} {count}", "bg", size=13)


def _told(evidence, ranks, key):
    group, count = key
    calls = [{(c["group"], c["number"]): c["left_s"] for c in own} for own in ranks]
    inside = [rank for rank, left_s in enumerate(calls) if left_s.get(key, 0) is None]
    if not inside:
        return f"{group} {count}: both ranks enter and leave it."
    absent = " and ".join(str(rank) for rank in evidence["groups"][group] if rank not in inside)
    return f"{group} {count}: rank {inside[0]} has entered, and rank {absent} never comes."
