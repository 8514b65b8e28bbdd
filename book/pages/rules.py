"""Rules of thumb and the planner, asked what published rows have answered."""

from labbook.labs import solution

capstone = solution("capstone")

from planner import facts, rules_of_thumb  # noqa: E402

rows = facts.load_rows()
judged = [facts.judge(row) for row in rows]
groups = facts.decisions(judged)
tight = next(fact for fact in judged if fact.row["id"] == "max0579")
scores = {
    rule: rules_of_thumb.judge(rule, judged)
    for rule in (*rules_of_thumb.TAKES, *rules_of_thumb.FITS)
}


SAYS = {
    "here": "[the capstone's](place.md): every byte of a rank, and ranges",
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


def where_right(rule):
    """The kinds of boxes on which a rule's choice lost at most 5 %."""
    good = [
        g
        for g in groups
        if (f := rules_of_thumb.taken(rule, g.facts)) is not None
        and g.regret({x.row["id"]: x is f for x in g.facts}) <= 0.05
    ]
    return len(good), ", ".join(sorted({g.facts[0].asked[2].gpu for g in good})) or "none"


told = [
    [
        "the planner" if rule == "here" else rule,
        what,
        *(right_wrong(*scores[rule][of]) for of in ("fits", "longest context", "choice")),
        f"{lost_by(rule):.1%}",
    ]
    for rule, what in SAYS.items()
]
largest_right_on = {where_right(r)[1] for r in ("always the largest", "TP inside the node")}
simple = sorted((rule for rule in SAYS if " " in rule), key=lost_by)  # the tools' are one word
says = {rule: rules_of_thumb.answer(rule, tight) for rule in ("here", *rules_of_thumb.FITS)}
