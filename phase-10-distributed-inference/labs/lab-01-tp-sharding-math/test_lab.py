"""What lab 01 must prove: first the claims, task by task, then the oracles, in plain numpy.

A rank of tasks 6 to 8 is given its own shards and nothing else, so it cannot multiply by more than
its share of a weight. That proves nothing about tasks 2 to 4, which see whole weights: there, what
each rank brings to the collective must be its own part, and what comes back must be used. Whether
it was cut out of a whole product is not seen.
"""

import math
import random
from fractions import Fraction
from itertools import groupby, product

import numpy as np
import pytest
from collectives import Deadlock, record, run_ranks

from labkit.expect import (
    Unexpected,
    alike,
    expect_close,
    expect_equal,
    expect_error,
    kind_of,
    looking_at,
    of_rank,
)

RANKS = (4, 1, 2, 3, 8)
MORE_RANKS = {  # one layer each: a count that is no power of two, or large; all of x but its inputs
    5: (1, 3),
    6: (4, 1),
    7: (5, 2),
    12: (3, 3),
    16: (20,),
    64: (2,),
}
GROUPS = (4, 1, 2, 3, 6)  # of ranks that run one by one: when graded, each is a process
# float64 rounding of sums over at most 80 products of numbers near 1, added in another order; what
# a marked collective returns is hundreds of times further from the same numbers unmarked
ATOL = 1e-11
SHARDS = "test_shards__are_equal_blocks_in_rank_order"
UNEVEN = "test_shards__refuse_an_uneven_split"
OWNS = "rank r owns block r"


@pytest.mark.points(5)
def test_shards__are_equal_blocks_in_rank_order(lab):
    """shards gives each rank one of equal blocks, in rank order"""
    chance = random.Random(1)
    for num_ranks in (4, *RANKS, 10, chance.randint(5, 40), chance.randint(65, 99)):
        # 10 ranks of 9: int(90 * (7 / 10)) is 62; the last is far above any size that a model has
        for width in (12, 1, 9, chance.randint(2, 60), chance.randint(10**9, 10**10)):
            size = num_ranks * width
            expect_blocks(lab.shards("out_features", size, num_ranks), size, num_ranks)


@pytest.mark.points(2)
@pytest.mark.waits_for(SHARDS)
def test_shards__refuse_an_uneven_split(lab):
    """An uneven split is an error, never rounded"""
    for size, num_ranks in ((10, 4), (7, 2), (3, 8), *uneven_splits()):
        idea = "an uneven split is refused, never rounded"
        expect_error(ValueError, lab.shards, "ffn_width", size, num_ranks, idea=idea)
        even = size * num_ranks  # the same ranks, and what they do divide
        expect_blocks(lab.shards("ffn_width", even, num_ranks), even, num_ranks)


@pytest.mark.points(1)
@pytest.mark.waits_for(UNEVEN)
def test_shards__say_what_is_uneven(lab):
    """The error names the dimension, its size and the ranks, of which there is one at least"""
    below = -random.Random(2).choice((2, 3, 4, 6, 8))  # -8 divides 48
    for size, num_ranks in (*uneven_splits(), (48, 0), (48, below)):
        words = ["ffn_width", size, num_ranks]
        idea = "num_ranks must be at least 1" if num_ranks < 1 else "the error names all three"
        expect_error(
            ValueError, lab.shards, "ffn_width", size, num_ranks, mentions=words, idea=idea
        )
        ranks = max(num_ranks, 1)
        expect_blocks(lab.shards("ffn_width", size * ranks, ranks), size * ranks, ranks)


@pytest.mark.points(7)
@pytest.mark.waits_for(SHARDS)
def test_column_parallel__equals_the_dense_product(lab):
    """column_parallel equals x @ W.T for 1, 2, 3, 4 and 8 ranks"""
    idea = "split W's rows, the outputs, and concatenate along the outputs in rank order"
    expect_layer(lab.column_parallel, dense, linear_layers(), idea, split="outputs")


@pytest.mark.points(5)
@pytest.mark.waits_for("test_column_parallel__equals_the_dense_product", SHARDS)
def test_column_parallel__makes_one_all_gather(lab):
    """column_parallel makes one all-gather, of the ranks' own blocks"""
    idea = "each rank holds a block of the outputs; one all-gather joins them"
    for x, W, num_ranks in linear_layers():
        with marked_collectives() as ledger:
            y = call(lab.column_parallel, x, W, num_ranks, idea=idea)
        expect_traffic(ledger, [("all_gather", dense(x, W).nbytes)], num_ranks, idea)
        parts = [dense(x, W[block]) for block in blocks(len(W), num_ranks)]
        expect_meeting(ledger.calls, [parts], [y], idea)


@pytest.mark.points(2)
@pytest.mark.waits_for("test_column_parallel__equals_the_dense_product", UNEVEN)
def test_column_parallel__refuses_an_uneven_split(lab):
    """column_parallel refuses outputs that the ranks do not divide, and nothing else"""
    draw = numbers()
    for outputs, num_ranks in uneven_splits():
        inputs = 2 * num_ranks + 1  # these are not split
        arrays = draw(5, inputs), draw(outputs, inputs)
        expect_refusal(lab.column_parallel, arrays, num_ranks, f"the {outputs} outputs")
        whole = draw(outputs * num_ranks, inputs)  # the same ranks do divide these outputs
        idea = f"only the {len(whole)} outputs are split here, and {num_ranks} ranks divide them"
        expect_layer(lab.column_parallel, dense, [(arrays[0], whole, num_ranks)], idea)


@pytest.mark.points(8)
@pytest.mark.waits_for(SHARDS)
def test_row_parallel__equals_the_dense_product(lab):
    """row_parallel equals x @ W.T for 1, 2, 3, 4 and 8 ranks"""
    idea = "slice r of x meets slice r of W, which gives one addend of every output; addends add"
    expect_layer(lab.row_parallel, dense, linear_layers(), idea, split="inputs")


@pytest.mark.points(6)
@pytest.mark.waits_for("test_row_parallel__equals_the_dense_product", SHARDS)
def test_row_parallel__makes_one_all_reduce(lab):
    """row_parallel makes one all-reduce, of the ranks' own partial sums"""
    idea = "partial sums live on different ranks; only an all-reduce can add them"
    for x, W, num_ranks in linear_layers():
        with marked_collectives() as ledger:
            y = call(lab.row_parallel, x, W, num_ranks, idea=idea)
        expect_traffic(ledger, [("all_reduce", dense(x, W).nbytes)], num_ranks, idea)
        mine = blocks(W.shape[1], num_ranks)
        parts = [dense(x[..., block], W[:, block]) for block in mine]
        expect_meeting(ledger.calls, [parts], [y], idea)


@pytest.mark.points(2)
@pytest.mark.waits_for("test_row_parallel__equals_the_dense_product", UNEVEN)
def test_row_parallel__refuses_an_uneven_split(lab):
    """row_parallel refuses inputs that the ranks do not divide, and nothing else"""
    draw = numbers()
    for inputs, num_ranks in uneven_splits():
        outputs = 2 * num_ranks + 1  # these are not split
        arrays = draw(5, inputs), draw(outputs, inputs)
        expect_refusal(lab.row_parallel, arrays, num_ranks, f"the {inputs} inputs")
        even = inputs * num_ranks
        whole = draw(5, even), draw(outputs, even)
        idea = f"only the {even} inputs are split here, and {num_ranks} ranks divide them"
        expect_layer(lab.row_parallel, dense, [(*whole, num_ranks)], idea)


@pytest.mark.points(9)
@pytest.mark.waits_for(SHARDS)
def test_mlp_tp__equals_the_dense_mlp(lab):
    """mlp_tp equals relu(x @ W1) @ W2 for 1, 2, 3, 4 and 8 ranks"""
    idea = (
        "hidden unit j is column j of W1 and row j of W2, on one rank; relu acts on it, before W2; "
        "only the partial sums of W2 are added"
    )
    expect_layer(lab.mlp_tp, dense_mlp, mlps(), idea, split="hidden units")


@pytest.mark.points(9)
@pytest.mark.waits_for("test_mlp_tp__equals_the_dense_mlp", SHARDS)
def test_mlp_tp__makes_exactly_one_all_reduce(lab):
    """mlp_tp makes exactly one all-reduce and no other collective"""
    idea = "hidden unit j, finished on a rank, meets row j of W2 on that rank; one all-reduce adds"
    for x, W1, W2, num_ranks in sorted(mlps(), key=lambda case: case[-1] == 1):
        with marked_collectives() as ledger:
            y = call(lab.mlp_tp, x, W1, W2, num_ranks, idea=idea)
        output_bytes = dense_mlp(x, W1, W2).nbytes
        expect_traffic(ledger, [("all_reduce", output_bytes)], num_ranks, idea)
        mine = blocks(W1.shape[1], num_ranks)
        parts = [dense_mlp(x, W1[:, block], W2[block]) for block in mine]
        expect_meeting(ledger.calls, [parts], [y], idea)


@pytest.mark.points(2)
@pytest.mark.waits_for("test_mlp_tp__equals_the_dense_mlp", UNEVEN)
def test_mlp_tp__refuses_an_uneven_split(lab):
    """mlp_tp refuses hidden units that the ranks do not divide, and nothing else"""
    draw = numbers()
    for hidden, num_ranks in uneven_splits():
        odd = 2 * num_ranks + 1  # the inputs and the outputs, which are not split
        arrays = draw(5, odd), draw(odd, hidden), draw(hidden, odd)
        expect_refusal(lab.mlp_tp, arrays, num_ranks, f"the {hidden} hidden units")
        width = hidden * num_ranks
        whole = arrays[0], draw(odd, width), draw(width, odd)
        idea = f"only the {width} hidden units are split here, and {num_ranks} ranks divide them"
        expect_layer(lab.mlp_tp, dense_mlp, [(*whole, num_ranks)], idea)


@pytest.mark.points(8)
def test_legal_tp_sizes__are_what_the_shape_allows(lab):
    """legal_tp_sizes lists what heads, KV heads and every width allow"""
    for case in models():
        expected = legal_sizes(*case)
        given = lab.legal_tp_sizes(*case)
        expect_equal(given, expected, idea=why_legal(given, expected, *case))
    idea = "max_tp_size is 64 unless it is given"
    expect_equal(lab.legal_tp_sizes(128, 8, [53248]), [1, 2, 4, 8, 16, 32, 64], idea=idea)


@pytest.mark.points(6)
@pytest.mark.waits_for(SHARDS)
def test_attention_shards__are_a_rank_s_heads(lab):
    """A rank loads its query heads, and the KV heads that they read"""
    draw = numbers()
    for num_heads, num_kv_heads, head_dim in heads():
        weights = attention_weights(draw, num_heads, num_kv_heads, head_dim)
        for num_ranks in legal_sizes(num_heads, num_kv_heads, []):
            shape = (num_heads, num_kv_heads, num_ranks)
            expect_heads(lab.attention_shards, weights, shape, range(num_ranks))
    # int(49 * (2 / 98)) is 0, and int(15 / 22 * 22) is 14
    for shape, ranks in ((98, 2, 98), (0, 49, 97)), ((22, 22, 22), (14, 15, 21)):
        many = attention_weights(draw, *shape[:2], 1)
        expect_heads(lab.attention_shards, many, shape, ranks)


@pytest.mark.points(2)
@pytest.mark.waits_for("test_attention_shards__are_a_rank_s_heads", UNEVEN)
def test_attention_shards__refuse_heads_that_do_not_divide(lab):
    """Heads that cannot be divided, or copied equally often, are refused"""
    query = "every rank owns the same number of query heads"
    kv = "a rank owns whole KV heads: p ranks divide them, or are a multiple of them"
    splits = [(6, 6, 4, query), (8, 2, 16, query), (12, 6, 4, kv), (14, 2, 7, kv), (24, 3, 8, kv)]
    for size, ranks in uneven_splits():
        splits.append((2 * size, 2, 2 * ranks, query))
        if ranks % size:
            splits.append((ranks * size, size, ranks, kv))
    draw, chance = numbers(), random.Random(10)
    for num_heads, num_kv_heads, num_ranks, idea in splits:
        weights = attention_weights(draw, num_heads, num_kv_heads, 2)
        shape = (num_heads, num_kv_heads, num_ranks)
        for rank in (num_ranks - 1, 0):
            expect_error(ValueError, lab.attention_shards, *weights, *shape, rank, idea=idea)
        legal = [p for p in range(1, num_kv_heads + 1) if num_kv_heads % p == num_heads % p == 0]
        ranks = chance.choice(legal)
        shape = (num_heads, num_kv_heads, ranks)
        expect_heads(lab.attention_shards, weights, shape, [ranks - 1])


@pytest.mark.points(6)
def test_attention_rank__equals_the_unsharded_block(lab):
    """Each rank, given its heads, returns the whole attention block's output"""
    idea = "Wo's columns follow the rank's heads, so its product is one addend of every output"
    projected = "causal_attention takes q, k and v as [tokens, heads, head_dim], in this order"
    draw, shapes = numbers(), heads()
    cases = [(*shape, 1, 1) if shape[-1] == 1 else (*shape, 5, 7) for shape in shapes]
    # its shapes with other numbers; all as wide as x, as in a real model; a long prompt
    cases += [cases[0], (8, 2, 3, 5, IN), (2, 2, 1, 70, 2)]
    returned = []
    for num_heads, num_kv_heads, head_dim, tokens, outputs in cases:
        x = draw(tokens, IN)
        *weights, Wo = attention_weights(draw, num_heads, num_kv_heads, head_dim)
        weights = (*weights, draw(outputs, Wo.shape[1]))
        expected = dense_attention(x, *weights, num_heads, num_kv_heads)
        for num_ranks in legal_sizes(num_heads, num_kv_heads, [], max(GROUPS)):
            held = attention_arguments(x, weights, num_heads, num_kv_heads, num_ranks)
            results = on_ranks(lab.attention_rank, held, idea, f"{ALONE}; {projected}")
            expect_ranks(results, [expected] * num_ranks, idea)
            returned += [(y, y.copy()) for y in results]
    expect_kept(returned)


@pytest.mark.points(4)
@pytest.mark.waits_for("test_attention_rank__equals_the_unsharded_block")
def test_attention_rank__makes_one_all_reduce(lab):
    """Attention makes one all-reduce, of the ranks' own partial sums"""
    idea = "heads are independent until Wo mixes them: row-parallel, one all-reduce"
    draw, (num_heads, num_kv_heads, head_dim) = numbers(), heads()[0]
    *weights, Wo = attention_weights(draw, num_heads, num_kv_heads, head_dim)
    # the ranks divide neither tokens nor outputs, then one of both
    shapes = (5, 7), (4, 7), (5, 8), (1, 7)
    for (tokens, outputs), num_ranks in product(shapes, (1, 2, 4)):
        x, weights = draw(tokens, IN), (*weights[:3], draw(outputs, Wo.shape[1]))
        held = attention_arguments(x, weights, num_heads, num_kv_heads, num_ranks)
        parts = [
            dense_attention(x, *mine, num_heads // num_ranks, max(1, num_kv_heads // num_ranks))
            for _, *mine, _ in held
        ]
        with marked_collectives() as ledger:
            results = on_ranks(lab.attention_rank, held, idea)
        expect_traffic(ledger, [("all_reduce", tokens * outputs * 8)], num_ranks, idea)
        expect_meeting(ledger.calls, [parts], results, idea)


@pytest.mark.points(4)
def test_embedding_rank__gives_every_token_its_row(lab):
    """Each rank, given a block of the vocabulary, returns E[token_ids] to the last bit"""
    idea = "a rank gives zeros for tokens it does not own; the sum keeps the owner's row"
    returned = []
    for E, token_ids, num_ranks in (*embeddings(), *lone_tokens()):
        held = [(token_ids, E[block]) for block in blocks(len(E), num_ranks)]
        results = on_ranks(lab.embedding_rank, held, idea)
        for rank, rows in enumerate(results):
            expect_rows(rows, rank, E, token_ids, num_ranks)
        returned += [(rows, rows.copy()) for rows in results]
    expect_kept(returned)


@pytest.mark.points(4)
@pytest.mark.waits_for("test_embedding_rank__gives_every_token_its_row")
def test_embedding_rank__makes_one_all_reduce(lab):
    """The embedding makes one all-reduce; zeros stand for other ranks' tokens"""
    idea = "a rank looks up the tokens it owns and brings zeros for the others"
    for E, token_ids, num_ranks in (*embeddings(), *lone_tokens()):
        held = [(token_ids, E[block]) for block in blocks(len(E), num_ranks)]
        with marked_collectives() as ledger:
            results = on_ranks(lab.embedding_rank, held, idea)
        expect_traffic(ledger, [("all_reduce", E[token_ids].nbytes)], num_ranks, idea)
        owner = token_ids * num_ranks // len(E)
        parts = [np.where((owner == r)[:, None], E[token_ids], 0.0) for r in range(num_ranks)]
        expect_meeting(ledger.calls, [parts], results, idea)


@pytest.mark.points(2)
@pytest.mark.waits_for(SHARDS, UNEVEN)
def test_mlp_sp_shards__are_tokens_and_hidden_units(lab):
    """A rank holds its block of the tokens and of the hidden units"""
    draw = numbers()
    cases = list(sequence_mlps())
    for num_ranks in GROUPS:
        even, odd = 2 * num_ranks, 2 * num_ranks + 1  # the inputs and the outputs are not split
        cases.append((draw(even, odd), draw(odd, even), draw(even, odd), num_ranks))
    for *arrays, num_ranks in cases:
        owned = mlp_sp_arguments(*arrays, num_ranks)
        for rank in range(num_ranks):
            split = "only the tokens and the hidden units are split"
            given = call(lab.mlp_sp_shards, *arrays, num_ranks, rank, idea=split)
            expect_shards(given, owned, rank, UNITS)
    for uneven, num_ranks in uneven_splits():
        even = 2 * num_ranks
        for tokens, width, what in ((uneven, even, "tokens"), (even, uneven, "hidden units")):
            arrays = draw(tokens, even), draw(even, width), draw(width, even)
            idea = f"{uneven} {what} are split here; {num_ranks} ranks do not divide them"
            for rank in (num_ranks - 1, 0):
                expect_error(ValueError, lab.mlp_sp_shards, *arrays, num_ranks, rank, idea=idea)


@pytest.mark.points(3)
def test_mlp_sp_rank__gives_its_block_of_tokens(lab):
    """Sequence parallelism: each rank ends with its tokens of the dense MLP, complete"""
    idea = (
        "gather the tokens, relu on the rank's hidden units, then split the sum by tokens: rank r "
        "ends with block r, all outputs"
    )
    returned = []
    for x, W1, W2, num_ranks in sequence_mlps():
        expected = [dense_mlp(x, W1, W2)[block] for block in blocks(len(x), num_ranks)]
        results = on_ranks(lab.mlp_sp_rank, mlp_sp_arguments(x, W1, W2, num_ranks), idea)
        expect_ranks(results, expected, idea)
        returned += [(y, y.copy()) for y in results]
    expect_kept(returned)


@pytest.mark.points(3)
@pytest.mark.waits_for("test_mlp_sp_rank__gives_its_block_of_tokens")
def test_mlp_sp_rank__sends_the_bytes_of_one_all_reduce(lab):
    """An all-gather and a reduce-scatter send the bytes of one all-reduce"""
    idea = "all-gather the tokens, reduce-scatter the partial sums: together one all-reduce"
    draw = numbers()
    drawn = [(*sizes(num_ranks), num_ranks) for num_ranks in GROUPS]
    one_token_per_rank = [(num_ranks, *rest, num_ranks) for _, *rest, num_ranks in drawn]
    for tokens, width, hidden, num_ranks in (*drawn, *one_token_per_rank):
        x, W1, W2 = draw(tokens, width), draw(width, hidden), draw(hidden, width)
        held = mlp_sp_arguments(x, W1, W2, num_ranks)
        with marked_collectives() as ledger:
            results = on_ranks(lab.mlp_sp_rank, held, idea)
        traffic = [("all_gather", x.nbytes), ("reduce_scatter", x.nbytes)]
        expect_traffic(ledger, traffic, num_ranks, idea)
        if num_ranks == 1:
            continue
        gathered = upright(ledger.calls[0].outputs[0], x)  # marked, and the same on every rank
        partials = [dense_mlp(gathered, *mine) for _, *mine in held]
        expect_meeting(ledger.calls, [[x for x, _, _ in held], partials], results, idea)
        one_all_reduce = Fraction(2 * (num_ranks - 1), num_ranks) * x.nbytes
        assert ledger.sent_bytes_per_rank == one_all_reduce


# --- inputs -------------------------------------------------------------------------------------

HEADS = {
    "Wq": "head h is rows h * head_dim up to (h + 1) * head_dim",
    "Wo": "head h is columns h * head_dim up to (h + 1) * head_dim; Wo's rows are not split",
}
ALONE = "one rank holds everything: nothing is split, and the formula itself is to be looked at"
PRECISION = "precision: all arrays are float64, also in between"
UNITS = {
    "x": "x is split by its rows, the tokens",
    "W1": "W1 is split by its columns, the hidden units",
    "W2": "W2 is split by its rows, the hidden units",
}
IN, OUT = 24, 48  # the first layer's, which 1, 2, 3, 4 and 8 ranks divide


def numbers():
    """A function that draws an array of a shape, always of other numbers."""
    generator = np.random.default_rng(7)
    return lambda *shape: generator.standard_normal(shape)


def sizes(num_ranks, count=3):
    """So many sizes that num_ranks divides, all different."""
    widths = random.Random(f"{num_ranks} {count}").sample(range(2, 10), count)
    return [num_ranks * width for width in widths]


def uneven_splits():
    """(size, num_ranks) that do not divide; one size is smaller than its ranks."""
    chance = random.Random(8)
    for num_ranks, width in (2, 3), (3, 1), (4, 2), (8, 1), (8, 0):
        size = num_ranks * (width + chance.randint(0, width))
        yield size + chance.randint(1, num_ranks - 1), num_ranks


def linear_layers():
    """(x, W, num_ranks): x with one and two leading dimensions, W wider and taller."""
    draw = numbers()
    for num_ranks in RANKS:
        yield draw(5, IN), draw(OUT, IN), num_ranks
    for num_ranks in RANKS:
        few, many, _ = sizes(num_ranks)
        for _ in range(2):  # the same shapes with other numbers
            yield draw(5, few), draw(many, few), num_ranks
        yield draw(2, 5, many), draw(few, many), num_ranks
        yield np.zeros((1, few)), draw(few, few), num_ranks
        yield draw(2, few), draw(few, few), num_ranks  # the transpose fits as well
        yield 300 * draw(1, num_ranks), draw(num_ranks, num_ranks), num_ranks  # one per rank
    for num_ranks, leading in MORE_RANKS.items():
        yield draw(*leading, num_ranks), draw(2 * num_ranks, num_ranks), num_ranks


def mlps():
    draw = numbers()
    for num_ranks in RANKS:
        few, hidden, many = sizes(num_ranks)
        for _ in range(2):
            yield draw(5, few), draw(few, hidden), draw(hidden, many), num_ranks
        yield draw(2, 5, many), draw(many, few), draw(few, hidden), num_ranks
        # one token, one output, one unit per rank; large numbers, and none above zero
        yield 100 * draw(1, num_ranks), draw(num_ranks, num_ranks), draw(num_ranks, 1), num_ranks
        yield np.ones((2, 3)), -np.ones((3, num_ranks)), draw(num_ranks, 2), num_ranks
        # the transposes fit as well; small hidden units, which count
        yield 2.0**-60 * draw(2, few), draw(few, few), 2.0**60 * draw(few, few), num_ranks
    for num_ranks, leading in MORE_RANKS.items():
        yield draw(*leading, 3), draw(3, 2 * num_ranks), draw(2 * num_ranks, 2), num_ranks


def sequence_mlps():
    draw = numbers()
    for num_ranks in GROUPS:
        tokens, few, hidden, many = sizes(num_ranks, 4)
        for _ in range(2):
            yield draw(tokens, few), draw(few, hidden), draw(hidden, many), num_ranks
        yield 300 * draw(num_ranks, 1), draw(1, num_ranks), draw(num_ranks, 1), num_ranks
        # a rank's weights are square, then the sum
        yield draw(tokens, 2), draw(2, 2 * num_ranks), draw(2 * num_ranks, 2), num_ranks
        yield draw(tokens, few), draw(few, hidden), draw(hidden, tokens), num_ranks


def embeddings():
    """(E, token_ids, num_ranks): every token, some of them twice, in any order."""
    generator = np.random.default_rng(9)
    for num_ranks in GROUPS:
        vocab, twice, _ = sizes(num_ranks)
        for _ in range(2):
            E = generator.standard_normal((vocab, 6 + num_ranks))
            yield E, generator.permutation(vocab + twice) % vocab, num_ranks


def lone_tokens():
    """(E, token_ids, num_ranks): tokens of one rank alone; one, its row small beside the others."""
    draw = numbers()
    for num_ranks in GROUPS:
        vocab = sizes(num_ranks)[0]
        E = np.full((vocab, 6 + num_ranks), 1e200)
        E[-1] = 1e-36 * draw(6 + num_ranks)  # nothing but zeros can be added to these
        E[-1, 0] = 0.0
        yield E, np.array([vocab - 1]), num_ranks
        yield draw(vocab, 2), np.array([1, 0] * vocab), num_ranks  # none above the second
        # tokens that stand there twice, all of them of the last rank; a vocabulary of 2**16
        last = 90 * num_ranks - 1 if num_ranks > 1 else 2**16 - 1
        yield draw(last + 1, 2), np.array([last, last - 1, last]), num_ranks
        yield draw(num_ranks, 1), np.array([0]), num_ranks  # one row per rank, of one number


def heads():
    """(num_heads, num_kv_heads, head_dim): KV heads that are copied, and others."""
    chance = random.Random(5)
    drawn = [(chance.randint(2, 4), chance.randint(1, 3), chance.randint(1, 4)) for _ in range(3)]
    return [
        (8, 2, 3),
        (8, 8, 2),
        (6, 1, 4),
        (4, 4, 1),
        *((kv * group, kv, dim) for kv, group, dim in drawn),
    ]


def models():
    """(num_heads, num_kv_heads, widths, max_tp_size): known models, edges, and a seeded sweep."""
    yield 32, 8, [14336], 64  # Llama-3-8B
    yield 28, 4, [3584], 64  # Qwen2-7B's heads: 7 divides 28, but not 4
    yield 12, 12, [3072], 8
    yield 71, 1, [18176], 128  # Falcon-7B: a prime number of heads
    yield 7, 7, [7], 7  # max_tp_size itself is allowed
    yield 1, 1, [1], 1  # the smallest of everything
    yield 256, 256, [256], 256
    yield 8, 8, [8], 7
    yield 6, 4, [24], 8  # 3 and 6 neither divide 4 nor are multiples of it
    yield 32, 8, [14336, 100], 16
    yield 32, 8, [100, 14336], 16
    yield 24, 24, [18, 24, 36], 24  # 18 is the smallest; 4 divides the others, and their sum not
    yield 12, 12, [30, 42], 12  # 12 divides the sum, and neither
    yield 24, 24, [24, 72, 12, 30, 96, 48], 24  # one in the middle, in place and in size, decides
    rng = np.random.default_rng(3)
    for _ in range(60):
        num_kv_heads, group = int(rng.choice([1, 2, 3, 4, 6, 8])), int(rng.integers(1, 9))
        widths = [int(12 * rng.integers(1, 30)) for _ in range(rng.integers(1, 4))]
        yield num_kv_heads * group, num_kv_heads, widths, int(rng.integers(1, 50))
    yield 32, 8, [], 32  # no other dimension is split


def attention_weights(draw, num_heads, num_kv_heads, head_dim):
    rows = [heads * head_dim for heads in (num_heads, num_kv_heads, num_kv_heads)]
    return *(draw(n, IN) for n in rows), draw(7, rows[0])


def attention_arguments(x, weights, num_heads, num_kv_heads, num_ranks):
    """What each rank of attention_rank is given."""
    head_dim = len(weights[0]) // num_heads
    ranks = range(num_ranks)
    held = [heads_of_rank(weights, num_heads, num_kv_heads, num_ranks, rank) for rank in ranks]
    return [(x, *mine, head_dim) for mine in held]


def mlp_sp_arguments(x, W1, W2, num_ranks):
    pairs = zip(blocks(len(x), num_ranks), blocks(len(W2), num_ranks), strict=True)
    return [(x[tokens], W1[:, hidden], W2[hidden]) for tokens, hidden in pairs]


# --- oracles ------------------------------------------------------------------------------------


def blocks(size, num_ranks):
    """Rank r owns entries r * size / num_ranks up to the next rank's."""
    edges = [rank * size // num_ranks for rank in range(num_ranks + 1)]
    return [slice(*pair) for pair in zip(edges, edges[1:], strict=False)]


def dense(x, W):
    return np.einsum("...i,oi->...o", x, W)


def dense_mlp(x, W1, W2):
    return np.maximum(np.einsum("...i,ih->...h", x, W1), 0.0) @ W2


def legal_sizes(num_heads, num_kv_heads, widths, max_tp_size=64):
    """By divisors: what divides all that is split, and divides or is divided by the KV heads."""
    split = math.gcd(num_heads, *widths)
    sizes = [size for size in range(1, min(split, max_tp_size) + 1) if split % size == 0]
    return [size for size in sizes if math.gcd(size, num_kv_heads) in (size, num_kv_heads)]


def why_legal(given, expected, num_heads, num_kv_heads, widths, max_tp_size):
    """The idea that belongs to the first size which is wrong."""
    whole = (int, np.integer)
    if not isinstance(given, (list, tuple)) or not all(isinstance(n, whole) for n in given):
        return "a list of sizes, ascending, each once"
    extra = [size for size in given if size not in expected]
    wrong = [*extra, *(size for size in expected if size not in given)]
    if not wrong:
        return "a list of sizes, ascending, each once"
    size = min(wrong)
    if size in expected:
        copied = size % num_kv_heads == 0 and size > num_kv_heads
        how = (
            f"each KV head is copied {size // num_kv_heads} times"
            if copied
            else ("all heads and widths can be divided so")
        )
        return f"{size} ranks are possible: {how}" if size > 1 else "one rank is always possible"
    if not 1 <= size <= max_tp_size:
        return f"sizes go from 1 to {max_tp_size}"
    for name, count in (("num_heads", num_heads), *(("the width", width) for width in widths)):
        if count % size:
            return f"{size} ranks do not divide {name} {count}"
    return f"{size} ranks can neither divide {num_kv_heads} KV heads nor copy each equally often"


def heads_of_rank(weights, num_heads, num_kv_heads, num_ranks, rank):
    """Head by head: a rank's query heads, and whatever KV heads they read."""
    Wq, Wk, Wv, Wo = weights
    head_dim = len(Wq) // num_heads
    heads = [head for head in range(num_heads) if head * num_ranks // num_heads == rank]
    read = sorted({head * num_kv_heads // num_heads for head in heads})

    def entries(heads):
        return [head * head_dim + i for head in heads for i in range(head_dim)]

    return Wq[entries(heads)], Wk[entries(read)], Wv[entries(read)], Wo[:, entries(heads)]


def dense_attention(x, Wq, Wk, Wv, Wo, num_heads, num_kv_heads):
    """Head by head, token by token: slow, and hard to get wrong."""
    head_dim = len(Wq) // num_heads
    joined = np.zeros((len(x), num_heads * head_dim))
    for head in range(num_heads):
        mine = slice(head * head_dim, (head + 1) * head_dim)
        kv = head * num_kv_heads // num_heads
        q, k, v = x @ Wq[mine].T, *(x @ W[kv * head_dim :][:head_dim].T for W in (Wk, Wv))
        for t in range(len(x)):
            scores = k[: t + 1] @ q[t] / head_dim**0.5
            weights = np.exp(scores - scores.max())
            joined[t, mine] = weights / weights.sum() @ v[: t + 1]
    return joined @ Wo.T


# --- comparisons --------------------------------------------------------------------------------


def marked_collectives():
    """The ledger of collectives whose results are marked, element by element."""
    return record(mark=np.random.default_rng(11))


def call(function, *arguments, idea):
    """Its result; what it raises, such as numpy's words about shapes, keeps the idea."""
    with looking_at(idea):
        return function(*arguments)


def on_ranks(function, held, idea, alone=ALONE):
    """The ranks' results; held: what each rank is given; alone: the idea for one rank."""
    with record() as ledger:
        try:
            results = run_ranks(function, held)
        except Deadlock as error:
            raise Unexpected(f"{error}. On a cluster they would wait for ever.") from None
        except (NotImplementedError, AssertionError):
            raise
        except Exception as error:
            if len(held) == 1:
                idea = alone
            with looking_at(SIDE_BY_SIDE if joined_outputs(ledger, held) else idea):
                raise error
    if len(held) > 1 and ledger.alone and not ledger.calls:
        raise Unexpected(
            "made a collective over a list of one rank, which reaches nobody. Look again at: "
            "group.all_reduce(array) and its like, which the other ranks make too."
        )
    return results


SIDE_BY_SIDE = (
    "all_gather joins along the last axis unless it is told otherwise; tokens are along axis=0"
)


def joined_outputs(ledger, held):
    """Whether the first collective gathered tokens side by side, not one below the other."""
    first, tokens = ledger.calls[:1], len(held[0][0])
    if np.array_equal(held[0][0], held[-1][0]):  # every rank has all tokens
        return False
    gathers = first and first[0].operation == "all_gather" and first[0].inputs[0].ndim == 2
    return gathers and len(first[0].outputs[0]) == len(first[0].inputs[0]) == tokens


def expect_blocks(given, size, num_ranks):
    if not isinstance(given, (list, tuple)) or not all(isinstance(s, slice) for s in given):
        others = given if isinstance(given, (list, tuple)) else ()
        holds = [f", {type(s).__name__} in it" for s in others if not isinstance(s, slice)][:1]
        raise Unexpected(f"returned {kind_of(given)}{''.join(holds)}, expected a list of slices.")
    edges = [[one.start, one.stop] for one in given]
    entries = range(size)
    try:
        owned = [entries[one] for one in given]
    except TypeError:
        raise Unexpected(f"returned slices {edges}; a slice needs whole numbers.") from None
    expected = [entries[block] for block in blocks(size, num_ranks)]
    if owned != expected:
        want = [[block.start, block.stop] for block in blocks(size, num_ranks)]
        raise Unexpected(f"returned slices {edges}, expected {want}. Look again at: {OWNS}.")


def expect_layer(function, oracle, layers, idea, split=""):
    """function(*arrays, num_ranks) equals the oracle, and keeps what it returned before.

    split: what the ranks share, told to whoever refuses an array because of another dimension.
    """
    returned, raising = [], f"only the {split} are split; {idea}" if split else idea
    for *arrays, num_ranks in layers:
        axes = "the inputs are the last axis of x, after any others; " * (arrays[0].ndim > 2)
        y = call(function, *arrays, num_ranks, idea=axes + raising)
        if isinstance(y, (list, tuple)) and len(y) == num_ranks:
            raise Unexpected(
                "returned a list with one array per rank, expected one array. Every rank "
                "received the same: return that of one rank, [0]."
            )
        expect_result(y, oracle(*arrays), idea if num_ranks > 1 else ALONE)
        returned.append((y, y.copy()))
    expect_kept(returned)


def expect_ranks(results, expected, idea, atol=ATOL):
    """Every rank returned what it should; the results are the ranks' own."""
    idea = idea if len(expected) > 1 else ALONE
    first, alike_all = expected[0], all(same(other, expected[0]) for other in expected)
    if len(expected) > 1 and alike_all and same(results[0], first, atol):
        idea = "rank 0 returned the right result; every rank returns it, whole"
    for rank, (y, wanted) in enumerate(zip(results, expected, strict=True)):
        if same(y, wanted, atol):
            continue
        part = f" on rank {rank}"
        others = [r for r, other in enumerate(expected) if same(y, other)]
        with of_rank(rank, len(expected)):
            if others and rank not in others:
                raise Unexpected(f"returned block {others[0]}. Look again at: {OWNS}.", part)
            expect_result(y, wanted, idea, part, atol)


def expect_result(y, expected, idea, part="", atol=ATOL):
    if same(y, expected, atol):
        return
    if same(y, expected, 1e-5 * np.abs(expected).max(initial=0.0)):
        idea = PRECISION
    elif type(y) is np.ndarray and y.ndim < expected.ndim and y.size == expected.size:
        idea = "the result keeps all dimensions of x; only the last one changes"
    elif idea is ALONE and getattr(y, "shape", None) != expected.shape:
        idea = ""
    expect_close(y, expected, atol=atol, idea=idea, part=part)


def expect_kept(returned):
    if any(not np.array_equal(y, copy) for y, copy in returned):
        raise Unexpected(
            "changed an array that an earlier call had returned, which its caller still needs. "
            "Return a new array."
        )


def expect_heads(function, weights, shape, ranks):
    """attention_shards gives each of these ranks its own; shape: query heads, KV heads, ranks."""
    num_heads, num_kv_heads, num_ranks = shape
    owned = [heads_of_rank(weights, *shape, rank) for rank in range(num_ranks)]
    for rank in ranks:
        heads = [head for head in range(num_heads) if head * num_ranks // num_heads == rank]
        read = sorted({head * num_kv_heads // num_heads for head in heads})
        has = f"rank {rank} has the query heads {heads}"
        reads = f"{has}, and these read the KV heads {read}"
        where = {name: f"{has}; {idea}" for name, idea in HEADS.items()}
        ideas = {"Wq": where["Wq"], "Wk": reads, "Wv": reads, "Wo": where["Wo"]}
        given = call(function, *weights, *shape, rank, idea=f"only heads are split; {reads}")
        expect_shards(given, owned, rank, ideas)


def expect_shards(given, owned, rank, ideas):
    """given is owned[rank], a tuple of arrays; ideas: what to look at when one is no rank's."""
    if not isinstance(given, (list, tuple)) or len(given) != len(ideas):
        raise Unexpected(f"returned {type(given).__name__}, expected {', '.join(ideas)}.")
    for place, (array, (name, idea)) in enumerate(zip(given, ideas.items(), strict=True)):
        if same(array, owned[rank][place], 0.0):
            continue
        part = f" on rank {rank}, its part of {name}"
        if others := [r for r, parts in enumerate(owned) if same(array, parts[place], 0.0)]:
            why = idea if name in ("Wk", "Wv") else OWNS
            raise Unexpected(f"is what rank {others[0]} owns. Look again at: {why}.", part)
        for other, mine in zip(ideas, owned[rank], strict=True):
            if same(array, mine, 0.0):
                raise Unexpected(f"is its part of {other}. The order is {', '.join(ideas)}.", part)
        expect_close(array, owned[rank][place], atol=0.0, idea=idea, part=part)


def expect_rows(rows, rank, E, token_ids, num_ranks):
    """The rows of all tokens, to the last bit; the first wrong one by its token and its owner."""
    expected = E[token_ids]
    if same(rows, expected, 0.0):
        return
    part, idea = f" on rank {rank}", "one row per token, as wide as E"
    if same(rows, expected.astype(np.float32), 0.0):
        idea = PRECISION
    elif same(rows, expected, 1e-12 * np.abs(expected)):
        idea = "right but for rounding, and one all-reduce of a row and zeros rounds nothing"
    elif type(rows) is np.ndarray and rows.shape == expected.shape:
        place = int(np.argwhere(~(rows == expected).all(axis=1))[0, 0])
        token, part = token_ids[place], f"{part}, its row {place}"
        owner = token * num_ranks // len(E)
        idea = (
            f"the token there is {token}, which rank {owner} owns (tokens "
            f"{owner * len(E) // num_ranks} to {(owner + 1) * len(E) // num_ranks - 1})"
        ) + "; every other rank brings zeros for it" * (num_ranks > 1)
        rows, expected = rows[place], expected[place]
    expect_close(rows, expected, atol=0.0, idea=idea, part=part)


def expect_refusal(function, arrays, num_ranks, what):
    idea = f"{what} are split here, and {num_ranks} ranks do not divide them"
    expect_error(ValueError, function, *arrays, num_ranks, idea=idea)


def expect_traffic(ledger, expected, num_ranks, idea):
    """The ledger holds exactly `expected`, a list of (operation, payload bytes)."""
    for call in ledger.calls:
        if len(call.inputs) != num_ranks:
            raise Unexpected(
                f"made {call.operation} of {len(call.inputs)} parts, where num_ranks is "
                f"{num_ranks}. Look again at: one part per rank, however many ranks there are."
            )
    made = [(call.operation, call.payload_bytes) for call in ledger.calls]
    if made != (expected if num_ranks > 1 else []):
        if not made and ledger.alone:
            raise Unexpected(
                "made collectives of one rank alone, which send nothing. Look again at: one call "
                "takes the list of all ranks' arrays."
            )
        said, want = map(in_words, (made, expected if num_ranks > 1 else []))
        raise Unexpected(f"made {said}, expected {want}. Look again at: {idea}.")


def in_words(calls):
    """`56 times all_reduce of 80 bytes`, of the same one after the other."""
    runs = [(one, len(list(run))) for one, run in groupby(calls)]
    words = [
        f"{times} times " * (times > 1) + f"{name} of {size} bytes" for (name, size), times in runs
    ]
    return ", ".join(words) or "no collective"


def expect_meeting(calls, parts, results, idea):
    """To each collective every rank brought its own part; the last one's outputs are the results.

    The collectives must be marked: else one whose result is thrown away would pass. A part may come
    in another layout, such as transposed, or with its tokens flattened.
    """
    before = None
    for call, owned in zip(calls, parts, strict=bool(calls)):
        for rank, (brought, part) in enumerate(zip(call.inputs, owned, strict=True)):
            if before and not alike(brought, part, ATOL) and same(brought, part, 1e-6):
                raise Unexpected(
                    f"made the {before}, but went on with numbers of its own: use all of what "
                    f"{before} returns.",
                    f": what rank {rank} brings to the {call.operation}",
                )
            expect_brought(brought, owned, rank, call.operation, part, idea)
        before = call.operation
    for call in calls[-1:]:
        for rank, y in enumerate(results):
            if not alike(y, call.outputs[rank], ATOL):
                raise Unexpected(
                    f"made the {call.operation}, but returned something else: what comes back was "
                    f"put together without it, or changed afterwards. Return what "
                    f"{call.operation} returns."
                )


def expect_brought(brought, owned, rank, operation, part, idea):
    if alike(brought, part, ATOL):
        return
    where = f": what rank {rank} brings to the {operation}"
    others = [r for r, other in enumerate(owned) if alike(brought, other, ATOL)]
    if others:
        raise Unexpected(f"it is rank {others[0]}'s. Look again at: {OWNS}.", where)
    shaped = brought.reshape(part.shape) if brought.size == part.size else brought
    expect_close(shaped, part, atol=ATOL, idea=f"{OWNS}; {idea}", part=where)


def upright(array, like):
    """The array, turned back if its rows and columns were exchanged."""
    return array.T if same(array.T, like, 1e-6) else array


def same(array, other, atol=ATOL):
    alike = type(array) is np.ndarray and array.shape == other.shape and array.dtype.kind == "f"
    return alike and bool((np.abs(array - other) <= atol).all())
