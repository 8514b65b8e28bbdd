"""Rules of thumb and other planners' rules, as published and read, judged on the same facts.

Those in FITS say what fits (None: no answer), and take the smallest plan that does; those in TAKES
choose among plans that were measured side by side.
"""

from labkit.table import columns
from planner import facts, labs, memory

GIB = 2**30


def weights(model):
    return memory.ranks(model, memory.Plan())[0].held_bytes


def a_fifth_on_top(model, plan, box, tokens, used):
    """Source: huggingface.co/docs/accelerate, model_size_estimator ("up to an additional 20%")."""
    return 1.2 * weights(model) <= box.reported_bytes * plan.num_gpus


def two_l_h_s(model, plan, box, tokens, used):
    """Keys and values as wide as the model, in 2 bytes: that heads share them is forgotten."""
    cache = 2 * model.num_layers * model.hidden_size * tokens * 2
    return weights(model) + cache <= used * box.reported_bytes * plan.num_gpus


def gpu_poor(model, plan, box, tokens, used):
    """Source: RahulSChand/gpu_poor src/App.js, computeModelSize, getAllComputedData."""
    if model.quantisation.element_bytes:
        return None  # it has no quantised weights for vLLM
    h, ffn = model.hidden_size, model.config.get("intermediate_size") or 4 * model.hidden_size
    elements = 2 * model.vocab_size * h + model.num_layers * h * (4 * h + 3 * ffn)
    per_token = 8 * h * model.num_layers + 10 * h + 2 * tokens * model.num_heads
    return 2 * elements + per_token * tokens + 650 * 2**20 <= box.reported_bytes * plan.num_gpus


def kaito(model, plan, box, tokens, used):
    """Source: kaito-project/kaito pkg/workspace/estimator, budget.go and nodesestimator."""
    layers = model.kv_layers(range(model.num_layers), 2)
    cache = labs.capstone().sequence_kv_bytes(layers, tokens, 1)
    room = (used * box.reported_bytes - 2.3 * GIB) * plan.num_gpus - cache
    return 1.02 * weights(model) <= room / 1.05


def llm_analysis(model, plan, box, tokens, used):
    """Source: cli99/llm-analysis@d841e40 llm_analysis/analysis.py, LLMAnalysis.inference."""
    if box.gpu not in ("h100", "a100") or model.latent:
        return None  # not on its list; it has no words for a latent cache
    heads = max(model.num_kv_heads / plan.tp_size, 1) * model.hidden_size / model.num_heads
    largest_bytes = max(4 * heads * model.num_layers, 2 * model.vocab_size / plan.tp_size) * tokens
    return weights(model) / plan.num_gpus + largest_bytes < 80 * GIB


def largest(group):
    return max(group, key=lambda fact: fact.gpus, default=None)


def tp_inside_the_node(group):
    node = group[0].asked[2].gpus_per_node
    plans = [(fact, fact.asked[1]) for fact in group]
    return largest([f for f, plan in plans if plan.tp_size == min(node, plan.gpus_per_replica)])


FITS = {"1.2 x weights": a_fifth_on_top, "KV = 2 L H S": two_l_h_s, "gpu_poor": gpu_poor}
FITS |= {"KAITO": kaito, "llm-analysis": llm_analysis}
TAKES = {
    "the planner": lambda group: max(group, key=lambda fact: fact.predicted / fact.gpus),
    "smallest that fits": lambda group: min(group, key=lambda fact: fact.gpus, default=None),
    "always the largest": largest,
    "TP inside the node": tp_inside_the_node,
    "EP for every MoE": lambda group: largest([f for f in group if f.asked[1].ep_size > 1]),
}


def answer(rule, fact):
    """What a rule says of a fact that asks what fits, in the fact's unit; None: it does not say."""
    model, plan, box, load = fact.asked
    says = {} if rule in TAKES or rule == "1.2 x weights" and fact.what != "fits" else FITS

    def fits(tokens):
        return says[rule](model, plan, box, tokens, load.utilization)

    if rule == "the planner":
        return fact.predicted
    if rule not in says or fits(2048) is None:
        return None
    return float(fits(2048)) if fact.what == "fits" else facts.longest(model, fits)


def taken(rule, group):
    """The plan that a rule takes of a group, as its fact; None: it takes none of them."""
    if rule in FITS:
        asked = group[0].asked[3]
        group = [f for f in group if FITS[rule](*f.asked[:3], asked.prompt, asked.utilization)]
    return TAKES.get(rule, TAKES["smallest that fits"])(group)


def judge(rule, judged):
    """{"fits", "longest context", "choice": [right, wrong, refused], "regret": mean}.

    A choice is right when it loses at most 5 % of the best plan's tokens/s per GPU.
    """
    found, lost = {what: [0, 0, 0] for what in ("fits", "longest context", "choice")}, []
    for fact in [f for f in judged if f.what in found and not f.left_out]:
        said = answer(rule, fact)
        found[fact.what][2 if said is None else said != fact.measured] += 1
    for made in facts.decisions(judged):
        if (choice := taken(rule, made.facts)) is not None:
            lost.append(made.regret({f.row["id"]: f is choice for f in made.facts}))
        found["choice"][2 if choice is None else lost[-1] > 0.05] += 1
    return found | {"regret": sum(lost) / len(lost) if lost else None}


def lines(judged):
    rows = [["right / wrong / refused", "fits", "longest context", "choice", "regret"]]
    for rule in (*TAKES, *FITS):
        *counts, regret = judge(rule, judged).values()
        cells = [" / ".join(map(str, count)) for count in counts]
        rows.append([rule, *cells, "-" if regret is None else f"{regret:.1%}"])
    return columns(rows, "lrrrr")
