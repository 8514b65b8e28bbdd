"""A run that has not ended is told so, before anybody asks why it is slow. Silence is lab 06's."""

import json

from labkit.loading import choose_lab, find_labs

FOLDER = choose_lab("lab-06", find_labs()).path / "recordings"


def unended(evidence):
    """{rank: what it is in, in words} for each rank whose last step has no end."""
    found = {}
    for number, rank in enumerate(evidence.get("ranks", ())):
        last = rank["steps"][-1] if rank["steps"] else {"end_us": None, "collectives": []}
        if last["end_us"] is None:
            inside = [operation for operation, _, _, left in last["collectives"] if left is None]
            found[number] = f"in {inside[-1]}" if inside else "in no collective"
    return found


def as_incident(hang):
    """Lab 06's evidence as the capstone's: a step for each collective, up to the second look.

    A rank that has left all its collectives is in a step that has made none yet.
    """
    return {"plan": {}, "ranks": [{"steps": _steps(rank["collectives"])} for rank in hang["ranks"]]}


def _steps(collectives):
    steps, began_us = [], 0
    for one in collectives:
        entered, left = (at_s and at_s * 1e6 for at_s in (one["entered_s"], one["left_s"]))
        began_us = began_us or entered
        inside = [one["operation"], None, entered - began_us, left and left - began_us]
        steps.append({"start_us": began_us, "end_us": left, "collectives": [inside]})
        began_us = left
    if not steps or steps[-1]["end_us"] is not None:
        steps.append({"start_us": began_us, "end_us": None, "collectives": []})
    return steps


def load(number):
    """A recording of lab 06 as an incident."""
    text = (FOLDER / f"{number:02}-0.json").read_text(encoding="utf-8")
    return as_incident(json.loads(text))


def names():
    """What `read` calls them."""
    return sorted(f"hang-{int(path.name[:2])}" for path in FOLDER.glob("*-0.json"))
