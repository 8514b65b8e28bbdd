"""The learner's functions: labs 01 to 04 and the capstone, as LAB_IMPL chooses them.

The only place that knows where the planner's arithmetic comes from. A name that is still a TODO in
somebody's starter raises NotImplementedError when it is called, which labkit says in one line.
"""

from functools import cache, partial
from pathlib import Path

from labkit import loading

HERE = Path(__file__).resolve().parent.parent


@cache
def lab(prefix):
    """The chosen implementation of `lab-02` or `capstone`; ends the program if it is broken."""
    return loading.load_chosen(folder(prefix))


def folder(prefix):
    return HERE if prefix == "capstone" else next(HERE.parent.glob(f"{prefix}-*"))


capstone = partial(lab, "capstone")
shards = partial(lab, "lab-01")
ledger = partial(lab, "lab-02")
bill = partial(lab, "lab-03")
pipeline = partial(lab, "lab-04")
