"""Capstone: decide where a model goes, then find out why a running one is slow.

Oracles are written another way than the solution: heads are dealt out one by one, a cache grows by
appending, experts' choices are enumerated, a server is simulated event by event.
"""

import itertools
import math
import numbers
import random
import statistics
from collections import deque
from fractions import Fraction
from pathlib import Path

import pytest

from labkit.expect import Unexpected, expect_close, expect_equal, expect_error, looking_at
from labkit.loading import load_module
from labkit.recorder import describe_call

GB = 10**9


def close(actual, expected, idea, rel=1e-9):
    """A number within rounding: rel of it, since every expected value is a handful of products."""
    expected = float(expected)
    expect_close(actual, expected, atol=rel * abs(expected) + 1e-300, idea=idea)


# --- Part A: place a model -----------------------------------------------------------------------


def shape(heads=32, kv_heads=8, layers=32, latent=False, **widths):
    widths = widths or {"intermediate_size": (14336, 1)}
    return {
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "num_layers": layers,
        "latent": latent,
        "widths": widths,
    }


def dealt_evenly(count, ranks):
    """Deal `count` things out in a circle; does everybody hold as many?"""
    hands = [0] * ranks
    for thing in range(count):
        hands[thing % ranks] += 1
    return len(set(hands)) == 1


def faults_by_dealing(model, tp, pp):
    kv, faults = model["num_kv_heads"], []
    if not dealt_evenly(model["num_heads"], tp):
        faults.append("num_heads")
    shared = dealt_evenly(kv, tp) or dealt_evenly(tp, kv)  # heads to ranks, or ranks to heads
    if not (model["latent"] or shared):
        faults.append("num_kv_heads")
    if pp > model["num_layers"]:
        faults.append("num_layers")
    for name, (width, block) in model["widths"].items():
        edges = [Fraction(width * rank, tp * block) for rank in range(1, tp)]
        if any(edge.denominator > 1 for edge in edges):  # a cut through a block
            faults.append(name)
    return faults


@pytest.mark.points(3)
def test_split_faults__name_everything_that_does_not_divide(lab):
    """Heads and widths must divide; few KV heads are held several times."""
    models = [
        shape(),
        shape(28, 4, 28, intermediate_size=(18944, 1)),
        shape(52, 52, 60, intermediate_size=(17920, 1)),
        shape(24, 6, 4, a=(96, 1), b=(1000, 1)),
        shape(64, 8, 80, x=(29568, 1)),
        shape(64, 1, 80),  # many more ranks than KV heads
    ]
    draw = random.Random(81)
    for _ in range(5):
        kv_heads, widths = draw.randint(1, 12), [48 * draw.randint(1, 99), draw.randint(1, 9999)]
        heads = kv_heads * draw.randint(1, 12)
        models.append(shape(heads, kv_heads, 4, a=(widths[0], 1), b=(widths[1], 1)))
    for model, tp in itertools.product(models, [1, 2, 3, 4, 6, 7, 8, 12, 16, 32]):
        expect_faults(lab, model, tp, 1)


def expect_faults(lab, model, tp, pp):
    """The faults, with the rule of the first one that is missing or too many."""
    got, expected = lab.split_faults(model, tp, pp), faults_by_dealing(model, tp, pp)
    if not isinstance(got, (list, tuple)) or got == expected:
        return expect_equal(got, expected)
    wrong = [name for name in ("num_heads", "num_kv_heads", "num_layers", *model["widths"])]
    wrong = [name for name in wrong if list(got).count(name) != expected.count(name)]
    rules = {
        "num_heads": "each rank has as many query heads, with a latent cache as well",
        "num_kv_heads": "the KV heads divide among the ranks, or the ranks among the heads",
        "num_layers": "every stage needs a layer, and one is enough",
    }
    if model["latent"]:
        rules["num_kv_heads"] = "MLA has one latent for all: there are no KV heads to divide"
    cut = "a shard is a whole number of blocks, and so is the whole width where it is cut"
    cut = "one rank alone cuts nothing" if tp == 1 else cut
    idea = "in the order of the docstring, the widths as in the dict"
    expect_equal(got, expected, idea=rules.get(wrong[0], f"{wrong[0]}: {cut}") if wrong else idea)


@pytest.mark.points(2)
def test_split_faults__latent_stages_and_blocks(lab):
    """A latent has no heads; a stage needs a layer; blocks stay whole."""
    draw = random.Random(82)
    layers, block = draw.randint(8, 60), draw.choice((64, 96))
    dense = block * (4 * draw.randint(1, 99) + 2)  # two ranks cut it between blocks, four do not
    heads = 4 * draw.randrange(3, 32, 2)  # they are divided, though their cache is not
    latent = shape(heads, 3, layers, latent=True, moe=(2048, 128), dense=(dense, block))
    many = 32 * block * draw.randint(1, 9)
    more = 32  # the ranks divide such a width, and not its blocks
    blocked = shape(32, 8, 6, intermediate_size=(dense, block))
    # the last block is a part of one, be it the only one: that rounds up, or down, to as many
    # blocks for each rank
    ragged = [
        shape(32, 8, layers, intermediate_size=(width, block))
        for width in (dense + more, many - more, many + more, block - more)
    ]
    for model in (latent, blocked, *ragged):
        for tp, pp in itertools.product([1, 2, 4, 8, 16, 32], [1, 4, 7, layers, layers + 1]):
            expect_faults(lab, model, tp, pp)


FULL = {"kind": "full", "count": 32, "kv_heads": 8, "head_dim": 128, "element_bytes": 2}
WINDOW = {
    "kind": "window",
    "count": 5,
    "kv_heads": 4,
    "head_dim": 64,
    "element_bytes": 1,
    "window": 100,
}
LATENT = {"kind": "latent", "count": 61, "width": 576, "element_bytes": 2}
STATE = {"kind": "state", "count": 3, "elements": 4096, "element_bytes": 4}


def kept_by_appending(layers, num_tokens, tp):
    """Bytes on rank 0, appending token after token; every query head has the head it reads."""
    total = 0
    for layer in layers:
        tokens = deque(range(num_tokens), maxlen=layer.get("window"))
        if layer["kind"] == "state":
            total += layer["count"] * layer["element_bytes"] * layer["elements"] // tp
            continue
        if layer["kind"] == "latent":
            per_token = layer["width"]
        else:
            queries = math.lcm(layer["kv_heads"], tp) * 2  # any number that both divide
            mine = range(queries // tp)
            read = {query * layer["kv_heads"] // queries for query in mine}
            per_token = 2 * len(read) * layer["head_dim"]
        total += layer["count"] * layer["element_bytes"] * sum(per_token for _ in tokens)
    return total


@pytest.mark.points(4)
def test_sequence_kv_bytes__heads_are_divided_and_held_again(lab):
    """A rank keeps the KV heads its queries read, never less than one."""
    draw = random.Random(84)
    for tokens, tp in itertools.product([0, 1, draw.randint(2, 300)], [1, 2, 4, 8, 16, 32]):
        for heads, count in [(8, 32), *((n, draw.randint(1, 99)) for n in (1, 4, 32))]:
            layers = [FULL | {"kv_heads": heads, "count": count, "head_dim": draw.randint(1, 256)}]
            expected = kept_by_appending(layers, tokens, tp)
            idea = "a key and a value of each token, in each layer, of each head this rank holds"
            close(lab.sequence_kv_bytes(layers, tokens, tp), expected, idea)


@pytest.mark.points(4)
@pytest.mark.waits_for("test_sequence_kv_bytes__heads_are_divided_and_held_again")
def test_sequence_kv_bytes__windows_latents_and_states(lab):
    """A window forgets, a latent is whole everywhere, a state stays."""
    draw = random.Random(15)
    sizes = [1, 2, 4, 8, 16, 64]
    for tokens, tp, _ in itertools.product([0, 1, 50, 100, 101, 500], sizes, range(3)):
        layers = draw.sample([FULL, WINDOW, LATENT, STATE], draw.randint(1, 4))
        layers = [
            layer | {"count": draw.randint(1, 99), "element_bytes": draw.choice((0.5, 1, 2, 4))}
            for layer in layers
        ]
        expected = kept_by_appending(layers, tokens, tp)
        kinds = {layer["kind"]: kept_by_appending([layer], tokens, tp) for layer in layers}
        idea = f"each kind by its own rule, here {kinds} bytes"
        close(lab.sequence_kv_bytes(layers, tokens, tp), expected, idea)


VERDICTS = {
    "weights_load": "the weights alone, against all that the engine may use",
    "tokens_fit": "the cache of `tokens` tokens on this rank, against what is left, whatever the"
    " longest context is",
    "full_context_fits": "one sequence of `full_context` tokens, against what is left",
    "longest_context": "the largest number of tokens whose cache fits, at most full_context",
}


def verdicts_by_trying(reported, part, weights, other, layers, tp, tokens, full):
    free = part * reported - weights - other
    longest = 0
    while longest < full and kept_by_appending(layers, longest + 1, tp) <= free:
        longest += 1
    return {
        "kv_bytes": free,
        "weights_load": weights <= part * reported,
        "tokens_fit": kept_by_appending(layers, tokens, tp) <= free,
        "full_context_fits": kept_by_appending(layers, full, tp) <= free,
        "longest_context": longest,
    }


@pytest.mark.points(7)
@pytest.mark.waits_for("test_sequence_kv_bytes__heads_are_divided_and_held_again")
@pytest.mark.waits_for("test_sequence_kv_bytes__windows_latents_and_states")
def test_memory_verdicts__three_that_people_mix_up(lab):
    """Weights load, N tokens fit, full context fits: three verdicts."""
    small = FULL | {"count": 2, "head_dim": 16, "kv_heads": 4}
    draw, seen = random.Random(85), set()
    drawn = -draw.randint(2, 900), draw.randint(30_000, 50_000), draw.randint(90_000, 110_000)
    extras = [[], [WINDOW | {"window": 20}], [STATE | {"elements": 64}]]
    for extra, tp in itertools.product(extras, [1, 2, 8]):
        layers = [small, *extra]
        tokens, full = draw.randint(40, 58), draw.randint(150, 200)
        if tp == 2:  # more than the model can: asked for alike
            tokens, full = full, tokens
        exact = [kept_by_appending(layers, many, tp) for many in (tokens, full)]
        rooms = [-1, 0, *drawn, 200_000, *exact, exact[0] - 1, exact[1] - 1]
        cases = [(300_000, 200_000 - room) for room in rooms]
        heavy = 0, 500_000, 500_001, draw.randint(600_000, 999_999)
        budget = (500_000, 1) if tp == 8 else (1_000_000, 0.5)
        for weights, other in [*cases, *((weights, 0) for weights in heavy)]:
            asked = (*budget, weights, other, layers, tp, tokens, full)
            got, expected = lab.memory_verdicts(*asked), verdicts_by_trying(*asked)
            expect_equal(
                sorted(got), sorted(expected), idea="exactly these keys", part=", its keys"
            )
            idea = "what weights and the rest leave of what the engine may use, negative if it is"
            close(got["kv_bytes"], expected["kv_bytes"] or 0.0, f"kv_bytes, {idea}")
            for key, idea in VERDICTS.items():
                expect_equal(got[key], expected[key], part=f"[{key!r}]", idea=idea)
            seen.add(
                tuple(expected[k] for k in ("weights_load", "tokens_fit", "full_context_fits"))
            )
    assert len(seen) >= 4  # the sweep did tell the verdicts apart


@pytest.mark.points(2)
@pytest.mark.waits_for("test_sequence_kv_bytes__heads_are_divided_and_held_again")
def test_memory_verdicts__of_an_h100(lab):
    """80 GB is a label: a 72 B loads on two H100, its context does not."""
    draw = random.Random(86)
    weights, other = draw.uniform(71.5, 73.5) * GB, draw.uniform(2, 3.5) * GB
    whole, narrow = FULL | {"count": 80}, FULL | {"count": 1, "kv_heads": 8, "head_dim": 1}
    # on eight, a much longer one does; who counts up to the last one's never ends
    cases = ((2, 32_768, whole), (2, 1, whole), (8, 200_000, whole), (8, 10**7, whole))
    for tp, full, layer in (*cases, (8, 10**12, narrow)):
        mine = weights * 2 / tp
        asked = (81_559 * 2**20, 0.92, mine, other, [layer], tp, 2000, full)
        got, free = lab.memory_verdicts(*asked), 0.92 * 81_559 * 2**20 - mine - other
        a_token = 2 * layer["count"] * (8 // tp) * layer["head_dim"] * 2
        longest = min(full, int(free // a_token))
        close(got["kv_bytes"], free, "of all bytes that the driver reports, not of the label's")
        expected = {"weights_load": True, "tokens_fit": True, "full_context_fits": longest == full}
        for key, value in (expected | {"longest_context": longest}).items():
            expect_equal(got[key], value, part=f"[{key!r}]", idea=VERDICTS[key])


def distinct_experts(num_experts, top_k, tokens):
    """Mean number of experts that somebody chose, over all ways to choose."""
    choices = list(itertools.combinations(range(num_experts), top_k))
    ways = list(itertools.product(choices, repeat=tokens))
    return Fraction(sum(len(set().union(*way)) for way in ways), len(ways))


@pytest.mark.points(5)
def test_touched_bytes__experts_that_somebody_chose(lab):
    """One token reads top_k experts, a large batch all, none twice."""
    draw = random.Random(88)
    for experts, top_k in [(4, 1), (4, 2), (5, 3), (2, 1), (3, 3), (1, 1)]:
        for tokens in (1, 2, 3):
            always, routed = draw.randint(0, 10**9), draw.randint(10**9, 10**12)
            got = lab.touched_bytes(always, 0, experts, top_k, tokens)
            close(got, always, "what every token needs is read once a step")
            expected = always + routed * distinct_experts(experts, top_k, tokens) / experts
            idea = "an expert stays unread when every token passes it by"
            close(lab.touched_bytes(always, routed, experts, top_k, tokens), expected, idea)
    for experts in (1, 2, 4, 5, 3):
        # 2.5 tokens twice, independent of each other, are 5
        for twice in (5, 1):
            missed = 1 - distinct_experts(experts, 1, twice) / experts
            expected = routed * (1 - math.sqrt(missed))
            idea = f"a mean of {twice / 2} tokens a step is asked for as well"
            close(lab.touched_bytes(0, routed, experts, 1, twice / 2), expected, idea)
    near = lab.touched_bytes(5 * GB, 100 * GB, 128, 8, 1000)
    close(near, 105 * GB, "everybody is chosen", 1e-6)
    close(lab.touched_bytes(5, 0, 8, 2, 3), 5, "experts may hold nothing here")


def tiles(weight_bytes, macs, tokens, memory, flops, count=50):
    """Weights come tile by tile, each is read while the one before is multiplied."""
    reading = [Fraction(weight_bytes) / count / Fraction(memory)] * count
    multiplying = [2 * Fraction(macs) * tokens / count / Fraction(flops)] * count
    return sum(map(max, reading, multiplying))


@pytest.mark.points(5)
def test_decode_compute_s__the_higher_of_two_roofs(lab):
    """Small batches read, large ones multiply; the cache comes on top."""
    draw = random.Random(89)
    memory, flops = draw.randint(1000, 8000) * GB, draw.randint(300_000, 900_000) * GB
    for weights, macs, kv in [
        (16 * GB, 8 * GB, 0),
        (8 * GB, 8 * GB, draw.randint(1, 9) * GB),
        (draw.randint(30, 99) * GB, 9 * GB, GB),
        (0, 0, GB),  # a stage without weights of its own
        (0, 9 * GB, GB),
        (9 * GB, 0, 0),
    ]:
        for tokens in (0.25, 1, draw.randint(2, 99), 2.5, 147, 296.25, 1000, 4096):
            expected = tiles(weights, macs, tokens, memory, flops) + Fraction(kv, memory)
            got = lab.decode_compute_s(weights, kv, macs, tokens, memory, flops)
            times = (weights / memory, tiles(0, macs, tokens, memory, flops), kv / memory)
            idea = "reading the weights {:.3g} s and multiplying {:.3g} s, both at the same time; "
            idea += "then reading the cache {:.3g} s"
            close(got, float(expected), idea.format(*map(float, times)))


@pytest.mark.points(5)
@pytest.mark.waits_for("test_decode_compute_s__the_higher_of_two_roofs")
def test_prefill_compute_s__grows_with_the_square_as_well(lab):
    """A prompt's cost is linear, and attention adds half a square."""
    draw = random.Random(79)
    memory, flops = draw.randint(1000, 8000) * GB, draw.randint(300_000, 900_000) * GB
    prompts = [draw.randint(20_000, 40_000), 1, 128, draw.randint(1000, 3000)]
    widths, sizes = [0, 128 * draw.randint(999, 9999)], [(16, 8), (0, 8), (16, 0)]
    for prompt, width, size in itertools.product(prompts, widths, sizes):
        weights, macs = (giga * GB for giga in size)
        # token i looks back at i of them; the mean of i - 1/2 and i + 1/2, as an integral would
        pairs = Fraction(sum(2 * i - 1 for i in range(1, prompt + 1)), 2)
        expected = tiles(weights, macs, prompt, memory, flops) + 4 * pairs * width / flops
        got = lab.prefill_compute_s(prompt, weights, macs, width, memory, flops)
        idea = "the weights' two roofs, the higher one, for all tokens of the prompt"
        if width:
            idea = "attention on top: queries with keys, then weights with values, of the "
            idea += f"{float(pairs):.4g} pairs in half the square"
        close(got, float(expected), idea)


def simulate(step_s, prefill_s, output, clients, slots, rounds=40):
    """A server with a queue, event by event: between decode steps one prompt is taken in for every
    slot that is due. Slots are staggered evenly. Returns seconds a token and tokens a second."""
    running = min(clients, slots)
    due = [Fraction(output * slot, running) for slot in range(running)]  # steps made when started
    now, steps, tokens = Fraction(0), 0, 0
    start = None
    while steps < rounds * output:
        if steps == 5 * output:
            start, tokens = now, 0
        for slot in range(running):
            if steps >= due[slot]:
                now += Fraction(prefill_s)
                due[slot] += output
        now += Fraction(step_s)
        steps += 1
        tokens += running
    seconds, made = now - start, tokens
    return seconds / ((rounds - 5) * output), made / seconds


def served():
    """(step, prefill, output, clients, slots): more clients than slots, and fewer; no prompts."""
    yield 0.02, 0.1, 1, 3, 1
    draw = random.Random(78)
    for most_clients, most_slots, prompts in ((12, 5, 1), (5, 12, 1), (12, 5, 0)):
        step, prefill = draw.uniform(0.001, 0.05), prompts * draw.uniform(0.01, 0.5)
        clients, slots = (draw.randint(max(2, n - 4), n) for n in (most_clients, most_slots))
        yield step, prefill, draw.randint(2, 30), clients, slots


@pytest.mark.points(4)
def test_serve__prompts_stop_the_decoding_of_others(lab):
    """A token takes its step and its share of everybody's prompts."""
    for step, prefill, output, clients, slots in [
        (0.01, 0.05, 20, 4, 8),
        (0.02, 0.0, 10, 3, 3),
        (0.005, 0.4, 8, 1, 1),
        *served(),
    ]:
        tpot, rate = simulate(step, prefill, output, clients, slots)
        got = lab.serve(step, prefill, output, clients, slots)
        idea = "a round: output_tokens steps, and one prompt of every running sequence"
        close(got["tpot_s"], float(tpot), f"tpot_s, {idea}")
        close(got["tokens_per_s"], float(rate), f"tokens_per_s, {idea}")


@pytest.mark.points(4)
def test_serve__a_client_without_a_slot_waits(lab):
    """TTFT: the wait for a slot, prompts ahead, one's own, one step."""
    for step, prefill, output, clients, slots in [
        (0.01, 0.05, 20, 1, 8),
        (0.02, 0.1, 50, 64, 64),
        (0.01, 0.05, 20, 7, 5),  # a slot is free before a whole round is over
        *served(),
    ]:
        running = min(clients, slots)
        round_s = output * step + running * prefill
        queue = deque(range(clients - running))  # whoever has no slot; one slot is free per turn
        waited = sum(round_s / running for _ in queue)
        others = (running - 1) * prefill
        ahead = others * (running * prefill / round_s) / 2
        got = lab.serve(step, prefill, output, clients, slots)["ttft_s"]
        idea = f"a slot {waited:.3g} s, prompts ahead {ahead:.3g} s, one's own {prefill:.3g} s and "
        idea += f"one step {step:.3g} s"
        close(got, waited + ahead + prefill + step, f"ttft_s, {idea}")


@pytest.mark.points(2)
def test_cost_per_million_tokens__all_gpus_all_seconds(lab):
    """A million tokens cost all the GPUs for as long as they take."""
    draw = random.Random(77)
    for gpus in (1, 7, draw.randint(9, 99)):
        rate, price = draw.uniform(10, 99_999), draw.uniform(0.1, 9)
        minutes = Fraction(10**6) / Fraction(rate) / 60
        expected = float(minutes / 60 * gpus * Fraction(price))
        got = lab.cost_per_million_tokens(rate, gpus, price)
        close(got, expected, "seconds for a million x price of all GPUs per second")
    close(lab.cost_per_million_tokens(100.0, 8, 0), 0, "a price may be 0")


def candidate(name, gpus, ttft, tpot, rate, spread=1.3):
    times = {"ttft_s": ttft, "tpot_s": tpot}
    found = {key: [value / spread, value, value * spread] for key, value in times.items()}
    found["tokens_per_s"] = [rate * spread, rate, rate / spread]
    return {"name": name, "num_gpus": gpus} | found


@pytest.mark.points(4)
def test_choose__most_tokens_per_gpu_within_the_limits(lab):
    """Of the plans within both limits, the most tokens/s per GPU."""
    expect_choice_at_the_limits(lab)
    draw = random.Random(4)
    for round_ in range(80):
        plans = drawn_plans(draw, alike=round_ >= 60)
        ttft, tpot = draw.choice([None, 0.5, 1.0]), draw.choice([None, 0.03, 0.05])
        kept = [p for p in plans if (ttft or 9) >= p["ttft_s"][1] and (tpot or 9) >= p["tpot_s"][1]]
        names, close_call = [], False
        left = list(kept)
        for _ in range(2):  # take out the best twice, by comparing each with every other
            best = None
            for plan in left:
                rates = [p["tokens_per_s"][1] / p["num_gpus"] for p in (plan, best or plan)]
                fewer = best is not None and plan["num_gpus"] < best["num_gpus"]
                if best is None or rates[0] > rates[1] or rates[0] == rates[1] and fewer:
                    best = plan
            names.append(best)
            left = [plan for plan in left if plan is not best]
        if names[1] is not None:
            worst, best = (
                p["tokens_per_s"][e] / p["num_gpus"] for p, e in zip(names, (2, 0), strict=True)
            )
            close_call = best >= worst
        expected = {
            "choice": names[0] and names[0]["name"],
            "runner_up": names[1] and names[1]["name"],
            "close": close_call,
        }
        expect_choice(lab.choose(plans, ttft, tpot), expected)


def expect_choice_at_the_limits(lab):
    """Limits that nobody keeps, ties, near ties, and intervals that just touch."""
    eight, one = candidate("eight", 8, 0.1, 0.035, 800), candidate("one", 1, 0.1, 0.035, 100)
    even = [candidate(name, 1, 0.1, 0.02, 200, spread=1.0) for name in "ba"]
    near = [candidate("b", 1, 0.1, 0.02, 200.6), candidate("a", 2, 0.1, 0.02, 401.200002)]
    none = {"choice": None, "runner_up": None, "close": False}
    for plans, limits, expected, idea in [
        ([one], (None, 0.03), none, "the typical time keeps a limit; no plan does, so None"),
        ([one], (0, None), none, "None is no limit, 0 is one that nobody keeps"),
        ([one], (None, 0), none, "None is no limit, 0 is one that nobody keeps"),
        ([eight, one], (None, None), ["one", "eight"], "100 a GPU each: a tie, for fewer GPUs"),
        (even, (None, None), ["b", "a"], "a tie goes to the earlier"),
        (near, (None, None), ["a", "b"], "200.600001 tokens/s per GPU are more than 200.6: no tie"),
    ]:
        if expected is not none:
            expected = {"choice": expected[0], "runner_up": expected[1], "close": True}
        expect_choice(lab.choose(plans, *limits), expected, idea)
    for spread in (1.05405, 1.0542):  # of 1000 and 900 they touch at the root of 10 / 9
        plans = [
            candidate("c", 1, 0.1, 0.02, 1000, spread),
            candidate("d", 1, 0.1, 0.02, 900, spread),
        ]
        expected = {"choice": "c", "runner_up": "d", "close": spread > 1.0541}
        expect_choice(lab.choose(plans, None, None), expected)


def drawn_plans(draw, alike):
    """Plans that differ in everything; alike: within the limits, and third plans come close."""
    if alike:
        spreads = draw.sample([1.0, 1.02, 1.05, 1.5], 4)
        return [
            candidate(f"plan {n}", 2, 0.1, 0.01, 1000 - 90 * n, spread)
            for n, spread in enumerate(spreads)
        ]
    return [
        candidate(
            f"plan {n}",
            draw.choice([1, 2, 4, 8]),
            draw.choice([0.1, 0.5, 0.7, 2.0]),  # 0.7 and 0.04: the best keeps a limit alone
            draw.choice([0.01, 0.03, 0.04, 0.09]),
            draw.choice([400, 800, 1600]) * (n + 1),
            draw.choice([1.02, 1.5]),
        )
        for n in range(draw.randint(0, 6))
    ]


def expect_choice(got, expected, idea=""):
    """Key by key; idea: of the choice and the runner-up."""
    if not isinstance(got, dict) or sorted(got, key=str) != sorted(expected):
        expect_equal(got, expected)
    for key, rule in CHOSEN.items():
        if key == "close":
            idea = "" if expected["runner_up"] else "without a runner-up nothing is close: False"
        elif isinstance(got[key], dict):
            idea = "the plan's name, not the plan"
        expect_equal(got[key], expected[key], part=f"[{key!r}]", idea=idea or rule)


CHOSEN = {
    "choice": "typical times within both limits first, then the most typical tokens/s per GPU",
    "runner_up": "the second of those whose typical times keep both limits, by tokens/s per GPU",
    "close": "the runner-up's best, per GPU, is at least the choice's worst, per GPU",
}


@pytest.mark.points(2)
def test_regret__is_what_the_choice_costs(lab):
    """A prediction that is off by half and ranks well costs nothing."""
    draw = random.Random(76)
    measured = {"TP2": 131.0, "TP4": draw.uniform(330, 400), "TP8": draw.uniform(250, 320)}
    best = measured["TP4"]
    for factors in itertools.product([0.3, 1.0, 2.5], repeat=3):
        predicted = {n: v * f for (n, v), f in zip(measured.items(), factors, strict=True)}
        predicted = dict(draw.sample(list(predicted.items()), 3))  # names have no order
        chosen = sorted(predicted, key=lambda name: predicted[name])[-1]
        expected = (best - measured[chosen]) / best
        slow = draw.choice((1, 1e-3))  # of the same plans, rates below 1
        got = lab.regret(predicted, {name: rate * slow for name, rate in measured.items()})
        idea = "measured: best less choice, as a part of the best"
        expect_close(got, expected, atol=1e-12, idea=idea)
    others = {"TP2": 1.0, "TP4": 2.0, "TP16": 3.0}, {"TP2": 1.0}, {}, measured | {"TP16": 3.0}
    for predicted in others:
        expect_error(ValueError, lab.regret, predicted, measured, idea="both hold the same names")
    expect_error(ValueError, lab.regret, {}, {}, idea="there is nothing to choose from")
    expect_close(lab.regret({"TP2": 9.0}, {"TP2": 5.0}), 0, atol=1e-12, idea="one may be all")


@pytest.mark.points(2)
def test_transfer_s__behind_the_computing_or_after_it(lab):
    """A cache sent layer by layer hides behind the prefill, as far as the link keeps up."""
    draw = random.Random(113)
    for layers in (1, 2, 3, 8, 80):
        for link in (draw.uniform(1e8, 1e9), draw.uniform(1e10, 1e12)):
            for latency in (0, draw.uniform(1e-6, 1e-4), draw.uniform(0.01, 0.1)):
                kv, prefill = draw.choice((0, draw.randint(1, 10**9))), draw.uniform(0.01, 2)
                at_end = lab.transfer_s(kv, link, latency, layers, prefill, False)
                close(at_end, latency + kv / link, "one message, after everything")
                message = latency + kv / layers / link
                # some layer was ready when its message began, and from it on the link was busy
                ends = [
                    n * prefill / layers + (layers + 1 - n) * message for n in range(1, layers + 1)
                ]
                got = lab.transfer_s(kv, link, latency, layers, prefill, True)
                idea = (
                    f"{layers} messages of {message:.3g} s, in turn, each when its layer is ready"
                )
                atol = 1e-12 * layers * max(ends)  # a sum of so many terms, less the prefill
                expect_close(got, max(ends) - prefill, atol=atol, idea=idea)


def by_iteration(requests_per_s, engines, first_pool, prefill_s, tokens, step_s, sequence_s):
    """(share taken by prompts, seconds of a token), by letting the batch settle; None if never."""
    prompts = requests_per_s * prefill_s / (first_pool or engines)
    if prompts >= 1:
        return None
    left, each = (1.0 if first_pool else 1 - prompts), requests_per_s / (engines - first_pool)
    tpot_s = step_s
    for _ in range(20_000):
        before_s, tpot_s = tpot_s, (step_s + sequence_s * each * tokens * tpot_s) / left
        if tpot_s > 1e6 * step_s:
            return None
        if abs(tpot_s - before_s) < 1e-14 * tpot_s:
            break
    return prompts, tpot_s


@pytest.mark.points(2)
def test_pools_or_one__where_two_pools_pay(lab):
    """Two pools where prompts take much of everybody's time; one where they do not."""
    draw = random.Random(114)
    kinds = set()
    for _ in range(60):
        engines, tokens = draw.choice((1, 2, 3, 8, 16)), draw.randint(1, 600)
        prefill = draw.choice((0.02, 0.3, 1.5)) * draw.uniform(0.5, 1)
        step = draw.uniform(5e-3, 4e-2)
        sequence, sent = draw.choice((0, draw.uniform(1e-5, 1e-4))), draw.choice((0, 0.4))
        load = draw.uniform(0.05, 0.9) * engines / (prefill + tokens * sequence)
        options = {}
        for first_pool in range(engines):
            found = by_iteration(load, engines, first_pool, prefill, tokens, step, sequence)
            if found:
                options[first_pool] = found
        best = min(options, key=lambda first: options[first][1])
        ratios = [tpot / options[best][1] for _, tpot in options.values()]
        if any(abs(ratio - 1.05) < 1e-3 or 1 < ratio < 1 + 1e-6 for ratio in ratios):
            continue  # rounding would decide
        if 0 in options and options[0][1] <= 1.05 * options[best][1]:
            best = 0
        busy, tpot = options[best]
        kinds.add((best > 0, 0 in options))
        got = lab.pools_or_one(load, engines, prefill, tokens, step, sequence, sent)
        if best:  # of several that are as short any will do
            as_short = (n for n in options if options[n][1] == tpot and n == got["first_pool"])
            best = next(as_short, best)
            busy, tpot = options[best]
        idea = f"the shortest tpot_s of 0 to {engines - 1} in the first pool, 0 if within 5% of it"
        expect_equal(got["first_pool"], best, part="['first_pool']", idea=idea)
        idea = "steps get what prompts leave; in one are those that arrive while one is answered"
        close(got["tpot_s"], tpot, f"tpot_s, {idea}", 1e-6)
        waited = prefill * busy / (1 - busy) / 2  # of Pollaczek and Khinchine, all prompts alike
        idea = "ttft_s, prefill_s, then u / (1 - u) / 2 of it, tpot_s, and of two pools sent_s"
        close(got["ttft_s"], prefill + waited + tpot + sent * (best > 0), idea, 1e-6)
    assert len(kinds) >= 2  # both answers are drawn
    expect_at_the_limits(lab, draw)


def expect_at_the_limits(lab, draw):
    """Loads that no split can take, and those where the choice turns."""
    too_many = (100, 2, 1, 10, 0.01, 0, 0)
    idea = "no split of the engines keeps up"
    expect_error(ValueError, lab.pools_or_one, *too_many, mentions=["requests_per_s"], idea=idea)
    never = (0.5, 1, 1, 4, 0.01, 0.25, 0)  # half for prompts, and the other half is used up
    idea = "steps that have no time left over never catch up"
    expect_error(ValueError, lab.pools_or_one, *never, mentions=["requests_per_s"], idea=idea)
    # that much longer a token takes in one pool; the first one comes later there, or earlier
    times = itertools.product((1.047, 1.049, 1.0512, 1.0524), ((0.3, 0.01), (1e-3, 0.04)))
    for longer, (prefill, step) in times:
        busy, engines = 1 - 1 / longer, draw.randint(2, 9)
        load = busy * engines / prefill
        got = lab.pools_or_one(load, engines, prefill, 100, step, 0, 0)["first_pool"]
        idea = f"one pool's tpot_s is {longer} times the shortest: one pool up to 1.05 times"
        expect_equal(got > 0, longer > 1.05, part="['first_pool'] > 0", idea=idea)
    got = lab.pools_or_one(1, 3, 1, 10, 0.01, 0, 0)["first_pool"]
    idea = "one engine for all prompts has a u of 1, which is not below 1"
    expect_equal(got, 2, part="['first_pool']", idea=idea)


# --- Part B: debug the classics ------------------------------------------------------------------

INCIDENTS = Path(__file__).with_name("incidents")
runs = load_module(INCIDENTS / "simulated.py")
recordings = load_module(INCIDENTS / "recorded.py")


def links(num_ranks, draw):
    return {
        "num_ranks": num_ranks,
        "link": draw.choice([(40, 2000), (270, 100), (20, 9000)]),
        "num_layers": draw.choice([2, 4]),
    }


@pytest.mark.points(4)
def test_decompose__waiting_ends_with_the_last_rank(lab):
    """Who comes early waits for the last one; only what follows is transfer."""
    draw = random.Random(90)
    for seed in range(4):
        num_ranks = draw.choice([2, 3, 4])
        slow = draw.randrange(num_ranks)
        evidence, _ = runs.tensor_parallel(
            seed, slow=slow, strength=1.0 + seed % 2, num_steps=6, **links(num_ranks, draw)
        )
        gather_some(evidence, draw)
        for rank in evidence["ranks"]:
            rank["steps"][seed]["collectives"] = []  # one step without any
            for step in rank["steps"]:  # and no times in whole microseconds
                calls = step["collectives"]
                step["collectives"] = [[*one, a - 0.25, b + 0.25] for *one, a, b in calls]
        expected = {"compute_us": [[] for _ in range(num_ranks)], "transfer_us": []}
        expected["wait_us"] = [[] for _ in range(num_ranks)]
        for number in range(6):  # on one clock, which the simulator has and the evidence has not
            steps = [rank["steps"][number] for rank in evidence["ranks"]]
            last = [max(call[2] for call in calls) for calls in columns(steps)]
            ends = [calls[0][3] for calls in columns(steps)]
            expected["transfer_us"].append([e - b for b, e in zip(last, ends, strict=True)])
            for rank, step in enumerate(steps):
                came = [call[2] for call in step["collectives"]]
                waited = sum(b - a for a, b in zip(came, last, strict=True))
                left = [0, *ends]
                computed = sum(a - b for a, b in zip(came, left[:-1], strict=True))
                tail = step["end_us"] - step["start_us"] - left[-1]
                expected["compute_us"][rank].append(computed + tail)
                expected["wait_us"][rank].append(waited)
        expect_parts(
            lab.decompose(evidence), expected, "the shortest stay is the transfer, for all"
        )


def gather_some(evidence, draw):
    """Some collectives are all-gathers, and some ranks go on computing after the last of a step."""
    for step in zip(*(rank["steps"] for rank in evidence["ranks"]), strict=True):
        for calls in columns(step):
            operation = draw.choice(("all_reduce", "all_reduce", "all_gather"))
            for call in calls:
                call[0] = operation
        for of_rank in step:
            of_rank["end_us"] += draw.choice((0, 0, draw.randrange(900)))


def expect_parts(got, expected, idea, of_all=False):
    """The three keys, in each lists of lists of numbers; idea: of the transfers, or of all."""
    ideas = {
        "compute_us": "[rank][step]: of the step all that is outside of collectives",
        "wait_us": "[rank][step]: the stays beyond the transfers, added up",
        "transfer_us": f"[step][collective]: {idea}",
    }
    if of_all:
        ideas = dict.fromkeys(ideas, idea)
    if not isinstance(got, dict) or sorted(got, key=str) != sorted(expected):
        expect_equal(got, expected, idea=idea)
    for key, rows in expected.items():
        part, idea = f"[{key!r}]", ideas[key]
        if not isinstance(got[key], (list, tuple)) or len(got[key]) != len(rows):
            expect_equal(got[key], rows, part=part, idea=idea)
        for number, row in enumerate(rows):
            expect_numbers(got[key][number], row, idea, part=f"{part}[{number}]")


def expect_numbers(got, expected, idea, part=""):
    """A list of these numbers, ints or floats."""
    got = got.tolist() if hasattr(got, "tolist") else got  # an array is as good as a list
    if not isinstance(got, (list, tuple)) or len(got) != len(expected):
        expect_equal(got, expected, part=part, idea=idea)
    for place, (one, other) in enumerate(zip(got, expected, strict=True)):
        close_part(one, other, f"{part}[{place}]", idea)


def columns(steps):
    return list(zip(*(step["collectives"] for step in steps), strict=True))


def with_another_clock(evidence, rank, by):
    """The ranks, of which one counts its collectives and its steps from other moments."""
    moved = []
    for step in evidence["ranks"][rank]["steps"]:
        calls = [[what, size, a + by, b + by] for what, size, a, b in step["collectives"]]
        times = {"start_us": step["start_us"] - 40, "end_us": step["end_us"] - 40}
        moved.append(step | times | {"collectives": calls})
    ranks = list(evidence["ranks"])
    ranks[rank] = {"steps": moved}
    return ranks


@pytest.mark.points(2)
def test_decompose__needs_no_common_clock(lab):
    """Moving one rank's clock, or one rank's step, changes nothing; the parts add up."""
    evidence, _ = runs.tensor_parallel(91, num_ranks=3, slow=1, strength=1.8, num_steps=5)
    parts = {"compute_us": computed_by(evidence), "transfer_us": transferred(evidence)}
    moved = [sum(times) for times in parts["transfer_us"]]
    parts["wait_us"] = [
        [s["end_us"] - s["start_us"] - own - us for s, own, us in zip(*rows, moved, strict=True)]
        for rows in zip([r["steps"] for r in evidence["ranks"]], parts["compute_us"], strict=True)
    ]
    for rank, by in itertools.product(range(3), (77, -77, 9000, -9000)):
        again = lab.decompose(evidence | {"ranks": with_another_clock(evidence, rank, by)})
        idea = "durations, never differences between two ranks' clocks"
        expect_parts(again, parts, idea, of_all=True)


def middle(values):
    """The median, by taking away the extremes."""
    left = sorted(values)
    while len(left) > 2:
        left = left[1:-1]
    return sum(left) / len(left)


# --- second methods of the looks: from the calls, one at a time ---------------------------------


def computed(step):
    """What a step is beside its collectives."""
    return step["end_us"] - step["start_us"] - sum(left - came for *_, came, left in calls_of(step))


def calls_of(step):
    return step["collectives"]


def computed_by(evidence):
    return [[computed(step) for step in rank["steps"]] for rank in evidence["ranks"]]


def transferred(evidence):
    """Per step, the transfer of each collective: whoever came last stayed for no more."""
    found = []
    for number in range(len(evidence["ranks"][0]["steps"])):
        steps = [rank["steps"][number] for rank in evidence["ranks"]]
        found.append([min(c[3] - c[2] for c in calls) for calls in columns(steps)])
    return found


def mean(values):
    values = [Fraction(value) for value in values]
    return float(sum(values) / len(values))


OVER_A_STEP = "over a mean step of {:.4g} us, prefills included"


def step_us(evidence):
    steps = [step for rank in evidence["ranks"] for step in rank["steps"]]
    return mean([step["end_us"] - step["start_us"] for step in steps])


class Cost(float):
    """(more - less) / whole, and where these come from, in words."""

    def __new__(cls, more, less, whole, words):
        cost = super().__new__(cls, (more - less) / whole)
        cost.words = words.format(*map(float, (more, less, whole)))
        return cost


def expected_foreign(evidence):
    shares = {}
    for own, busy in zip(
        evidence["processor"]["ranks"], evidence["processor"]["cores"], strict=False
    ):
        for core, share in enumerate(busy):
            shares.setdefault(core, []).append(share - own[core] if share > own[core] else 0.0)
    return [mean(of_core) for of_core in shares.values()]


def expected_slowest(evidence):
    typical = [middle(times) for times in computed_by(evidence)]
    return sorted(range(len(typical)), key=lambda rank: -typical[rank])[0], max(typical) / min(
        typical
    )


def expected_of_ranks(evidence):
    """(cause, where, cost, numbers), as look_at_ranks."""
    rank, ratio = expected_slowest(evidence)
    foreign = expected_foreign(evidence)
    numbers = {"compute_ratio": ratio, "foreign": max(foreign)}
    elsewhere = [share for core, share in enumerate(foreign) if ratio <= 1.37 or core != rank]
    if [share for share in elsewhere if share > 0.1]:
        return "disturbed", None, 0.0, numbers
    if ratio <= 1.37:
        return "healthy", None, 0.0, numbers
    means = [mean(times) for times in computed_by(evidence)]
    cause = "busy-neighbour" if foreign[rank] > 0.1 else "slow-rank"
    words = f"rank {rank} computes {{:.4g}} us on average, the next longest {{:.4g}}; {OVER_A_STEP}"
    others = max(means[:rank] + means[rank + 1 :])
    return cause, rank, Cost(means[rank], others, step_us(evidence), words), numbers


def expected_decode_transfer(evidence):
    times = []
    for step, of_step in zip(evidence["ranks"][0]["steps"], transferred(evidence), strict=True):
        if step["tokens"] == step["requests"]:
            times.append(sum(of_step))
    return middle(times), sorted(times)[99 * (len(times) - 1) // 100]


def expected_line(points):
    sizes = sorted({size for size, _ in points})
    of_size = {size: [us for other, us in points if other == size] for size in sizes}
    slope, start = statistics.linear_regression(sizes, [middle(of_size[size]) for size in sizes])
    return start, 1e6 / slope if slope > 0 else math.inf


def expected_of_link(evidence):
    now, usual = expected_decode_transfer(evidence), expected_decode_transfer(evidence["healthy"])
    ratios = [one / other for one, other in zip(now, usual, strict=True)]
    numbers = dict(zip(("transfer_ratio", "tail_ratio"), ratios, strict=True))
    if ratios[0] <= 1.6 and ratios[1] <= 2.4:
        return "healthy", None, 0.0, numbers
    points = [
        (call[1], us)
        for step, times in zip(evidence["ranks"][0]["steps"], transferred(evidence), strict=True)
        for call, us in zip(calls_of(step), times, strict=True)
        if call[0] == "all_reduce"
    ]
    numbers |= dict(zip(("latency_us", "bytes_per_s"), expected_line(points), strict=True))
    means = [mean(map(sum, transferred(run))) for run in (evidence, evidence["healthy"])]
    cause = "unsteady-link" if ratios[0] <= 1.6 else "slow-link"
    words = f"a step transfers {{:.4g}} us on average, the healthy run's {{:.4g}}; {OVER_A_STEP}"
    return cause, "link", Cost(*means, step_us(evidence), words), numbers


def expected_in_flight(evidence):
    """Count who is there, from event to event."""
    events = []
    for request in evidence["requests"]:
        events += [(request["arrived_us"], 1), (request["token_us"][-1], -1)]
    events.sort()
    there, area = 0, 0
    for (at, change), (then, _) in itertools.pairwise(events):
        there += change
        area += there * (then - at)
    return area / (events[-1][0] - events[0][0])


def expected_of_requests(evidence):
    stages, in_flight = evidence["plan"]["pp_size"], expected_in_flight(evidence)
    numbers = {"in_flight": in_flight}
    if in_flight - stages > -0.5:
        return "healthy", None, 0.0, numbers
    words = "{:.0f} stages, {:.4g} requests in flight; over the {:.0f} stages"
    return "starved", None, Cost(stages, in_flight, stages, words), numbers


def makespan_us(stage_us, count):
    """Lab 04's, by walking: a stage begins when it is free and has its input."""
    came = [0] * count
    for us in stage_us:
        free = 0
        for number in range(count):
            free = max(free, came[number]) + us
            came[number] = free
    return came[-1]


def expected_of_stages(evidence):
    rows = evidence["microbatches"]
    busy = [middle([row[2] - row[1] for row in stage]) for stage in rows]
    typical = sorted(busy)[(len(busy) - 1) // 2]
    done = [row[2] for row in rows[-1]]
    gaps = [b - a for a, b in itertools.pairwise(done)]
    numbers = {"busy_ratio": max(busy) / typical, "period_us": middle(gaps) if gaps else busy[-1]}
    if max(busy) < 1.37 * typical:
        return "healthy", None, 0.0, numbers
    total, without = (
        makespan_us(times, len(done)) for times in (busy, [min(us, typical) for us in busy])
    )
    words = "makespan {:.0f} us, and {:.0f} with "
    words += f"no stage above the typical {float(typical):.0f}; over the first"
    return "slow-stage", busy.index(max(busy)), Cost(total, without, total, words), numbers


def expected_of_start_up(evidence):
    plan, says = evidence["plan"], evidence["start_up"][0]
    engines = Fraction(plan["tp_size"] * plan["pp_size"], says["world_size"])
    model = plan["model"]["num_key_value_heads"]
    copies = Fraction(says["kv_cache"]["kv_heads"] * plan["tp_size"], model)
    numbers = {"engines": engines, "copies": copies}
    for cause, times, name in (
        ("replicas", engines, "engines"),
        ("copied-heads", copies, "copies"),
    ):
        if times > 1:
            words = f"{{:.4g}} {name}, {{:.0f}} would do; over the first"
            return cause, None, Cost(times, 1, times, words), numbers
    return "healthy", None, 0.0, numbers


def expected_share(spans):
    waits = [span[3] - span[2] for rank in spans for span in rank if span[0] == "wait"]
    ends = [[at for span in rank for at in span[2:]] for rank in spans]
    return sum(waits) / sum(max(rank) - min(rank) for rank in ends)


def expected_of_overlap(evidence):
    waited, usually = (expected_share(run["spans"]) for run in (evidence, evidence["healthy"]))
    numbers = {"waited": waited, "usually_waited": usually}
    if waited - usually >= 0.1:
        words = "waited {:.4g} of the step, usually {:.4g}"
        return "no-overlap", None, Cost(waited, usually, 1, words), numbers
    return "healthy", None, 0.0, numbers


LOOKS = {
    "look_at_start_up": expected_of_start_up,
    "look_at_ranks": expected_of_ranks,
    "look_at_link": expected_of_link,
    "look_at_requests": expected_of_requests,
    "look_at_stages": expected_of_stages,
    "look_at_overlap": expected_of_overlap,
}


def expected_finding(evidence):
    """What all looks together say."""
    names = ["look_at_start_up", "look_at_ranks", "look_at_link"]
    for key in ("spans", "microbatches", "stages"):
        if key in evidence:
            names = {
                "spans": ["look_at_overlap"],
                "microbatches": ["look_at_stages"],
                "stages": ["look_at_start_up", "look_at_requests"],
            }[key]
    numbers = {}
    for name in names:
        *found, decided_by = LOOKS[name](evidence)
        numbers |= decided_by
        if found[0] != "healthy":
            break
    return (*found, numbers)


# --- how findings are compared --------------------------------------------------------------------


def made(make, seed, **how):
    """Evidence and truth of a simulated run; the truth also says how to make it again."""
    evidence, truth = make(seed, **how)
    return evidence, truth | {"made": describe_call(f"simulated.{make.__name__}", seed=seed, **how)}


def expect_finding(look, evidence, truth=None, idea="", second=None, within=0.0):
    """A look's finding, by the second method; truth: what was done to the run.

    The truth's cost comes from simulating the run without the fault: noise moved it by 0.07 at most
    in 1,200 runs, so it may be off by 0.1. within: how far off the learner's cost may be, in parts.
    """
    found = look(evidence)  # first: where it is not written yet nothing else is worth the time
    cause, where, cost, decided_by = (second or LOOKS[look.__name__])(evidence)
    rel = within * abs(cost) / (1 + abs(cost)) + 1e-9
    if truth:
        assert (cause, where) == (truth["cause"], truth["where"]), (truth, cause, where)
        assert abs(cost - truth.get("cost", cost)) <= 0.1
    # the run that one can make again stands before the idea: it is never cut off
    run = f" (The run: {truth['made']})" if truth and "made" in truth else ""
    if not isinstance(found, dict):
        finding = {"cause": cause, "where": where, "cost": cost}
        expect_equal(found, finding, idea=f"return a finding{run}")
    keys = ["cause", "cost", "numbers", "where"]
    expect_equal(sorted(found, key=str), keys, part="'s keys", idea=f"return a finding{run}")
    said = f"{idea}{run}" if idea else f"what its docstring names{run}"
    decided = ", ".join(f"{name} is {float(value):.4g}" for name, value in decided_by.items())
    expect_equal(found["cause"], cause, part="['cause']", idea=f"{said}; here {decided}")
    idea = f"where, of {cause}, as its docstring has it; None unless it says one{run}"
    expect_equal(found["where"], where, part="['where']", idea=idea)
    numbers_are(found["numbers"], decided_by, run)
    words = getattr(cost, "words", f"0.0, for {cause}")
    close_part(found["cost"], cost, "['cost']", f"cost: {words}{run}", rel, units=False)


MEANT = {
    "compute_ratio": "the slowest rank's median computing over the fastest one's",
    "foreign": "the largest share of a core that others used",
    "transfer_ratio": "the median of decode_transfer over the healthy run's",
    "tail_ratio": "the tail of decode_transfer over the healthy run's",
    "latency_us": "of link_line through all_reduces",
    "bytes_per_s": "of link_line through all_reduces",
    "in_flight": "what requests_in_flight returns",
    "busy_ratio": "the longest busy time over the typical one",
    "period_us": "of stage_times",
    "engines": "the planned ranks, beside those that a process says its engine has",
    "copies": "the KV heads that tp_size ranks hold, beside those of the model",
    "waited": "what share_waited returns",
    "usually_waited": "what share_waited returns of the healthy run",
}


def numbers_are(given, decided_by, run=""):
    """Those that the docstring names; more may be there."""
    if not isinstance(given, dict):
        expect_equal(given, {}, part="['numbers']", idea=f"a dict of numbers{run}")
    for name, value in decided_by.items():
        part = f"['numbers'][{name!r}]"
        if name not in given:
            idea = f"the numbers of every look that was taken: {', '.join(decided_by)}"
            said = f"returned no {name!r} among its numbers. Look again at: {idea}.{run}"
            raise Unexpected(said, "['numbers']")
        if value == math.inf:
            expect_equal(given[name], value, part=part, idea="a line that does not rise")
        else:
            counted = name in ("engines", "copies")  # eight of them are no bits
            idea = f"{name}: {MEANT[name]}{run}"
            close_part(given[name], value, part, idea, 1e-6, units=not counted)
    for name, value in given.items():
        number = isinstance(value, numbers.Real) and value == value
        assert number, f"['numbers'][{name!r}] is {value!r}; a number should be there"


def close_part(actual, expected, part, idea, rel=1e-9, units=True):
    """A number within rounding; a part of 1 that is a difference loses some digits."""
    expected = float(expected)
    atol = rel * (1 + abs(expected))
    expect_close(actual, expected, atol=atol, part=part, idea=idea, units=units)


HEALTHY = {"cause": "healthy", "where": None, "cost": 0.0}


def in_step(paces, transfer_us=50, segments=5, late_us=None):
    """Evidence of ranks that compute so many us between two collectives; there is no noise.

    The last steps are four times as long as the first; late_us: their transfer before that. All
    cores are as busy, for a rank that waits spins.
    """
    evidence, _ = runs.tensor_parallel(99, num_ranks=len(paces), num_steps=16)
    ranks, now = [{"steps": []} for _ in paces], 0
    for length in [1] * 12 + [4] * 4:
        each_us = transfer_us if late_us is None or length == 1 else late_us
        period = length * (max(paces) + each_us)
        for rank, pace in zip(ranks, paces, strict=True):
            ends = [(n + 1) * period for n in range(segments)]
            calls = [["all_reduce", 2048 * length, e - period + length * pace, e] for e in ends]
            about = {"requests": 1, "tokens": 1, "collectives": calls}
            rank["steps"].append(about | {"start_us": now, "end_us": now + ends[-1]})
        now += segments * period
    busy = [[0.99] * len(paces)] * 10
    found = evidence | {"ranks": ranks, "processor": {"ranks": busy, "cores": busy}}
    return found | {"healthy": {key: found[key] for key in found if key != "healthy"}}


def stop(evidence, rank, number, us=400_000):
    """One rank comes so late to its first collective of a step, and all the others wait."""
    for each, other in enumerate(evidence["ranks"]):
        step = other["steps"][number]
        for place, call in enumerate(step["collectives"]):
            call[2] += us if place or each == rank else 0
            call[3] += us
        step["end_us"] += us


# --- who is slow ----------------------------------------------------------------------------------


@pytest.mark.points(2)
def test_used_by_others__is_what_no_rank_did(lab):
    """A core that is busy beyond its rank is somebody else's as well."""
    draw = random.Random(120)
    for cores, samples in itertools.product((1, 2, 3, 8), (1, 2, 9)):
        own = [[round(draw.uniform(0, 1), 3) for _ in range(cores)] for _ in range(samples)]
        more = [[draw.choice((0, -0.1, 0.2, 0.5)) for _ in range(cores)] for _ in range(samples)]
        busy = [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(own, more, strict=True)]
        evidence = {"processor": {"ranks": own, "cores": busy}}
        got, expected = lab.used_by_others(evidence), expected_foreign(evidence)
        expect_numbers(got, expected, "sample by sample: busy less used, never below 0; the mean")
    unwatched = {"processor": {"ranks": [[0.9, 0.8]], "cores": []}}
    expect_equal(lab.used_by_others(unwatched), [], idea="nobody watched the cores")


@pytest.mark.points(2)
@pytest.mark.waits_for("test_decompose__waiting_ends_with_the_last_rank")
def test_slowest_rank__by_the_median_of_its_computing(lab):
    """Who computes longest as a rule; beside the fastest, not the next."""
    draw = random.Random(121)
    for seed, num_ranks in enumerate((3, 2, 4, 8, 2, 3, 4, 1)):
        evidence, _ = runs.tensor_parallel(
            seed, num_ranks=num_ranks, slow=draw.randrange(num_ranks), num_layers=2, num_steps=16,
            strength=draw.choice((1, 1.5, 3)),
        )  # fmt: skip
        if seed % 2:  # one long step moves a mean, and no median
            stop(evidence, draw.randrange(num_ranks), draw.randrange(16))
        expect_slowest(lab, evidence)
    for paces in ([900] * 3, [1000, 1300, 1500, 1400], [1000, 1300, 1300]):
        expect_slowest(lab, in_step(paces))
    evidence = in_step([900, 1200, 1000])  # rank 0 is longest more often than any other
    for rank, numbers_ in ((0, (0, 1, 2, 12, 13, 14, 15)), (2, (3, 4, 5))):
        for number in numbers_:
            stop(evidence, rank, number)
    expect_slowest(lab, evidence)


def expect_slowest(lab, evidence):
    got, (rank, ratio) = lab.slowest_rank(evidence), expected_slowest(evidence)
    expect_equal(len(got), 2, part=", its length", idea="a pair, (rank, ratio)")
    expect_equal(got[0], rank, part="[0]", idea="the largest median of compute_us, the first of it")
    idea = "the slowest rank's median over the FASTEST one's, no mean and no total"
    close_part(got[1], ratio, "[1]", idea)


RANKS = pytest.mark.waits_for(
    "test_decompose__waiting_ends_with_the_last_rank",
    "test_used_by_others__is_what_no_rank_did",
    "test_slowest_rank__by_the_median_of_its_computing",
)


@pytest.mark.points(3)
@RANKS
def test_look_at_ranks__a_slow_rank_is_who_the_others_wait_for(lab):
    """A rank is slow that computes longer, not one that waits, spins or often comes last"""
    draw = random.Random(94)
    look = lab.look_at_ranks
    expect_finding(look, *made(runs.tensor_parallel, 94), idea="noise is no fault")
    for seed in draw.sample(range(8), 8):
        num_ranks = draw.choice([2, 3, 4])
        slow, strength = seed % num_ranks, draw.uniform(1.8, 4)
        foreign = {slow: draw.uniform(0.15, 0.6)} if seed % 2 else {}
        cause = "busy-neighbour" if foreign else "slow-rank"
        run = made(
            runs.tensor_parallel, seed, slow=slow, strength=strength, foreign=foreign, cause=cause,
            **links(num_ranks, draw)
        )  # fmt: skip
        expect_finding(look, *run, idea="compare what each rank computes, without its waiting")
    for slowest in (1375, draw.uniform(1510, 1590), draw.uniform(1900, 4000)):
        paces = [1000, 1200, draw.uniform(1000, 1200)]
        paces.insert(draw.randrange(4), slowest)
        idea = "the mean step at the pace of the slowest of the others; a rank that waits spins"
        expect_finding(look, in_step(paces), idea=idea)
    for slowest in (1245, 1365, 1370):
        evidence = in_step(draw.sample([1000, slowest, 1100], 3))
        expect_finding(look, evidence, idea="a ratio of 1.37 or less is noise")
    evidence = in_step([1000, 1700, 1100])
    for rank, more in zip(evidence["ranks"], draw.sample(range(100, 9000), 3), strict=True):
        for step in rank["steps"]:
            step["end_us"] += more  # computing after its last collective
    idea = "the cost is over mean_step_us, of all ranks, as the given function has it"
    expect_finding(look, evidence, idea=idea)
    evidence = in_step([1000, 1700, 1100])
    stop(evidence, rank=0, number=3)  # now its mean is the longest
    idea = "its own mean less the longest of the OTHERS, be it below 0"
    expect_finding(look, evidence, idea=idea)
    stop(evidence, rank=2, number=4)  # now its mean is the shortest
    expect_finding(look, evidence, idea=idea)
    evidence, _ = made(runs.tensor_parallel, 5, num_layers=2)
    stop(evidence, rank=draw.randrange(2), number=draw.randrange(64))
    expect_finding(look, evidence, HEALTHY, idea="one long interruption is no slow rank")
    run = made(runs.tensor_parallel, 4, pace=1.6, num_layers=2, num_steps=32)
    expect_finding(look, *run, idea="all ranks are slower than on the healthy day, and alike")


@pytest.mark.points(1)
@RANKS
def test_look_at_ranks__a_capture_that_is_worth_nothing(lab):
    """Others on a core that is not the slow rank's: measure again."""
    draw = random.Random(96)
    for seed in draw.sample(range(8), 8):
        num_ranks = draw.choice([2, 3, 4]) if seed else 2  # of two, one comes last more often
        slow = draw.randrange(num_ranks)
        other, fault = (slow + 1) % num_ranks, {}
        if seed % 4 == 1:
            fault = {"foreign": {other: draw.uniform(0.2, 0.6)}}
        if seed % 4 == 3:
            share = draw.uniform(0.2, 0.5)
            fault = {"foreign": {other: share, slow: share}, "slow": slow, "strength": 1.8}
        cause = "disturbed" if fault else "healthy"
        run = made(runs.tensor_parallel, seed, cause=cause, **fault, **links(num_ranks, draw))
        idea = "others on a core that is not the slow rank's, be there a slow rank or not"
        expect_finding(lab.look_at_ranks, *run, idea=idea if fault else "noise is no fault")
    # the threshold, on either side; of a slow rank's core, of another's, and of all, one by one
    shares, cores = (0.06, 0.098, 0.1, 0.102), ((0,), (2,), (0, 1, 2))
    for share, where, pace in itertools.product(shares, cores, (1000, 1700)):
        evidence = in_step([1000, 1000, pace])
        used = 0.0 if share == 0.1 else 0.79  # 0.1 - 0.0 is exactly 0.1
        busy = [[used + share * (rank in where) for rank in range(3)]] * 2
        evidence["processor"] = {"ranks": [[used] * 3] * 2, "cores": busy}
        idea = "more than 0.1 of a core is somebody; it matters whose core it is"
        expect_finding(lab.look_at_ranks, evidence, idea=idea)


# --- the link -------------------------------------------------------------------------------------


@pytest.mark.points(2)
def test_link_line__is_the_line_through_the_medians(lab):
    """A few late messages leave latency and rate where they were."""
    draw = random.Random(92)
    for _ in range(8):
        latency, rate = draw.uniform(5, 400), draw.choice([6.25, 125.0, 3000.0])
        points = []
        for size in draw.sample(range(1024, 200_000, 1024), draw.randint(2, 6)):
            for n in range(9):  # two of nine are late
                points.append((size, (latency + size / rate) * (40 if n < 2 else 1)))
        draw.shuffle(points)
        got = lab.link_line(points)
        idea = "one median a size, late messages aside; us where the line begins, and bytes per s"
        atol = 1e-6 * (latency + 200_000 / rate)
        expect_close(got[0], latency, atol=atol, part="[0]", idea=idea)
        expect_close(got[1], 1e6 * rate, atol=1e-6 * 1e6 * rate, part="[1]", idea=idea)
    for _ in range(8):  # messages beside the line, of one size more than of another
        latency, rate = draw.uniform(20, 400), draw.uniform(10, 3000)
        size, points, medians = round(latency * rate * draw.uniform(0.5, 2)), [], []
        for times, count in enumerate(draw.sample(range(2, 9), 3), start=1):
            us = [latency * draw.uniform(0.8, 1.2) + times * size / rate for _ in range(count)]
            points += [(times * size, time) for time in us]
            medians.append(middle(us))
        draw.shuffle(points)
        slope, start = statistics.linear_regression([size, 2 * size, 3 * size], medians)
        got, idea = lab.link_line(points), "one median a size; least squares through all of them"
        expect_close(got[0], start, atol=1e-6 * latency, part="[0]", idea=idea)
        expect_close(got[1], 1e6 / slope, atol=1e-6 * 1e6 / slope, part="[1]", idea=idea)


@pytest.mark.points(1)
def test_link_line__flat_or_too_few(lab):
    """Times that do not grow with the size give no finite rate; one size gives no line."""
    draw = random.Random(75)
    sizes, us = draw.sample(range(1000, 99_999), 3), draw.randint(1, 999) / 2
    two = [(1000, 1.0), (2000, 1.0 + us)]
    idea = "two sizes give a line, which may begin below 0"
    expect_close(lab.link_line(two)[0], 1 - us, atol=1e-9, part="[0]", idea=idea)
    for grows, idea in [
        (0, "a flat line has no slope to divide by"),
        (-1e-3, "a line that falls has no rate either"),
    ]:
        got = lab.link_line([(size, us + grows * size) for size in sizes])
        rounded = isinstance(got[1], numbers.Real) and got[1] > 1e18 and not grows
        expect_equal(math.inf if rounded else got[1], math.inf, part="[1]", idea=idea)
        expect_close(got[0], us, atol=1e-6 * us, part="[0]", idea="where the line begins")
    one_size = [(sizes[0], us), (sizes[0], 2 * us)]
    expect_error(ValueError, lab.link_line, one_size, mentions=["sizes"])


@pytest.mark.points(2)
@pytest.mark.waits_for("test_decompose__waiting_ends_with_the_last_rank")
def test_decode_transfer__is_of_whole_decode_steps(lab):
    """A step's transfers together, decode steps only, median and tail."""
    draw = random.Random(122)
    for seed, num_steps in enumerate((2, 4, 3, 9, 116, 12, 160, 64)):
        evidence, _ = runs.tensor_parallel(
            seed, num_ranks=draw.choice((2, 3)), num_steps=num_steps,
            num_layers=2, latency_factor=9, bad_steps=draw.choice((0.02, 0.3)),
        )  # fmt: skip
        for rank, number in itertools.product(evidence["ranks"], range(0, num_steps, 16)):
            step = rank["steps"][number]
            is_prompt = number > 0 or seed % 2 == 0  # of two tokens
            step["tokens"] = step["requests"] + is_prompt
        gather_some(evidence, draw)
        for rank in evidence["ranks"] if num_steps == 9 else ():
            rank["steps"][1:4] = [step | {"collectives": []} for step in rank["steps"][1:4]]
        expected = expected_decode_transfer(evidence)
        got = lab.decode_transfer(evidence)
        expect_equal(len(got), 2, part=", its length", idea="a pair, (median, tail)")
        idea = "add up a step's transfers, of any kind and number; as many tokens as requests: it "
        idea += "decodes"
        close_part(got[0], expected[0], "[0]", idea)
        idea = "sorted, the one at index int(0.99 * (count - 1))"
        close_part(got[1], expected[1], "[1]", idea)


LINK = pytest.mark.waits_for(
    "test_decompose__waiting_ends_with_the_last_rank",
    "test_link_line__is_the_line_through_the_medians",
    "test_decode_transfer__is_of_whole_decode_steps",
)


@pytest.mark.points(4)
@LINK
def test_look_at_link__a_link_is_slow_or_unsteady(lab):
    """Slow moves the typical decode step's transfer, unsteady only the worst."""
    draw, look = random.Random(95), lab.look_at_link
    for seed in draw.sample(range(8), 8):
        num_ranks, factors = draw.choice([2, 3, 4]), [draw.uniform(2.5, 9), draw.uniform(2.5, 9)]
        fault = {"cause": "slow-link"}
        if seed % 2:
            factors = [draw.uniform(8, 15), draw.uniform(8, 15)]
            fault = {"cause": "unsteady-link", "bad_steps": draw.uniform(0.06, 0.2)}
        run = made(
            runs.tensor_parallel, seed, latency_factor=factors[0], rate_factor=factors[1], **fault,
            **links(num_ranks, draw),
        )  # fmt: skip
        idea = "the median of the decode steps, 1.6 times, and only then their tail, 2.4 times"
        expect_finding(look, *run, idea=idea)
    for seed in range(2):  # a bad decode step here is not as long as a good prefill
        run = made(
            runs.tensor_parallel, seed, link=(20, 100), latency_factor=4.5, rate_factor=4.5,
            bad_steps=0.08, cause="unsteady-link",
        )  # fmt: skip
        expect_finding(look, *run, idea="the tail of the decode steps, against the healthy one")
    run = made(
        runs.tensor_parallel, 3, num_steps=120, num_layers=2, latency_factor=9, rate_factor=9,
        bad_steps=0.001,
    )  # fmt: skip
    expect_finding(look, *run, idea="one bad step of 105 is beyond the 99th percentile")
    expect_link_at_the_limits(look)
    evidence, _ = runs.tensor_parallel(4, latency_factor=9, rate_factor=9, bad_steps=0.1)
    same = {key: evidence[key] for key in evidence if key != "healthy"}
    idea = "the tail against the healthy run's tail: here it is as long"
    expect_finding(look, evidence | {"healthy": same}, HEALTHY, idea=idea)
    evidence, _ = runs.tensor_parallel(8, num_ranks=3, slow=1, strength=3.0)
    expect_finding(look, evidence, HEALTHY, idea="who waits for a slow rank transfers as ever")


def expect_link_at_the_limits(look):
    """Medians and tails on either side of their thresholds, costs below 0, one payload size."""
    usual = in_step([1000, 1020])
    for transfer_us in (60, 79, 80, 81, 90):
        evidence = in_step([1000, 1020], transfer_us) | {"healthy": usual}
        idea = "of what the healthy run's transfer takes, up to 1.6 times is noise"
        expect_finding(look, evidence, idea=idea)
    for transfer_us, late_us in (
        (50, 118), (50, 120), (50, 122), (78, 130), (80, 130), (82, 130), (81, 60),
    ):  # fmt: skip
        evidence = in_step([1000, 1020], transfer_us, late_us=late_us) | {"healthy": usual}
        idea = "first the median, 1.6 times, then the tail, 2.4 times the healthy run's"
        expect_finding(look, evidence, idea=idea)
    evidence = in_step([1000, 1020], 90, late_us=100)
    evidence["healthy"] = in_step([1000, 1020], late_us=900)
    for step in evidence["ranks"][1]["steps"]:
        step["end_us"] += 900  # computing after its last collective
    expect_finding(
        look, evidence, idea="slow as a rule, and the healthy run was slower at its worst"
    )
    evidence = in_step([1000, 1020])
    for call in (
        call for rank in evidence["ranks"] for step in rank["steps"] for call in calls_of(step)
    ):
        call[1] = 2048
    expect_finding(look, evidence, idea="healthy: no line is asked for, and one size gives none")


# --- pipelines ------------------------------------------------------------------------------------


def served_later(evidence, us):
    """Clocks do not start at 0."""
    for request in evidence["requests"]:
        request["arrived_us"] += us
        request["token_us"] = [time + us for time in request["token_us"]]
    evidence["stages"] = [
        [[what, began + us, ended + us] for what, began, ended in stage]
        for stage in evidence["stages"]
    ]


def drawn_requests(draw, count):
    """Requests that come and go as they like; some overlap, some leave a gap."""
    found = []
    for _ in range(count):
        came, stay = draw.randrange(10**6), draw.randint(1, 400_000)
        times = sorted(came + draw.randint(1, stay) for _ in range(draw.randint(1, 9)))
        found.append({"arrived_us": came, "token_us": [*times[:-1], came + stay]})
    return found


@pytest.mark.points(2)
def test_requests_in_flight__by_littles_law(lab):
    """The time of all requests over the window; how many there were does not matter."""
    draw = random.Random(123)
    for count in (1, 1, 2, 3, 8, 40):
        evidence = {"requests": drawn_requests(draw, count)}
        idea = "count who is here at each moment, and take the mean over the whole window"
        close(lab.requests_in_flight(evidence), expected_in_flight(evidence), idea)
    times = [100 * n for n in range(1, 25)]
    after = [
        {"arrived_us": came, "token_us": times[came // 100 : came // 100 + 6]}
        for came in (0, 600, 1200, 1800)
    ]
    idea = "four requests, one after the other: one in flight"
    close(lab.requests_in_flight({"requests": after}), 1.0, idea)


@pytest.mark.points(2)
@pytest.mark.waits_for("test_requests_in_flight__by_littles_law")
def test_look_at_requests__fewer_than_stages(lab):
    """Too few requests leave stages idle."""
    draw, look = random.Random(98), lab.look_at_requests
    for seed in draw.sample(range(12), 12):
        num_stages = draw.randint(2, 6)
        count = draw.randint(1, num_stages - 1) if seed % 3 else num_stages + draw.randint(0, 6)
        run = made(runs.in_flight, seed, num_stages=num_stages, num_requests=count)
        served_later(run[0], draw.randrange(10**7, 10**8))
        expect_finding(look, *run, idea="requests in flight against stages")
    for stages, part in itertools.product((1, 2, 3, 8), (0.49, 0.5, 0.51)):
        requests = [{"arrived_us": 7, "token_us": [9, 10**6 + 7]} for _ in range(stages - 1)]
        requests += [{"arrived_us": 7, "token_us": [round(part * 10**6) + 7]}]
        requests += [{"arrived_us": 10**6 + 7, "token_us": [10**6 + 7]}] * (stages == 1)
        evidence = {"plan": {"tp_size": 2, "pp_size": stages}, "requests": requests}
        evidence["in_flight"] = 4  # how many a recording's client kept, at most
        expect_finding(look, evidence, idea="half a request fewer than stages, or more")
    for stages, busy in itertools.product((1, 2, 4), (0.3, 0.45, 0.55, 0.9)):
        # in flight, the peak, the number of requests and the idle time of stages all differ
        requests = drawn_requests(draw, 6)
        requests = [{"arrived_us": 0, "token_us": [10**6]}] * (stages - 1) + [
            {"arrived_us": 0, "token_us": [round(busy * 10**6 / 3)]} for _ in range(3)
        ]
        execute = [["execute", 0, draw.randint(1, 10**6)] for _ in range(stages)]
        requests.append({"arrived_us": 10**6 - 1, "token_us": [10**6]})
        evidence = {"plan": {"tp_size": 1, "pp_size": stages}, "requests": requests}
        evidence["stages"] = [[span] for span in execute]
        idea = "requests in flight, neither their number, nor the peak, nor what stages are seen do"
        expect_finding(look, evidence, idea=idea)


@pytest.mark.points(2)
def test_stage_times__are_the_medians_of_busy_time_and_pace(lab):
    """The slow stage is busy longest, and the last stage's results come at its pace."""
    draw = random.Random(93)
    for seed in range(12):
        num_stages, count = draw.randint(2, 6), draw.choice([1, 2, 5, 12])
        evidence, _ = runs.microbatches(
            seed,
            num_stages=num_stages,
            count=count,
            slow=draw.randrange(num_stages),
            strength=draw.uniform(1, 3),
        )
        rows = evidence["microbatches"]
        for row in itertools.chain(*rows):  # a result may lie about before it is handed on
            row[3] += draw.randint(0, 50_000)
        busy = [middle([row[2] - row[1] for row in stage]) for stage in rows]
        last = rows[-1]
        pace = [last[n][2] - last[n - 1][2] for n in range(1, count)]
        period = middle(pace) if pace else last[0][2] - last[0][1]
        got = lab.stage_times(rows)
        idea = "the median of the times between two results of the last stage, computed, not sent"
        idea = idea if pace else "with one microbatch the last stage's busy time"
        expect_close(got[1], period, atol=1e-9, part="[1]", idea=idea)
        for stage, us in enumerate(busy):
            idea = "the median from having its input to having computed"
            expect_close(got[0][stage], us, atol=1e-9, part=f"[0][{stage}]", idea=idea)


@pytest.mark.points(3)
@pytest.mark.waits_for("test_stage_times__are_the_medians_of_busy_time_and_pace")
def test_look_at_stages__one_is_busier_than_the_typical(lab):
    """The busy time says which stage is slow; more microbatches do not mend it."""
    draw, look = random.Random(124), lab.look_at_stages
    for seed in draw.sample(range(12), 12):
        num_stages = draw.randint(3, 7)
        slow = draw.randrange(num_stages) if seed % 3 else None
        run = made(
            runs.microbatches, seed, num_stages=num_stages, count=draw.randint(1, 20),
            slow=slow, strength=draw.uniform(1.6, 3),
        )  # fmt: skip
        expect_finding(look, *run, idea="busy time per microbatch, stage by stage")
    for busy, count, every, idea in (
        ([50, 100], 8, 0, "of two stages the faster one is the typical"),
        ([100, 100, 180, 100], 1, 0, "one microbatch: every stage works once"),
        ([50, 100, 100, 100], 8, 0, "a fast stage makes no other one slow"),
        ([100] * 4, 8, 300, "whoever waits for work is not slow"),
        ([100, 150, 100, 200], 6, 0, "no stage longer than the typical: both, not one"),
        ([200, 100, 200, 100], 3, 0, "the first of several that are as slow"),
        ([100, 136, 100], 4, 0, "1.37 times the typical one, or more"),
        ([100, 137, 100], 4, 0, "1.37 times the typical one, or more"),
        ([70], 5, 0, "a single stage is the typical one"),
    ):
        evidence = {"plan": {}, "microbatches": stages_of(busy, count, every)}
        expect_finding(look, evidence, idea=idea)


def stages_of(busy_us, count, every_us=0):
    """Microbatches without noise; one comes each every_us."""
    came, stages = [n * every_us for n in range(count)], []
    for us in busy_us:
        free, rows = 0, []
        for at in came:
            asked, received = free, max(free, at)
            free = received + us
            rows.append([asked, received, free, free])
        came = [row[2] for row in rows]
        stages.append(rows)
    return stages


# --- what no clock shows, and a training step ----------------------------------------------------


@pytest.mark.points(3)
def test_look_at_start_up__engines_and_copies(lab):
    """Engines of their own, and KV heads held twice, show in no timing."""
    draw, look = random.Random(97), lab.look_at_start_up
    for seed in draw.sample(range(10), 10):
        tp_size = draw.choice([2, 4, 8])
        fewer = draw.choice([size for size in (1, 2, 4) if size < tp_size])
        kinds = [(fewer, 8), (tp_size, fewer), (tp_size, draw.choice([8, 16]))]
        world_size, kv_heads = kinds[seed % 3]
        run = made(
            runs.started, seed, tp_size=tp_size, world_size=world_size, num_kv_heads=kv_heads
        )
        expect_finding(look, *run, idea="hold the start-up against the plan")
        run[0]["start_up"] = run[0]["start_up"][: draw.randint(1, 2)]
        expect_finding(look, *run, idea="world sizes, not processes: a log may lack some")
    evidence, _ = runs.started(99, tp_size=4, world_size=4, num_kv_heads=8)
    for process in evidence["start_up"]:  # an engine that does not divide the heads it could
        process["kv_cache"] = process["kv_cache"] | {"kv_heads": 8}
    idea = "what each rank holds, against what there is to hold"
    expect_finding(look, evidence, HEALTHY | {"cause": "copied-heads", "cost": 3 / 4}, idea=idea)
    for tp_size, world_size, heads in (
        (6, 4, 2),
        (4, 2, 8),
        (4, 8, 2),
        (2, 2, 2),
        (2, 2, 5),
        (4, 4, 3),
    ):
        evidence, _ = runs.started(99, tp_size=tp_size, world_size=tp_size, num_kv_heads=8)
        for process in evidence["start_up"]:
            process |= {"world_size": world_size, "kv_cache": {"kv_heads": heads}}
        idea = "above 1, be it by a part; 1 and below is as planned"
        expect_finding(look, evidence, idea=idea)
    for stages in (2, 3, 4):
        evidence, _ = runs.in_flight(stages, num_stages=stages, num_requests=stages)
        expect_finding(look, evidence, HEALTHY, idea="stages are ranks too, and hold no copies")
        alone = {"rank": 0, "world_size": 1}
        evidence["start_up"] = [process | alone for process in evidence["start_up"]]
        truth = {"cause": "replicas", "where": None, "cost": 1 - 1 / stages}
        expect_finding(look, evidence, truth, idea="planned are tp_size x pp_size ranks")


@pytest.mark.points(1)
def test_share_waited__of_all_ranks_together(lab):
    """Waits over the ranks' steps, from first span to last; to issue is not to wait."""
    draw = random.Random(125)
    for waited in (0, 900, 5000):
        spans = spans_of(draw, waited)
        draw.shuffle(spans[1])  # what overlaps is not in order
        idea = "all waits over all steps, each from its first beginning to its last end"
        close(lab.share_waited(spans), expected_share(spans), idea)
    for _ in range(6):  # two lanes overlap: who begins first may end last
        spans = []
        for number in (9, 4):
            began = [draw.randrange(5000) for _ in range(number)]
            lanes = ["wait", "GEMM", *draw.choices(("issue", "GEMM", "wait"), k=number - 2)]
            rows = zip(lanes, began, strict=True)
            spans.append([[lane, "x", at, at + draw.randint(1, 9000)] for lane, at in rows])
        idea = "a rank's step ends with the latest end, which may be of an early span"
        close(lab.share_waited(spans), expected_share(spans), idea)


@pytest.mark.points(1)
@pytest.mark.waits_for("test_share_waited__of_all_ranks_together")
def test_look_at_overlap__against_the_healthy_step(lab):
    """A training step that waits for its transfers again."""
    draw, look = random.Random(99), lab.look_at_overlap
    for seed in draw.sample(range(6), 6):
        run = made(
            runs.training, seed, num_ranks=2 + seed % 2, overlapped=bool(seed % 2),
            payload=draw.uniform(0.4, 1),
        )  # fmt: skip
        expect_finding(look, *run, idea="waiting against the healthy run's")
    usual = spans_of(draw, 900)
    for waited in (900, 1300, 1600, 5000):
        evidence = {"plan": {}, "spans": spans_of(draw, waited), "healthy": {"spans": usual}}
        idea = "of a step, from its first span to its last, what was waited; to issue is not to"
        expect_finding(look, evidence, idea=idea)
    for waited in (148, 152):
        run = [["GEMM", "y[0]", 0, 1000 - waited], ["wait", "x[0]", 1000 - waited, 1000]]
        usual = [["GEMM", "y[0]", 5, 955], ["wait", "x[0]", 955, 1005]]
        evidence = {"spans": [run, run], "healthy": {"spans": [usual, usual]}}
        expect_finding(look, evidence, idea="a tenth of the step more than on the healthy day")
    for waited, usual in ((99, 0), (100, 0), (101, 0), (0, 300)):
        times = [[["GEMM", "y", 0, 1000], ["wait", "x", 0, us]] for us in (waited, usual)]
        evidence = {"spans": [times[0]] * 2, "healthy": {"spans": [times[1]] * 2}}
        idea = "at least a tenth above the healthy run's; to wait less is no fault"
        expect_finding(look, evidence, idea=idea)
    evidence = {"spans": spans_of(draw, 5000)}
    evidence["healthy"] = dict(evidence)
    expect_finding(look, evidence, HEALTHY, idea="it waits as long as on the healthy day")


def spans_of(draw, waited):
    """The spans of two ranks, with gaps between them."""
    ranks = []
    for pieces in (8, 3):
        at = draw.randrange(10**6)
        rows = []
        for piece in range(pieces):
            spans = ("issue", 700), ("wait", waited), ("GEMM", 4000)
            for lane, us in spans:
                at += draw.randint(100, 500)
                us += draw.randint(0, 200)
                rows.append([lane, f"{lane}[{piece}]", at, at + us])
                at += us
        ranks.append(rows)
    return ranks


EVERY_LOOK = (
    "test_look_at_start_up__engines_and_copies",
    "test_look_at_ranks__a_slow_rank_is_who_the_others_wait_for",
    "test_look_at_ranks__a_capture_that_is_worth_nothing",
    "test_look_at_link__a_link_is_slow_or_unsteady",
    "test_look_at_requests__fewer_than_stages",
    "test_look_at_stages__one_is_busier_than_the_typical",
    "test_look_at_overlap__against_the_healthy_step",
)


@pytest.mark.points(2)
@pytest.mark.waits_for(*EVERY_LOOK)
def test_diagnose__asks_in_order(lab):
    """The start-up first, the link last; the first fault is the answer."""
    draw = random.Random(126)
    for seed in range(4):
        size = {"num_ranks": draw.choice((2, 4)), "num_steps": 24, "num_layers": 2}
        both = {"slow": 1, "strength": 2.5, "latency_factor": 9, "rate_factor": 9}
        evidence, _ = runs.tensor_parallel(seed, **size, **both)
        diagnosed(lab, evidence, "a slow rank comes before the link")
        evidence["plan"] = evidence["plan"] | {"pp_size": 2}
        diagnosed(lab, evidence, "the start-up comes before every timing")
        for process in evidence["start_up"]:
            process["world_size"] *= 2
        diagnosed(lab, evidence, "what the evidence holds decides, not the plan")
        diagnosed(lab, runs.tensor_parallel(seed, **size)[0], "healthy: all looks were taken")
        fault = {"latency_factor": 9, "rate_factor": 9}
        diagnosed(lab, runs.tensor_parallel(seed, **size, **fault)[0], "the link comes last")
        stages = draw.randint(2, 4)
        evidence, _ = runs.in_flight(seed, num_stages=stages, num_requests=1 + seed % 2 * 5)
        diagnosed(lab, evidence, "stages: the start-up, then the requests")
        for process in evidence["start_up"]:
            process["world_size"] = 1
        diagnosed(lab, evidence, "stages: the start-up comes before the requests")
        slow = draw.choice((None, 0))
        evidence, _ = runs.microbatches(seed, num_stages=3, count=5, slow=slow, strength=2.0)
        evidence["plan"] = {"tp_size": 1, "pp_size": 3}
        diagnosed(lab, evidence, "microbatches: the stages alone")
        evidence, _ = runs.training(seed, num_ranks=2, overlapped=bool(seed % 2))
        diagnosed(lab, evidence, "spans: the overlap alone")


def diagnosed(lab, evidence, idea, truth=None, within=0.0):
    with looking_at("the first fault ends the looks: the next ones may have nothing to look at"):
        expect_finding(lab.diagnose, evidence, truth, idea, expected_finding, within)


LIKE_THE_RECORDED = (
    {"slow": 0, "strength": 2.5, "cause": "slow-rank"},
    {"slow": 1, "strength": 2.5, "cause": "slow-rank"},
    {"latency_factor": 6, "rate_factor": 6, "cause": "slow-link"},
    {"cause": "healthy"},
)


@pytest.mark.points(4)
@pytest.mark.waits_for(*EVERY_LOOK)
@pytest.mark.parametrize("number", sorted(recordings.answers()))
def test_diagnose__the_recorded_incidents(lab, number):
    """Each recorded run, every repeat: the cause, where it sits, and its cost."""
    answer = recordings.answers()[number]
    count = recordings.repeats(number)
    assert count, f"incident {number} has no recording"
    for repeat in range(count):
        evidence = recordings.load(number, repeat)
        truth = answer | {"made": f"python -m incidents show {number}, repeat {repeat}"}
        # the docstrings say what a cost is, to the last step
        diagnosed(lab, evidence, f"incident {number}", truth, within=0.02)
    evidence, truth = made(
        runs.tensor_parallel, number, **random.Random(number).choice(LIKE_THE_RECORDED)
    )
    diagnosed(lab, evidence, "a run like the recorded ones, which nobody has seen", truth=truth)
