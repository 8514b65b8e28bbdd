"""Lab 02's ledger of a start-up as pictures."""

from labbook.labs import capture, solution

from labkit.svg import SERIES, Drawing, Plot

GIB = 2**30


def weights_per_rank(config="llama-3.1-8b"):
    """Bytes of weights on one rank at TP 1, 2, 4 and 8: what splits and what does not."""
    lab02 = solution("lab-02")
    model = lab02.model_shape(capture(f"lab-02/configs/{config}.json"))
    sizes = (1, 2, 4, 8)
    whole = lab02.rank_weights(model, 1)["total_bytes"]
    top = whole / GIB * 1.1
    plot = Plot(
        (0, 4),
        (0, top),
        "",
        "GiB on one rank",
        [],
        [(v, str(v)) for v in range(0, int(top) + 1, 4)],
        height=320,
    )
    said = []
    for k, tp in enumerate(sizes):
        parts = lab02.rank_weights(model, tp)
        x, width = plot.x(k + 0.2), plot.x(0.6) - plot.x(0)
        share = whole / GIB / tp
        total = parts["total_bytes"] / GIB
        plot.rect(x, plot.y(total), width, plot.bottom - plot.y(total), SERIES[0])
        plot.line([(x - 10, plot.y(share)), (x + width + 10, plot.y(share))], "c1", "dash")
        plot.text(x + width / 2, plot.y(total) - 18, f"{total:.3f}", size=13)
        over = (parts["total_bytes"] - whole / tp) / 2**20
        plot.text(
            x + width / 2, plot.y(total) - 5, f"{over:+.1f} MiB" if tp > 1 else "", "muted", size=11
        )
        plot.text(plot.x(k + 0.5), plot.bottom + 19, f"TP={tp}", size=13)
        said.append(f"TP={tp} {total:.3f} GiB")
    alt = (
        "Weights on one rank of an 8B model: "
        + ", ".join(said)
        + ". Each rank holds a little more than "
        "its even share, because norms and position tables are whole on every rank."
    )
    caption = (
        "Bars: lab 02's ledger. Dashed: all that one GPU holds, its rope table and rounding "
        "included, divided by TP. In grey: what a rank holds beyond that."
    )
    return plot.figure(alt, caption, min_width=480)


def kv_heads(num_kv_heads=4):
    """Which rank stores which KV heads at TP 2, 4 and 8."""
    lab02 = solution("lab-02")
    d = Drawing(680, 210)
    for row, tp in enumerate((2, 4, 8)):
        y = 20 + row * 62
        d.text(60, y + 24, f"TP={tp}", "fg", "end", 14, "bold")
        each = lab02.kv_heads_per_rank(num_kv_heads, tp)
        width = 600 / tp
        for rank in range(tp):
            x = 72 + rank * width
            d.rect(x, y, width - 6, 36, "idle", "box", 4)
            first = rank * num_kv_heads // tp
            for j in range(each):
                head = first + j
                w = min(30, (width - 16) / each - 4)
                hx = x + 6 + j * (w + 4)
                d.rect(hx, y + 6, w, 24, SERIES[head], "edge", 3)
                d.text(hx + w / 2, y + 22, str(head), "bg", size=12, extra="bold")
            d.text(x + (width - 6) / 2, y + 50, f"rank {rank}", "muted", size=11)
    alt = (
        f"A model with {num_kv_heads} KV heads. At TP=2 each rank stores two, at TP=4 one. At "
        f"TP=8 there are "
        "more ranks than KV heads, so every head is stored on two ranks."
    )
    return d.figure(
        alt,
        f"{num_kv_heads} KV heads. Beyond TP={num_kv_heads}, more ranks save no KV memory.",
        min_width=560,
    )
