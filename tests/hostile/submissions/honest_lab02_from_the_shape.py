"""rank_shape reads q, k and v off the stored shape; the ledger is a Counter, terms are summed up.

lab: lab-02
base: solution
expect: above 81
"""

from collections import Counter, defaultdict


def rank_shape(parameter, model, tp_size):
    shape, split, name = list(parameter["shape"]), parameter["split"], parameter["name"]
    if split == "heads":
        heads, kv = model["num_heads"], model["num_kv_heads"]
        if heads % tp_size:
            raise ValueError(f"{name}: num_heads={heads} does not divide by tp_size={tp_size}")
        rows = shape[0] // (heads + 2 * kv)  # of one head
        assert rows * (heads + 2 * kv) == shape[0], (shape, heads, kv)
        each = kv_heads_per_rank(kv, tp_size)
        return [rows * (heads // tp_size + 2 * each), *shape[1:]]
    axis = {"whole": None, "columns": -1}.get(split, 0 if len(shape) < 3 else 1)
    if axis is None:
        return shape
    size = padded_vocab(shape[axis]) if split == "vocab" else shape[axis]
    if size % tp_size:
        raise ValueError(f"{name}: {size} over tp_size={tp_size}")
    shape[axis] = size // tp_size
    return shape


def rank_weights(model, tp_size, pp_size=1, pp_rank=0):
    terms = defaultdict(int)
    rope = model["rope_positions"] * model["head_dim"] * model["dtype_bytes"]
    terms["rope_table_bytes"] = rope
    terms["allocator_rounding_bytes"] += allocated_bytes(rope) - rope
    for parameter in parameters(model):
        if on_stage(parameter, model, pp_size, pp_rank):
            size = math.prod(rank_shape(parameter, model, tp_size)) * model["dtype_bytes"]
            terms["parameters_bytes"] += size
            terms["allocator_rounding_bytes"] += allocated_bytes(size) - size
    terms["total_bytes"] = sum(terms.values())
    return terms
