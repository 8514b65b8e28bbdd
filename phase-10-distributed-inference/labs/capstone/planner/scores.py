"""What the facts come to, printed: hits, misses, the known misses by name, and the decisions."""

import json
from collections import Counter

from planner import facts, held_out, labs, rules_of_thumb

# what -> the factors that are reported; a fit or a context is right or wrong
FACTORS = {"fits": (1.0,), "longest context": (1.0,), "KV capacity": (1.25,)}
FACTORS |= dict.fromkeys(["throughput", "TPOT", "across nodes", "one stream"], (1.25, 1.5, 2.0))
TIMED = ("throughput", "TPOT", "across nodes")
MISS = {"fits": 1.0, "longest context": 1.0, "KV capacity": 1.25, "TPOT": 1.25}  # else 1.5


def summary(rows):
    """Everything that is printed, as a dict of plain values."""
    plain, calibrated = facts.judge_all(rows)
    judged = [fact for fact in plain if not fact.left_out]
    found = {
        "rows": len(rows),
        "judged": len(judged),
        "left_out": {fact.row["id"]: fact.left_out for fact in plain if fact.left_out},
        "within": _within(plain, FACTORS),
        "calibrated": _within(calibrated, ("throughput", "TPOT")),
        "inside": facts.inside(judged),
        "held_out": _held_out(plain),
        "decisions": {
            "per GPU": _decisions(facts.decisions(plain)),
            "in all": _decisions(facts.decisions(plain, per_gpu=False)),
        },
    }
    missed = [fact for fact in judged if fact.factor > MISS.get(fact.what, 1.5) + 1e-9]
    known = facts.known()
    found["known_misses"] = [_answer(f) for f in judged if f.row["id"] in known]
    found["new_misses"] = [_answer(f) for f in missed if f.row["id"] not in known]
    found["answers"] = {f.row["id"]: _answer(f) for f in judged}
    return found


def _within(judged, kinds):
    return {what: {f: facts.within(judged, what, f) for f in FACTORS[what]} for what in kinds}


def _held_out(plain):
    """The score of rows whose source had no say in the constants' middle, nor in the intervals."""
    found = held_out.judged(plain)
    made = {"per GPU": True, "in all": False}
    return {
        "sources": len({held_out.source(fact) for fact in found}),
        "within": _within(found, TIMED),
        "inside": facts.inside(found),
        "decisions": {how: _decisions(facts.decisions(found, per)) for how, per in made.items()},
    }


def _decisions(made):
    regrets = [decision.regret() for decision in made]
    return {
        "groups": len(made),
        "within 5%": sum(regret <= 0.05 for regret in regrets),
        "worst regret": max(regrets, default=0.0),
        "mean regret": _mean(regrets),
        "mean regret of the smallest that fits": _mean([d.regret_of_rule(-1) for d in made]),
        "mean regret of the largest": _mean([d.regret_of_rule(1) for d in made]),
        "chosen": {" ".join(str(word) for word in d.group if word): d.chosen() for d in made},
    }


def _mean(values):
    return sum(values) / len(values) if values else 0.0


def _answer(fact):
    found = {name: getattr(fact, name) for name in ("what", "measured", "predicted")}
    why = facts.known().get(fact.row["id"], {}).get("known", "")
    return found | {"id": fact.row["id"], "interval": [fact.low, fact.high], "why": why}


def lines(found):
    yield f"{found['judged']} of {found['rows']} rows judged; no constant belongs to a row"
    reasons = Counter(found["left_out"].values())
    yield from (f"  left out {count:3}  {why}" for why, count in reasons.most_common())
    yield ""
    yield from _share_lines({k: v for k, v in found["within"].items() if k not in TIMED})
    apart = found["held_out"]
    yield f"  each of {apart['sources']} sources judged by what the others' rows centre:"
    yield from _share_lines(apart["within"])
    inside, intervals = apart["inside"]
    yield f"  {inside} of {intervals} values lie inside the interval of 9 in 10 of the others' rows"
    for how, made in apart["decisions"].items():
        yield (
            f"  best plan {how}: within 5% in {made['within 5%']} of {made['groups']}, "
            f"regret mean {made['mean regret']:.1%}, worst {made['worst regret']:.0%} "
            f"(always the smallest that fits: {made['mean regret of the smallest that fits']:.1%}, "
            f"always the largest: {made['mean regret of the largest']:.1%})"
        )
    yield "  the same with the shipped constants, which saw these rows, and one measured row a box:"
    yield from _share_lines({k: found["within"][k] for k in ("throughput", "TPOT")}, "shipped: ")
    yield from _share_lines(found["calibrated"], "one row: ")
    for title, key in [("known misses", "known_misses"), ("other misses", "new_misses")]:
        if found[key]:
            yield f"{title}:"
        yield from (f"{_beside(miss)}  {miss['why']}" for miss in found[key])


def _share_lines(within, when=""):
    for what, factors in within.items():
        if any(count for _, count in factors.values()):
            yield (
                f"{when:4}{what:16}{_shares(factors)}" if when else f"  {what:16}{_shares(factors)}"
            )


def _beside(one):
    numbers = f"measured {one['measured']:<10.5g} predicted {one['predicted']:<10.5g}"
    return f"  {one['id']:8} {one['what']:16} {numbers}"


def _shares(factors):
    parts = []
    for factor, (hits, count) in factors.items():
        word = "right" if factor == 1.0 else f"within {factor:g} x"
        parts.append(f"{word} {hits} of {count} ({hits / count:.0%})")
    return ", ".join(parts)


def show(rows, as_json=False, every=False, rules=False):
    if rules and not as_json:
        judged = [facts.judge(row) for row in rows]
        print("\n".join([labs.answered_by(), *rules_of_thumb.lines(judged)]))
        return 0
    found = summary(rows)
    if as_json:
        print(json.dumps(found))
        return 0
    print("\n".join([labs.answered_by(), *lines(found)]))
    if every:
        print("\n".join(["every row judged:", *map(_beside, found["answers"].values())]))
    return 0


def decided(found):
    """The yes-or-no answers among the facts, which a change of constants must not flip unseen."""
    kinds, answers = ("fits", "longest context"), found["answers"].items()
    answers = {key: one["predicted"] for key, one in answers if one["what"] in kinds}
    chosen = {how: made["chosen"] for how, made in found["decisions"].items()}
    return {"answers": answers, "chosen": chosen}
