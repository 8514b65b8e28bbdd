"""Evidence of a training step from the toy's own recorded timelines (lab 02, captures/toy-*)."""

import json

from incidents.lab02 import LAB

CAPTURES = ("toy-2-ranks-1gbit", "toy-4-ranks-1gbit")


def evidence(capture, mode):
    """Spans [lane, name, began, ended] per rank, in microseconds: lane is GEMM, wait or issue."""
    timeline = json.loads((LAB.path / "captures" / capture / "timeline.json").read_text())[mode]
    zero = min(span[2] for rank in timeline for span in rank["spans"])
    return {
        "plan": {"tp_size": len(timeline), "pp_size": 1, "overlap": True},
        "spans": [
            [
                [lane, name, round(1e6 * (began - zero)), round(1e6 * (ended - zero))]
                for lane, name, began, ended in rank["spans"]
                if lane != "in flight"
            ]
            for rank in timeline
        ],
    }
