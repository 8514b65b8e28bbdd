"""All plans of a cluster with their verdicts, times and intervals; and the choice among them."""

from dataclasses import dataclass, replace
from operator import attrgetter

from planner import hardware, labs, memory, timing
from planner.memory import Plan

MOODS = (hardware.BEST, hardware.TYPICAL, hardware.WORST)
TIMES = ("ttft_s", "tpot_s", "tokens_per_s")


@dataclass
class Candidate:
    """A plan with what the arithmetic says of it; times are [best, typical, worst], or None."""

    plan: Plan
    memory: dict
    times: dict | None
    slots: int
    terms: dict | None
    prefill_s: float | None

    @property
    def name(self):
        return self.plan.name

    def as_plan(self):
        """The dict that the capstone's `choose` takes."""
        return {"name": self.name, "num_gpus": self.plan.num_gpus} | self.times


def faults(model, plan):
    """Names of what forbids a plan, by the learner's split_faults; experts dealt out whole may not
    be cut, so their width does not matter then."""
    shape = model.legal()
    if plan.ep_size > 1:
        shape["widths"].pop("moe_intermediate_size", None)
    found = labs.capstone().split_faults(shape, plan.tp_size, plan.pp_size)
    uneven = model.num_experts % plan.ep_size if plan.ep_size > 1 else 0
    return found + ["num_experts"] * bool(uneven)


def legal_plans(model, box):
    """(plans, {name: faults}): every way to use the cluster, and those its shape forbids.

    Replicas fill the cluster. tp_size divides a node or is whole nodes, and so does a replica:
    anything else would straddle a node (lab 04's plan_bill refuses it as well). Experts whose width
    tp_size does not cut are dealt out whole.
    """
    total, node = box.nodes * box.gpus_per_node, box.gpus_per_node
    legal, forbidden = [], {}
    widths = [width for width, _ in model.legal()["widths"].values()]
    kv_heads = model.num_heads if model.latent else model.num_kv_heads
    sizes = labs.shards().legal_tp_sizes(model.num_heads, kv_heads, widths, total)
    for tp in (n for n in range(1, total + 1) if node % n == 0 or n % node == 0):
        for pp in range(1, total // tp + 1):
            gpus = tp * pp
            if total % gpus or (node % gpus and gpus % node):
                continue
            plan = Plan(total // gpus, tp, pp)
            found = faults(model, plan)
            dealt_out = replace(plan, ep_size=tp)
            if found == ["moe_intermediate_size"] and not faults(model, dealt_out):
                legal.append(dealt_out)
            if tp not in sizes and not found:
                found = ["tp_size"]
            if found:
                forbidden[plan.name] = found
            else:
                legal.append(plan)
    if model.num_experts:
        spread = [n for n in range(2, total + 1) if total % n == 0 and model.num_experts % n == 0]
        spread = [n for n in spread if node % n == 0 or n % node == 0]
        for back_end in (memory.GATHERED, memory.DEEPEP):
            legal += [Plan(total // n, ep_size=n, back_end=back_end) for n in spread]
    return legal + _shared_contexts(model, legal), forbidden


def _shared_contexts(model, legal):
    """The plans whose tensor-parallel ranks hold copies of a cache, with its tokens dealt out."""
    kinds = {layer["kind"] for layer in model.kv_layers(range(model.num_layers), 2)}
    if not kinds <= {"full", "latent"}:
        return []
    heads = 1 if model.latent else model.num_kv_heads
    copied = [plan for plan in legal if plan.copies == 1 and plan.tp_size > heads]
    return [replace(plan, dcp_size=plan.tp_size // heads) for plan in copied]


def untimed(model, box, plan, load):
    """The Candidate of a plan, by its memory alone."""
    found = memory.verdicts(model, plan, box.at(hardware.TYPICAL), load)
    return Candidate(plan, found, None, 0, None, None)


def evaluate(model, box, plan, load):
    """The Candidate of a plan."""
    fixed = [box.at(mood) for mood in MOODS]
    candidate = untimed(model, box, plan, load)
    served = [timing.served(model, plan, one, load) for one in fixed]
    typical = served[1]
    if typical is None:
        return candidate
    served = [one or typical for one in served]  # where the worst constants leave no room at all
    times = {name: [one[name] for one in served] for name in TIMES}
    return Candidate(
        plan, candidate.memory, times, typical["slots"], typical["terms"], typical["prefill_s"]
    )


def evaluate_all(model, box, load):
    plans, forbidden = legal_plans(model, box)
    return [evaluate(model, box, plan, load) for plan in plans], forbidden


def choose(candidates, ttft_s=None, tpot_s=None):
    """The learner's choice, with the Candidates in place of the names."""
    running = [c for c in candidates if c.times]
    found = labs.capstone().choose([c.as_plan() for c in running], ttft_s, tpot_s)
    by_name = {c.name: c for c in running}
    return {
        "choice": by_name.get(found["choice"]),
        "runner_up": by_name.get(found["runner_up"]),
        "close": found["close"],
    }


# What decides when two plans are close: the constant that turns their order, and who measures it.
MEASUREMENTS = {
    "link": "the bus bandwidth and latency inside a node (make measure-comm, or nccl-tests)",
    "network": "the network between nodes (nccl-tests over two nodes)",
    "memory_share": "one decode step at batch 1 (it reads the weights: bytes over seconds)",
    "flops_share": "one long prefill (its arithmetic: FLOPs over seconds)",
    "gather_share": "all_gather and reduce_scatter beside all_reduce (nccl-tests, inside a node)",
    "overlap_lost": "decode steps at batches around the change-over of the two roofs",
    "attention_share": "prefills of two lengths (the quadratic part)",
    "expert_skew": "how many experts a step of this batch really touches",
    "hop_us": "one activation from stage to stage",
    "lockstep": "the same step at tp 1 and at the larger tp",
    "uneven": "how long the stages of a pipeline wait in steady decoding",
    "layer_us": "the gaps between kernels of one decode step (a profiler's timeline)",
    "experts_us": "the gaps around the experts of one layer (a profiler's timeline)",
    "launch_us": "the time a step takes with an empty GPU queue",
    "step_us": "the time between two steps on an idle engine",
    "sequence_us": "the time between two steps, at batch 1 and at a large one",
    "activations": "the start-up line `Available KV cache memory`, which fixes their sum",
    "graphs_gb": "the start-up line `Available KV cache memory`, which fixes their sum",
    "runtime_gb": "the start-up line `Available KV cache memory`, which fixes their sum",
    "peers_gb": "the start-up line `Available KV cache memory`, which fixes their sum",
}


def deciding(model, box, load, first, second):
    """[(constant, its end, the measurement, the box with it)] that alone turn the two plans."""
    found = []
    for name in MEASUREMENTS:
        for mood in (hardware.BEST, hardware.WORST):
            changed = _with_one(box, name, mood)
            if changed == box:  # no interval, or known already
                continue
            rates = [_per_gpu(model, changed, plan, load) for plan in (first, second)]
            if rates[1] > rates[0]:
                word = "best" if mood == hardware.BEST else "worst"
                found.append((name, word, MEASUREMENTS[name], changed))
    return found


def _per_gpu(model, box, plan, load):
    served = timing.served(model, plan, box.at(hardware.TYPICAL), load)
    return served["tokens_per_s"] / plan.num_gpus if served else 0.0


def _with_one(box, name, mood):
    """The box with one constant (or link) at its best or worst end."""
    if name in ("link", "network"):
        return replace(box, **{name: hardware.between(getattr(box, name), mood)})
    end = hardware.between(box.constants[name], mood)
    return replace(box, constants=box.constants | {name: end})


def turning_concurrency(model, box, load, first, second):
    """The nearest number of clients at which the second plan makes more tokens than the first."""
    for factor in (2, 1 / 2, 4, 1 / 4, 8, 1 / 8, 16, 1 / 16):
        clients = max(1, round(load.concurrency * factor))
        changed = replace(load, concurrency=clients)
        if _per_gpu(model, box, second, changed) > _per_gpu(model, box, first, changed):
            return clients
    return None


def smallest(candidates):
    """The Candidate of the smallest replica that holds one request; None: there is none."""
    fitting = [c for c in candidates if c.memory["tokens_fit"]]
    return min(fitting, key=attrgetter("plan.gpus_per_replica", "plan.pp_size"), default=None)


def smallest_that_fits(model, box, load):
    """The smallest of all plans, on up to 16 times the nodes; None: not even those hold it."""
    for factor in (1, 2, 4, 8, 16):
        found, _ = evaluate_all(model, replace(box, nodes=box.nodes * factor), load)
        if fitting := smallest(found):
            return fitting
    return None
