"""Which plan is faster: the first page's three machines, two GPUs, eight, and two boxes."""

from labbook.labs import model, read_bytes, solution
from planner import plans

from labkit.svg import Drawing, Plot, ladder

from .cost import achieved, messages_of
from .panels import WIDTH
from .times import asked


def rates(candidates):
    """{plan: typical tokens per second} of the planner's candidates that start."""
    return {c.name: c.times["tokens_per_s"][1] for c in candidates if c.times}


def eight_gpus(clients):
    """{plan: tokens per second} on one box of eight H100s, by the capstone's planner."""
    shape, _, box, load = asked(clients=clients)
    return rates(plans.evaluate_all(shape, box, load)[0])


def against_replicas(requests=64, context=1250):
    """Two H100s, by the floor: tokens per second over the time of one all-reduce, and replicas."""
    lab02, lab03, shape = solution("lab-02"), solution("lab-03"), model("llama-3.1-8b")
    memory, _ = achieved("H100")
    weights_s = read_bytes("llama-3.1-8b") / memory
    caches_s = requests * context * lab02.kv_bytes_per_token(shape, 1) / memory

    def both(seconds):
        pair_s = (weights_s + caches_s) / 2 + (2 * shape["num_layers"] + 1) * seconds
        return requests / pair_s, requests / (weights_s + caches_s / 2)

    payload = requests * messages_of()[1]
    ticks = [(n * 1e-6, str(n)) for n in (3, 10, 30, 100, 300, 1000)]
    plot = Plot(
        (3e-6, 1e-3), (0, 16_000), "microseconds of one all-reduce", "tokens/s", ticks,
        [(n, f"{n:,}") for n in range(0, 16_001, 2_000)],
        log_x=True, width=420, height=320,
    )  # fmt: skip
    xs = ladder(3e-6, 1e-3, 1.05)
    pair, replicas = zip(*map(both, xs), strict=True)
    plot.curve(xs, pair, 0)
    plot.curve(xs, replicas, 4)
    plot.label(6e-5, 10_300, "two replicas", 4)
    plot.label(2.5e-5, 12_300, "one engine, TP=2", 0)
    said = []
    for link, name in (("NVLink 4", "NVLink"), ("10 GbE", "10 GbE")):
        best, worst = lab03.all_reduce_range_s(link, 2, payload)
        for end in (best, worst):
            plot.vertical(end)
        plot.text(plot.x((best * worst) ** 0.5), plot.top - 6, name, "muted")
        said.append(f"over {name} one takes {best * 1e6:.0f} to {worst * 1e6:.0f} microseconds")
    flip = weights_s / 2 / (2 * shape["num_layers"] + 1)
    alt = (
        f"Tokens per second of two H100s against the time of one all-reduce. Replicas make "
        f"{replicas[0]:,.0f} whatever it is; TP=2 falls from {pair[0]:,.0f} and crosses them near "
        f"{flip * 1e6:.0f} microseconds. For this batch {', '.join(said)}."
    )
    return plot.figure(
        alt,
        "By the floor TP wins left of the crossing, where a message is short. "
        f"{requests} requests of {context:,} tokens each. Between the dashed lines lie the "
        "NCCL all-reduces of lab 03's links for this batch; the floors below use vLLM's quicker "
        "kernel.",
    )


def plans_drawn(candidates, tpot_s, ttft_s):
    """Every plan as time per further token against tokens per second, with its interval."""
    shown = [c for c in candidates if c.times and c.times["tpot_s"][1] < 0.16]
    shown.sort(key=lambda c: -c.times["tokens_per_s"][1])
    lows, highs = (min(c.times["tpot_s"][0] for c in shown), 0.22)
    plot = Plot(
        (lows * 0.93, highs), (0, 3400), "ms per further token (TPOT)", "tokens/s on both boxes",
        [(n / 1e3, str(n)) for n in (15, 20, 30, 50, 80, 120, 200)],
        [(n, f"{n:,}") for n in range(0, 3001, 1000)],
        log_x=True, width=WIDTH, height=400,
    )  # fmt: skip
    x = plot.vertical(tpot_s, "c1", "dash")
    plot.text(x + 5, plot.top + 10, f"limit, {tpot_s * 1e3:.0f} ms", "c1", "start")
    said, free = [], plot.top
    for c in shown:
        (low, tpot, high), rate = c.times["tpot_s"], c.times["tokens_per_s"][1]
        first, y, end = c.times["ttft_s"][1], plot.y(rate), plot.x(min(high, highs))
        plot.line([(plot.x(low), y), (end, y)], "muted", "thin")
        # the others are told in the text alternative
        if rate > 2000 or "TP16" in c.name or c is shown[-1]:
            ink, fits = "fg" if tpot <= tpot_s else "muted", end + 8 * len(c.name) < plot.right
            free = max(free + 14, y + 4) if fits else max(free + 22, y - 6)
            plot.text(end + 6 if fits else end, free, c.name, ink, "start" if fits else "end")
        plot.dot(plot.x(tpot), y, "c0" if first <= ttft_s else "muted")
        said.append(
            f"{c.name}: {tpot * 1e3:.1f} ms ({low * 1e3:.1f} to {high * 1e3:.1f}), "
            f"{rate:,.0f} tokens/s, first token {first * 1e3:,.0f} ms"
        )
    return plot.figure(
        "Plans by time per further token and tokens per second. " + "; ".join(said) + ".",
        "The choice is the highest blue dot before the limit. "
        "Each dot is a plan with typical constants; its line reaches from the best box to the "
        "worst on which the plan still starts. The time is logarithmic. DCP2 divides a sequence's "
        "positions over two ranks. Grey dots take longer "
        f"than {ttft_s * 1e3:.0f} ms for the first token; grey names are slower than the limit.",
    )


def regrets(lost):
    """A bar for each rule of thumb, {name: (mean regret, choices that it made)}, least first."""
    d = Drawing(WIDTH, 28 * len(lost) + 4)
    scale = 110 / max(regret for regret, _ in lost.values())
    said = []
    for row, (name, (regret, choices)) in enumerate(sorted(lost.items(), key=lambda r: r[1])):
        y = 28 * row + 4
        d.text(148, y + 15, name, "fg", "end", 13)
        d.rect(156, y, regret * scale, 20, "c0" if name == "the planner" else "c1", "edge")
        d.text(162 + regret * scale, y + 15, f"{regret:.1%}, {choices} choices", "fg", "start", 13)
        said.append(f"{name} {regret:.1%} over {choices} choices")
    caption = (
        "Regret, the mean over the choices that a rule made; the planner's, of rows held out. A "
        "bar over fewer choices cannot be held against one over all."
    )
    return d.figure(f"Mean regret of each rule: {'; '.join(said)}.", caption)
