"""Lab 02: a ledger in bytes, held against live workers, published logs and a live vLLM.

The oracles: shapes and counts read from running workers (captures/, and the live run of part B),
published logs, and the second methods at the end, which hand out rows, heads and layers one by one.
"""

import importlib
import itertools
import json
import os
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from labkit.expect import Unexpected, expect_close, expect_equal, expect_error, looking_at
from labkit.loading import load_module

HERE = Path(__file__).parent
CAPTURES = HERE / "captures"
TOY = HERE / "tensor_parallel_toy"
GIB, MIB = 2**30, 2**20

given = load_module(HERE / "given" / "model_shapes.py")
machine = importlib.import_module("tensor_parallel_toy.stream_machine")
two_timelines = importlib.import_module("tensor_parallel_toy.two_timelines")


# --- Part A: the ledger of a start-up ---------------------------------------------------------


@pytest.mark.points(8)
def test_rank_shape__splits_each_parameter_its_own_way(lab):
    """Rows, columns, heads or nothing: each parameter its own way."""
    ideas = {
        "rows": "rows are the output dimension of [out, in] and of [experts, out, in]",
        "columns": "columns are the input dimension, the last one",
        "whole": "norms and row-parallel biases stay whole on every rank",
        "vocab": "the whole vocabulary is padded, then split by rows",
        "heads": "q, k and v are split by whole heads of head_dim rows; a KV head is never cut",
    }
    names = [*TINY, "qwen3-32b", "mixtral-8x7b", "opt-1.3b"]
    for model in [*(MODELS[name] for name in names), *drawn_models()]:
        for parameter in distinct_parameters(model):
            for tp_size in legal_tp_sizes(model):
                shape = expected_shape(parameter, model, tp_size)
                idea = ideas[parameter["split"]]
                result = lab.rank_shape(dict(parameter), model, tp_size)
                expect_equal(result, shape, idea=idea)
                if result is parameter["shape"]:
                    raise Unexpected(
                        "returned the parameter's own list: whoever changes the one changes the "
                        "other. Return a new list."
                    )


@pytest.mark.points(1)
@pytest.mark.waits_for("test_rank_shape__splits_each_parameter_its_own_way")
def test_rank_shape__refuses_what_does_not_divide(lab):
    """A dimension that the ranks do not divide is refused."""
    model = MODELS["tiny"]  # 12 heads, 4 KV heads
    chance = random.Random(4)
    ranks = chance.randint(2, 9)
    even, odd = ranks * chance.randint(1, 99), uneven(chance, ranks)
    padded = 64 * uneven(chance, 3)
    splits = [
        ("columns", [odd, even], ranks, None),  # this one does divide
        ("columns", [even, odd], ranks, odd),
        ("rows", [odd, even], ranks, odd),
        ("rows", [odd], ranks, odd),  # a bias
        ("rows", [4, odd, even], ranks, odd),
        ("vocab", [padded - chance.randint(0, 63), 96], 3, padded),
        ("heads", [160, 96], 8, 12),  # 4 KV heads may be held twice, 12 heads over 8 ranks may not
        ("heads", [160, 96], 6, 4),
        ("heads", [160, 96], 4, 6),  # 6 KV heads
        ("heads", [160, 96], 24, 12),  # more ranks than heads: only KV heads are copied
    ]
    for split, shape, tp_size, wrong in chance.sample(splits, len(splits)):
        parameter = {"name": "x.weight", "shape": shape, "split": split, "where": 0}
        if wrong is None:
            expect_equal(lab.rank_shape(parameter, model, ranks), [odd, even // ranks])
            continue
        idea = f"{wrong} does not divide by {tp_size}"
        own = model | {"num_kv_heads": 6 if (split, wrong) == ("heads", 6) else 4}
        expect_error(ValueError, lab.rank_shape, parameter, own, tp_size, idea=idea)
    for split in chance.sample(["rows", "columns", "heads", "vocab", "whole"], 5):
        parameter = {"name": "x.weight", "shape": [160, 96], "split": split, "where": 0}
        for below in (0, -2):
            expect_error(
                ValueError, lab.rank_shape, parameter, model, below, idea="ranks start at 1"
            )


TERMS = {
    "parameters_bytes": "this rank's share of each parameter on this stage, norms and biases too, "
    "a tied one once, at dtype_bytes an element",
    "rope_table_bytes": "[rope_positions, head_dim] elements, cos and sin together, at dtype_bytes "
    "each, whole on every rank of every stage",
    "allocator_rounding_bytes": "every tensor is a request of its own, the rope table too",
    "total_bytes": "the total is the sum of the three terms",
}


@pytest.mark.points(5)
@pytest.mark.waits_for("test_rank_shape__splits_each_parameter_its_own_way")
def test_rank_weights__counts_each_term_on_each_stage(lab):
    """A rank's bytes, term by term, on every rank and pipeline stage."""
    cases = [
        *[("tiny", tp_size, 1) for tp_size in (1, 2, 4)],
        *[("tiny, 7 layers", tp_size, pp_size) for tp_size in (1, 2) for pp_size in (2, 3, 7)],
        *[("tiny, one KV head, tied", 4, pp_size) for pp_size in (1, 2, 3)],
        ("tiny, wide heads, float32", 2, 2),
        ("tiny, experts", 2, 1),
        ("tiny, YaRN", 2, 1),
        ("opt-1.3b", 2, 1),
        ("opt, narrow embedding", 4, 2),
        ("qwen3-32b", 8, 1),
        ("mixtral-8x7b", 8, 2),
        ("llama-2-7b", 8, 1),
    ]
    splits = [(MODELS[name], *sizes) for name, *sizes in cases]
    chance = random.Random(5)
    for model in drawn_models():
        splits.append((model, chance.choice(legal_tp_sizes(model)), chance.randint(1, 3)))
    for model, tp_size, pp_size in splits:
        for stage in range(pp_size):
            expected = expected_weights(model, tp_size, pp_size, stage)
            weights = lab.rank_weights(model, tp_size, pp_size, stage)
            expect_terms(weights, expected, TERMS)


RECORDED = ["tp1", "tp2", "tp2-replicated-kv", "tp2-tied", "tp2-vocab-500", "pp2"]


@pytest.mark.points(5)
@pytest.mark.waits_for("test_rank_shape__splits_each_parameter_its_own_way")
@pytest.mark.parametrize("name", RECORDED)
def test_rank_weights__as_live_workers_held_them(lab, name):
    """A rank's weights, to the byte, as live workers of vLLM held them."""
    recorded = capture(name)
    tp_size, pp_size = recorded["tp_size"], recorded["pp_size"]
    # as it ran, and with so many layers more on each stage, which take what a live one took
    chance = random.Random(6)
    for drawn, report in itertools.product((False, True), recorded["ranks"]):
        more = chance.randint(1, 50) if drawn else 0
        model = taller(recorded["config"], more * pp_size)
        weights = lab.rank_weights(model, tp_size, pp_size, report["rank"] // tp_size)
        live = sum(parameter["bytes"] for parameter in report["parameters"].values())
        live += more * bytes_of_a_layer(report)
        rope = sum(b["bytes"] for b in report["buffers"] if b["name"] == "cos_sin_cache")
        for term, expected in [("parameters_bytes", live), ("rope_table_bytes", rope)]:
            idea = f"rank {report['rank']} of the live run held that much: {TERMS[term]}"
            expect_equal(weights[term], expected, part=f"['{term}']", idea=idea)


QUOTED = json.loads((CAPTURES / "quoted-logs" / "quoted.json").read_text())


@pytest.mark.points(5)
@pytest.mark.waits_for("test_rank_shape__splits_each_parameter_its_own_way")
def test_rank_weights__as_published_logs_print_them(lab):
    """Published logs agree within 0.25 MiB, the allocator counted."""
    # as it was printed, and with so many layers more, whose bytes are added
    chance = random.Random(7)
    for quoted, drawn in itertools.product(QUOTED["weights"], (False, True)):
        more = chance.randint(1, 50) if drawn else 0
        model, tp_size = taller(CONFIGS[quoted["config"]], more), quoted["tp_size"]
        totals = [
            expected_weights(one, tp_size)["total_bytes"]
            for one in (model, MODELS[quoted["config"]])
        ]
        weights = lab.rank_weights(model, tp_size)
        expect_close(
            weights["total_bytes"] / GIB,
            quoted["weights_gib"] + (totals[0] - totals[1]) / GIB,
            # 4 decimals printed (0.05 MiB), and up to 0.2 MiB of small buffers nobody itemises
            atol=0.25 * MIB / GIB,
            part="['total_bytes'] in GiB",
            idea=f"vLLM {quoted['version']} printed this of one rank of {quoted['config']}"
            + f", and here it has {more} layers more" * (more > 0)
            + ": norms, the rope table and the allocator's rounding included",
        )


@pytest.mark.points(5)
def test_kv_bytes_per_token__of_this_rank_and_stage(lab):
    """A token's KV: this stage's layers, this rank's KV heads."""
    for model in [*MODELS.values(), *drawn_models()]:
        for tp_size in legal_tp_sizes(model):
            expected = expected_kv_bytes(model, tp_size, 1, 0, model["dtype_bytes"])
            held = len(kv_heads_of_rank_0(model["num_kv_heads"], tp_size))
            idea = (
                f"keys and values of {model['num_layers']} layers and {held} of the "
                f"{model['num_kv_heads']} KV heads, at {model['dtype_bytes']} bytes an element"
            )
            given_bytes = lab.kv_bytes_per_token(model, tp_size)
            expect_equal(given_bytes, expected, idea=idea + share(given_bytes, expected))
    for tp_size in (3, 6):
        idea = f"4 KV heads over {tp_size} ranks: neither divided nor copied evenly"
        expect_error(ValueError, lab.kv_bytes_per_token, MODELS["tiny"], tp_size, idea=idea)
    num_layers = 12 * random.Random(8).randint(1, 9) - 5  # which 2, 3 and 4 do not divide
    model = taller(TINY["tiny"], num_layers - MODELS["tiny"]["num_layers"])
    for pp_size in (2, 3, 4):
        for stage, layers in enumerate(given.stage_layers(num_layers, pp_size)):
            for width, own in itertools.product((1, 2, 4), (2, 4)):
                for tp_size in (1, 2, 4, 12):
                    of = model | {"dtype_bytes": own}
                    expected = expected_kv_bytes(of, tp_size, pp_size, stage, width)
                    actual = lab.kv_bytes_per_token(of, tp_size, pp_size, stage, width)
                    held = f"stage {stage} of {pp_size} holds {layers} of the {num_layers} layers"
                    idea = f"{held}; kv_dtype_bytes is {width}, whatever the weights' is"
                    expect_equal(actual, expected, idea=idea)


ERAS = {  # in which way each release counts
    "before 0.9.1": ["0.2.7", "0.6.3", "0.8.5.post1", "0.9.0.1"],
    "0.9.1 to 0.20.0": ["0.9.1", "0.9.2", "0.10.0", "0.19.1", "0.20.0"],
    "from 0.20.1": ["0.20.1", "0.21.0", "0.32.0", "1.0.0", "1.5.2", "2.0"],
}


@pytest.mark.points(5)
def test_kv_capacity__as_each_version_counts_it(lab):
    """Blocks, tokens and concurrency, as each version counts them."""
    drawn = drawn_cache()
    for era, versions in ERAS.items():
        for version in versions:
            for sizes in [
                drawn,
                (10_000_000, 1000, 16, 1000),
                (1e7, 1000, 16, 1000),  # a log's GiB times 2**30 is a float, blocks are counted
                (9_999_999, 1000, 16, 1000),  # the last block is not whole
                (8 * MIB, 4096, 128, 64),  # a request is shorter than a block
                (16 * MIB, 4096, 16, 4096),  # a request is whole blocks
                (3000, 1000, 1, 1),
                (32_000, 1000, 16, 40),  # two blocks of the three that a request takes
                (16_000, 1000, 16, 40),  # exactly one
                (15_999.7, 1000, 16, 64),  # no block at all, though almost one
                (0, 1000, 16, 64),
            ]:
                expected = expected_capacity(*sizes, era)
                ideas = {term: f"{era}: {text}" for term, text in rules(era, *sizes[2:]).items()}
                capacity = lab.kv_capacity(*sizes, version)
                expect_terms(capacity, expected, ideas, atol=1e-9)
    latest = expected_capacity(*drawn, "from 0.20.1")
    capacity = lab.kv_capacity(*drawn)
    expect_terms(capacity, latest, dict.fromkeys(latest, "without a version: 0.32.0"), atol=1e-9)


def rules(era, block_size, longest):
    """What each term is in an era, in words."""
    tokens, of_one = "tokens = blocks x block_size", len(range(0, longest, block_size))
    concurrency = f"max_concurrency = blocks / {of_one}, the whole blocks of {longest} tokens"
    if era == "before 0.9.1":
        concurrency = "max_concurrency = tokens / max_model_len"
    if era == "from 0.20.1":
        tokens = "tokens = int(max_concurrency x max_model_len)"
    blocks = "memory over (bytes per token x block size), rounded down"
    return {"blocks": blocks, "tokens": tokens, "max_concurrency": concurrency + ", not rounded"}


@pytest.mark.points(1)
def test_kv_capacity__refuses_sizes_that_are_not_positive(lab):
    """A capacity of sizes that are not positive is refused."""
    chance = random.Random(9)
    sizes, below = drawn_cache(), -chance.randint(1, 99)
    changes = [(0, below), (0, -1), *itertools.product((1, 2, 3), (0, below)), (0, sizes[0])]
    for place, size in chance.sample(changes, len(changes)):
        if size == sizes[0]:  # no change at all
            blocks = size // (sizes[1] * sizes[2])
            expect_equal(lab.kv_capacity(*sizes)["blocks"], blocks, part="['blocks']")
            continue
        expect_error(ValueError, lab.kv_capacity, *sizes[:place], size, *sizes[place + 1 :])
    memory, per_token, *others = sizes  # two below zero, whose product is not
    expect_error(ValueError, lab.kv_capacity, memory, -per_token, -others[0], others[1])


@pytest.mark.points(5)
@pytest.mark.waits_for("test_kv_bytes_per_token__of_this_rank_and_stage")
def test_tp_sizes_of_cache__reads_the_split_off_a_log(lab):
    """Memory and tokens of a log's cache tell how its heads were split."""
    for quoted in QUOTED["cache"]:
        sizes = lab.tp_sizes_of_cache(
            MODELS[quoted["config"]], quoted["kv_memory_gib"] * GIB, quoted["gpu_blocks"] * 16
        )
        expect_equal(sizes, [quoted["tp_size"]], idea="a published log of one GPU")
    for name, explained in [("tp1", [1]), ("tp2", [2]), ("tp2-replicated-kv", [1, 2, 4, 8])]:
        recorded = capture(name)
        cache, model = recorded["ranks"][0]["kv_cache"], given.model_shape(recorded["config"])
        tokens = cache["blocks"] * cache["block_size"]
        sizes = lab.tp_sizes_of_cache(model, 8 * MIB, tokens)  # 8 heads: not over 16 ranks
        idea = f"captures/{name}: {why_sizes(sizes, explained, model, 8 * MIB, tokens)}"
        expect_equal(sizes, explained, idea=idea)
    chance = random.Random(10)
    # up to 5% of either number, whichever one takes
    shares = (0.949, 0.9535, chance.uniform(0.96, 1.04), 1.049, 1.0535, chance.uniform(0.5, 0.9))
    # which all sizes divide: whether they have to, a cache does not say
    widths = {"intermediate_size": 96 * chance.randint(2, 99), "vocab_size": 192}
    for model, candidates in [
        (MODELS["llama-3-8b"], (16, 8, 4, 2, 1)),
        (MODELS["llama-3-8b"], (16, 2, 8, 32, 1, 4)),  # 16, 8 and 32 explain the same
        (MODELS["tiny"], (1, 2, 3, 4, 6, 8, 12)),  # 12 heads, 4 KV heads
        *((model, (1, 2, 3, 4, 8)) for model in drawn_models()),
    ]:
        memory = chance.randint(GIB, 9 * GIB)
        held = {
            tp_size: expected_kv_bytes(model, tp_size, 1, 0, model["dtype_bytes"])
            for tp_size in candidates
            if splits_heads(model, tp_size)
        }
        for per_token, share in itertools.product(sorted(set(held.values())), shares):
            tokens = round(share * memory / per_token)
            alike = [
                tp_size
                for tp_size in held
                if abs(Fraction(tokens * held[tp_size], memory) - 1) <= Fraction(1, 20)
            ]
            skip = "a size over which the heads cannot be split explains nothing: leave it out"
            with looking_at(skip):
                sizes = lab.tp_sizes_of_cache(model | widths, memory, tokens, list(candidates))
            expect_equal(sizes, alike, idea=why_sizes(sizes, alike, model, memory, tokens))


def why_sizes(sizes, expected, model, memory, tokens):
    """What speaks for or against the first size that is wrong."""
    given = sizes if isinstance(sizes, (list, tuple)) else []
    wrong = [n for n in [*given, *expected] if (n in given) != (n in expected)]
    if not wrong:
        return "a list of all sizes that fit, in the order of tp_sizes"
    if not splits_heads(model, wrong[0]):
        heads = f"{model['num_heads']} query heads and {(kv := model['num_kv_heads'])} KV head"
        heads += "s" * (kv > 1)
        return f"{heads} cannot be split over {wrong[0]} ranks"
    held = expected_kv_bytes(model, wrong[0], 1, 0, model["dtype_bytes"])
    return (
        f"at tp_size {wrong[0]} the memory holds {memory / held:.6g} tokens, reported are {tokens}"
    )


@pytest.mark.points(5)
@pytest.mark.waits_for("test_rank_weights__counts_each_term_on_each_stage")
def test_which_split__finds_the_split_that_was_applied(lab):
    """The weights of one rank tell which split was really applied."""
    llama, seven = MODELS["llama-3-8b"], MODELS["tiny, 7 layers"]
    wide = given.model_shape(
        tiny(num_hidden_layers=2, vocab_size=100_000, tie_word_embeddings=True)
    )
    asked, other, whole = (  # of which each has another near
        expected_weights(wide, *split)["total_bytes"] for split in [(2, 2, 1), (2, 1), (1, 1)]
    )
    half_way = (asked + other) / 2  # between two: the one asked for wins
    stage = expected_weights(wide, 1, 2, 1)["total_bytes"]  # of two; most is the embedding
    half_way_too = (stage + whole) / 2
    beyond = asked + (other - asked) * random.Random(22).uniform(0.51, 0.9)  # the other one wins
    # a pipeline's stage, which comes first, is a little heavier than the half that was applied
    deep = given.model_shape(tiny(num_hidden_layers=16, tie_word_embeddings=True))
    half = expected_weights(deep, 2, 1)["total_bytes"]
    cases = [
        *[(llama, gib, 2, 1) for gib in (7.4829, 14.9595, 7.4797, 4.1, 1.3e9)],
        *[(llama, gib, 2, 2) for gib in (3.7417, 7.4829, 7.4797, 14.9595)],
        *[(llama, gib, 1, 1) for gib in (7.4829, 14.9595)],  # one candidate may be far off
        *[(llama, 7.4829 * off, 2, 1) for off in (0.9535, 1.049, 1.0535, 0.949)],
        *[(wide, total / GIB, 2, 2) for total in (asked, whole, half_way, beyond)],
        (deep, half / GIB, 2, 2),
        (wide, half_way_too / GIB, 1, 2),
    ]
    for tp_size, pp_size in [(1, 1), (2, 1), (1, 3), (2, 3)]:  # 7 layers on 3 stages
        for stage in range(pp_size):
            gib = expected_weights(seven, tp_size, pp_size, stage)["total_bytes"] / GIB
            cases.append((seven, gib, 2, 3))
    for asked in ((4, 1), (8, 2), (1, 4), (8, 1)):  # what was applied: one of the candidates
        for tp, pp in {asked, (1, asked[1]), (asked[0], 1), (1, 1)}:
            gib = expected_weights(llama, tp, pp, pp - 1)["total_bytes"] / GIB
            cases.append((llama, gib, *asked))
    for split in ((2, 1), (1, 2)):  # half of what was asked for is no candidate
        total = expected_weights(llama, *split, split[1] - 1)["total_bytes"]
        cases.append((llama, total / GIB, *(2 * n if n > 1 else n for n in split)))
    chance = random.Random(11)
    for model in drawn_models():
        for split in itertools.product((1, 2), (1, 3)):
            total = expected_weights(model, *split, split[1] - 1)["total_bytes"]
            cases.append((model, total / GIB * chance.uniform(0.9, 1.1), 2, 3))
    for model, gib, tp_size, pp_size in cases:
        explained = expected_splits(model, gib, tp_size, pp_size)
        split = lab.which_split(model, gib, tp_size, pp_size)
        right = next((one for one in explained if one == split), None)
        if right is None:
            idea = what_explains(split, explained, gib, tie=gib * GIB in (half_way, half_way_too))
            expect_equal(split, explained[0] if explained else None, idea=idea)
        else:
            expect_equal(split, right)  # 5.0 is no int


def what_explains(split, explained, gib, tie):
    """Which candidate the reported weights are nearest to, in words."""
    if not explained:
        return f"no stage of any candidate is within 5% of {gib:.6g} GiB"
    right = explained[0]
    if isinstance(split, dict) and right | {"residual_bytes": split.get("residual_bytes")} == split:
        return "the split is right; residual_bytes is round(reported - its total_bytes)"
    near = gib - right["residual_bytes"] / GIB
    idea = f"stage {right['pp_rank']} of tp_size={right['tp_size']}, pp_size={right['pp_size']}"
    if tie:
        return f"{idea} is as near as another candidate, and what was asked for wins"
    return f"the nearest of all candidates' stages is {idea}, of {near:.6g} GiB"


@pytest.mark.points(6)
@pytest.mark.waits_for("test_kv_bytes_per_token__of_this_rank_and_stage")
@pytest.mark.waits_for("test_rank_weights__counts_each_term_on_each_stage")
def test_replicas_or_tp__from_memory_bandwidth_and_lockstep(lab):
    """Two replicas or one engine: from memory, bandwidth and lockstep."""
    llama, single = MODELS["llama-3-8b"], MODELS["tiny, one KV head, tied"]
    # one byte short of two sequences of 1024 tokens: the parameters alone would fit
    short = expected_weights(llama, 2)["total_bytes"] + 2048 * 65_536 - 1
    # one byte short of the larger of two shares: the first GPU takes 17 of 33 sequences
    odd = expected_weights(llama, 1)["total_bytes"] + 17 * 1024 * 131_072 - 1
    ten = expected_weights(single, 1)["total_bytes"] + 10 * 1000 * 96
    chance = random.Random(12)
    message_s = chance.uniform(10, 100) * 1e-6
    for model, memory, all_reduce_s, context, sequences, slowdowns in [
        (llama, 40 * GIB, 20e-6, 1024, 33, (1.0, 1.0)),
        (llama, 40 * GIB, 90e-6, 1024, 32, (1.0, 1.0)),
        (llama, 40 * GIB, 20e-6, 1024, 32, (1.0, 3.0)),
        (llama, 40 * GIB, 20e-6, 1024, 33, (3.0, 1.0)),
        (llama, 40 * GIB, 5e-4, 4096, 103, (1.0, 1.0)),
        (llama, 40 * GIB, 20e-6, 8192, 200, (1.0, 1.0)),
        (llama, 40 * GIB, 0.0, 0, 2, (1.0, 1.0)),
        (llama, short + 1, 20e-6, 1024, 2, (1.0, 1.0)),
        (llama, short, 20e-6, 1024, 2, (1.0, 1.0)),
        (llama, odd + 1, 20e-6, 1024, 33, (1.0, 1.0)),
        (llama, odd, 20e-6, 1024, 33, (1.0, 1.0)),
        (single, ten, 20e-6, 1000, 20, (1.0, 1.0)),  # both ranks hold the only KV head
        (MODELS["qwen3-32b"], 48 * GIB, 20e-6, 4096, 8, (1.0, 1.5)),
        *(
            (model, 40 * GIB, message_s, chance.randint(1, 9999), chance.randint(2, 99), slow)
            for model in drawn_models()
            for slow in [(1.0, 1.0), (chance.uniform(1, 3), chance.uniform(1, 3))]
        ),
    ]:
        numbers = (memory, chance.uniform(1e12, 4e12), all_reduce_s, context, sequences)
        expected = expected_choice(model, *numbers, slowdowns)
        calls = [lab.replicas_or_tp(model, *numbers, slowdowns)]
        if slowdowns == (1.0, 1.0):
            calls.append(lab.replicas_or_tp(model, *numbers))
        for answer in calls:
            expect_choice(answer, expected, model, sequences)
    for ahead in (1 - 1e-6, 1 + 1e-6):  # no tie: one plan makes a millionth more
        bandwidth = chance.uniform(1e12, 4e12)
        message_s = near_race(llama, bandwidth, 1024, 33, ahead)
        numbers = (40 * GIB, bandwidth, message_s, 1024, 33)
        expected = expected_choice(llama, *numbers, (1.0, 1.0))
        expect_choice(lab.replicas_or_tp(llama, *numbers), expected, llama, 33)
    numbers = exact_tie(single)
    choice = lab.replicas_or_tp(single, *numbers)["choice"]
    if choice not in ("replicas", "tp"):
        raise Unexpected(
            f"returned {choice!r}: both fit and tie; either one will do.", "['choice']"
        )


def exact_tie(model):
    """Numbers of replicas_or_tp whose two plans take the same time, to the last bit."""
    one, two = (expected_weights(model, n)["parameters_bytes"] for n in (1, 2))
    messages, per_token = 2 * model["num_layers"] + 1, expected_kv_bytes(model, 1, 1, 0, 2)
    context = next(n for n in itertools.count(1) if (one - two - n * per_token) % messages == 0)
    spared = (one - two - context * per_token) // messages  # bytes less to read, for each message
    return GIB, 2.0**40, spared / 2**40, context, 2


@pytest.mark.points(1)
@pytest.mark.waits_for("test_rank_weights__counts_each_term_on_each_stage")
def test_replicas_or_tp__refuses_a_single_sequence(lab):
    """A single sequence cannot be shared by two GPUs, and is refused."""
    bandwidth, context = random.Random(13).uniform(1e12, 4e12), random.Random(14).randint(1, 9999)
    for sequences in random.Random(15).sample([1, 0, -context, 2], 4):
        message_s = 0.0 if sequences == 2 else 20e-6
        sizes = (MODELS["tiny"], GIB, bandwidth, message_s, context, sequences)
        if sequences == 2:
            idea = "it fits, and messages are free"
            answer = lab.replicas_or_tp(*sizes)
            expect_equal(answer["choice"], "tp", part="['choice']", idea=idea)
            continue
        expect_error(ValueError, lab.replicas_or_tp, *sizes, idea="two GPUs need two sequences")


# --- Part B: the same numbers, live -----------------------------------------------------------


def live_run():
    """labs/live/run.py: the loader puts the labs' folder on the path."""
    return importlib.import_module("live.run")


@pytest.fixture
def measure():
    """A live run at tp_size 1 or 2, both started at once and once per process.

    A fixture, so that the search for a hint leaves the checks that start an engine alone.
    """
    return lambda tp_size: live_run().measure(1, 2)[tp_size - 1]


@pytest.mark.points(4)
def test_treatment__tells_rows_columns_experts_and_copies(lab):
    """What became of each tensor, from its whole shape and its ranks'."""
    chance = random.Random(16)
    a, b, c = (4 * n for n in chance.sample(range(2, 99), 3))
    for shape in ([a], [a, b], [4, a, b], [b, b], [c, c, c], [c, b, a]):
        names = ["experts", "rows", "columns"][-len(shape) :] if len(shape) > 1 else ["rows"]
        for tp_size in (1, 2, 4):
            check_treatment(lab, shape, [list(shape)] * tp_size, "replicated")
        for axis, name in enumerate(names):
            size = shape[axis]
            plain = [size // 2] * 2, [size // 4 * 3, size // 4]
            for parts in (*plain, [1, 1, 0, 1, size - 3], [0, size], [size, 0]):
                check_treatment(lab, shape, [resized(shape, axis, part) for part in parts], name)
    most = chance.randint(a // 2 + 1, a - 1)  # of a rows, on each of two ranks
    for parts in ([most, most], [a + 28], [most, most - 1], [a, a, most], [most, 0, a]):
        check_treatment(lab, [a], [[part] for part in parts], "rows, part copied")
        check_treatment(lab, [a, b], [[part, b] for part in parts], "rows, part copied")
    check_treatment(lab, [4, a, b], [[4, most, b]] * 2, "rows, part copied")
    whole, ranks = capture("tp1")["ranks"][0]["parameters"], capture("tp2")["ranks"]
    for name, expected in [
        ("model.embed_tokens.weight", "rows"),
        ("model.layers.0.self_attn.qkv_proj.weight", "rows"),
        ("model.layers.0.self_attn.o_proj.weight", "columns"),
        ("model.layers.0.mlp.down_proj.weight", "columns"),
        ("model.layers.0.input_layernorm.weight", "replicated"),
    ]:
        shapes = [report["parameters"][name]["shape"] for report in ranks]
        check_treatment(lab, whole[name]["shape"], shapes, expected)


ONLY_ROWS, LOST = "only rows are copied or padded", "a part of the whole is nowhere"


@pytest.mark.points(1)
def test_treatment__refuses_what_is_no_split(lab):
    """Shapes that no split of one dimension gives are refused."""
    chance = random.Random(17)
    rows, columns, experts = (4 * n for n in chance.sample(range(2, 99), 3))
    more, less = chance.randint(columns // 2 + 1, columns - 1), chance.randint(1, columns // 2 - 1)
    shapes = [
        ([rows, columns], [rows // 2, columns], None),
        ([rows, columns], [rows, more], f"2 x {more} columns are more than {columns}: {ONLY_ROWS}"),
        (
            [columns, rows, 96],
            [more, rows, 96],
            f"2 x {more} experts are more than {columns}: {ONLY_ROWS}",
        ),
        ([columns, rows], [less, rows], f"2 x {less} rows are not {columns}: {LOST}"),
        ([4, rows, columns], [4, rows, less], f"2 x {less} columns are not {columns}: {LOST}"),
        ([columns], [less], f"2 x {less} are not {columns}: {LOST}"),
        ([rows, columns], [rows // 2, columns // 2], "rows and columns both became smaller"),
        ([experts, rows, 9], [experts // 2, rows // 2, 9], "experts and rows both became smaller"),
        ([rows, columns], [rows // 2], "the whole has two dimensions, a part one"),
        ([rows], [rows // 2, columns], "the whole has one dimension, a part two"),
        ([rows, columns], [rows], "the whole has two dimensions, a part one"),
        ([rows, columns], [rows, columns, 1], "the whole has two dimensions, a part three"),
    ]
    for full, part, idea in chance.sample(shapes, len(shapes)):
        if idea is None:
            check_treatment(lab, full, [part, part], "rows")
            continue
        expect_error(ValueError, lab.treatment, full, [part, part], idea=idea)
    # as many elements as the whole, or more, and yet no split of one dimension
    for count, part in (
        (4, [rows // 2, columns // 2]),
        (2, [rows // 4 * 3, columns // 4 * 3]),
        (2, [rows // 2, columns * 2]),
        (2, [experts // 2, rows // 2, columns * 2]),
        (2, [experts // 2, columns, rows]),
    ):
        idea = "two dimensions or more changed, however many elements the parts have together"
        whole = [experts, rows, columns][-len(part) :]
        expect_error(ValueError, lab.treatment, whole, [part] * count, idea=idea)
    for parts in (
        [[rows // 2, columns], [rows // 2, columns, 1]],
        [[rows, columns], [rows]],
        [[rows // 2, columns], [rows // 4, columns], [rows // 4]],
    ):
        idea = "every rank's part has as many dimensions as the whole, the later ones' too"
        expect_error(ValueError, lab.treatment, [rows, columns], parts, idea=idea)
    for parts in itertools.permutations([[rows // 2, columns], [rows, columns // 2]]):
        idea = "one rank's rows became fewer, another one's columns"
        expect_error(ValueError, lab.treatment, [rows, columns], list(parts), idea=idea)
    uneven = [[rows // 2 * 3, columns], [rows // 2, columns]]
    check_treatment(lab, [rows, columns], uneven, "rows, part copied")


@pytest.mark.points(4)
@pytest.mark.vllm
@pytest.mark.timeout(600)  # starts vLLM twice
@pytest.mark.waits_for("test_rank_weights__counts_each_term_on_each_stage")
@pytest.mark.waits_for("test_treatment__tells_rows_columns_experts_and_copies")
@pytest.mark.waits_for("test_treatment__refuses_what_is_no_split")
def test_treatment__and_bytes_of_a_live_engine(lab, measure):
    """Live at TP=2: every shape and byte is the ledger's, residual 0."""
    test_treatment__tells_rows_columns_experts_and_copies(lab)  # all before an engine is started
    test_treatment__refuses_what_is_no_split(lab)
    one, two = capture("tp1"), capture("tp2")
    expect_ledger(lab, one["config"], one["ranks"], two["ranks"])
    one, two = measure(1), measure(2)
    expect_ledger(lab, two["config"], one["reports"], two["reports"])


def expect_ledger(lab, config, alone, ranks):
    """Shapes, treatments and bytes of what one rank held alone and two ranks together."""
    model = given.model_shape(config)
    predicted = {parameter["name"]: parameter for parameter in given.parameters(model)}
    whole = alone[0]["parameters"]
    assert sorted(whole) == sorted(predicted)
    treatments = {"vocab": "rows", "heads": "rows", "whole": "replicated"}
    for name, parameter in predicted.items():
        live = [report["parameters"][name]["shape"] for report in ranks]
        expected = treatments.get(parameter["split"], parameter["split"])
        check_treatment(lab, whole[name]["shape"], live, expected)
        for rank in live:
            expect_equal(lab.rank_shape(parameter, model, 2), rank, idea="the live rank")
    for tp_size, reports in [(1, alone), (2, ranks)]:
        for report in reports:
            live = sum(parameter["bytes"] for parameter in report["parameters"].values())
            held = lab.rank_weights(model, tp_size)["parameters_bytes"]
            expect_equal(held, live, part="['parameters_bytes']", idea="the live rank's tensors")


BILL = {
    "all_reduces": "two all-reduces per layer and one of the embedding; one rank alone makes none",
    "all_reduce_bytes": "an all-reduce is of num_tokens x hidden_size elements of element_bytes, "
    "whatever the number of ranks; what a ring sends is lab 03's",
    "all_gathers": "the logits are gathered once per step; one rank alone gathers nothing",
    "all_gather_bytes": "the gathered logits: num_sequences x padded vocabulary, of element_bytes",
}


@pytest.mark.points(5)
def test_collectives_per_step__as_workers_counted_them(lab):
    """Each step's all-reduces and gather, as counted in live workers."""
    for name in ("tp1", "tp2", "tp2-vocab-500", "tp2-two-hosts"):
        recorded = capture(name)
        for report in recorded["ranks"]:
            steps = report["steps_together"]
            check_bill(lab, recorded["config"], recorded["tp_size"], steps, [6, 11], name)
    chance = random.Random(18)
    drawn = (chance.randint(30, 999), chance.randint(9, 29), 2)
    for model, tp_size in itertools.product(
        [MODELS["qwen3-32b"], MODELS["opt-1.3b"], *drawn_models()], [1, 2, 4, 8]
    ):
        for tokens, sequences, width in [(1, 1, 4), drawn, (4, 4, 1)]:
            expected = expected_bill(model, tp_size, tokens, sequences, width)
            bill = lab.collectives_per_step(model, tp_size, tokens, sequences, width)
            expect_terms(bill, expected, BILL)
    more = chance.randint(1, 9)  # of a model whose embedding is narrower than its layers
    bills = [lab.collectives_per_step(taller(NARROW, n), 2, 7, 3) for n in (0, more)]
    expect_equal(
        bills[1]["all_reduce_bytes"] - bills[0]["all_reduce_bytes"],
        2 * more * 7 * NARROW["hidden_size"] * 4,
        part=f"['all_reduce_bytes'] of {more} layers more",
        idea="a layer's all-reduces are of hidden_size; embedding_width is the embedding's alone",
    )


@pytest.mark.points(4)
@pytest.mark.vllm
@pytest.mark.timeout(600)  # starts vLLM once, or uses the run of the test before
@pytest.mark.waits_for("test_collectives_per_step__as_workers_counted_them")
def test_collectives_per_step__of_a_live_engine(lab, measure):
    """Live at TP=2: two all-reduces per layer, one more, one gather."""
    test_collectives_per_step__as_workers_counted_them(lab)  # before an engine is started
    run = measure(2)
    for report in run["reports"]:
        for key, lengths in [("steps", [6]), ("steps_together", [6, 11])]:  # of two_way.PROMPTS
            live = [live_run().totals(calls) for calls in report[key]]
            check_bill(lab, run["config"], 2, live, lengths, f"rank {report['rank']}")


# --- Part C: tensor and sequence parallelism in Torch -----------------------------------------


@pytest.mark.points(12)
def test_all_gather_gemm_schedule__hides_behind_the_gemms(lab):
    """All-gather + GEMM: the next chunk travels while one multiplies"""
    expect_overlap(lab, "all_gather_gemm_schedule", "all_gather_gemm")


@pytest.mark.points(12)
def test_gemm_reduce_scatter_schedule__hides_behind_the_gemms(lab):
    """GEMM + reduce-scatter: sums leave while the next chunk multiplies"""
    expect_overlap(lab, "gemm_reduce_scatter_schedule", "gemm_reduce_scatter")


@pytest.mark.torch
@pytest.mark.timeout(60)
@pytest.mark.points(6)
@pytest.mark.waits_for(
    "test_all_gather_gemm_schedule__hides_behind_the_gemms",
    "test_gemm_reduce_scatter_schedule__hides_behind_the_gemms",
)
def test_gemm_reduce_scatter_schedule__and_all_gather_run_on_gloo(lab, tmp_path):
    """Both schedules give the right product on three real processes"""
    num_ranks, gemm, comm = 3, 1.0, 1.0
    names = {
        "all_gather_gemm": lab.all_gather_gemm_schedule,
        "gemm_reduce_scatter": lab.gemm_reduce_scatter_schedule,
    }
    schedules = {
        problem: [function(num_ranks, rank) for rank in range(num_ranks)]
        for problem, function in names.items()
    }
    for problem, ops in schedules.items():  # what the simulated machine refuses may hang for real
        try:
            machine.simulate(ops, problem)
        except machine.ScheduleError as error:
            raise AssertionError(f"{problem}_schedule({num_ranks}, rank): {error}.") from None
    ran = subprocess.run(
        [sys.executable, "-m", "tensor_parallel_toy", "replay"],
        input=json.dumps(schedules),
        capture_output=True,
        text=True,
        timeout=55,
        cwd=TOY.parent,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert ran.returncode == 0, f"the processes failed: {ran.stderr.strip()}"
    results = json.loads(ran.stdout)
    assert len(results) == num_ranks
    for problem in names:
        bound = machine.pipeline_bound(problem, num_ranks, gemm, comm)
        error = max(result[problem]["error"] for result in results)
        makespan = max(result[problem]["makespan"] for result in results)
        # float64, sums over 20 products of numbers near 1
        assert error <= 1e-12, f"{problem}_schedule on {num_ranks} processes: off by {error:.3g}."
        assert makespan <= bound + 1e-9, (
            f"{problem}_schedule on {num_ranks} processes over a simulated link: takes "
            f"{makespan:g} units, a pipeline {bound:g}."
        )


# --- models and captures ----------------------------------------------------------------------


def capture(name):
    """The job and the ranks' reports of a recorded run."""
    return json.loads((CAPTURES / name / "report.json").read_text())


def tiny(**changes):
    """The config.json of a small Llama; fields that do not divide by each other."""
    fields = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 96,
        "intermediate_size": 160,
        "num_hidden_layers": 3,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
        "vocab_size": 500,
        "max_position_embeddings": 128,
        "torch_dtype": "float16",
    }
    return fields | changes


def drawn_models():
    """Small models of drawn sizes; two ranks at least divide each."""
    chance = random.Random(20)
    for name in ("LlamaForCausalLM", "Qwen3ForCausalLM", "MixtralForCausalLM"):
        kv_heads = chance.choice((1, 2, 4, 8))
        yield given.model_shape(
            tiny(
                architectures=[name],
                num_local_experts=chance.randint(2, 9),
                hidden_size=chance.randint(50, 500),
                intermediate_size=16 * chance.randint(2, 50),
                num_hidden_layers=chance.randint(3, 9),
                num_attention_heads=kv_heads * chance.choice((2, 4, 6)),
                num_key_value_heads=kv_heads,
                head_dim=2 * chance.randint(2, 50),
                vocab_size=chance.randint(100, 9999),
                max_position_embeddings=chance.randint(100, 9999),
                torch_dtype=chance.choice(("float16", "float32")),
                **{field: chance.random() < 0.5 for field in FLAGS},
            )
        )


FLAGS = ("attention_bias", "mlp_bias", "tie_word_embeddings")


def taller(config, more):
    """The model of a config.json with so many layers more."""
    return given.model_shape(config | {"num_hidden_layers": config["num_hidden_layers"] + more})


def bytes_of_a_layer(report):
    """What each of a live rank's layers took; they are alike."""
    layers = [name.split(".")[2] for name in report["parameters"] if ".layers." in name]
    held = [p["bytes"] for name, p in report["parameters"].items() if ".layers." in name]
    return sum(held) // len(set(layers))


def uneven(chance, ranks):
    """A size of several times the ranks that they do not divide."""
    return ranks * chance.randint(1, 99) + chance.randint(1, ranks - 1)


def drawn_cache():
    """(memory, bytes per token, block size, longest request), of which nothing comes out even."""
    chance = random.Random(21)
    while True:
        per_token, block_size = 8 * chance.randint(9, 999), 2 ** chance.randint(3, 6)
        longest, blocks = chance.randint(100, 9999), chance.randint(100, 9999)
        tokens = Fraction(blocks * longest, -(-longest // block_size))
        if tokens.denominator > 1:  # else floats may round down to one token less
            memory = per_token * block_size * blocks + chance.randrange(per_token * block_size)
            return memory, per_token, block_size, longest


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
TINY = {
    "tiny": tiny(attention_bias=True, mlp_bias=True),
    "tiny, 7 layers": tiny(num_hidden_layers=7, vocab_size=513),
    "tiny, one KV head, tied": tiny(num_key_value_heads=1, tie_word_embeddings=True),
    "tiny, wide heads, float32": tiny(  # its rope table is no multiple of 512 bytes
        head_dim=20, torch_dtype="float32", max_position_embeddings=130
    ),
    "tiny, other heads": tiny(  # its q, k, v have the shape of tiny's
        num_attention_heads=8, num_key_value_heads=1, head_dim=16
    ),
    "tiny, experts": tiny(architectures=["MixtralForCausalLM"], num_local_experts=6),
    "tiny, YaRN": tiny(rope_scaling=YARN),
}
CONFIGS = {path.stem: json.loads(path.read_text()) for path in (HERE / "configs").glob("*.json")}
NARROW = CONFIGS["opt-1.3b"] | {"word_embed_proj_dim": 512}  # as in OPT-350m
EVERY = CONFIGS | TINY | {"opt, narrow embedding": NARROW}
MODELS = {name: given.model_shape(config) for name, config in sorted(EVERY.items())}


def splits_heads(model, tp_size):
    """Whether the heads divide over the ranks, and the KV heads too, or are copied evenly."""
    few, many = sorted([model["num_kv_heads"], tp_size])
    return model["num_heads"] % tp_size == 0 and many % few == 0


def legal_tp_sizes(model):
    """The tp_sizes up to 16 over which heads, MLP and vocabulary divide."""
    widths = model["intermediate_size"], -(-model["vocab_size"] // 64) * 64
    return [
        tp_size
        for tp_size in (1, 2, 3, 4, 6, 8, 12, 16)
        if splits_heads(model, tp_size) and all(width % tp_size == 0 for width in widths)
    ]


def distinct_parameters(model):
    """One parameter of each shape and split."""
    return {(*p["shape"], p["split"]): p for p in given.parameters(model)}.values()


# --- second methods ---------------------------------------------------------------------------


def kv_heads_of_rank_0(num_kv_heads, tp_size):
    """The KV heads themselves: as many places as heads or ranks, handed out in order."""
    places = [
        place * num_kv_heads // max(num_kv_heads, tp_size)
        for place in range(max(num_kv_heads, tp_size))
    ]
    return set(places[: len(places) // tp_size])


def expected_shape(parameter, model, tp_size):
    """What rank 0 stores: every tp_size-th row or column counted, or the heads themselves."""
    shape, split = list(parameter["shape"]), parameter["split"]
    if split == "whole":
        return shape
    if split == "heads":
        queries = range(0, model["num_heads"], tp_size)
        kv_heads = kv_heads_of_rank_0(model["num_kv_heads"], tp_size)
        return [(len(queries) + 2 * len(kv_heads)) * model["head_dim"], *shape[1:]]
    axis = -1 if split == "columns" or len(shape) == 1 else -2
    size = next(n for n in itertools.count(shape[axis]) if split != "vocab" or n % 64 == 0)
    shape[axis] = len(range(0, size, tp_size))
    return shape


def expected_weights(model, tp_size, pp_size=1, stage=0):
    """The terms of rank_weights, tensor by tensor."""
    sizes = []
    for parameter in given.parameters(model):
        if given.on_stage(parameter, model, pp_size, stage):
            size = model["dtype_bytes"]
            for dimension in expected_shape(parameter, model, tp_size):
                size *= dimension
            sizes.append(size)
    rope = model["rope_positions"] * model["head_dim"] * model["dtype_bytes"]
    total = sum(given.allocated_bytes(size) for size in [*sizes, rope])
    rounding = total - sum(sizes) - rope
    return dict(zip(TERMS, [sum(sizes), rope, rounding, total], strict=True))


def expected_kv_bytes(model, tp_size, pp_size, stage, width):
    """Keys and values of one token, layer by layer and head by head."""
    heads = kv_heads_of_rank_0(model["num_kv_heads"], tp_size)
    layers = range(given.stage_layers(model["num_layers"], pp_size)[stage])
    return sum(2 * model["head_dim"] * width for _ in layers for _ in heads)


def expected_capacity(memory, bytes_per_token, block_size, longest, era):
    """The rule of an era in whole blocks and exact fractions."""
    blocks = int(memory // (bytes_per_token * block_size))
    tokens = blocks * block_size
    concurrency = Fraction(tokens, longest)
    if era != "before 0.9.1":
        concurrency = Fraction(blocks, len(range(0, longest, block_size)))
    if era == "from 0.20.1":
        tokens = int(concurrency * longest)
    return {"blocks": blocks, "tokens": tokens, "max_concurrency": float(concurrency)}


def expected_splits(model, gib, tp_size, pp_size):
    """Every answer that which_split may give: stages that hold the same bytes are alike."""
    found = []
    for tp, pp in dict.fromkeys([(tp_size, pp_size), (1, pp_size), (tp_size, 1), (1, 1)]):
        for stage in range(pp):
            total = expected_weights(model, tp, pp, stage)["total_bytes"]
            split = {"tp_size": tp, "pp_size": pp, "pp_rank": stage}
            if abs(round(gib * GIB - total)) <= 0.05 * total:
                found.append(split | {"residual_bytes": round(gib * GIB - total)})
    best = min((abs(split["residual_bytes"]) for split in found), default=None)
    nearest = [split for split in found if abs(split["residual_bytes"]) == best]
    return [s for s in nearest if (s["tp_size"], s["pp_size"]) == _sizes(nearest[0])]


def _sizes(split):
    return split["tp_size"], split["pp_size"]


def expected_choice(model, memory, bandwidth, all_reduce_s, context, sequences, slowdowns):
    """What each of the two GPUs reads and holds, GPU by GPU."""
    found = {}
    for name, tp_size in [("replicas", 1), ("tp", 2)]:
        weights = expected_weights(model, tp_size)
        per_token = expected_kv_bytes(model, tp_size, 1, 0, model["dtype_bytes"])
        fits, steps, tokens_per_s = True, [], 0.0
        for gpu in (0, 1):
            mine = sequences if tp_size == 2 else len(range(gpu, sequences, 2))
            cache = mine * context * per_token
            fits = fits and weights["total_bytes"] + cache <= memory
            steps.append((weights["parameters_bytes"] + cache) / bandwidth * slowdowns[gpu])
            tokens_per_s += mine / steps[gpu]
        step_s = max(steps)
        if tp_size == 2:
            step_s += (2 * model["num_layers"] + 1) * all_reduce_s
            tokens_per_s = sequences / step_s
        found[name] = {
            "fits": fits,
            "step_s": step_s,
            "tokens_per_s": tokens_per_s if fits else 0.0,
        }
    fitting = [name for name in found if found[name]["fits"]]
    choice = max(fitting, key=lambda name: found[name]["tokens_per_s"], default="neither")
    return found | {"choice": choice}


def near_race(model, bandwidth, context, sequences, ahead):
    """The seconds of an all-reduce with which TP makes `ahead` times the tokens of replicas."""
    free = expected_choice(model, 80 * GIB, bandwidth, 0.0, context, sequences, (1.0, 1.0))
    step_s = sequences / (ahead * free["replicas"]["tokens_per_s"])
    return (step_s - free["tp"]["step_s"]) / (2 * model["num_layers"] + 1)


def expected_bill(model, tp_size, tokens, sequences, width):
    """Every collective of one step, in the order in which a rank makes them."""
    activation = tokens * model["hidden_size"] * width
    vocabulary = next(n for n in itertools.count(model["vocab_size"]) if n % 64 == 0)
    calls = [("all_reduce", activation)]  # the embedding
    for _ in range(model["num_layers"]):
        calls += [("all_reduce", activation), ("all_reduce", activation)]  # attention, MLP
    calls.append(("all_gather", sequences * vocabulary * width))
    return bill_of(calls if tp_size > 1 else [])


def bill_of(calls):
    found = {}
    for name in ("all_reduce", "all_gather"):
        payloads = [payload for operation, payload in calls if operation == name]
        found |= {name + "s": len(payloads), name + "_bytes": sum(payloads)}
    return found


# --- how results are compared -----------------------------------------------------------------


def expect_terms(actual, expected, ideas, atol=0):
    """A dict with the expected keys; each value exactly, or floats within atol."""
    if not isinstance(actual, dict) or sorted(actual, key=str) != sorted(expected):
        expect_equal(actual, expected)
    for term, value in expected.items():
        part, idea = f"['{term}']", ideas[term]
        if isinstance(value, float):
            expect_close(actual[term], value, atol=atol, part=part, idea=idea)
        else:
            expect_equal(actual[term], value, part=part, idea=idea + share(actual[term], value))


def share(actual, expected):
    """`; yours is 1/9 times it`, of many bytes."""
    if type(actual) is not int or expected < 1000:
        return ""
    times = Fraction(actual, expected)
    simple = times > 0 and times != 1 and max(times.numerator, times.denominator) <= 200
    return f"; yours is {times} times it" if simple else ""


def expect_choice(answer, expected, model, sequences):
    """The answer of replicas_or_tp, option by option."""
    ideas = {
        "replicas": f"the first GPU takes {sequences - sequences // 2} of {sequences} sequences, "
        "the second the others; each reads its parameters_bytes and its own KV, as many times "
        "slower as slowdowns says; step_s is the slower one's, and both GPUs' tokens per second "
        "are added up",
        "tp": f"each rank reads its parameters_bytes and its KV of all {sequences} sequences; the "
        f"slowest sets the step, and {2 * model['num_layers'] + 1} all-reduces come on top",
    }
    for option, idea in ideas.items():
        held = "every GPU must hold its total_bytes (with rope table and rounding) and its KV"
        wanted, got, part = expected[option], answer[option], f"['{option}']"
        expect_equal(got["fits"], wanted["fits"], part=part + "['fits']", idea=held)
        # relative to what is expected: a few roundings of float64
        atol = 1e-12 * wanted["step_s"]
        expect_close(
            got["step_s"], wanted["step_s"], atol=atol, part=part + "['step_s']", idea=idea
        )
        speed, atol = wanted["tokens_per_s"], 1e-12 * wanted["tokens_per_s"]
        idea = idea if wanted["fits"] else "what does not fit makes no tokens"
        part += "['tokens_per_s']"
        expect_close(got["tokens_per_s"], speed, atol=atol, part=part, idea=idea)
    speeds = [f"{name} {expected[name]['tokens_per_s']:.8g}" for name in ideas]
    idea = f"of those that fit, the one with more tokens per second: {' and '.join(speeds)}"
    expect_equal(answer["choice"], expected["choice"], part="['choice']", idea=idea)


def expect_result(function, *arguments, expected, idea):
    """The same plain value, where a ValueError would be one refusal too many."""
    try:
        result = function(*arguments)
    except ValueError as error:
        text = f"raised ValueError: {error}; expected {expected!r}. Look again at: {idea}."
        raise Unexpected(text) from None
    expect_equal(result, expected, idea=idea)


def resized(shape, axis, size):
    return [size if index == axis else dimension for index, dimension in enumerate(shape)]


def check_treatment(lab, full, shapes, expected):
    kinds = ["experts", "rows", "columns"][-len(full) :] if len(full) > 1 else ["rows"]
    parts = [
        f"{name}: {list(held)} of {size}, {sum(held)} together"
        for name, size, *held in zip(kinds, full, *shapes, strict=True)
        if set(held) != {size}
    ]
    alone = "a vector [out] has rows only; " if len(full) == 1 else ""
    idea = alone + (" and ".join(parts) or "every rank holds all of it")
    expect_result(lab.treatment, full, shapes, expected=expected, idea=idea)


def check_bill(lab, config, tp_size, steps, prompt_lengths, where):
    """steps: per engine step, {operation: (count, payload bytes)} as counted in a worker."""
    model = given.model_shape(config)
    for number, step in enumerate(steps):
        tokens = len(prompt_lengths) if number else sum(prompt_lengths)
        live = {}
        for operation in ("all_reduce", "all_gather"):
            count, total = step.get(operation, (0, 0))
            live |= {operation + "s": count, operation + "_bytes": total}
        step_kind = "a decode step" if number else "the prefill"
        counted = f"{where} counted this in {step_kind} of {tokens} tokens"
        ideas = {key: f"{counted}: {idea}" for key, idea in BILL.items()}
        bill = lab.collectives_per_step(model, tp_size, tokens, len(prompt_lengths))
        expect_terms(bill, live, ideas)


# --- how schedules are judged -----------------------------------------------------------------


def expect_overlap(lab, name, problem):
    """The schedule is right, and takes what a pipeline takes: no longer, no more waiting."""
    chance = random.Random(23)
    less, more = sorted(chance.sample(range(1, 20), 2))
    times = (1, 1), (more, less), (less, more)  # of one chunk's GEMM and of its transfer
    for num_ranks in (1, 2, 3, 4, 5, 6, 7, 8, chance.randint(9, 29)):
        schedules = [getattr(lab, name)(num_ranks, rank) for rank in range(num_ranks)]
        for rank, schedule in enumerate(schedules):
            assert isinstance(schedule, (list, tuple)), (
                f"{name}({num_ranks}, {rank}): returned {type(schedule).__name__}, expected a list "
                "of operations"
            )
        first = list(schedules[0]) if isinstance(schedules[0], list) else schedules[0]
        assert getattr(lab, name)(num_ranks, 0) == first, (
            f"{name}({num_ranks}, 0): returns something else when it is called again. Does a list "
            "outlive the call (a module's list, a default argument)? Make a new one in each call."
        )
        for gemm, comm in times:
            try:
                run = machine.simulate(schedules, problem, gemm, comm)
            except machine.ScheduleError as error:
                drawing = two_timelines.text(schedules, problem) if error.spans else ""
                raise Unexpected(f"{error}.", drawing=drawing) from None
            bound = machine.pipeline_bound(problem, num_ranks, gemm, comm)
            wait = bound - num_ranks * gemm
            if run["makespan"] > bound or max(run["exposed"]) > wait:
                raise Unexpected(
                    f"right, but with a GEMM of {gemm} and a transfer of {comm} per chunk "
                    f"it takes {run['makespan']}, {max(run['exposed'])} of it waiting; a pipeline "
                    f"takes {bound}, {wait} of it waiting. Look again at: "
                    f"{what_delays(schedules, problem)}.",
                    drawing=two_timelines.text(schedules, problem, gemm, comm),
                )


def what_delays(schedules, problem):
    """The habit that a right, slow schedule lacks."""
    first_peers = [next((op[3] for op in ops if op[0] == "send"), None) for ops in schedules]
    if len(schedules) > 2 and len(set(first_peers)) < len(first_peers):
        crowded = max(set(first_peers), key=first_peers.count)
        return f"which rank everybody talks to first: rank {crowded} takes one message at a time"
    ops = [tuple(op) for op in schedules[0]]
    verbs = [op[0] for op in ops]
    last_gemm = len(verbs) - 1 - verbs[::-1].index("gemm")
    if "wait_send" in verbs[:last_gemm]:
        return "wait_send: it blocks until a message has left, and GEMMs are still to be done"
    if problem == "all_gather_gemm":
        return _what_delays_the_gather(ops, verbs)
    return _what_delays_the_scatter(ops, verbs, last_gemm)


def _what_delays_the_gather(ops, verbs):
    first_gemm = verbs.index("gemm")
    if "send" in verbs[first_gemm:]:
        return "when sends are issued: a chunk of x needs no GEMM before it leaves"
    if ops[first_gemm][2] != 0:
        return "which chunk is multiplied first: a rank's own needs no wait, and hides a transfer"
    if "wait" in verbs[:first_gemm]:
        return "when chunks are waited for: a rank's own needs no wait, and hides a transfer"
    for index, verb in enumerate(verbs[:-1]):
        if verb == "wait" and verbs[index + 1] == "wait":
            return "when chunks are waited for: each right before its own GEMM, not all at once"
    return "the order of the waits: multiply the chunk that arrives first, then the next"


def _what_delays_the_scatter(ops, verbs, last_gemm):
    if ops[verbs.index("gemm")][2] == 0:
        return "which chunk is multiplied first: others wait for theirs, nobody for a rank's own"
    if "wait" in verbs[:last_gemm]:
        return "when partial sums are waited for: after the last GEMM, which can hide them"
    ops = [op for op in ops if op[0] != "post_recv"]  # which takes no time, wherever it stands
    for index, op in enumerate(ops):
        if op[0] == "send" and ops[index - 1] != ("gemm", op[1], op[2]):
            return "when sends are issued: each partial sum can leave right after its own GEMM"
    return "the order of the chunks: what is sent first should be what its owner adds first"
