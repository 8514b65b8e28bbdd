"""The recorded incidents: evidence as an engineer has it, with a healthy run beside it."""

import json
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "recordings"


def name_of(number, repeat):
    return f"incident-{number:02}-{repeat}.json"


def load(number, repeat=0):
    """Evidence of one recording; its key "healthy" holds a healthy run, mostly of the same plan."""
    healthy = answers()[number]["healthy"]
    beside = min(repeat, repeats(healthy) - 1)
    return _read(number, repeat) | {"healthy": _read(healthy, beside)}


def answers():
    """{number: {"cause", "where", "healthy": the number of the healthy run}}."""
    found = json.loads((FOLDER / "answers.json").read_text(encoding="utf-8"))
    return {int(number): answer for number, answer in found.items()}


def repeats(number):
    """How many recordings there are of an incident."""
    return len(list(FOLDER.glob(name_of(number, "*"))))


def _read(number, repeat):
    return json.loads((FOLDER / name_of(number, repeat)).read_text(encoding="utf-8"))
