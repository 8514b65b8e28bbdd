"""Rules of thumb and the planner, asked what published rows have answered."""

from planner import facts, held_out, rules_of_thumb

rows = facts.load_rows()
judged = [facts.judge(row) for row in rows]
groups = facts.decisions(judged)
tight = next(fact for fact in judged if fact.row["id"] == "max0579")
scores = {
    rule: rules_of_thumb.judge(rule, judged)
    for rule in (*rules_of_thumb.TAKES, *rules_of_thumb.FITS)
}


SAYS = {
    "the planner": "[the capstone's](place.md): every byte of a rank, and ranges",
    "smallest that fits": "of the plans that ran, the one on the fewest GPUs",
    "always the largest": "the one on the most GPUs",
    "TP inside the node": "TP over as many GPUs as a node gives, and of such plans the largest",
    "1.2 x weights": "it fits if 1.2 times the weights are no more than the memory",
    "KV = 2 L H S": "beside the weights, 2 × layers × hidden size × tokens numbers of 2 bytes: "
    "that heads share keys and values is forgotten",
    "gpu_poor": "16-bit weights, keys and values of every query head counted twice, activations, "
    "650 MiB",
    "KAITO": "weights and 2%, 5% of them for overhead, the true cache; 2.3 GiB of a GPU free",
    "llm-analysis": "weights, and the larger of cache and logits, in 80 GiB",
}


def right_wrong(right, wrong, refused):
    return f"{right} / {wrong}" if right + wrong else "–"


def lost_by(rule):
    return scores[rule]["regret"]


def chose(rule):
    """How many choices a rule made."""
    return sum(scores[rule]["choice"][:2])


def where_right(rule):
    """The kinds of boxes on which a rule's choice lost at most 5 %."""
    good = [
        g
        for g in groups
        if (f := rules_of_thumb.taken(rule, g.facts)) is not None
        and g.regret({x.row["id"]: x is f for x in g.facts}) <= 0.05
    ]
    return len(good), ", ".join(sorted({g.facts[0].asked[2].gpu for g in good})) or "none"


told = []
for rule, what in SAYS.items():
    right = (right_wrong(*scores[rule][of]) for of in ("fits", "longest context", "choice"))
    told.append([rule, what, *right])
apart = [made.regret() for made in facts.decisions(held_out.judged(judged))]
held_out_regret = sum(apart) / len(apart)
lost = {rule: (lost_by(rule), chose(rule)) for rule in SAYS}
lost |= {"the planner": (held_out_regret, len(apart))}
largest_right_on = {where_right(r)[1] for r in ("always the largest", "TP inside the node")}
simple = [rule for rule in SAYS if " " in rule and rule != "the planner"]  # tools are one word
simple.sort(key=lost_by)
says = {rule: rules_of_thumb.answer(rule, tight) for rule in ("the planner", *rules_of_thumb.FITS)}
others_say = "; ".join(
    f"{rule} says {n:.0f}" for rule, n in says.items() if rule != "the planner" and n is not None
)
here_is_least = lost_by("the planner") <= held_out_regret == min(lost.values())[0]
kaito_alone = lost_by("KAITO") == min(map(lost_by, ("gpu_poor", "KAITO", "llm-analysis"))) and all(
    2 * chose(rule) <= chose("KAITO") for rule in ("gpu_poor", "llm-analysis")
)
worst_two = [lost_by(rule) for rule in ("always the largest", "TP inside the node")]
a_third = all(0.3 < loss < 0.36 for loss in worst_two) and largest_right_on == {"rtx-pro-6000"}
