"""A prompt that arrives while others are answered: in one pool of GPUs, and in two."""

from labbook.labs import model, read_bytes, solution

from labkit.svg import Drawing

from .cost import achieved
from .panels import WIDTH, bar, panels

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


def _lane(d, y, label, start_s, parts, scale):
    d.text(LEFT - 8, y + 17, label, "muted", "end", 13)
    bar(d, LEFT + start_s * scale, y, 24, parts, scale)


def _one_pool(prefill_s, step_s, scale):
    d, step = Drawing(WIDTH, 92), (step_s, "c0", "")
    d.text(4, 16, "One pool", "fg", "start", 14, "bold")
    _lane(d, 30, "engine", 0, [step] * 3 + [(prefill_s, "c1", "prompt")] + [step] * 6, scale)
    begin = LEFT + 3 * step_s * scale
    d.line([(begin, 62), (begin + prefill_s * scale, 62)], "muted")
    d.text(begin + prefill_s * scale / 2, 80, "nobody gets a token", "fg", size=13)
    return d, (
        "One pool: three decode steps, then a prompt for as long as many steps, in which nobody "
        "gets a token, then decode steps again."
    )


def _two_pools(prefill_s, step_s, scale, layers):
    d, begin_s, each_s = Drawing(WIDTH, 132), 3 * step_s, prefill_s / layers
    d.text(4, 16, "Two pools", "fg", "start", 14, "bold")
    _lane(d, 28, "first pool", begin_s, [(prefill_s, "c1", "prompt")], scale)
    _lane(d, 62, "link", 0, [], scale)
    for layer in range(1, layers + 1):
        x = LEFT + (begin_s + layer * each_s) * scale
        d.rect(x, 62, 0.6 * each_s * scale, 24, "c2", "edge")
    whole_steps = int((begin_s + prefill_s) / step_s + 5)
    _lane(d, 96, "second pool", 0, [(step_s, "c0", "")] * whole_steps, scale)
    return d, (
        "Two pools: the first takes in the prompt while the second goes on decoding without a "
        "pause; the cache follows over the link, a layer as soon as it is computed, and the "
        "request joins the second pool's steps right after."
    )
