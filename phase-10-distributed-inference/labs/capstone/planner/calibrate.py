"""What a user measured: a link, a price, one row of throughput; and vLLM's own defaults."""

import math
from dataclasses import replace

from planner import hardware, overrides, plans, timing
from planner.memory import Plan

GIB = 2**30


def vllm_defaults(box):
    """(max_num_batched_tokens, max_num_seqs) of an API server: vllm/engine/arg_utils.py, 0.32.0."""
    if box.reported_bytes >= 160 * GIB:
        return 16384, 1024
    if box.reported_bytes >= 70 * GIB and "a100" not in box.gpu:
        return 8192, 1024
    return 2048, 256


def by_row(model, box, load, row):
    """The box moved by a measured row (hardware.calibrated), with a note that says how far.

    row: {"plan": {"tp", "pp", "replicas"}, "tokens_per_s" or "tpot_s": number, and what differs
    from the options: "prompt", "output", "concurrency"}. ValueError: the row cannot be used.
    """
    overrides.check("the calibrating row", row, ["plan"], overrides.ROW_MAY)
    sizes = row["plan"]
    overrides.check("the calibrating row's plan", sizes, may=overrides.PLAN)
    if ("tokens_per_s" in row) == ("tpot_s" in row):
        raise ValueError('the calibrating row must hold either "tokens_per_s" or "tpot_s"')
    key = "tpot_s" if "tpot_s" in row else "tokens_per_s"
    value = row[key]
    plan = Plan(sizes.get("replicas", 1), sizes.get("tp", 1), sizes.get("pp", 1))
    if found := plans.faults(model, plan):
        raise ValueError(f"the calibrating row's plan {plan.name} is not legal: {', '.join(found)}")
    asked = {name: row[name] for name in ("prompt", "output", "concurrency") if name in row}
    measured_load = replace(load, **asked)

    def time_of(changed):
        found = timing.served(model, plan, changed.at(hardware.TYPICAL), measured_load)
        if found is None:
            raise ValueError(f"the calibrating row cannot be: {plan.name} does not fit this GPU")
        return found["tpot_s"] if key == "tpot_s" else 1 / found["tokens_per_s"]

    measured_s = value if key == "tpot_s" else 1 / value
    found = hardware.calibrated(box, time_of, measured_s)
    note = _note(plan.name, key, measured_s, time_of(box), time_of(found))
    if found.scale != box.scale:
        note += ". No such box is so far off: is it the same model, load and GPU?"
    return replace(found, notes=(*box.notes, note))


def _note(name, key, measured_s, before_s, after_s):
    """What a row said, and what was made of it."""
    times = [measured_s, before_s, after_s]
    shown = [f"{s * 1e3:,.2f} ms" if key == "tpot_s" else f"{1 / s:,.0f} tokens/s" for s in times]
    moved = f"moved by what lies outside the usual range, to {shown[2]}"
    if math.isclose(before_s, after_s, rel_tol=1e-3):
        moved = "inside the usual range, so only the intervals are narrower"
    return f"the row of --calibrate says {shown[0]} of {name}, the plan said {shown[1]}: {moved}"
