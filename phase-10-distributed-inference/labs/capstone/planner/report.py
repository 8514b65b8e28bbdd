"""The answer as text: inequalities with both sides, the table of plans, memory and time."""

import math
import operator
from dataclasses import asdict

from labkit.table import columns, seconds_text
from planner import labs, memory, timing
from planner.hardware import TYPICAL
from planner.plans import TIMES

GB = 1e9
VERDICTS = ("weights_load", "tokens_fit", "full_context_fits")


HOLDS = {"<=": operator.le, "<": operator.lt, ">=": operator.ge, "==": operator.eq}


def inequalities(model, box, load, candidate, ttft_s=None, tpot_s=None):
    """Rows {"name", "left", "op", "right", "unit", "holds", "margin", "limit", "binding"}.

    margin: how far the smaller side is below the larger, as a part of the larger. Of the limits
    (memory, sequences, time) the first that fails binds, or else the one with the least margin.
    """
    rows = [*_shape_rows(model, candidate.plan), *_memory_rows(model, load, candidate)]
    if candidate.times is not None:
        rows.append(
            _row("clients at once", load.concurrency, "<=", candidate.slots, "sequences", 1)
        )
        for name, key, limit in [("TTFT", "ttft_s", ttft_s), ("TPOT", "tpot_s", tpot_s)]:
            if limit is not None:
                typical = candidate.times[key][1]
                rows.append(_row(name, typical * 1e3, "<=", limit * 1e3, "ms", limit=True))
        rows += _time_rows(model, box, load, candidate)
    limits = [row for row in rows if row["limit"]]
    broken = [row for row in limits if not row["holds"]]
    binds = broken[0] if broken else min(limits, key=operator.itemgetter("margin"))
    binds["binding"] = True
    return rows


def _row(name, left, op, right, unit, limit=False):
    margin = 1 - min(left, right) / max(left, right) if max(left, right) > 0 else 0.0
    row = {"name": name, "left": left, "op": op, "right": right, "unit": unit}
    holds = HOLDS[op](left, right)
    return row | {"holds": holds, "margin": margin, "limit": bool(limit), "binding": False}


def _shape_rows(model, plan):
    tp, heads, kv = plan.tp_size, model.num_heads, model.num_kv_heads
    yield _row("heads % tp", heads % tp, "==", 0, f"of {heads}")
    if model.latent:
        yield _row("cache copies (one latent, tp ranks)", tp, ">=", 1, "copies")
    else:
        rest = max(kv, tp) % min(kv, tp)
        yield _row("KV heads % tp, or tp % KV heads", rest, "==", 0, f"of {kv}")
    for name, (width, block) in model.legal()["widths"].items():
        if plan.ep_size == 1 or name != "moe_intermediate_size":
            yield _row(f"{name} % (tp x {block})", width % (tp * block), "==", 0, f"of {width}")
    yield _row("stages", plan.pp_size, "<=", model.num_layers, "layers")
    if plan.ep_size > 1:
        experts = model.num_experts
        yield _row("experts % ep", experts % plan.ep_size, "==", 0, f"of {experts}")


def _memory_rows(model, load, candidate):
    found, plan = candidate.memory, candidate.plan
    used = found["weights_bytes"] + sum(found["other"].values())
    budget = used + found["kv_bytes"]
    yield _row("weights of a GPU", found["weights_bytes"] / GB, "<=", budget / GB, "GB", limit=True)
    yield _row("weights and everything else", used / GB, "<", budget / GB, "GB", limit=True)
    full, wanted = load.max_model_len or model.max_positions, load.prompt + load.output
    for tokens, limit in [(wanted, True), (full, False)]:
        kept = memory.sequence_bytes(found, plan, tokens) / GB
        yield _row(f"cache of {tokens:,} tokens", kept, "<=", found["kv_bytes"] / GB, "GB", limit)


def _time_rows(model, box, load, candidate):
    plan, fixed = candidate.plan, box.at(TYPICAL)
    rank = memory.ranks(model, plan)[0]
    in_flight = min(plan.pp_size, load.concurrency)
    tokens = min(load.concurrency, candidate.slots) / plan.replicas / in_flight / plan.copies
    flops = fixed.flops_per_s(model.quantisation.compute_bits)
    bytes_per_weight = (rank.always_bytes + rank.experts_bytes) / max(rank.macs, 1)
    ridge = labs.capstone().ridge_tokens(bytes_per_weight, fixed.memory_bytes_per_s, flops)
    word = "tokens a step: reading decides below, arithmetic above"
    yield _row("decode, the two roofs", tokens, "<" if tokens < ridge else ">=", ridge, word)
    if plan.tp_size > 1:
        fewer = plan.tp_size // 2 if plan.tp_size % 2 == 0 else 1
        before, after = (
            labs.bill().tensor_parallel_sides(
                rank.always_bytes * plan.tp_size,
                fixed.memory_bytes_per_s,
                tp_size,
                timing.all_reduces(rank),
                fixed.all_reduce_s(tp_size, max(1, tokens) * model.hidden_size * 2),
                tokens=max(1, round(tokens)),
                flops_per_s=flops,
                element_bytes=bytes_per_weight,
            )
            for tp_size in (fewer, plan.tp_size)
        )
        paid, saved = (1e3 * (more - less) for more, less in zip(after, before, strict=True))
        word = "pays" if paid < saved else "does not pay"
        name = f"tp {fewer} to {plan.tp_size}: messages for reading"
        yield _row(name, paid, "<", saved, f"ms added, ms saved: it {word}")


# --- text ---------------------------------------------------------------------------------------


def number(value):
    if isinstance(value, int) or value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    return f"{value:z,.2f}" if abs(value) < 1000 else f"{value:,.0f}"


def spread(values, show=seconds_text):
    low, high = sorted((values[0], values[2]))
    return f"{show(values[1])} ({show(low)} to {show(high)})"


def inequality_lines(rows):
    shown = []
    for row in rows:
        sides = number(row["left"]), row["op"], number(row["right"])
        unit = row["unit"] + "  <- binds" * row["binding"]
        shown.append(["", "yes" if row["holds"] else "NO", row["name"], *sides, unit])
    return columns(shown, "lllrlll")


def table_lines(candidates, choice=None, price=None, limit=12, limits=(None, None)):
    """All plans, best tokens per second and GPU first. A time above its limit of `limits`
    (TTFT and TPOT, seconds) ends in `!`.
    """
    rows = ["", "plan", "GPUs", "loads", "tokens", "full", "longest", "seqs"]
    rows = [[*rows, "TTFT", "TPOT", "tokens/s", "a GPU", *["cost/M"] * bool(price)]]
    order = sorted(
        candidates, key=lambda c: -(c.times["tokens_per_s"][1] / c.plan.num_gpus if c.times else -1)
    )
    for candidate in order[:limit]:
        m, plan = candidate.memory, candidate.plan
        row = ["*" if choice and candidate.name == choice.name else "", candidate.name]
        row += [plan.num_gpus, *("yes" if m[name] else "no" for name in VERDICTS)]
        row += [f"{m['longest_context']:,}", f"{candidate.slots:,}"]
        if candidate.times:
            ttft, tpot, rate = (candidate.times[name][1] for name in TIMES)
            for time, most in zip((ttft, tpot), limits, strict=True):
                row.append(seconds_text(time) + " !" * bool(most and time > most))
            row += [f"{rate:,.0f}"]
            row += [f"{rate / plan.num_gpus:,.0f}"]
            row += [f"{cost(candidate, price):.2f}"] if price else []
        rows.append(row)
    lines = columns(rows, "llrlllrrrrrrr", gap=1)
    if len(order) > limit:
        lines.append(f"  and {len(order) - limit} more (--all, --json)")
    return lines


def cost(candidate, price):
    rate = candidate.times["tokens_per_s"][1]
    return labs.capstone().cost_per_million_tokens(rate, candidate.plan.num_gpus, price)


def memory_lines(candidate, box):
    """One GPU's memory, term by term."""
    m, size = candidate.memory, box.reported_bytes
    yield f"  one GPU reports {size / GB:.2f} GB ({size // 2**20:,} MiB)"
    parts = {"weights": m["weights_bytes"]} | m["other"] | {"KV cache": m["kv_bytes"]}
    rows = [["", name, f"{part / GB:.2f} GB"] for name, part in parts.items()]
    yield from columns(rows, "llr", gap=4)


def term_lines(candidate):
    total = candidate.terms["total"]
    parts = {k: v for k, v in candidate.terms.items() if k != "total" and v > total / 1000}
    yield f"  one decode step: {seconds_text(total)} = " + " + ".join(
        f"{name} {seconds_text(value)}" for name, value in parts.items()
    )
    yield f"  one prompt: {seconds_text(candidate.prefill_s)} a stage"
    for label, name, show in [
        ("TTFT", "ttft_s", seconds_text),
        ("TPOT", "tpot_s", seconds_text),
        ("tokens/s", "tokens_per_s", lambda rate: f"{rate:,.0f}"),
    ]:
        yield f"  {label:9}{spread(candidate.times[name], show)}"


def as_json(candidate, rows=None):
    m = candidate.memory
    found = {
        **{"plan": candidate.name, **asdict(candidate.plan), "num_gpus": candidate.plan.num_gpus},
        "weights_bytes": round(m["weights_bytes"]),
        "other_bytes": {name: round(size) for name, size in m["other"].items()},
        "kv_bytes": round(m["kv_bytes"]),
        **{name: m[name] for name in (*VERDICTS, "longest_context")},
        "sequences": candidate.slots,
        **(candidate.times or dict.fromkeys(TIMES)),
    }
    if rows is not None:
        found["inequalities"] = [{k: _plain(v) for k, v in row.items()} for row in rows]
    return found


def _plain(value):
    return round(value, 6) if isinstance(value, float) and math.isfinite(value) else value
