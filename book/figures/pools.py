"""A prompt that arrives while others are answered: in one pool of GPUs, and in two."""

from labbook.labs import model, solution

from labkit.svg import Drawing

from .cost import achieved, read_bytes
from .panels import WIDTH, panels

LEFT = 96


def prompt_and_step(prompt_tokens=2000, name="llama-3.1-8b", gpu="H100"):
    """(prefill, decode step) in seconds on one GPU, both as floors: reading and arithmetic."""
    shape, place = model(name), solution("capstone")
    weights, (memory, flops) = read_bytes(name), achieved(gpu)
    logits = shape["vocab_size"] * shape["hidden_size"] * 2
    width = shape["num_layers"] * shape["num_heads"] * shape["head_dim"]
    macs = (weights - logits) / 2  # two bytes a weight; logits are made for the last token alone
    prefill_s = place.prefill_compute_s(prompt_tokens, weights, macs, width, memory, flops)
    return prefill_s, place.decode_compute_s(weights, 0, macs, 1, memory, flops)


def two_pools(prompt_tokens=2000, layers=8):
    """The steps of other requests around a prompt, and the cache's way over a link."""
    prefill_s, step_s = prompt_and_step(prompt_tokens)
    spread = step_s * 7 + prefill_s + step_s * 3
    scale = (WIDTH - LEFT - 8) / spread
    drawings = [_one_pool(prefill_s, step_s, scale), _two_pools(prefill_s, step_s, scale, layers)]
    caption = (
        "In one pool a prompt interrupts everybody's answers; in two it interrupts nobody's, and "
        "its cache has to travel. Small boxes are decode steps of others, to scale."
    )
    return panels(drawings, caption)


def _lane(d, y, label):
    d.text(LEFT - 8, y + 17, label, "muted", "end", 13)


def _steps(d, y, start_s, end_s, step_s, scale, fill="c0"):
    at_s = start_s
    while at_s + step_s <= end_s + 1e-9:
        d.rect(LEFT + at_s * scale, y, step_s * scale, 24, fill, "edge")
        at_s += step_s


def _one_pool(prefill_s, step_s, scale):
    d = Drawing(WIDTH, 92)
    d.text(4, 16, "One pool", "fg", "start", 14, "bold")
    _lane(d, 30, "engine")
    _steps(d, 30, 0, 3 * step_s, step_s, scale)
    begin = LEFT + 3 * step_s * scale
    d.rect(begin, 30, prefill_s * scale, 24, "c1", "edge")
    d.text(begin + prefill_s * scale / 2, 47, "prompt", "bg", size=13)
    after = 3 * step_s + prefill_s
    _steps(d, 30, after, after + 6 * step_s, step_s, scale)
    d.line([(begin, 62), (begin + prefill_s * scale, 62)], "muted")
    d.text(begin + prefill_s * scale / 2, 80, "nobody gets a token", "fg", size=13)
    return d, (
        "One pool: three decode steps, then a prompt for as long as many steps, in which nobody "
        "gets a token, then decode steps again."
    )


def _two_pools(prefill_s, step_s, scale, layers):
    d = Drawing(WIDTH, 132)
    d.text(4, 16, "Two pools", "fg", "start", 14, "bold")
    begin_s = 3 * step_s
    _lane(d, 28, "first pool")
    d.rect(LEFT + begin_s * scale, 28, prefill_s * scale, 24, "c1", "edge")
    d.text(LEFT + (begin_s + prefill_s / 2) * scale, 45, "prompt", "bg", size=13)
    _lane(d, 62, "link")
    each_s = prefill_s / layers
    for layer in range(1, layers + 1):
        x = LEFT + (begin_s + layer * each_s) * scale
        d.rect(x, 62, 0.6 * each_s * scale, 24, "c2", "edge")
    _lane(d, 96, "second pool")
    _steps(d, 96, 0, begin_s + prefill_s + 5 * step_s, step_s, scale)
    return d, (
        "Two pools: the first takes in the prompt while the second goes on decoding without a "
        "pause; the cache follows over the link, a layer as soon as it is computed, and the "
        "request joins the second pool's steps right after."
    )
