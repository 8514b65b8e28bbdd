"""Lab 02's ledger of a start-up as pictures, and one GPU's memory as the planner divides it."""

from labbook.labs import model as shape_of
from labbook.labs import proper_name, solution

from labkit.svg import Drawing

from .panels import WIDTH, key

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


def weights_per_rank(config="llama-3.1-8b"):
    """Weights on one rank at TP 1, 2, 4 and 8: an even share, and what comes on top of it."""
    lab02 = solution("lab-02")
    sizes, top, height = (1, 2, 4, 8), 42, 150
    totals = [lab02.rank_weights(shape_of(config), tp)["total_bytes"] / GIB for tp in sizes]
    d = Drawing(WIDTH, 398)
    d.text(10, 18, "GiB of weights on one rank", "fg", "start", 14, "bold")
    for k, (tp, total) in enumerate(zip(sizes, totals, strict=True)):
        x, bar = 30 + k * 100, total / totals[0] * height
        d.rect(x, top + height - bar, 64, bar, "c0")
        d.text(x + 32, top + height - bar - 6, f"{total:.3f}", "fg", size=13)
        d.text(x + 32, top + height + 18, f"TP={tp}", "fg", size=13)
    d.line([(10, top + height), (410, top + height)], "muted", "thin")
    d.text(10, 244, "of these, MiB beyond an even share", "fg", "start", 14, "bold")
    colours = {"whole on every rank": "c1", "rope table": "c2", "allocator's rounding": "c3"}
    said = []
    for k, tp in enumerate(sizes):
        parts, x, floor = beyond_a_share(config, tp), 30 + k * 100, 336
        for name, size in parts.items():
            d.rect(x, floor - size * 1.8, 64, size * 1.8, colours[name])
            floor -= size * 1.8
        d.text(x + 32, floor - 6, f"+{sum(parts.values()):.1f}", "fg", size=13)
        said.append(f"TP={tp} {totals[k]:.3f} GiB, {sum(parts.values()):.1f} MiB beyond its share")
    d.line([(10, 336), (410, 336)], "muted", "thin")
    key(d, 352, colours)
    alt = f"Weights of {proper_name(config)} on one rank: " + "; ".join(said) + "."
    caption = (
        f"{proper_name(config)} in bf16. Above, everything a rank holds. Below, what it holds "
        "beyond the parameters divided by TP, on a scale of its own; the other part of the norms "
        "is too thin to be seen."
    )
    return d.figure(alt, caption)


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
        f"{num_kv_heads} KV heads; each frame is a rank. Green: stored once. Ochre: a copy of a "
        f"head that another rank holds too. Beyond TP={num_kv_heads} a rank saves no KV memory.",
    )


def placed(name, tp, pp=1):
    """(the plan, the box, the load) of one engine on an H100 box, by the capstone's planner."""
    solution("capstone")  # puts the capstone's folder on the path
    from planner import hardware, memory, models, plans
    from planner.timing import Load

    box, model = hardware.box("h100", 1), models.read(name)
    load = Load(max_model_len=model.max_positions)
    return plans.evaluate(model, box, memory.Plan(1, tp, pp), load), box, load


def cached_tokens(name, tp, pp=1):
    """Tokens whose cache fits beside the weights, on an H100 box, where there is least room."""
    lab02, left = solution("lab-02"), max(0.0, placed(name, tp, pp)[0].memory["kv_bytes"])
    return int(left / max(lab02.kv_bytes_per_token(shape_of(name), tp, pp, n) for n in range(pp)))


def gpu_memory(name="llama-3.1-8b", sizes=(1, 2, 8)):
    """One GPU's memory as a bar: weights, everything else by name, the cache, and the rest."""
    d = Drawing(WIDTH, 84 * len(sizes) + 84)
    said = []
    for row, tp in enumerate(sizes):
        found, box, load = placed(name, tp)
        memory, y = found.memory, 30 + row * 84
        other = sum(memory["other"].values())
        cache = max(0.0, memory["kv_bytes"])
        rest = box.reported_bytes - memory["weights_bytes"] - other - cache
        d.text(6, y - 9, f"TP={tp}", "fg", "start", 14, "bold")
        d.text(262, y - 9, f"weights {memory['weights_bytes'] / GB:.1f}", "c0", "end", 13)
        d.text(414, y - 9, f"everything else {other / GB:.1f}", "c1", "end", 13)
        x = 6.0
        for fill, size in zip(
            ("c0", "c1", "c3", "idle"), (memory["weights_bytes"], other, cache, rest), strict=True
        ):
            width = max(0.0, size) / box.reported_bytes * 408
            d.rect(x, y, width, 30, fill, "edge")
            if width > 40:
                d.text(x + width / 2, y + 20, f"{size / GB:.1f}", "bg" if fill != "idle" else "fg",
                       size=13, extra="bold")  # fmt: skip
            x += width
        tokens = cached_tokens(name, tp)
        held = f"{cache / GB:.1f} GB of cache on each GPU hold {tokens:,} tokens"
        d.text(6, y + 47, held, "muted", "start", 13)
        weights = f"{memory['weights_bytes'] / GB:.1f} GB of weights"
        said.append(f"at TP={tp} {weights}, {other / GB:.1f} GB of everything else, {held}")
    colours = {
        "weights": "c0", "everything else": "c1", "KV cache": "c3", "not the engine's": "idle"
    }  # fmt: skip
    key(d, 84 * len(sizes) + 22, colours)
    alt = f"One H100 that reports {box.reported_bytes / GB:.1f} GB: " + "; ".join(said) + "."
    caption = (
        f"{proper_name(name)} in bf16 on one of the H100s, in GB of "
        f"{box.reported_bytes / GB:.1f} reported. The engine may use {load.utilization:.0%} of it; "
        "the last part is left to others."
    )
    return d.figure(alt, caption)
