"""Lab 03's cost model against published measurements."""

from functools import cache

from labbook.amounts import KIB, human_bytes, microseconds
from labbook.labs import facts, lab, model, solution

from labkit.loading import load_module
from labkit.svg import Drawing, Plot, ladder

from .panels import WIDTH, key, log_plot
from .times import step


@cache
def _all_reduces():
    table = load_module(lab("lab-03").path / "share_table.py")
    return table.all_reduces(table.read_measurements())


def measured(gpu, num_ranks):
    """[(bytes, seconds)] of the NCCL all-reduces the lab holds for a GPU."""
    return sorted(_all_reduces().get(gpu, {}).get(num_ranks, {}).items())


def achieved(gpu):
    """(bytes read, operations) per second that a program gets of a GPU: lab 03's shares."""
    lab03, row = solution("lab-03"), solution("lab-03").GPUS[gpu]
    reads = row["memory_bytes_per_s"] * lab03.ACHIEVED_BANDWIDTH
    return reads, row["flops_per_s"] * lab03.ACHIEVED_ARITHMETIC


def messages_of(tokens=1, name="llama-3.1-8b"):
    """(messages, bytes of each) of a step of a model, 16-bit values."""
    shape = model(name)
    return solution("lab-03").step_messages(shape["num_layers"], tokens, shape["hidden_size"], 2)


def middle(link):
    """(c, a, busbw) of a link, in the middle of lab 03's ranges."""
    row = solution("lab-03").LINKS[link]
    return [sum(row[name]) / 2 for name in ("c_s", "a_s", "busbw_bytes_per_s")]


def dispatch():
    """One-shot, two-shot and ring on eight H100s: which is fastest for which payload."""
    lab03 = solution("lab-03")
    p, kernel_s = 8, facts()["cus0239"]["value"] * 1e-6
    c_s, a_s, busbw = h100_constants()
    lines = (
        ("one-shot", lambda x: lab03.one_shot_all_reduce_s(p, x, kernel_s, busbw)),
        ("two-shot", lambda x: lab03.two_shot_all_reduce_s(p, x, kernel_s, busbw)),
        ("ring", lambda x: lab03.ring_all_reduce_s(p, x, c_s, a_s, busbw)),
    )
    sizes = [(2**k, human_bytes(2**k)) for k in (10, 18, 26)]
    times = [(10.0**k, microseconds(10.0**k)) for k in (-6, -5, -4, -3)]
    plot = Plot(
        (2**10, 2**26), (1e-6, 1e-3), "payload", "time", sizes, times, log_x=True, log_y=True,
        width=WIDTH, height=320, right=26,
    )  # fmt: skip
    xs = ladder(1024, 2**26, 1.3)
    for series, (_, seconds) in enumerate(lines):
        plot.curve(xs, [seconds(x) for x in xs], series)
    plot.label(1200, 3.3e-6, "one-shot: 1 round", 0)
    plot.label(1200, 7.2e-6, "two-shot: 2 rounds", 1)
    plot.label(1200, 2.2e-5, "ring: 14 hops", 2)
    cross = one_shot_until(p, kernel_s, busbw)
    plot.points([cross], [lines[0][1](cross)], 0)
    alt = (
        "Time against payload for three ways to all-reduce among eight H100s. For small payloads "
        "one-shot is fastest, two-shot next, the ring slowest. One-shot rises first, since it "
        f"moves the most bytes, and crosses two-shot at {cross / KIB:.0f} KiB."
    )
    caption = (
        "Small messages go one-shot, larger ones two-shot; the ring pays for its hops. "
        f"Eight H100s in lab 03's model: a kernel of {kernel_s * 1e6:.2f} µs as measured with "
        "vLLM's, the ring's constants as fitted below. Two-shot is charged two whole kernels, so "
        "in an engine the crossing lies further left than the dot, which is this model's. "
        "Your code draws it after tasks 3 and 4."
    )
    return plot.figure(alt, caption)


def one_shot_until(num_ranks, kernel_s, busbw):
    """The payload at which the lines of one-shot and two-shot cross."""
    part = (num_ranks - 1) - 2 * (num_ranks - 1) / num_ranks
    return kernel_s * busbw / part


def h100_constants(num_ranks=8):
    """(c, a, busbw) that calibrate finds for so many H100s."""
    tiny = [(p, *measured("H100", p)[0]) for p in (2, 8)]
    return solution("lab-03").calibrate([*tiny, (num_ranks, *measured("H100", num_ranks)[-1])])


def roofline(weight_bytes=15.01e9):
    """A step of an 8B model against its tokens: flat while it reads, rising while it multiplies."""
    lab03 = solution("lab-03")
    gpu, (memory, flops) = lab03.GPUS["H100"], achieved("H100")
    ticks = [(v, str(v)) for v in (1, 16, 256, 4096)]
    times = [(1e-3, "1 ms"), (1e-2, "10 ms"), (1e-1, "100 ms")]
    plot = Plot(
        (1, 4096), (3e-4, 0.2), "tokens per step", "time", ticks, times, log_x=True, log_y=True,
        width=420, height=320,
    )  # fmt: skip
    xs = sorted({round(x) for x in ladder(1, 4096, 1.15)})

    def bill(tokens):
        messages, payload = messages_of(tokens)
        return messages * lab03.ring_all_reduce_s(8, payload, *middle(gpu["link"]))

    one = [lab03.step_s(weight_bytes, 1, memory, x, flops) for x in xs]
    eight = [lab03.step_s(weight_bytes, 8, memory, x, flops) for x in xs]
    plot.curve(xs, one, 0)
    plot.curve(xs, eight, 1)
    plot.curve(xs, [bill(x) for x in xs], 2, "dash")
    meet = gpu["flops_per_s"] / gpu["memory_bytes_per_s"]
    meet *= lab03.ACHIEVED_ARITHMETIC / lab03.ACHIEVED_BANDWIDTH
    x = plot.vertical(meet)
    plot.text(x + 6, plot.top + 12, f"{meet:.0f} tokens", "muted", "start")
    plot.text(x - 6, plot.top + 12, "reading", "muted", "end")
    plot.text(x + 6, plot.top + 28, "multiplying", "muted", "start")
    plot.label(1.1, one[0] * 1.2, "one H100", 0)
    plot.label(1.1, eight[0] * 0.62, "eight H100s, without messages", 1)
    plot.label(1.1, bill(1) * 1.25, "their messages", 2)
    alt = (
        f"Time of a step of an 8B model against its tokens, both axes logarithmic. On one H100 it "
        f"is flat at {one[0] * 1e3:.1f} ms up to {meet:.0f} tokens and rises in proportion from "
        f"there. On eight it has the same shape at an eighth. The messages of the eight cost "
        f"{bill(1) * 1e3:.1f} ms at one token and {bill(4096) * 1e3:.0f} ms at 4,096."
    )
    caption = (
        f"On the best box a step of up to {meet:.0f} tokens costs its reading, beyond them its "
        "arithmetic. "
        "An 8B model in BF16; messages by the middle of NVLink 4's ranges, a ring."
    )
    return plot.figure(alt, caption)


def two_launches():
    """8 KiB among two and eight H100s: vLLM's kernel in a graph and by itself, and NCCL."""
    rows = (
        ("two ranks", "cus0231", "cus0243", facts()["ncc0037"]["value"]),
        ("eight ranks", "cus0239", "cus0245", facts()["ncc0049"]["value"]),
    )
    d, said, scale = Drawing(WIDTH, 246), [], 10.5
    for k, (ranks, graph, eager, nccl) in enumerate(rows):
        graph, eager = (facts()[one]["value"] for one in (graph, eager))
        y = 4 + 106 * k
        d.text(6, y + 14, ranks, "fg", "start", 14, "bold")
        for line, (name, work, wait, fill) in enumerate(
            (("in a graph", graph, 0, "c0"), ("eager", graph, eager - graph, "c0"),
             ("NCCL", nccl, 0, "c1"))
        ):  # fmt: skip
            top, end = y + 24 + 25 * line, 106 + (work + wait) * scale
            d.text(6, top + 14, name, "fg", "start", 13)
            d.rect(106, top, work * scale, 19, fill, "edge")
            if wait:
                d.rect(106 + work * scale, top, wait * scale, 19, "idle", "box")
            d.text(end + 5, top + 14, f"{work + wait:.1f} µs", "muted", "start")
            said.append(f"{name}, {ranks}: {work + wait:.1f}")
    key(d, 222, {"vLLM's kernel": "c0", "waiting to be launched": "idle"})
    return d.figure(
        f"Microseconds of an all-reduce of 8 KiB on H100s. {'; '.join(said)}.",
        "Most of a lone kernel's time is its launch. 8 KiB among H100s; grey is what the same "
        "kernel takes longer when the host launches it alone. NCCL's time includes its launch.",
    )


def second_box():
    """Milliseconds per token of our 8B model on 1 to 16 H100s: three roads to the second box."""
    roads = (("10 GbE", "10 GbE", "c1", 15.2), ("400 GbE, RDMA", "400 GbE", "c2", 16.8))
    gpus, heights = (1, 2, 4, 8, 16), (0.5, 1, 2, 5, 10, 20)
    plot = log_plot((0.9, 18), (0.25, 30), "GPUs", "ms per token", gpus, heights, height=330)
    inside = {n: step(tp=n) for n in (1, 2, 4, 8)}
    reading = [inside[1]["least"]["reading"] * 1e3 / n for n in gpus]
    plot.curve(gpus, reading, 5, "dash")
    plot.curve(list(inside), [one["floor"] * 1e3 for one in inside.values()], 0)
    said = [f"{n} GPUs in one box {_beside(one)}" for n, one in inside.items()]
    drawn = [(n, one, "c0") for n, one in inside.items()]
    for name, network, colour, x in roads:
        one = step(tp=16, nodes=2, network=network)
        line = [(plot.x(8), plot.y(inside[8]["floor"] * 1e3))]
        plot.line([*line, (plot.x(16), plot.y(one["floor"] * 1e3))], colour, "")
        drawn.append((x, one, colour))
        said.append(f"16 over {name} {_beside(one)}")
    for x, one, colour in drawn:
        low, middle, high = (one[k] * 1e3 for k in ("best", "typical", "worst"))
        plot.line([(plot.x(x), plot.y(low)), (plot.x(x), plot.y(high))], colour, "thin")
        plot.dot(plot.x(x), plot.y(middle), colour)
    plot.label(1.0, 1.4, "reading alone", 5)
    plot.label(7.9, 13, "10 GbE", 1)
    plot.label(11.5, 0.85, "RDMA", 2)
    return plot.figure(
        f"Milliseconds per token, floor and planner: {'; '.join(said)}.",
        "The second box makes a token slower over either network. One token of Llama-3.1-8B; "
        "lines are floors, dots the planner's typical box with its best and worst. Both axes "
        "are logarithmic.",
    )


def _beside(found):
    return f"{found['floor'] * 1e3:.1f} and {found['typical'] * 1e3:.1f}"
