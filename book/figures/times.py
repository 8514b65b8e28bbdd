"""The labs' floor beside the capstone's planner: one step, one rate, and where its time goes."""

from functools import cache

from planner import floor, hardware, memory, models, plans, timing

from labkit.svg import Drawing

from .panels import SPLITS, WIDTH, key, panels

SHOWN = {  # by chapter, what the reader can explain: name, colour, the planner's terms
    "reading, arithmetic": ("c0", ("weights, arithmetic", "cache")),
    "messages": ("c1", ("messages",)),
    "boundaries and waits": ("c2", ("hops and bubbles", "waits")),
    "pauses between kernels": ("c3", ("gaps", "launches")),
    "the host": ("c4", ("host",)),
}


@cache
def asked(
    tp=1, pp=1, replicas=1, clients=1, name="llama-3.1-8b", gpu="h100", nodes=1, per_node=None,
    network="10 GbE", prompt=1000, output=500,
):  # fmt: skip
    """(model, plan, box, load) of a question to the planner."""
    box = hardware.box(gpu, nodes, per_node, network=network)
    load = timing.Load(prompt, output, clients)
    return models.read(name), memory.Plan(replicas, tp, pp), box, load


@cache
def step(**question):
    """{"floor", "typical", "best", "worst", "terms"}: seconds of one decode step, no prompts."""
    found = floor.beside(*asked(**question))
    return found | {"floor": found["floor"]["total"], "least": found["floor"]}


@cache
def rate(**question):
    """{"typical", "best", "worst"}: tokens per second under a load, prompts and all."""
    model, plan, box, load = asked(**question)
    worst_first = plans.evaluate(model, box, plan, load).times["tokens_per_s"]
    return dict(zip(("best", "typical", "worst"), worst_first, strict=True))


def between_messages(tp, batch, context, name, gpu):
    """[best, typical, worst] seconds of what one rank does in a step by itself; no host."""
    model, plan, box, load = asked(
        tp=tp, clients=batch, name=name, gpu=gpu, prompt=context, output=1
    )
    for mood in plans.MOODS:
        terms = timing.decode_terms(model, plan, box.at(mood), batch, context, load)
        yield terms["total"] - terms["messages"] - terms["host"]


def cache_gib(name, gpu):
    """[best, typical, worst] GiB that the planner leaves for the cache on one GPU."""
    model, plan, box, load = asked(name=name, gpu=gpu)
    return [
        memory.verdicts(model, plan, box.at(mood), load)["kv_bytes"] / 2**30 for mood in plans.MOODS
    ]


def ms(found):
    """'5.6 (3.6 to 11.2)': the planner's typical milliseconds and its range."""
    return "{:.1f} ({:.1f} to {:.1f})".format(
        *(found[k] * 1e3 for k in ("typical", "best", "worst"))
    )


def tokens(found):
    """'6,226 (3,100 to 9,200)': the planner's typical tokens per second and its range."""
    return "{:,.0f} ({:,.0f} to {:,.0f})".format(*(found[k] for k in ("typical", "worst", "best")))


def row(name, **question):
    """A row of a table: the plan, its floor, and the planner's milliseconds with their range."""
    found = step(**question)
    return [name, f"{found['floor'] * 1e3:.1f}", ms(found)]


FIRST_PAGE = {
    "one H100": {},
    "two, NVLink": {"tp": 2},
    "two, 10 Gbit/s Ethernet": {"tp": 2, "nodes": 2, "per_node": 1},
}


def tie(first, second, within=0.05):
    """Whether two rates are one by this arithmetic: typical values closer than `within`."""
    return abs(first / second - 1) < within


def where_the_time_goes(known=5, pipeline=False):
    """A decode step of our 8B model by TP, batch 1 and 64: the first `known` parts in colour."""
    splits = {f"TP={n}": {"tp": n} for n in (1, 2, 4, 8)}
    if pipeline:
        splits |= {"PP=4": {"pp": 4}}
    drawn = [_steps(splits, batch, known) for batch in (1, 64)]
    eight = step(tp=8)
    split = sum(
        eight["terms"][term]
        for name in ("reading, arithmetic", "messages")
        for term in SHOWN[name][1]
    )
    left = 1 - split / eight["typical"]
    for one in (step(tp=tp, clients=batch) for tp in (1, 8) for batch in (1, 64)):
        reading = sum(one["terms"][term] for term in SHOWN["reading, arithmetic"][1])
        assert (one["floor"] < reading) == (one["least"]["messages"] == 0)
    caption = {
        1: "Reading is what a split divides; the pale rest of the step does not shrink.",
        2: "Messages appear with the split and stay while the reading shrinks.",
        3: "A pipeline adds waiting. At batch 64 its step is shorter than one GPU's only because a "
        "microbatch of 16 reads only its own caches.",
    }.get(known, f"At TP=8 and batch 1, {left:.0%} of the step is neither reading nor messages.")
    return panels(
        drawn,
        f"{caption} One decode step of Llama-3.1-8B on H100s over NVLink, at 1,250 tokens of "
        "context. Bars: a typical box, in ms; each panel has its own scale. Outline: the floor, "
        "the best box's reading and messages."
        + (" Pale: what later chapters explain." if known < len(SHOWN) else ""),
    )


def _steps(splits, batch, known):
    found = {name: step(clients=batch, **split) for name, split in splits.items()}
    scale = (WIDTH - 92) / max(one["typical"] for one in found.values())
    d, said = Drawing(WIDTH, 44 + 34 * len(splits) + 24 * ((min(known, 4) + 3) // 2)), []
    d.text(6, 18, f"batch {batch}", "fg", "start", 14, "bold")
    for line, (name, one) in enumerate(found.items()):
        x, y, told = 56.0, 30 + 34 * line, []
        d.text(6, y + 16, name, SPLITS[name[:2]], "start", 13, "bold")
        for place, (part, (colour, terms)) in enumerate(SHOWN.items()):
            seconds = sum(one["terms"][term] for term in terms)
            shown = place < known
            d.rect(x, y, seconds * scale, 22, colour if shown else "idle", "edge" * shown)
            x += seconds * scale
            told += [f"{part} {seconds * 1e3:.2f} ms"] * shown
        floor = one["floor"] * scale
        corners = [(56, y - 2), (56 + floor, y - 2), (56 + floor, y + 24), (56, y + 24)]
        d.line([*corners, corners[0]], "fg", "thick")
        total = f"{one['typical'] * 1e3:.1f}"
        d.text(min(x + 4, WIDTH - 24), y + 16, total, "muted", "start")
        least = f"floor {one['floor'] * 1e3:.1f} ms of {total}"
        said.append(f"{name}: {least}, " + ", ".join(told))
    rest = {} if known == len(SHOWN) else {"not explained yet": "idle"}
    names = {part: colour for part, (colour, _) in list(SHOWN.items())[:known]}
    key(d, 38 + 34 * len(splits), names | rest | {"outline: the floor": "bg"})
    x, y = 14 + 200 * (len(names | rest) % 2), 38 + 34 * len(splits) + 24 * (len(names | rest) // 2)
    d.line([(x, y), (x + 15, y), (x + 15, y + 15), (x, y + 15), (x, y)], "fg", "thick")
    return d, f"One decode step at batch {batch}. " + "; ".join(said) + "."
