"""Pairs are NamedTuples, a table is a defaultdict, constants are Enums and dataclasses.

lab: lab-03
base: solution
expect: 100
"""

import enum
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import astuple, dataclass
from typing import NamedTuple


class Sides(NamedTuple):
    paid_s: float
    saved_s: float


Choice = namedtuple("Choice", "name seconds")


class Kernel(str, enum.Enum):
    ONE = "one_shot"


@dataclass
class Ring:
    c_s: float
    a_s: float
    rate: float


_sides, _range, _fastest = tensor_parallel_sides, all_reduce_range_s, fastest_all_reduce
_calibrate, _expert, _equation = calibrate, expert_parallel_bytes, equation


def tensor_parallel_sides(*args, **kwargs):
    return Sides(*_sides(*args, **kwargs))


def all_reduce_range_s(link, num_ranks, payload_bytes):
    best, worst = _range(link, num_ranks, payload_bytes)
    return namedtuple("Range", ["best_s", "worst_s"])(best, worst)


def fastest_all_reduce(*args, **kwargs):
    return Choice._make(_fastest(*args, **kwargs))


def calibrate(points, protocols=NCCL_PROTOCOLS):
    return astuple(Ring(*_calibrate(points, protocols)))


class Terms(NamedTuple):
    f: float
    g: float
    h: float


def equation(point, protocol):
    return Terms(*_equation(point, protocol))
