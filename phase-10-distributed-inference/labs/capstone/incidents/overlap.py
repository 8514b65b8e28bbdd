"""Evidence of a training step from the toy's own recorded timelines (lab 02, captures/toy-*)."""

import json

from labkit.loading import find_labs

LAB = next(lab for lab in find_labs() if lab.prefix == "lab-02")

CAPTURES = ("toy-simulated-1gbit",)


def evidence(capture, mode):
    """Spans [lane, name, began, ended] per rank, in microseconds: lane is GEMM, wait or issue."""
    timeline = json.loads((LAB.path / "captures" / capture / "timeline.json").read_text())[mode]
    zero = min(span[2] for spans in timeline for span in spans)
    return {
        "plan": {"tp_size": len(timeline), "pp_size": 1, "overlap": True},
        "spans": [
            [
                [lane, name, round(1e6 * (began - zero)), round(1e6 * (ended - zero))]
                for lane, name, began, ended in spans
            ]
            for spans in timeline
        ],
    }
