"""Returns what the checks look at by place or by name, and which is no list and no dict.

lab: capstone
base: solution
expect: 100
"""

from array import array
from collections import deque
from types import MappingProxyType

_link_line, _stage_times, _diagnose = link_line, stage_times, diagnose


def link_line(points):
    return deque(_link_line(points))


def stage_times(microbatches):
    busy, period = _stage_times(microbatches)
    return array("d", busy), period


def diagnose(evidence):
    return MappingProxyType(_diagnose(evidence))
