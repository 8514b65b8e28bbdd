"""The book's one-page sheet, "How to choose a plan", as a program: questions 1 to 3, dense models.

It knows bytes and messages, and neither pauses nor waits, so that what it takes can be held against
the planner.
"""

from planner import memory
from planner.hardware import TYPICAL
from planner.timing import ACTIVATION_BYTES


def follow(model, box, load):
    """(tp_size, pp_size, asked), or (None, None, asked) when not one sequence fits the box.

    asked: [(question, tp_size, pp_size, left, right), ...], where yes is left <= right. "fits" is
    in bytes of a GPU, "pays" in seconds. The GPUs that are left make replicas.
    """
    fixed, gpus = box.at(TYPICAL), box.nodes * box.gpus_per_node
    whole = memory.ranks(model, memory.Plan())[0]
    weights = whole.held_bytes
    budget = load.utilization * box.reported_bytes
    kept = load.prompt + round(fixed["reserved_output"] * load.output)
    layers = {"layers": model.kv_layers(range(model.num_layers), load.kv_bytes)}
    user = memory.sequence_bytes(layers, memory.Plan(), kept)
    passing = 1 + load.prompt / load.output  # tokens of a user in a step, of prompts too
    asked, tp, pp = [], 1, 1

    def rest(p, s):
        plan = memory.Plan(1, p, s)
        return sum(
            memory.other_bytes(model, plan, fixed, load.batched_tokens, load.max_seqs).values()
        )

    def users(p, s):
        return max(1, load.concurrency * p * s / gpus)

    def message_s(p, s):
        fitting = ((budget - rest(p, s)) * p * s - weights) / user
        tokens = passing * max(1, min(users(p, s), fitting))
        return fixed.all_reduce_s(p, tokens * model.hidden_size * ACTIVATION_BYTES)

    def ask(question, left, right):
        asked.append((question, tp, pp, left, right))
        return left <= right

    def pays():
        if 2 * tp * pp > gpus or model.num_heads % (2 * tp):
            return False
        added_s = 2 * model.num_layers * (message_s(2 * tp, pp) - message_s(tp, pp))
        return ask("pays", added_s, whole.always_bytes / (2 * tp * fixed.memory_bytes_per_s))

    def needed(cache):
        return (weights + cache) / (tp * pp) + rest(tp, pp)

    while not ask("fits", needed(max(user, min(weights, users(tp, pp) * user))), budget):
        if 2 * tp * pp > gpus:
            return (tp, pp, asked) if needed(user) <= budget else (None, None, asked)
        tp, pp = (2 * tp, pp) if pays() else (tp, 2 * pp)
    while pays():
        tp *= 2
    return tp, pp, asked
