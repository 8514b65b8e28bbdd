"""The learner's functions: labs 01 to 05 and the capstone, as LAB_IMPL chooses them.

The only place that knows where the planner's arithmetic comes from. A name that is still a TODO in
somebody's starter raises NotImplementedError when it is called, which labkit says in one line.
The book's pages run this without numpy, which lab 05 needs; of lab 01 the planner asks for
legal_tp_sizes alone, which needs none, though its file imports it.
"""

import sys
import types
from functools import cache, partial
from pathlib import Path

from labkit import loading

try:
    import numpy as arrays
except ModuleNotFoundError:
    arrays = None

HERE = Path(__file__).resolve().parent.parent


@cache
def lab(prefix):
    """The chosen implementation of `lab-02` or `capstone`; ends the program if it is broken."""
    if arrays is None and prefix == "lab-01":
        sys.modules["numpy"] = types.ModuleType("numpy")
    try:
        return loading.load_chosen(folder(prefix))
    finally:
        if arrays is None:
            sys.modules.pop("numpy", None)


def folder(prefix):
    return HERE if prefix == "capstone" else next(HERE.parent.glob(f"{prefix}-*"))


capstone = partial(lab, "capstone")
shards = partial(lab, "lab-01")
ledger = partial(lab, "lab-02")
bill = partial(lab, "lab-03")
pipeline = partial(lab, "lab-04")
experts = partial(lab, "lab-05")


def answered_by():
    """Whose functions the planner calls, in one line."""
    numbered = [f"lab-0{number}" for number in range(1, 6 if arrays else 5)]
    return loading.answered_by(*map(folder, [*numbered, "capstone"]))
