"""Which plan is faster: the first page's three machines, two GPUs, eight, and two boxes."""

from labbook.labs import fact, model, solution

from labkit.svg import Drawing, Plot, ladder

from .cost import achieved, h100_constants, middle, one_pass_s
from .panels import bar, key


def one_token():
    """{machine: (seconds of reading, seconds of messages)} of one decode step of our 8B model."""
    lab03, shape = solution("lab-03"), model("llama-3.1-8b")
    messages, payload = lab03.step_messages(shape["num_layers"], 1, shape["hidden_size"], 2)
    found = {"one H100": (one_pass_s(1), 0.0)}
    for name, link in (("two, NVLink", "NVLink 4"), ("two, 10 Gbit/s Ethernet", "10 GbE")):
        each = lab03.ring_all_reduce_s(2, payload, *middle(link))
        found[name] = (one_pass_s(1, 2), messages * each)
    return found


def three_machines():
    """One token on one H100, on two with a fast link and on two with a slow one, as bars."""
    found, d = one_token(), Drawing(420, 196)
    scale = 400 / max(sum(parts) for parts in found.values())
    for row, (name, parts) in enumerate(found.items()):
        y = 22 + 54 * row
        d.text(6, y - 6, f"{name}: {sum(parts) * 1e3:.1f} ms", "fg", "start", 13, "bold")
        bar(d, 6, y, 24, [(parts[0], "c0", ""), (parts[1], "c1", "")], scale)
    key(d, 174, {"reading the weights": "c0", "messages": "c1"})
    alt = "Time of one token: " + "; ".join(
        f"{name}: {a * 1e3:.1f} ms of reading and {b * 1e3:.1f} ms of messages"
        for name, (a, b) in found.items()
    )
    return d.figure(
        alt + ".", "One decode step of the 8B model; lab 03 computes each part of these bars."
    )


def two_gpus(requests, context=1000):
    """Tokens per second on two H100s: (one engine at TP=2, two replicas), for an even batch."""
    lab02, lab03, shape = solution("lab-02"), solution("lab-03"), model("llama-3.1-8b")
    payload = requests * lab03.step_messages(1, 1, shape["hidden_size"], 2)[1]
    message_s = lab03.one_shot_all_reduce_s(2, payload, fact("cus0231") * 1e-6, h100_constants()[2])
    messages = lab02.collectives_per_step(shape, 2, 1, 1)["all_reduces"]
    pair_s = one_pass_s(requests, 2, context) + messages * message_s
    return requests / pair_s, requests / one_pass_s(requests // 2, 1, context)


def change_over(until=800):
    """The smallest even batch from which on two replicas make more tokens than the pair."""
    behind = [n for n in range(2, until + 1, 2) if two_gpus(n)[0] >= two_gpus(n)[1]]
    return behind[-1] + 2


def eight_gpus(clients):
    """{plan: tokens per second} on one box of eight H100s, by the capstone's planner."""
    solution("capstone")  # puts the capstone's folder on the path
    from planner import hardware, models, plans
    from planner.timing import Load

    shape, box = models.read("llama-3.1-8b"), hardware.box("h100", 1)
    found, _ = plans.evaluate_all(shape, box, Load(1000, 500, clients))
    return {plan.name: plan.times["tokens_per_s"][1] for plan in found if plan.times}


def against_replicas(requests=64, context=1000):
    """Two H100s: tokens per second of TP=2 over the time of one all-reduce, beside replicas."""
    lab02, lab03, shape = solution("lab-02"), solution("lab-03"), model("llama-3.1-8b")
    room, (memory, _) = lab03.GPUS["H100"]["memory_bytes"], achieved("H100")

    def rates(seconds):
        both = lab02.replicas_or_tp(shape, room, memory, seconds, context, requests)
        return both["tp"]["tokens_per_s"], both["replicas"]["tokens_per_s"]

    payload = requests * lab03.step_messages(1, 1, shape["hidden_size"], 2)[1]
    ticks = [(n * 1e-6, str(n)) for n in (3, 10, 30, 100, 300, 1000)]
    plot = Plot(
        (3e-6, 1e-3), (0, 14_000), "microseconds of one all-reduce", "tokens/s", ticks,
        [(n, f"{n:,}") for n in range(0, 14_001, 2_000)],
        log_x=True, width=420, height=320,
    )  # fmt: skip
    xs = ladder(3e-6, 1e-3, 1.05)
    pair, replicas = zip(*map(rates, xs), strict=True)
    plot.curve(xs, pair, 0)
    plot.curve(xs, replicas, 1)
    plot.label(1.1e-4, 8_900, "two replicas", 1)
    plot.label(2.1e-5, 11_300, "one engine, TP=2", 0)
    said = []
    for link, name in (("NVLink 4", "NVLink"), ("10 GbE", "10 GbE")):
        best, worst = lab03.all_reduce_range_s(link, 2, payload)
        for end in (best, worst):
            plot.vertical(end)
        plot.text(plot.x((best * worst) ** 0.5), plot.top - 6, name, "muted", size=12)
        said.append(f"over {name} one takes {best * 1e6:.0f} to {worst * 1e6:.0f} microseconds")
    flip = next(x for x, tp, own in zip(xs, pair, replicas, strict=True) if tp < own)
    alt = (
        f"Tokens per second of two H100s against the time of one all-reduce. Replicas make "
        f"{replicas[0]:,.0f} whatever it is; TP=2 falls from {pair[0]:,.0f} and crosses them near "
        f"{flip * 1e6:.0f} microseconds. For this batch {', '.join(said)}."
    )
    return plot.figure(
        alt,
        f"{requests} requests of {context:,} tokens each. Between the dashed lines lie the "
        "all-reduces of lab 03's links for this batch.",
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
        log_x=True, width=560, height=400, right=110,
    )  # fmt: skip
    x = plot.vertical(tpot_s, "c1", "dash")
    plot.text(x + 5, plot.top + 10, f"limit, {tpot_s * 1e3:.0f} ms", "c1", "start", 12)
    said, free = [], plot.top
    for c in shown:
        (low, tpot, high), rate = c.times["tpot_s"], c.times["tokens_per_s"][1]
        first, y, end = c.times["ttft_s"][1], plot.y(rate), plot.x(min(high, highs))
        free = max(free + 15, y + 4)  # the names stand in a column beside the plans
        plot.line([(end, y), (plot.right - 12, y), (plot.right + 8, free - 4)], "grid", "thin")
        plot.line([(plot.x(low), y), (end, y)], "muted", "thin")
        plot.text(plot.right + 12, free, c.name, "fg" if tpot <= tpot_s else "muted", "start", 12)
        plot.dot(plot.x(tpot), y, "c0" if first <= ttft_s else "muted")
        said.append(
            f"{c.name}: {tpot * 1e3:.1f} ms ({low * 1e3:.1f} to {high * 1e3:.1f}), "
            f"{rate:,.0f} tokens/s, first token {first * 1e3:,.0f} ms"
        )
    return plot.figure(
        "Plans by time per further token and tokens per second. " + "; ".join(said) + ".",
        "Each dot is a plan with typical constants; its line reaches from the best box to the "
        "worst on which the plan still starts. The time is logarithmic. Grey dots take longer "
        f"than {ttft_s * 1e3:.0f} ms for the first token; grey names are slower than the limit.",
        min_width=560,
    )
