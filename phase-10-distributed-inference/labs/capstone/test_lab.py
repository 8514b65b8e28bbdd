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

from labkit.expect import expect_close, expect_equal, expect_error
from labkit.loading import load_module
from labkit.recorder import brief, describe_call

GB = 10**9


def close(actual, expected, idea, rel=1e-9):
    """A number within rounding: rel of it, since every expected value is a handful of products."""
    expected = float(expected)
    expect_close(actual, expected, atol=rel * abs(expected) + 1e-300, idea=idea)


def expect_refusals(function, good, **wrong):
    """Of arguments that are `good`, each of these values alone is a ValueError that names it."""
    for name, values in wrong.items():
        idea = f"bad numbers are refused, require({name}={name}, ...)"
        for value in values:
            bad = good | {name: value}
            expect_error(ValueError, function, **bad, mentions=[name], idea=idea)


NAN = float("nan")


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
        edges = [Fraction(width * rank, tp * block) for rank in range(tp + 1)]
        if any(edge.denominator > 1 for edge in edges):  # a cut through a block
            faults.append(name)
    return faults


@pytest.mark.points(5)
def test_split_faults__name_everything_that_does_not_divide(lab):
    """Heads and widths must divide; few KV heads are held several times."""
    models = [
        shape(),
        shape(28, 4, 28, intermediate_size=(18944, 1)),
        shape(52, 52, 60, intermediate_size=(17920, 1)),
        shape(24, 6, 4, a=(96, 1), b=(1000, 1)),
        shape(64, 8, 80, x=(29568, 1)),
    ]
    draw = random.Random(81)
    for _ in range(5):
        kv_heads, widths = draw.randint(1, 12), [48 * draw.randint(1, 99), draw.randint(1, 9999)]
        heads = kv_heads * draw.randint(1, 12)
        models.append(shape(heads, kv_heads, 4, a=(widths[0], 1), b=(widths[1], 1)))
    for model, tp in itertools.product(models, [1, 2, 3, 4, 6, 7, 8, 12, 16, 32]):
        expected = faults_by_dealing(model, tp, 1)
        expect_equal(
            lab.split_faults(model, tp, 1), expected, idea="deal every dimension out to the ranks"
        )


@pytest.mark.points(2)
def test_split_faults__latent_stages_and_blocks(lab):
    """A latent has no heads; a stage needs a layer; blocks stay whole."""
    draw = random.Random(82)
    layers, block = draw.randint(8, 60), draw.choice((32, 64, 96))
    dense = block * (4 * draw.randint(1, 99) + 2)  # two ranks cut it between blocks, four do not
    heads = 4 * draw.randrange(3, 32, 2)  # they are divided, though their cache is not
    latent = shape(heads, 3, layers, latent=True, moe=(2048, 128), dense=(dense, block))
    blocked = shape(32, 8, 6, intermediate_size=(dense, block))
    ragged = shape(32, 8, layers, intermediate_size=(dense + draw.randrange(1, block), block))
    for model, idea in [
        (latent, "MLA has one latent for all, and a head of its own for every query"),
        (blocked, "a shard is a whole number of blocks"),
        (ragged, "a shard is a whole number of blocks, also where the width is not"),
    ]:
        tp_sizes = [2, 4, 8, 16, 32] if model is ragged else [1, 2, 4, 8, 16, 32]
        for tp, pp in itertools.product(tp_sizes, [1, 4, 7, layers, layers + 1]):
            expected = faults_by_dealing(model, tp, pp)
            at = "a stage needs a layer" if pp > model["num_layers"] else idea
            expect_equal(lab.split_faults(model, tp, pp), expected, idea=at)


@pytest.mark.points(1)
def test_split_faults__bad_input(lab):
    """Sizes below 1 are a ValueError that names the size."""
    draw = random.Random(83)
    below, layers, idea = (
        draw.randint(-99, -1),
        draw.randint(2, 99),
        "require(tp_size=tp_size, ...)",
    )
    model = shape(layers=layers)
    wrong = [(0, 1, "tp_size"), (1, 0, "pp_size"), (below, layers, "tp_size"), (2, layers, "")]
    for tp, pp, word in draw.sample(wrong, len(wrong)):
        if not word:  # nothing is wrong with this one
            expect_equal(lab.split_faults(model, tp, pp), [])
            continue
        expect_error(ValueError, lab.split_faults, model, tp, pp, mentions=[word], idea=idea)


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
        for heads, count in [(8, 32), (4, draw.randint(1, 99)), (1, draw.randint(1, 99))]:
            layers = [FULL | {"kv_heads": heads, "count": count, "head_dim": draw.randint(1, 256)}]
            expected = kept_by_appending(layers, tokens, tp)
            close(lab.sequence_kv_bytes(layers, tokens, tp), expected, "keys AND values")
    good = {"layers": [FULL], "num_tokens": 10, "tp_size": 2}
    expect_refusals(lab.sequence_kv_bytes, good, num_tokens=[-1], tp_size=[0, -2])


@pytest.mark.points(4)
def test_sequence_kv_bytes__windows_latents_and_states(lab):
    """A window forgets, a latent is whole everywhere, a state stays."""
    draw = random.Random(15)
    for tokens, tp, _ in itertools.product([0, 1, 50, 100, 101, 500], [1, 2, 4, 8], range(3)):
        layers = draw.sample([FULL, WINDOW, LATENT, STATE], draw.randint(1, 4))
        layers = [layer | {"count": draw.randint(1, 99)} for layer in layers]
        expected = kept_by_appending(layers, tokens, tp)
        close(lab.sequence_kv_bytes(layers, tokens, tp), expected, "each kind by its own rule")


VERDICTS_OF = ["reported_bytes", "utilization", "weights_bytes", "other_bytes"]
VERDICTS_OF += ["layers", "tp_size", "tokens", "full_context"]


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


@pytest.mark.points(6)
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
        exact = [kept_by_appending(layers, many, tp) for many in (tokens, full)]
        rooms = [-1, 0, *drawn, 200_000, *exact, exact[0] - 1, exact[1] - 1]
        cases = [(300_000, 200_000 - room) for room in rooms]
        heavy = 500_000, 500_001, draw.randint(600_000, 999_999)
        for weights, other in [*cases, *((weights, 0) for weights in heavy)]:
            asked = (1_000_000, 0.5, weights, other, layers, tp, tokens, full)
            got, expected = lab.memory_verdicts(*asked), verdicts_by_trying(*asked)
            expect_equal(
                sorted(got), sorted(expected), idea="exactly these keys", part=", its keys"
            )
            idea = "free = utilization x reported - weights - other, on ONE rank"
            close(got["kv_bytes"], expected["kv_bytes"] or 0.0, f"kv_bytes, {idea}")
            plain = [{k: v for k, v in one.items() if k != "kv_bytes"} for one in (got, expected)]
            expect_equal(*plain, idea=idea)
            seen.add(
                tuple(expected[k] for k in ("weights_load", "tokens_fit", "full_context_fits"))
            )
    assert len(seen) >= 4  # the sweep did tell the verdicts apart


@pytest.mark.points(2)
@pytest.mark.waits_for("test_sequence_kv_bytes__heads_are_divided_and_held_again")
def test_memory_verdicts__of_an_h100(lab):
    """80 GB is a label: a 72 B loads on two H100, its context does not."""
    layers, draw = [FULL | {"count": 80}], random.Random(86)
    weights, other = draw.uniform(71.5, 73.5) * GB, draw.uniform(2, 3.5) * GB
    asked = (81_559 * 2**20, 0.92, weights, other, layers, 2, 2000, 32_768)
    got, free = lab.memory_verdicts(*asked), 0.92 * 81_559 * 2**20 - weights - other
    longest = int(free // (2 * 80 * 4 * 128 * 2))
    expected = {"weights_load": True, "tokens_fit": True, "full_context_fits": False}
    expect_equal({key: got[key] for key in expected}, expected, idea="bytes the driver reports")
    expect_equal(got["longest_context"], longest, idea="one sequence, this rank")


@pytest.mark.points(1)
def test_memory_verdicts__bad_input(lab):
    """A utilization outside (0, 1] is a ValueError that names it."""
    draw = random.Random(87)
    asked = (draw.uniform(1e9, 1e11), 1.0, 1e8, 1e8, [STATE], 1, 1, 10)
    parts = [0, 1.01, -draw.random(), float("nan"), draw.randint(2, 99), 1.0]
    good = dict(zip(VERDICTS_OF, asked, strict=True))
    counts = ("reported_bytes", "weights_bytes", "other_bytes")
    expect_refusals(lab.memory_verdicts, good, **{name: [NAN, -1e6] for name in counts})
    for wrong in draw.sample(parts, len(parts)):
        if wrong == 1.0:  # which is all of it
            assert lab.memory_verdicts(*asked)["weights_load"] is True
            continue
        bad = (asked[0], wrong, *asked[2:])
        expect_error(
            ValueError,
            lab.memory_verdicts,
            *bad,
            mentions=["utilization"],
            idea="a part of 1, not per cent",
        )


def distinct_experts(num_experts, top_k, tokens):
    """Mean number of experts that somebody chose, over all ways to choose."""
    choices = list(itertools.combinations(range(num_experts), top_k))
    ways = list(itertools.product(choices, repeat=tokens))
    return Fraction(sum(len(set().union(*way)) for way in ways), len(ways))


@pytest.mark.points(6)
def test_touched_bytes__experts_that_somebody_chose(lab):
    """One token reads top_k experts, a large batch all, none twice."""
    draw = random.Random(88)
    for experts, top_k in [(2, 1), (4, 1), (4, 2), (5, 3), (3, 3)]:
        for tokens in (1, 2, 3):
            always, routed = draw.randint(0, 10**9), draw.randint(10**9, 10**12)
            expected = always + routed * distinct_experts(experts, top_k, tokens) / experts
            idea = "an expert stays unread when every token passes it by"
            close(lab.touched_bytes(always, routed, experts, top_k, tokens), expected, idea)
        # 2.5 tokens twice, independent of each other, are 5
        for twice in (5, 1):
            missed = 1 - distinct_experts(experts, 1, twice) / experts
            expected = routed * (1 - math.sqrt(missed))
            idea = f"a mean of {twice / 2} tokens a step is asked for as well"
            close(lab.touched_bytes(0, routed, experts, 1, twice / 2), expected, idea)
    near = lab.touched_bytes(5 * GB, 100 * GB, 128, 8, 1000)
    close(near, 105 * GB, "everybody is chosen", 1e-6)
    close(lab.touched_bytes(5, 0, 8, 2, 3), 5, "experts may hold nothing here")
    good = {"always_bytes": 1, "experts_bytes": 1, "num_experts": 8, "top_k": 2, "tokens": 2}
    expect_refusals(
        lab.touched_bytes,
        good,
        always_bytes=[-5, NAN],
        experts_bytes=[-5],
        top_k=[0, 9],
        tokens=[0],
    )


def tiles(weight_bytes, macs, tokens, memory, flops, count=50):
    """Weights come tile by tile, each is read while the one before is multiplied."""
    reading = [Fraction(weight_bytes) / count / Fraction(memory)] * count
    multiplying = [2 * Fraction(macs) * tokens / count / Fraction(flops)] * count
    return sum(map(max, reading, multiplying))


SPEEDS = {"memory_bytes_per_s": 1e12, "flops_per_s": 1e14}


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
    ]:
        for tokens in (1, draw.randint(2, 99), 147, 296, 1000, 4096):
            expected = tiles(weights, macs, tokens, memory, flops) + Fraction(kv, memory)
            got = lab.decode_compute_s(weights, kv, macs, tokens, memory, flops)
            close(got, float(expected), "max(reading, 2 x macs x tokens / flops), then cache")
    good = {"weight_bytes": 1, "kv_bytes": 1, "macs": 1, "tokens": 1} | SPEEDS
    expect_refusals(
        lab.decode_compute_s,
        good,
        tokens=[-3, 0],
        kv_bytes=[-1],
        memory_bytes_per_s=[0],
        weight_bytes=[-1],
        macs=[-1],
    )


@pytest.mark.points(3)
def test_ridge_tokens__where_the_roofs_meet(lab):
    """On an H100 in bf16 arithmetic takes over at {295} tokens a step."""
    draw = random.Random(80)
    for width, memory, flops in [
        (2, 3.35e12, 989e12),
        (1, 3.35e12, 1979e12),
        (draw.uniform(0.4, 4), draw.uniform(1e12, 9e12), draw.uniform(1e14, 3e15)),
    ]:
        low, high = 0.0, 1e6
        for _ in range(200):  # reading one weight against multiplying it by so many tokens
            middle = (low + high) / 2
            low, high = (middle, high) if 2 * middle / flops < width / memory else (low, middle)
        idea = "bytes / bandwidth = 2 x tokens / flops"
        close(lab.ridge_tokens(width, memory, flops), low, idea, 1e-9)
    expect_refusals(
        lab.ridge_tokens,
        {"bytes_per_weight": 2} | SPEEDS,
        bytes_per_weight=[0],
        flops_per_s=[NAN],
        memory_bytes_per_s=[0],
    )


@pytest.mark.points(5)
@pytest.mark.waits_for("test_decode_compute_s__the_higher_of_two_roofs")
def test_prefill_compute_s__grows_with_the_square_as_well(lab):
    """A prompt's cost is linear, and attention adds half a square."""
    draw = random.Random(79)
    memory, flops = draw.randint(1000, 8000) * GB, draw.randint(300_000, 900_000) * GB
    prompts = [draw.randint(20_000, 40_000), 1, 128, draw.randint(1000, 3000)]
    for prompt, width in itertools.product(prompts, [0, 128 * draw.randint(999, 9999)]):
        weights, macs = 16 * GB, 8 * GB
        # token i looks back at i of them; the mean of i - 1/2 and i + 1/2, as an integral would
        pairs = Fraction(sum(2 * i - 1 for i in range(1, prompt + 1)), 2)
        expected = tiles(weights, macs, prompt, memory, flops) + 4 * pairs * width / flops
        got = lab.prefill_compute_s(prompt, weights, macs, width, memory, flops)
        idea = "queries x keys and weights x values: 2 x 2 x prompt^2 / 2 x width"
        close(got, float(expected), idea)
    good = {"prompt_tokens": 9, "weight_bytes": 1, "macs": 1, "attention_width": 1} | SPEEDS
    expect_refusals(
        lab.prefill_compute_s, good, prompt_tokens=[0], attention_width=[-1], flops_per_s=[0]
    )


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
    """(step, prefill, output, clients, slots): more clients than slots, and fewer."""
    draw = random.Random(78)
    for most_clients, most_slots in ((12, 5), (5, 12)):
        step, prefill = draw.uniform(0.001, 0.05), draw.uniform(0.01, 0.5)
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
    good = {"step_s": 0.01, "prefill_s": 0.1, "output_tokens": 9, "concurrency": 4, "slots": 4}
    expect_refusals(
        lab.serve,
        good,
        step_s=[NAN, 0],
        prefill_s=[-1],
        output_tokens=[-3],
        slots=[-1, 0],
        concurrency=[0],
    )


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
        idea = "first a slot, then the prompts under way, then your own, then one step"
        close(got, waited + ahead + prefill + step, f"ttft_s, {idea}")


@pytest.mark.points(2)
def test_cost_per_million_tokens__all_gpus_all_seconds(lab):
    """A million tokens cost all the GPUs for as long as they take."""
    draw = random.Random(77)
    for gpus in (1, 8, draw.randint(2, 99)):
        rate, price = draw.uniform(10, 99_999), draw.uniform(0.1, 9)
        minutes = Fraction(10**6) / Fraction(rate) / 60
        expected = float(minutes / 60 * gpus * Fraction(price))
        got = lab.cost_per_million_tokens(rate, gpus, price)
        close(got, expected, "seconds for a million x price of all GPUs per second")
    close(lab.cost_per_million_tokens(100.0, 8, 0), 0, "a price may be 0")
    good = {"tokens_per_s": 100.0, "num_gpus": 8, "price_per_gpu_hour": 2.0}
    expect_refusals(
        lab.cost_per_million_tokens,
        good,
        tokens_per_s=[-100.0],
        num_gpus=[-8],
        price_per_gpu_hour=[NAN, -2.0],
    )


def candidate(name, gpus, ttft, tpot, rate, spread=1.3):
    times = {"ttft_s": ttft, "tpot_s": tpot}
    found = {key: [value / spread, value, value * spread] for key, value in times.items()}
    found["tokens_per_s"] = [rate * spread, rate, rate / spread]
    return {"name": name, "num_gpus": gpus} | found


@pytest.mark.points(4)
def test_choose__most_tokens_per_gpu_within_the_limits(lab):
    """Of the plans within both limits, the most tokens/s per GPU."""
    eight, one = candidate("eight", 8, 0.1, 0.035, 800), candidate("one", 1, 0.1, 0.035, 100)
    even = [candidate(name, 1, 0.1, 0.02, 200, spread=1.0) for name in "ba"]
    none = {"choice": None, "runner_up": None, "close": False}
    for plans, limits, expected, idea in [
        ([one], (None, 0.03), none, "the typical time keeps a limit, not the best"),
        ([one], (0, None), none, "None is no limit, 0 is one that nobody keeps"),
        ([eight, one], (None, None), ["one", "eight"], "a tie goes to fewer GPUs"),
        (
            even,
            (None, None),
            ["b", "a"],
            "a tie goes to the earlier; as good as its worst is close",
        ),
    ]:
        if expected is not none:
            expected = {"choice": expected[0], "runner_up": expected[1], "close": True}
        expect_equal(lab.choose(plans, *limits), expected, idea=idea)
    draw = random.Random(4)
    for _ in range(60):
        plans = [
            candidate(
                f"plan {n}",
                draw.choice([1, 2, 4, 8]),
                draw.choice([0.1, 0.5, 2.0]),
                draw.choice([0.01, 0.03, 0.09]),
                draw.choice([400, 800, 1600]) * (n + 1),
                draw.choice([1.02, 1.5]),
            )
            for n in range(draw.randint(0, 6))
        ]
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
        expect_equal(
            lab.choose(plans, ttft, tpot), expected, idea="limits first, then tokens per GPU"
        )


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
        got = lab.regret(predicted, measured)
        idea = "measured: best less choice, as a part of the best"
        expect_close(got, expected, atol=1e-12, idea=idea)
    others = {"TP2": 1.0, "TP4": 2.0, "TP16": 3.0}, {"TP2": 1.0}, {}, measured | {"TP16": 3.0}
    for predicted in others:
        expect_error(ValueError, lab.regret, predicted, measured, idea="both hold the same names")
    expect_error(ValueError, lab.regret, {}, {}, idea="there is nothing to choose from")
    expect_close(lab.regret({"TP2": 9.0}, {"TP2": 5.0}), 0, atol=1e-12, idea="one may be all")


# --- Part B: debug the classics ------------------------------------------------------------------

EVIDENCE = Path(__file__).with_name("evidence")
runs = load_module(EVIDENCE / "simulate.py")
recordings = load_module(EVIDENCE / "recordings.py")


def links(num_ranks, draw):
    return {
        "num_ranks": num_ranks,
        "link": draw.choice([(40, 2000), (270, 100), (20, 9000)]),
        "num_layers": draw.choice([2, 4]),
    }


@pytest.mark.points(5)
def test_decompose__waiting_ends_with_the_last_rank(lab):
    """Who comes early waits for the last one; only what follows is transfer."""
    draw = random.Random(90)
    for seed in range(4):
        num_ranks = draw.choice([2, 3, 4])
        slow = draw.randrange(num_ranks)
        evidence, _ = runs.tensor_parallel(
            seed, slow=slow, strength=1.0 + seed % 2, num_steps=6, **links(num_ranks, draw)
        )
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
                left = [0, *ends[:-1]]
                computed = sum(a - b for a, b in zip(came, left, strict=True))
                tail = step["end_us"] - step["start_us"] - ends[-1]
                expected["compute_us"][rank].append(computed + tail)
                expected["wait_us"][rank].append(waited)
        expect_equal(
            lab.decompose(evidence), expected, idea="the shortest stay is the transfer, for all"
        )


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


@pytest.mark.points(3)
def test_decompose__needs_no_common_clock(lab):
    """Moving one rank's clock, or one rank's step, changes nothing; the parts add up."""
    evidence, _ = runs.tensor_parallel(91, num_ranks=3, slow=1, strength=1.8, num_steps=5)
    parts = lab.decompose(evidence)
    for rank, by in itertools.product(range(3), (77, -77)):
        again = lab.decompose(evidence | {"ranks": with_another_clock(evidence, rank, by)})
        expect_equal(again, parts, idea="durations, never differences between two ranks' clocks")
    for rank, steps in enumerate(evidence["ranks"]):
        for number, step in enumerate(steps["steps"]):
            whole = parts["compute_us"][rank][number] + parts["wait_us"][rank][number]
            whole += sum(parts["transfer_us"][number])
            expect_close(
                whole, step["end_us"] - step["start_us"], atol=1e-6, idea="nothing is lost"
            )


@pytest.mark.points(3)
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
        expect_close(got[0], latency, atol=1e-6 * (latency + 200_000 / rate), part="[0]")
        expect_close(got[1], 1e6 * rate, atol=1e-6 * 1e6 * rate, part="[1]")
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


@pytest.mark.points(2)
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
        expect_equal(got[1], math.inf, part="[1]", idea=idea)
        expect_close(got[0], us, atol=1e-6 * us, part="[0]", idea="where the line begins")
    one_size = [(sizes[0], us), (sizes[0], 2 * us)]
    expect_error(ValueError, lab.link_line, one_size, mentions=["sizes"])


@pytest.mark.points(4)
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
        expect_close(got[1], period, atol=1e-9, part="[1]")
        for stage, us in enumerate(busy):
            expect_close(got[0][stage], us, atol=1e-9, part=f"[0][{stage}]")


def middle(values):
    """The median, by taking away the extremes."""
    left = sorted(values)
    while len(left) > 2:
        left = left[1:-1]
    return sum(left) / len(left)


def made(make, seed, **how):
    """Evidence and truth of a simulated run; the truth also says how to make it again."""
    evidence, truth = make(seed, **how)
    return evidence, truth | {"made": describe_call(f"simulate.{make.__name__}", seed=seed, **how)}


def expect_diagnosis(lab, evidence, truth, tolerance=0.1, idea=""):
    """Cause, place, and a cost within `tolerance`: in 1,200 runs noise moved it by 0.07 at most."""
    found = lab.diagnose(evidence)
    if isinstance(found, dict):
        idea += f". Your numbers: {brief(found.get('numbers'))}"
    idea += f". The run: {truth['made']}" if "made" in truth else ""
    expect_equal(sorted(found), ["cause", "cost", "numbers", "where"], part="'s keys")
    expect_equal(found["cause"], truth["cause"], part="['cause']", idea=idea)
    expect_equal(found["where"], truth["where"], part="['where']", idea=idea)
    if truth["cost"] is not None:
        expect_close(found["cost"], truth["cost"], atol=tolerance, part="['cost']", idea=idea)
    assert found["numbers"], "['numbers'] is empty; name what decided"
    for name, value in found["numbers"].items():
        number = isinstance(value, numbers.Real) and value == value
        assert number, f"['numbers'][{name!r}] is {value!r}; a number should be there"


@pytest.mark.points(3)
@pytest.mark.waits_for("test_decompose__waiting_ends_with_the_last_rank")
def test_diagnose__a_slow_rank_is_who_the_others_wait_for(lab):
    """A rank is slow that computes longer, not one that waits, spins or often comes last"""
    draw = random.Random(94)
    expect_diagnosis(lab, *made(runs.tensor_parallel, 94), idea="noise is no fault")
    for seed in draw.sample(range(8), 8):
        num_ranks = draw.choice([2, 3, 4])
        slow, strength = seed % num_ranks, draw.uniform(1.8, 4)
        foreign = {slow: draw.uniform(0.15, 0.6)} if seed % 2 else {}
        cause = "busy-neighbour" if foreign else "slow-rank"
        run = made(
            runs.tensor_parallel, seed, slow=slow, strength=strength, foreign=foreign, cause=cause,
            **links(num_ranks, draw)
        )  # fmt: skip
        expect_diagnosis(lab, *run, idea="compare what each rank computes, without its waiting")
    for slowest in (draw.uniform(1510, 1590), draw.uniform(1900, 4000)):
        paces = [1000, 1200, draw.uniform(1000, 1200)]
        paces.insert(slow := draw.randrange(4), slowest)
        evidence, step_us = in_step(paces)
        saved_us = step_us - in_step(sorted(paces)[:-1])[1]
        truth = {"cause": "slow-rank", "where": slow, "cost": saved_us / step_us}
        idea = "the mean step at the pace of the slowest of the others; a rank that waits spins"
        expect_diagnosis(lab, evidence, truth, tolerance=1e-6, idea=idea)
    evidence, _ = in_step(draw.sample([1000, 1245, 1100], 3))
    idea = "a healthy rank computes up to 1.25 times as long as another"
    expect_diagnosis(lab, evidence, HEALTHY, idea=idea)


HEALTHY = {"cause": "healthy", "where": None, "cost": 0.0}


def in_step(paces, transfer_us=50, segments=5):
    """Evidence of ranks that compute so many us between two collectives, and the mean step's us.

    There is no noise; the last steps are longer than the first. All cores are as busy, for a rank
    that waits spins.
    """
    evidence, _ = runs.tensor_parallel(99, num_ranks=len(paces), num_steps=16)
    ranks, now = [{"steps": []} for _ in paces], 0
    for length in [1] * 12 + [4] * 4:
        period = length * (max(paces) + transfer_us)
        for rank, pace in zip(ranks, paces, strict=True):
            ends = [(n + 1) * period for n in range(segments)]
            calls = [["all_reduce", 2048 * length, e - period + length * pace, e] for e in ends]
            about = {"requests": 1, "tokens": 1, "collectives": calls}
            rank["steps"].append(about | {"start_us": now, "end_us": now + ends[-1]})
        now += segments * period
    busy = [[0.99] * len(paces)] * 10
    found = evidence | {"ranks": ranks, "processor": {"ranks": busy, "cores": busy}}
    return found | {"healthy": {key: found[key] for key in found if key != "healthy"}}, now / 16


@pytest.mark.points(4)
@pytest.mark.waits_for(
    "test_decompose__waiting_ends_with_the_last_rank",
    "test_link_line__is_the_line_through_the_medians",
)
def test_diagnose__a_link_is_slow_or_unsteady(lab):
    """Slow moves the typical decode step's transfer, unsteady only the worst."""
    draw = random.Random(95)
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
        expect_diagnosis(lab, *run, idea="decode steps only: a prefill's payload is another one")
    for seed in range(2):  # a bad decode step here is not as long as a good prefill
        run = made(
            runs.tensor_parallel, seed, link=(20, 100), latency_factor=4.5, rate_factor=4.5,
            bad_steps=0.08, cause="unsteady-link",
        )  # fmt: skip
        expect_diagnosis(lab, *run, idea="the tail of the decode steps, against the healthy one")
    run = made(
        runs.tensor_parallel, 3, num_steps=120, num_layers=2, latency_factor=9, rate_factor=9,
        bad_steps=0.001,
    )  # fmt: skip
    expect_diagnosis(lab, *run, idea="one bad step of 105 is beyond the 99th percentile")
    usual, usual_us = in_step([1000, 1020])
    for transfer_us in (60, 90):
        evidence, step_us = in_step([1000, 1020], transfer_us)
        truth = {"cause": "slow-link", "where": "link", "cost": (step_us - usual_us) / step_us}
        idea = "of what the healthy run's transfer takes: 1.2 times is noise, 1.8 times is slow"
        truth = truth if transfer_us > 60 else HEALTHY
        expect_diagnosis(lab, evidence | {"healthy": usual}, truth, tolerance=1e-6, idea=idea)
    evidence, _ = runs.tensor_parallel(4, latency_factor=9, rate_factor=9, bad_steps=0.1)
    same = {key: evidence[key] for key in evidence if key != "healthy"}
    idea = "the tail against the healthy run's tail: here it is as long"
    expect_diagnosis(lab, evidence | {"healthy": same}, HEALTHY, idea=idea)


def stop(evidence, rank, number, us=400_000):
    """One rank comes so late to its first collective of a step, and all the others wait."""
    for each, other in enumerate(evidence["ranks"]):
        step = other["steps"][number]
        for place, call in enumerate(step["collectives"]):
            call[2] += us if place or each == rank else 0
            call[3] += us
        step["end_us"] += us


@pytest.mark.points(3)
@pytest.mark.waits_for("test_decompose__waiting_ends_with_the_last_rank")
def test_diagnose__healthy_or_worth_nothing(lab):
    """Noise is no fault; and a capture in which others used the machine is no evidence."""
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
        idea = "busy cores less what the ranks used is somebody else's"
        expect_diagnosis(lab, *run, idea=idea if fault else "noise is no fault")
    small = {"num_layers": 2, "num_steps": 32}
    for seed in range(8):
        run = made(runs.tensor_parallel, seed, slow=seed % 2, strength=1.08, **small)
        expect_diagnosis(lab, *run, idea="a healthy rank computes up to 1.25 times as long")
    run = made(runs.tensor_parallel, 4, pace=1.6, **small)
    expect_diagnosis(lab, *run, idea="all ranks are slower than on the healthy day, and alike")
    evidence, truth = made(runs.tensor_parallel, 5, num_layers=2)
    stop(evidence, rank=draw.randrange(2), number=draw.randrange(64))
    expect_diagnosis(lab, evidence, truth, idea="one long interruption is no slow rank")


@pytest.mark.points(4)
def test_diagnose__the_start_up_tells(lab):
    """Engines of their own, and KV heads held twice, show in no timing: the start-up says them."""
    draw = random.Random(97)
    for seed in draw.sample(range(10), 10):
        tp_size = draw.choice([2, 4, 8])
        fewer = draw.choice([size for size in (1, 2, 4) if size < tp_size])
        kinds = [(fewer, 8), (tp_size, fewer), (tp_size, draw.choice([8, 16]))]
        world_size, kv_heads = kinds[seed % 3]
        run = made(
            runs.started, seed, tp_size=tp_size, world_size=world_size, num_kv_heads=kv_heads
        )
        expect_diagnosis(lab, *run, tolerance=1e-9, idea="hold the start-up against the plan")
    evidence, _ = runs.started(99, tp_size=4, world_size=4, num_kv_heads=8)
    for process in evidence["start_up"]:  # an engine that does not divide the heads it could
        process["kv_cache"] = process["kv_cache"] | {"kv_heads": 8}
    truth = {"cause": "copied-heads", "where": None, "cost": 3 / 4}
    idea = "what each rank holds, against what there is to hold"
    expect_diagnosis(lab, evidence, truth, tolerance=1e-9, idea=idea)
    for stages in (2, 3, 4):
        evidence, _ = runs.in_flight(stages, num_stages=stages, num_requests=stages)
        alone = {"rank": 0, "world_size": 1}
        evidence["start_up"] = [process | alone for process in evidence["start_up"]]
        truth = {"cause": "replicas", "where": None, "cost": 1 - 1 / stages}
        expect_diagnosis(lab, evidence, truth, idea="planned are tp_size x pp_size ranks")


def served_later(evidence, us):
    """Clocks do not start at 0."""
    for request in evidence["requests"]:
        request["arrived_us"] += us
        request["token_us"] = [time + us for time in request["token_us"]]
    evidence["stages"] = [
        [[what, began + us, ended + us] for what, began, ended in stage]
        for stage in evidence["stages"]
    ]


@pytest.mark.points(4)
@pytest.mark.waits_for("test_stage_times__are_the_medians_of_busy_time_and_pace")
def test_diagnose__a_pipeline_is_starved_or_has_a_slow_stage(lab):
    """Too few requests leave stages idle; more microbatches do not mend a slow stage."""
    draw = random.Random(98)
    for seed in draw.sample(range(12), 12):
        num_stages = draw.randint(2, 6)
        count = draw.randint(1, num_stages - 1) if seed % 3 else num_stages + draw.randint(0, 6)
        run = made(runs.in_flight, seed, num_stages=num_stages, num_requests=count)
        served_later(run[0], draw.randrange(10**7, 10**8))
        expect_diagnosis(lab, *run, tolerance=0.1, idea="requests in flight against stages")
        slow = draw.randrange(num_stages + 1) if seed % 3 else None
        run = made(
            runs.microbatches, seed, num_stages=num_stages + 1, count=draw.randint(2, 20),
            slow=slow, strength=draw.uniform(1.6, 3),
        )  # fmt: skip
        expect_diagnosis(lab, *run, idea="busy time per microbatch, stage by stage")
    for busy, slow, count, every, idea in (
        ([50, 100], 1, 8, 0, "of two stages the faster one is the typical"),
        ([100, 100, 180, 100], 2, 1, 0, "one microbatch: every stage works once"),
        ([50, 100, 100, 100], None, 8, 0, "a fast stage makes no other one slow"),
        ([100] * 4, None, 8, 300, "whoever waits for work is not slow"),
    ):
        rows, total = stages_of(busy, count, every)
        _, without = stages_of([min(us, sorted(busy)[(len(busy) - 1) // 2]) for us in busy], count)
        truth = {"cause": "slow-stage", "where": slow, "cost": 1 - without / total}
        evidence = {"plan": run[0]["plan"], "microbatches": rows, "healthy": run[0]["healthy"]}
        truth = HEALTHY if slow is None else truth
        expect_diagnosis(lab, evidence, truth, tolerance=1e-9, idea=idea)
    evidence, truth = made(runs.in_flight, 3, num_stages=3, num_requests=1)
    times = evidence["requests"][0]["token_us"]
    came = [0, *times[5::6]]
    evidence["requests"] = [
        {"arrived_us": came[n], "token_us": times[6 * n : 6 * n + 6]} for n in range(4)
    ]
    expect_diagnosis(lab, evidence, truth, idea="four requests, one after the other: one in flight")


def stages_of(busy_us, count, every_us=0):
    """(microbatches without noise, when the last one is done); one comes each every_us."""
    came, stages = [n * every_us for n in range(count)], []
    for us in busy_us:
        free, rows = 0, []
        for at in came:
            asked, received = free, max(free, at)
            free = received + us
            rows.append([asked, received, free, free])
        came = [row[2] for row in rows]
        stages.append(rows)
    return stages, came[-1]


@pytest.mark.points(1)
def test_diagnose__an_overlap_that_is_lost(lab):
    """A training step that waits for its transfers again."""
    draw = random.Random(99)
    for seed in draw.sample(range(6), 6):
        run = made(
            runs.training,
            seed,
            num_ranks=2 + seed % 2,
            overlapped=bool(seed % 2),
            payload=draw.uniform(0.4, 1),
        )
        expect_diagnosis(lab, *run, tolerance=0.02, idea="waiting against the healthy run's")
    (spans, share), (usual, usual_share) = (spans_of(draw, waited) for waited in (5000, 900))
    plan = run[0]["plan"]
    evidence = {"plan": plan, "spans": spans, "healthy": {"plan": plan, "spans": usual}}
    truth = {"cause": "no-overlap", "where": None, "cost": share - usual_share}
    idea = "of a step, from its first span to its last, what was waited; to issue is not to wait"
    expect_diagnosis(lab, evidence, truth, tolerance=0.01, idea=idea)
    evidence["healthy"] = {"plan": plan, "spans": spans}
    idea = "it waits as long as on the healthy day"
    expect_diagnosis(lab, evidence, HEALTHY, tolerance=0.01, idea=idea)


def spans_of(draw, waited):
    """(the spans of two ranks, with gaps between them; the part of their time that is waiting)."""
    ranks, waits, total = [], 0, 0
    for _ in range(2):
        at = draw.randrange(10**6)
        rows = []
        for piece in range(8):
            spans = ("issue", 700), ("wait", waited), ("GEMM", 4000)
            for lane, us in spans:
                at += draw.randint(100, 500)
                us += draw.randint(0, 200)
                rows.append([lane, f"{lane}[{piece}]", at, at + us])
                waits, at = waits + us * (lane == "wait"), at + us
        ranks.append(rows)
        total += at - rows[0][2]
    return ranks, waits / total


LIKE_THE_RECORDED = (
    {"slow": 0, "strength": 2.5, "cause": "slow-rank"},
    {"slow": 1, "strength": 2.5, "cause": "slow-rank"},
    {"latency_factor": 6, "rate_factor": 6, "cause": "slow-link"},
    {"cause": "healthy"},
)


@pytest.mark.points(4)
@pytest.mark.waits_for(
    "test_decompose__waiting_ends_with_the_last_rank",
    "test_link_line__is_the_line_through_the_medians",
    "test_stage_times__are_the_medians_of_busy_time_and_pace",
)
@pytest.mark.parametrize("number", sorted(recordings.answers()))
def test_diagnose__the_recorded_incidents(lab, number):
    """Each recorded run, every repeat: the cause, and where it sits."""
    answer = recordings.answers()[number]
    count = recordings.repeats(number)
    assert count, f"incident {number} has no recording"
    fault = random.Random(number).choice(LIKE_THE_RECORDED)
    run = made(runs.tensor_parallel, number, **fault)
    expect_diagnosis(lab, *run, idea="a run like the recorded ones, which nobody has seen")
    for repeat in range(count):
        evidence = recordings.load(number, repeat)
        truth = {"cause": answer["cause"], "where": answer["where"], "cost": None}
        expect_diagnosis(lab, evidence, truth, idea=f"incident {number}, repeat {repeat}")
