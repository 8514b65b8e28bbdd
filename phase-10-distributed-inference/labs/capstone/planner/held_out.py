"""The planner on rows of a source that had no say: leave one source out.

The typical constants were centred with all shipped rows in view, so the plain score is no blind
test. Here each source in turn is left out: the mood at which the *other* sources' rows lie in the
middle predicts its rows, and the moods between which nine of ten of the others lie are its
interval. What people chose by hand (the shape of the arithmetic, the ends of each constant) had
all rows in view even so.
"""

import math
import re
import statistics
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

MOODS = [step / 4 for step in range(-2, 7)]  # -0.5 to 1.5: on beyond the best and the worst box


def source(fact):
    """'owner/repository' or the address of a page: rows of one source share their makers."""
    return re.split(r"[@ ]", fact.row["source"])[0]


def implied_mood(fact):
    """The mood of the box at which a row comes out as measured, between the ends of MOODS."""
    values = [math.log(max(fact.at(mood), 1e-12)) for mood in MOODS]
    aim = math.log(fact.measured)
    for (low, high), (first, last) in zip(pairwise(MOODS), pairwise(values), strict=True):
        if (first - aim) * (last - aim) <= 0 and first != last:
            return low + (high - low) * (aim - first) / (last - first)
    rises = values[-1] > values[0]
    return MOODS[0] if (aim < values[0]) == rises else MOODS[-1]


def judged(facts):
    """The timed facts once more, each predicted by the rows of the other sources alone."""
    timed = [f for f in facts if f.at and not f.left_out and f.what not in NO_TIMES]
    moods = defaultdict(list)
    for fact in timed:
        moods[source(fact)].append(implied_mood(fact))
    found = []
    for fact in timed:
        others = [mood for name in moods if name != source(fact) for mood in moods[name]]
        if len(others) < 2:
            continue
        cuts = statistics.quantiles(others, n=20, method="inclusive")
        ends = sorted(fact.at(mood) for mood in (cuts[0], cuts[-1]))
        middle = fact.at(statistics.median(others))
        found.append(replace(fact, predicted=middle, low=ends[0], high=ends[1]))
    return found


NO_TIMES = ("fits", "longest context", "KV capacity")  # right or wrong, or memory alone
