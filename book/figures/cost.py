"""Lab 03's cost model against published measurements."""

from functools import cache
from math import ceil

from labbook.amounts import human_bytes, microseconds
from labbook.labs import facts, lab, model, solution

from labkit.loading import load_module
from labkit.svg import SERIES, Plot, ladder

SIZES = [(2**k, human_bytes(2**k)) for k in (10, 14, 18, 22, 26, 30)]
TIMES = [(10.0**k, microseconds(10.0**k)) for k in range(-6, -1)]


@cache
def _all_reduces():
    table = load_module(lab("lab-03").path / "share_table.py")
    return table.all_reduces(table.read_measurements())


def _measured(gpu, num_ranks):
    """[(bytes, seconds)] of the NCCL all-reduces the lab holds for a GPU."""
    return sorted(_all_reduces().get(gpu, {}).get(num_ranks, {}).items())


def achieved(gpu):
    """(bytes read, operations) per second that a program gets of a GPU: lab 03's shares."""
    lab03, row = solution("lab-03"), solution("lab-03").GPUS[gpu]
    reads = row["memory_bytes_per_s"] * lab03.ACHIEVED_BANDWIDTH
    return reads, row["flops_per_s"] * lab03.ACHIEVED_ARITHMETIC


def one_pass_s(batch, ranks=1, context=0):
    """Seconds in which H100s read our 8B model and caches of `context` tokens, and multiply."""
    lab02, shape, (reads, multiplies) = solution("lab-02"), model("llama-3.1-8b"), achieved("H100")
    weights, tokens = lab02.rank_weights(shape, 1)["parameters_bytes"], ceil(batch)
    step_s = solution("lab-03").step_s(weights, ranks, reads, tokens, multiplies)
    return step_s + tokens * context * lab02.kv_bytes_per_token(shape, 1) / (ranks * reads)


def middle(link):
    """(c, a, busbw) of a link, in the middle of lab 03's ranges."""
    row = solution("lab-03").LINKS[link]
    return [sum(row[name]) / 2 for name in ("c_s", "a_s", "busbw_bytes_per_s")]


def _plot(sizes=SIZES, times=TIMES):
    """Time against payload on logarithmic axes, from the first tick to the last."""
    ends = [(ticks[0][0], ticks[-1][0]) for ticks in (sizes, times)]
    return Plot(*ends, "payload", "time", sizes, times, log_x=True, log_y=True, right=40)


def regimes():
    """The ring's two terms on one link, and where they cross."""
    lab03 = solution("lab-03")
    c_s, a_s, busbw = middle("NVLink 4")
    p = 8
    plot = _plot()
    xs = ladder(1024, 2**30, 1.5)
    total = [lab03.ring_all_reduce_s(p, x, c_s, a_s, busbw) for x in xs]
    latency = lab03.ring_all_reduce_s(p, 0, c_s, a_s, busbw)
    plot.curve(xs, [latency for _ in xs], 1, "dash")
    plot.curve(xs, [max(1e-7, seconds - latency) for seconds in total], 2, "dash")
    plot.curve(xs, total, 0)
    cross = lab03.crossover_bytes(p, c_s, a_s, busbw)
    plot.points([cross], [2 * latency], 0)
    for name, tokens in (("decode: 8 KiB", 1), ("prefill: 32 MiB", 4096)):
        payload = lab03.step_messages(32, tokens, 4096, 2)[1]
        x = plot.vertical(payload)
        plot.text(x + 6, plot.top + 12, name, "muted", "start", 12)
    plot.label(2**10.3, latency * 1.45, "the sum", 0)
    plot.label(2**14.2, latency * 0.55, "latency: c + 2(p−1) a", 1)
    plot.label(2**24.6, 3.2e-5, "2(p−1)/p · bytes / busbw", 2)
    alt = (
        f"The two terms of a ring all-reduce among {p} ranks. Latency is flat at "
        f"{latency * 1e6:.0f} "
        f"microseconds; the bandwidth term rises with the payload. They are equal at "
        f"{cross / 2**20:.1f} MiB."
    )
    return plot.figure(
        alt,
        f"{p} ranks on NVLink 4, the middle of lab 03's ranges. The dot is the crossover; "
        "the dashed verticals are an 8B model's messages at 1 and at 4,096 tokens per step.",
        min_width=680,
    )


def decode_share(weight_bytes=16.06e9, num_layers=32, hidden_size=4096):
    """Share of a decode step that is all-reduce: GPU by TP, lowest to highest source."""
    lab03 = solution("lab-03")
    sizes, gpus = (2, 4, 8), ("L40S", "A100", "H100", "B200")
    ticks = [(v / 100, f"{v}%") for v in (0, 20, 40, 60, 80, 100)]
    title = "ring all-reduces, share of a decode step"
    plot = Plot((0, len(gpus)), (0, 1), "", title, [], ticks, height=350, top=46)
    said = []
    for g, gpu in enumerate(gpus):
        memory, _ = achieved(gpu)
        link = lab03.GPUS[gpu]["link"]
        for s, tp in enumerate(sizes):
            messages, payload = lab03.step_messages(num_layers, 1, hidden_size, 2)
            step_s = lab03.decode_step_s(weight_bytes, tp, memory)
            low, high = (
                lab03.communication_share(messages, t, step_s)
                for t in lab03.all_reduce_range_s(link, tp, payload)
            )
            x = plot.x(g + 0.2 + 0.22 * s)
            width = plot.x(0.18) - plot.x(0)
            plot.rect(x, plot.y(low), width, plot.bottom - plot.y(low), SERIES[s])
            plot.rect(x, plot.y(high), width, plot.y(low) - plot.y(high), SERIES[s], "soft")
            plot.text(x + width / 2, plot.y(high) - 6, f"{high:.0%}", "muted", size=11)
            said.append(f"{gpu} TP={tp}: {low:.0%} to {high:.0%}")
        plot.text(plot.x(g + 0.5), plot.bottom + 19, f"{gpu}, {link}", size=13)
    for s, tp in enumerate(sizes):
        x = plot.left + 300 + 80 * s
        plot.rect(x, 6, 12, 12, SERIES[s])
        plot.text(x + 18, 17, f"TP={tp}", "fg", "start", 13)
    alt = (
        "Share of a decode step of an 8B model at batch 1 that goes to ring all-reduces. "
        + "; ".join(said)
        + "."
    )
    caption = (
        "An 8B model in BF16 at batch 1, and a ring as NCCL runs it; the engine's own kernels are "
        "faster. Solid to pale: from the lowest to the highest of our sources (fits to published "
        "times, and NCCL's tuner), which are not two real boxes. The step is the rank's own share "
        "of the weights."
    )
    return plot.figure(alt, caption, min_width=680)


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
    plot = _plot(SIZES[:5], TIMES[:4])
    xs = ladder(1024, 2**26, 1.3)
    for series, (_, seconds) in enumerate(lines):
        plot.curve(xs, [seconds(x) for x in xs], series)
    plot.label(1200, 3.3e-6, "one-shot: one round", 0)
    plot.label(1200, 7.2e-6, "two-shot: two rounds", 1)
    plot.label(1200, 2.2e-5, "ring: fourteen hops", 2)
    cross = one_shot_until(p, kernel_s, busbw)
    plot.points([cross], [lines[0][1](cross)], 0)
    alt = (
        "Time against payload for three ways to all-reduce among eight H100s. For small payloads "
        "one-shot is fastest, two-shot next, the ring slowest. One-shot rises first, since it "
        f"moves the most bytes, and crosses two-shot at {cross / 1e3:.0f} kilobytes."
    )
    caption = (
        f"Eight H100s in lab 03's model: a kernel of {kernel_s * 1e6:.2f} µs as measured with "
        "vLLM's, the ring's constants as fitted below. Two-shot is charged two whole kernels, so "
        "the real crossing, the dot, lies further left."
    )
    return plot.figure(alt, caption, min_width=680)


def one_shot_until(num_ranks, kernel_s, busbw):
    """The payload at which the lines of one-shot and two-shot cross."""
    part = (num_ranks - 1) - 2 * (num_ranks - 1) / num_ranks
    return kernel_s * busbw / part


def h100_constants(num_ranks=8):
    """(c, a, busbw) that calibrate finds for so many H100s."""
    measured = {p: _measured("H100", p) for p in (2, 8)}
    tiny = [(p, *measured[p][0]) for p in (2, 8)]
    return solution("lab-03").calibrate([*tiny, (num_ranks, *measured[num_ranks][-1])])


def protocols():
    """NCCL's protocols as lab 03 models them, and their minimum, on eight H100s."""
    lab03 = solution("lab-03")
    c_s, a_s, busbw = h100_constants()
    plot = _plot(SIZES[1:], TIMES[1:])
    xs = ladder(2**14, 2**30, 1.3)
    for series, row in enumerate(lab03.NCCL_PROTOCOLS):
        ys = [lab03.predict_all_reduce_s(8, x, c_s, a_s, busbw, [row]) for x in xs]
        plot.curve(xs, ys, series, "dash")
    ys = [lab03.predict_all_reduce_s(8, x, c_s, a_s, busbw) for x in xs]
    plot.line([(plot.x(x), plot.y(y)) for x, y in zip(xs, ys, strict=True)], "fg", "thick")
    plot.label(2**25, 4.5e-4, "LL", 0, "end")
    plot.label(2**14.5, 8.2e-5, "Simple, short messages", 1)
    plot.label(2**14.5, 4.1e-5, "Simple, full pipeline", 2)
    alt = (
        "Time against payload on eight H100s for three rows of protocol constants. LL is fastest "
        "for small messages, Simple with a full pipeline for large ones, and Simple with short "
        "messages for a stretch between. The library takes the lowest of the three."
    )
    caption = (
        "Dashed: each row of NCCL_PROTOCOLS by itself, with the constants fitted above. Thick: the "
        "fastest of the three, which is what predict_all_reduce_s returns."
    )
    return plot.figure(alt, caption, min_width=680)


def roofline(weight_bytes=16.06e9, num_layers=32, hidden_size=4096):
    """A step of an 8B model against its tokens: flat while it reads, rising while it multiplies."""
    lab03 = solution("lab-03")
    gpu, (memory, flops) = lab03.GPUS["H100"], achieved("H100")
    ticks = [(v, str(v)) for v in (1, 4, 16, 64, 256, 1024, 4096)]
    times = [(1e-3, "1 ms"), (1e-2, "10 ms"), (1e-1, "100 ms")]
    plot = Plot(
        (1, 4096), (3e-4, 0.2), "tokens per step", "time", ticks, times, log_x=True, log_y=True,
        right=40,
    )  # fmt: skip
    xs = sorted({round(x) for x in ladder(1, 4096, 1.15)})

    def bill(tokens):
        messages, payload = lab03.step_messages(num_layers, tokens, hidden_size, 2)
        return messages * lab03.ring_all_reduce_s(8, payload, *middle(gpu["link"]))

    one = [lab03.step_s(weight_bytes, 1, memory, x, flops) for x in xs]
    eight = [lab03.step_s(weight_bytes, 8, memory, x, flops) for x in xs]
    plot.curve(xs, one, 0)
    plot.curve(xs, eight, 1)
    plot.curve(xs, [bill(x) for x in xs], 2, "dash")
    meet = gpu["flops_per_s"] / gpu["memory_bytes_per_s"]
    meet *= lab03.ACHIEVED_ARITHMETIC / lab03.ACHIEVED_BANDWIDTH
    x = plot.vertical(meet)
    plot.text(x + 6, plot.top + 12, f"{meet:.0f} tokens", "muted", "start", 12)
    plot.text(x - 6, plot.top + 12, "reading", "muted", "end", 12)
    plot.text(x + 6, plot.top + 28, "multiplying", "muted", "start", 12)
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
        "An 8B model in BF16, the middle of NVLink 4's ranges, a ring. "
        f"At {meet:.0f} tokens a program that gets {lab03.ACHIEVED_BANDWIDTH:.0%} of the printed "
        f"bandwidth and {lab03.ACHIEVED_ARITHMETIC:.0%} of the printed arithmetic reads and "
        "multiplies for equally long."
    )
    return plot.figure(alt, caption, min_width=680)
