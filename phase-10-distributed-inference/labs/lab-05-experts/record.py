"""Record the captures of this lab: a tiny mixture in a real vLLM, split in one of four ways.

python record.py NAME...     (without a name it lists them)
"""

from pathlib import Path

import ways
from live.record import main
from live.record import record as keep

CAPTURES = Path(__file__).resolve().parent / "captures"
HOW = {
    "one": "one rank",
    "tp": "two ranks, tensor parallel: each has a slice of every expert",
    "ep": "two ranks, attention tensor parallel, experts dealt out",
    "dp": "two ranks, attention data-parallel, experts dealt out: dispatch, combine, dummy steps",
}
WHAT = {
    f"{model}-{way}": f"a tiny {model}, {what}"
    for model in ways.MODELS
    for way, what in HOW.items()
}


def measure(name, folder):
    """Run vLLM as the capture `name` wants it; returns its report. The logs are in `folder`."""
    model, way = name.split("-")
    (found,) = ways.start([(model, way)], folder).values()
    options = {"way": way, "options": ways.WAYS[way], "requests": ways.REQUESTS}
    return {"config": ways.MODELS[model]()} | options | {"ranks": found["reports"]}


def record(name):
    keep(name, CAPTURES / name, measure, WHAT[name])


if __name__ == "__main__":
    main(__doc__, WHAT, record)
