"""Lab 02's ledger of a start-up as pictures, and one GPU's memory as the planner divides it."""

from labbook.labs import model as shape_of
from labbook.labs import proper_name, solution
from planner import hardware, memory, models, plans
from planner.timing import Load

from labkit.svg import Drawing

from .panels import WIDTH, bar, key

GIB, MIB, GB = 2**30, 2**20, 1e9


def beyond_a_share(config, tp):
    """MiB that a rank holds beyond an even share of the parameters, by name."""
    lab02 = solution("lab-02")
    whole = lab02.rank_weights(shape_of(config), 1)["parameters_bytes"]
    mine = lab02.rank_weights(shape_of(config), tp)
    return {
        "whole on every rank": (mine["parameters_bytes"] - whole / tp) / MIB,
        "rope table": mine["rope_table_bytes"] / MIB,
        "allocator's rounding": mine["allocator_rounding_bytes"] / MIB,
    }


def weights_per_rank(config="llama-3.1-8b", tp=2):
    """Weights on one rank, and as a bar what of them comes on top of an even share."""
    colours = {"whole on every rank": "c1", "rope table": "c2", "allocator's rounding": "c3"}
    beyond = beyond_a_share(config, tp)
    total = solution("lab-02").rank_weights(shape_of(config), tp)["total_bytes"] / GIB
    held = f"{total:.3f} GiB, {sum(beyond.values()):.1f} MiB beyond its share"
    d = Drawing(WIDTH, 116)
    d.text(6, 18, f"TP={tp}", "fg", "start", 14, "bold")
    d.text(414, 18, held, "muted", "end", 13)
    shown = [(beyond[name], fill, f"{beyond[name]:.1f}") for name, fill in colours.items()]
    bar(d, 6, 26, 24, shown, 408 / sum(beyond.values()))
    key(d, 68, colours)
    return d.figure(
        f"Weights of {proper_name(config)} on one rank: TP={tp} {held}.",
        "Three things lie on a rank beyond its even share. "
        f"{proper_name(config)} in bf16; the bar is what a rank holds beyond the parameters "
        "divided by TP.",
    )


def kv_heads(num_kv_heads=8):
    """Which rank stores which KV heads, up to twice as many ranks as heads."""
    lab02 = solution("lab-02")
    sizes = (2, num_kv_heads, 2 * num_kv_heads)
    d = Drawing(WIDTH, 20 + 66 * len(sizes))
    for row, tp in enumerate(sizes):
        y, seen = 26 + row * 66, set()
        d.text(6, y - 8, f"TP={tp}", "fg", "start", 14, "bold")
        each, width = lab02.kv_heads_per_rank(num_kv_heads, tp), 408 / tp
        for rank in range(tp):
            x = 6 + rank * width
            d.rect(x, y, width - 3, 36, "idle", "box", 4)
            w = (width - 5) / each
            for j in range(each):
                head = rank * num_kv_heads // tp + j
                d.rect(x + 1 + j * w, y + 5, w - 1, 26, "c4" if head in seen else "c2", "edge", 3)
                d.text(x + 1 + (j + 0.5) * w, y + 23, str(head), "bg", size=13, extra="bold")
                seen.add(head)
    alt = (
        f"A model with {num_kv_heads} KV heads at TP={', '.join(map(str, sizes))}. Up to "
        f"TP={num_kv_heads} each head is stored once, so a rank stores fewer and fewer. At "
        f"TP={2 * num_kv_heads} every head is stored on two ranks, so a rank stores as much as "
        f"at TP={num_kv_heads}."
    )
    return d.figure(
        alt,
        f"Beyond TP={num_kv_heads} a rank saves no KV memory. {num_kv_heads} KV heads; each frame "
        "is a rank. Green: the first copy of a head. Ochre: its second.",
    )


def placed(name, tp):
    """(the plan, the box, the load) of one engine on an H100 box, by the capstone's planner."""
    box, model = hardware.box("h100", 1), models.read(name)
    load = Load(max_model_len=model.max_positions)
    return plans.evaluate(model, box, memory.Plan(1, tp), load), box, load


def cached_tokens(name, tp):
    """Tokens whose cache fits beside the weights of one engine on an H100 box."""
    left = max(0.0, placed(name, tp)[0].memory["kv_bytes"])
    return int(left / solution("lab-02").kv_bytes_per_token(shape_of(name), tp))


def gpu_memory(name="llama-3.1-8b", sizes=(1, 2, 8)):
    """One GPU's memory as a bar: weights, everything else by name, the cache, and the rest."""
    d, said = Drawing(WIDTH, 84 * len(sizes) + 84), []
    colours = {
        "weights": "c0", "everything else": "c1", "KV cache": "c3", "not the engine's": "idle"
    }  # fmt: skip
    for row, tp in enumerate(sizes):
        found, box, load = placed(name, tp)
        weights, y = found.memory["weights_bytes"], 30 + row * 84
        other = sum(found.memory["other"].values())
        cache = max(0.0, found.memory["kv_bytes"])
        rest = max(0.0, box.reported_bytes - weights - other - cache)
        d.text(6, y - 9, f"TP={tp}", "fg", "start", 14, "bold")
        d.text(262, y - 9, f"weights {weights / GB:.1f}", "c0", "end", 13)
        d.text(414, y - 9, f"everything else {other / GB:.1f}", "c1", "end", 13)
        looks = zip((weights, other, cache, rest), colours.values(), strict=True)
        parts = [(size, fill, f"{size / GB:.1f}") for size, fill in looks]
        bar(d, 6, y, 30, parts, 408 / box.reported_bytes)
        tokens = cached_tokens(name, tp)
        held = f"{cache / GB:.1f} GB of cache on each GPU hold {tokens:,} tokens"
        d.text(6, y + 47, held, "muted", "start", 13)
        said.append(
            f"at TP={tp} {weights / GB:.1f} GB of weights, "
            f"{other / GB:.1f} GB of everything else, {held}"
        )
    key(d, 84 * len(sizes) + 22, colours)
    alt = f"One H100 that reports {box.reported_bytes / GB:.1f} GB: " + "; ".join(said) + "."
    caption = (
        "A wider split leaves more room, and each token takes less of it. "
        f"{proper_name(name)} in bf16 on one of the H100s, in GB of "
        f"{box.reported_bytes / GB:.1f} reported. The engine may use {load.utilization:.0%} of it; "
        "the last part is left to others."
    )
    return d.figure(alt, caption)
