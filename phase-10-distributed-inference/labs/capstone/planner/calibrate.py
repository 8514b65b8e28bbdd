"""What a user measured: a link, a price, one row of throughput; and vLLM's own defaults."""

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
    """The box at which a measured row comes out as measured.

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

    return hardware.calibrated(box, time_of, value if key == "tpot_s" else 1 / value)
