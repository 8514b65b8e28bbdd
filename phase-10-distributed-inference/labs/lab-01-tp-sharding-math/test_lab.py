"""What lab 01 must prove. Every check states one claim; the oracles are here, in plain numpy."""

from fractions import Fraction

import collectives
import numpy as np
import pytest

from labkit.expect import describe_call, expect_close, expect_equal, expect_error
from labkit.traced import traced

RANKS = (1, 2, 3, 4, 8)
TOKENS, BATCH = 5, 2
IN, OUT, HIDDEN = 24, 48, 72  # distinct, and divided by 1, 2, 3, 4 and 8
# float64 rounding of sums over at most 72 products of numbers near 1, added in another order
ATOL = 1e-11

pytestmark = pytest.mark.keeps_arguments


def marked_collectives():
    """The ledger of collectives that mark each element they return."""
    return collectives.record(mark=np.random.default_rng(11))


def draw(*shape, seed=7):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def inputs():
    """x with one and with two leading dimensions."""
    return draw(TOKENS, IN), draw(BATCH, TOKENS, IN)


def dense(x, W):
    return np.einsum("...i,oi->...o", x, W)


def dense_mlp(x, W1, W2):
    return np.maximum(np.einsum("...i,ih->...h", x, W1), 0.0) @ W2


def expect_traffic(ledger, expected, num_ranks, call, idea):
    """The ledger holds exactly `expected`, a list of (operation, payload bytes)."""
    if num_ranks == 1:
        expected = []
    made = [(entry.operation, entry.payload_bytes) for entry in ledger.calls]
    said = ", ".join(f"{name} of {size} bytes" for name, size in made) or "no collective"
    want = ", ".join(f"{name} of {size} bytes" for name, size in expected) or "no collective"
    assert made == expected, f"{call}: made {said}, expected {want}. Look again at: {idea}."


def expect_meeting(ledger, y, parts, call, idea):
    """The last collective met what each rank may know, `parts`, and produced the result y.

    The collectives must be marked: else whoever makes one and throws its result away would pass.
    """
    if not ledger.calls:
        return
    last = ledger.calls[-1]
    for rank, (brought, part) in enumerate(zip(last.inputs, parts, strict=True)):
        what = f"{call}: what rank {rank} brings to the {last.operation}"
        expect_close(brought, part, call=what, atol=ATOL, idea=idea)
    out = np.concatenate(last.outputs) if last.operation == "reduce_scatter" else last.outputs[0]
    unmarked = (
        np.concatenate(last.inputs, -1) if last.operation == "all_gather" else sum(last.inputs)
    )
    assert is_close(y, out) or not is_close(y, unmarked), (
        f"{call}: the {last.operation} is made, but its result is thrown away: what comes back was "
        f"put together without it. Return what {last.operation} returns."
    )
    expect_close(
        y, out, call=f"{call}: the result, against its {last.operation}", atol=ATOL, idea=idea
    )


def is_close(array, other):
    same_shape = isinstance(array, np.ndarray) and array.shape == other.shape
    return same_shape and np.abs(array - other).max() <= ATOL


def blocks(size, num_ranks):
    """Rank r owns entries r * size / num_ranks up to the next rank's."""
    edges = [rank * size // num_ranks for rank in range(num_ranks + 1)]
    return [slice(*pair) for pair in zip(edges, edges[1:], strict=False)]


def mlp_partials(x, W1, W2, num_ranks):
    return [dense_mlp(x, W1[:, b], W2[b]) for b in blocks(HIDDEN, num_ranks)]


@pytest.mark.points(6)
def test_shard_size_divides_exactly_or_says_what_does_not(lab):
    """A dimension the ranks do not divide is an error that names it"""
    for size, num_ranks, expected in (
        (48, 4, 12),
        (24, 3, 8),
        (7, 1, 7),
        (8, 8, 1),
        (14336, 8, 1792),
    ):
        call = f'shard_size("out_features", {size}, {num_ranks})'
        expect_equal(lab.shard_size("out_features", size, num_ranks), expected, call=call)
    uneven, none = "an uneven split is refused, never rounded", "num_ranks must be at least 1"
    for size, num_ranks, idea in (
        (10, 4, uneven),
        (7, 2, uneven),
        (3, 8, uneven),
        (48, 0, none),
        (48, -2, none),
    ):
        expect_error(
            ValueError,
            lambda size=size, num_ranks=num_ranks: lab.shard_size("ffn_width", size, num_ranks),
            call=f'shard_size("ffn_width", {size}, {num_ranks})',
            mentions=["ffn_width", size, num_ranks],
            idea=idea,
        )


@pytest.mark.points(8)
def test_column_parallel_equals_the_dense_product(lab):
    """column_parallel equals x @ W.T for 1, 2, 3, 4 and 8 ranks"""
    W = draw(OUT, IN)
    for x in inputs():
        for num_ranks in RANKS:
            call = describe_call("column_parallel", x=x, W=W, num_ranks=num_ranks)
            idea = "split W's rows, the outputs, and concatenate in rank order"
            expected = dense(x, W)
            y = lab.column_parallel(x, W, num_ranks)
            expect_close(y, expected, call=call, atol=ATOL, idea=idea)


@pytest.mark.points(6)
@pytest.mark.waits_for("test_column_parallel_equals_the_dense_product")
def test_column_parallel_makes_one_all_gather(lab):
    """column_parallel makes one all-gather, of the output's bytes"""
    W = draw(OUT, IN)
    idea = "each rank holds a block of the outputs; one all-gather joins them"
    for x in inputs():
        for num_ranks in RANKS:
            call = describe_call("column_parallel", x=x, W=W, num_ranks=num_ranks)
            with marked_collectives() as ledger:
                y = lab.column_parallel(x, W, num_ranks)
            output_bytes = dense(x, W).nbytes
            expect_traffic(ledger, [("all_gather", output_bytes)], num_ranks, call, idea)
            shards = [dense(x, W[block]) for block in blocks(OUT, num_ranks)]
            expect_meeting(ledger, y, shards, call, idea)


@pytest.mark.points(10)
def test_row_parallel_equals_the_dense_product(lab):
    """row_parallel equals x @ W.T for 1, 2, 3, 4 and 8 ranks"""
    W = draw(OUT, IN)
    for x in inputs():
        for num_ranks in RANKS:
            call = describe_call("row_parallel", x=x, W=W, num_ranks=num_ranks)
            idea = "each rank's product is a partial sum over the whole output; sums add"
            expected = dense(x, W)
            y = lab.row_parallel(x, W, num_ranks)
            expect_close(y, expected, call=call, atol=ATOL, idea=idea)


@pytest.mark.points(6)
@pytest.mark.waits_for("test_row_parallel_equals_the_dense_product")
def test_row_parallel_makes_one_all_reduce(lab):
    """row_parallel makes one all-reduce, of the output's bytes"""
    W = draw(OUT, IN)
    idea = "partial sums live on different ranks; only an all-reduce can add them"
    for x in inputs():
        for num_ranks in RANKS:
            call = describe_call("row_parallel", x=x, W=W, num_ranks=num_ranks)
            with marked_collectives() as ledger:
                y = lab.row_parallel(x, W, num_ranks)
            output_bytes = dense(x, W).nbytes
            expect_traffic(ledger, [("all_reduce", output_bytes)], num_ranks, call, idea)
            partials = [dense(x[..., b], W[:, b]) for b in blocks(IN, num_ranks)]
            expect_meeting(ledger, y, partials, call, idea)


@pytest.mark.points(10)
def test_mlp_tp_equals_the_dense_mlp(lab):
    """mlp_tp equals relu(x @ W1) @ W2 for 1, 2, 3, 4 and 8 ranks"""
    W1, W2 = draw(IN, HIDDEN), draw(HIDDEN, OUT)
    for x in inputs():
        for num_ranks in RANKS:
            call = describe_call("mlp_tp", x=x, W1=W1, W2=W2, num_ranks=num_ranks)
            idea = "relu works on each shard alone; only the partial sums of W2 are added"
            expected = dense_mlp(x, W1, W2)
            y = lab.mlp_tp(x, W1, W2, num_ranks)
            expect_close(y, expected, call=call, atol=ATOL, idea=idea)


@pytest.mark.points(10)
@pytest.mark.waits_for("test_mlp_tp_equals_the_dense_mlp")
def test_mlp_tp_makes_exactly_one_all_reduce(lab):
    """mlp_tp makes exactly one all-reduce and no other collective"""
    W1, W2 = draw(IN, HIDDEN), draw(HIDDEN, OUT)
    idea = "W1's column shards are just what W2's row shards need: nothing to exchange between them"
    for x in inputs():
        for num_ranks in RANKS:
            call = describe_call("mlp_tp", x=x, W1=W1, W2=W2, num_ranks=num_ranks)
            with marked_collectives() as ledger:
                y = lab.mlp_tp(x, W1, W2, num_ranks)
            output_bytes = dense_mlp(x, W1, W2).nbytes
            expect_traffic(ledger, [("all_reduce", output_bytes)], num_ranks, call, idea)
            expect_meeting(ledger, y, mlp_partials(x, W1, W2, num_ranks), call, idea)


@pytest.mark.points(8)
@pytest.mark.waits_for(
    "test_column_parallel_equals_the_dense_product",
    "test_row_parallel_equals_the_dense_product",
    "test_mlp_tp_equals_the_dense_mlp",
)
def test_no_rank_multiplies_by_more_than_its_share(lab):
    """No rank multiplies by more than its share of a weight"""
    x, W = draw(TOKENS, IN), draw(OUT, IN)
    W1, W2 = draw(IN, HIDDEN), draw(HIDDEN, OUT)
    many = 24  # tokens, which sequence parallelism splits too
    cases = (
        ("column_parallel", (x, W), TOKENS * OUT * IN, TOKENS * OUT * IN),
        ("row_parallel", (x, W), TOKENS * OUT * IN, TOKENS * OUT * IN),
        (
            "mlp_tp",
            (x, W1, W2),
            TOKENS * HIDDEN * max(IN, OUT),
            TOKENS * HIDDEN * (IN + OUT),
        ),
        (
            "mlp_tp_sequence_parallel",
            (draw(many, IN), W1, W2),
            many * HIDDEN * max(IN, OUT),
            many * HIDDEN * (IN + OUT),
        ),
    )
    for name, arrays, largest, total in cases:
        for num_ranks in RANKS:
            trace, copies = traced(*arrays)
            y = getattr(lab, name)(*copies, num_ranks)
            call = f"{name}(..., num_ranks={num_ranks})"
            expected = dense(*arrays) if len(arrays) == 2 else dense_mlp(*arrays)
            expect_close(y, expected, call=call, atol=ATOL)
            assert trace.total, (
                f"{call}: no product of x and W was seen. Use slices of them as they are given, "
                "with @; np.array, np.asarray and np.ascontiguousarray strip the counting."
            )
            assert trace.largest * num_ranks <= largest, (
                f"{call}: one product took {trace.largest} multiplications; a rank's share is "
                f"{largest // num_ranks}. Look again at: slice the weight first, then multiply."
            )
            assert trace.total == total, (
                f"{call}: {trace.total} multiplications in all, expected {total}. Look again at: "
                "every rank multiplies by its own shard, once."
            )


@pytest.mark.points(4)
@pytest.mark.waits_for(
    "test_column_parallel_equals_the_dense_product",
    "test_row_parallel_equals_the_dense_product",
    "test_mlp_tp_equals_the_dense_mlp",
)
def test_inputs_are_left_as_they_were(lab):
    """x and the weights are left as they were"""
    x, W, W1, W2 = draw(TOKENS, IN), draw(OUT, IN), draw(IN, HIDDEN), draw(HIDDEN, OUT)
    cases = (
        ("column_parallel", {"x": x, "W": W}, dense(x, W)),
        ("row_parallel", {"x": x, "W": W}, dense(x, W)),
        ("mlp_tp", {"x": x, "W1": W1, "W2": W2}, dense_mlp(x, W1, W2)),
    )
    for name, arrays, expected in cases:
        before = {key: array.copy() for key, array in arrays.items()}
        y = getattr(lab, name)(*arrays.values(), 4)
        call = describe_call(name, **before, num_ranks=4)
        expect_close(y, expected, call=call, atol=ATOL)
        y[...] = np.nan  # a view of an input would carry this over
        for key, array in arrays.items():
            assert np.array_equal(array, before[key]), (
                f"{name} returned a view of its argument {key}: whoever writes into the result "
                "changes the argument. Return an array of its own."
            )


@pytest.mark.points(4)
@pytest.mark.waits_for("test_shard_size_divides_exactly_or_says_what_does_not")
def test_layers_refuse_an_uneven_split(lab):
    """The layers refuse a dimension that the ranks do not divide"""
    x, W = draw(TOKENS, 10), draw(14, 10)
    cases = (
        ("column_parallel", {"x": x, "W": W}, 14, "the outputs"),
        ("row_parallel", {"x": x, "W": W}, 10, "the inputs"),
        ("mlp_tp", {"x": x, "W1": W.T, "W2": draw(14, OUT)}, 14, "the hidden units"),
        (
            "mlp_tp_sequence_parallel",
            {"x": x, "W1": draw(10, 8), "W2": draw(8, OUT)},
            TOKENS,
            "the tokens",
        ),
        (
            "mlp_tp_sequence_parallel",
            {"x": draw(8, 10), "W1": W.T, "W2": draw(14, OUT)},
            14,
            "the hidden units",
        ),
        (
            "vocab_parallel_embedding",
            {"token_ids": np.array([0, 9]), "E": draw(10, 6)},
            10,
            "the vocabulary",
        ),
    )
    num_ranks = 4
    for name, arrays, size, what in cases:
        expect_error(
            ValueError,
            lambda: getattr(lab, name)(*arrays.values(), num_ranks),  # noqa: B023 (called at once)
            call=describe_call(name, **arrays, num_ranks=num_ranks),
            mentions=[size, num_ranks],
            idea=f"{what} are split here, {size} in all; shard_size refuses them by name",
        )


@pytest.mark.points(6)
def test_legal_tp_sizes_are_what_the_shape_allows(lab):
    """legal_tp_sizes lists what heads, KV heads and widths allow"""
    idea = "heads and widths are divided; KV heads are divided or copied"
    cases = (
        ((32, 8, [14336], 64), [1, 2, 4, 8, 16, 32]),  # Llama-3-8B
        ((28, 4, [3584], 64), [1, 2, 4, 28]),  # Qwen2-7B's heads: 7 divides 28, but not 4
        ((12, 12, [3072], 8), [1, 2, 3, 4, 6]),
        ((71, 1, [18176], 128), [1, 71]),  # Falcon-7B: a prime number of heads
        ((32, 8, [14336, 100], 16), [1, 2, 4]),
        ((7, 7, [7], 7), [1, 7]),  # max_tp_size itself is allowed
        ((8, 8, [8], 7), [1, 2, 4]),  # one more is not
        ((6, 4, [24], 8), [1, 2]),  # 3 and 6 neither divide 4 nor are multiples of it
    )
    for arguments, expected in cases:
        heads, kv_heads, widths, most = arguments
        call = f"legal_tp_sizes({heads}, {kv_heads}, {widths}, {most})"
        expect_equal(lab.legal_tp_sizes(*arguments), expected, call=call, idea=idea)
    largest = lab.legal_tp_sizes(128, 8, [53248])
    expect_equal(largest, [1, 2, 4, 8, 16, 32, 64], call="legal_tp_sizes(128, 8, [53248])")
    expect_equal(
        lab.legal_tp_sizes(65, 65, [65]), [1, 5, 13], call="legal_tp_sizes(65, 65, [65])", idea=idea
    )
    bad = {
        "num_heads": (0, 8, [64]),
        "num_kv_heads": (8, 0, [64]),
        "widths": (8, 8, [0]),
        "max_tp_size": (8, 8, [64], 0),
    }
    for name, arguments in bad.items():
        expect_error(
            ValueError,
            lambda arguments=arguments: lab.legal_tp_sizes(*arguments),
            call=f"legal_tp_sizes{arguments}",
            mentions=[name],
        )


def attention_case(num_heads, num_kv_heads, head_dim=3, tokens=TOKENS, hidden=10, out=7):
    x = draw(tokens, hidden)
    Wq = draw(num_heads * head_dim, hidden, seed=1)
    Wk = draw(num_kv_heads * head_dim, hidden, seed=2)
    Wv = draw(num_kv_heads * head_dim, hidden, seed=3)
    Wo = draw(out, num_heads * head_dim, seed=4)
    return x, Wq, Wk, Wv, Wo


def dense_heads(x, Wq, Wk, Wv, num_heads, num_kv_heads):
    """All heads side by side, head by head, token by token: slow, and hard to get wrong."""
    head_dim = Wq.shape[0] // num_heads
    joined = np.zeros((x.shape[0], num_heads * head_dim))
    for head in range(num_heads):
        kv = head * num_kv_heads // num_heads
        q = x @ Wq[head * head_dim : (head + 1) * head_dim].T
        k = x @ Wk[kv * head_dim : (kv + 1) * head_dim].T
        v = x @ Wv[kv * head_dim : (kv + 1) * head_dim].T
        for t in range(x.shape[0]):
            scores = np.array([q[t] @ k[s] for s in range(t + 1)]) / head_dim**0.5
            weights = np.exp(scores - scores.max())
            joined[t, head * head_dim : (head + 1) * head_dim] = (weights / weights.sum()) @ v[
                : t + 1
            ]
    return joined


HEADS = ((8, 8, (1, 2, 4, 8)), (8, 2, (1, 2, 4, 8)), (6, 3, (1, 3, 6)), (6, 1, (1, 2, 3, 6)))


@pytest.mark.points(6)
def test_attention_tp_equals_the_unsharded_block(lab):
    """Attention by heads equals the whole, KV heads copied or not"""
    for num_heads, num_kv_heads, rank_counts in HEADS:
        arrays = attention_case(num_heads, num_kv_heads)
        *inputs_of_heads, Wo = arrays
        expected = dense_heads(*inputs_of_heads, num_heads, num_kv_heads) @ Wo.T
        for num_ranks in rank_counts:
            call = (
                f"attention_tp(x[5, 10], ..., num_heads={num_heads}, "
                f"num_kv_heads={num_kv_heads}, num_ranks={num_ranks})"
            )
            if num_kv_heads == num_heads:
                idea = "head h is rows h * head_dim to (h + 1) * head_dim of Wq, Wk and Wv"
            else:
                idea = "query head i reads KV head i // (num_heads / num_kv_heads), on any rank"
            y = lab.attention_tp(*arrays, num_heads, num_kv_heads, num_ranks)
            expect_close(y, expected, call=call, atol=ATOL, idea=idea)


@pytest.mark.points(4)
@pytest.mark.waits_for("test_attention_tp_equals_the_unsharded_block")
def test_attention_tp_makes_one_all_reduce_and_splits_the_work(lab):
    """Attention makes one all-reduce, and each rank does its share"""
    num_heads, num_kv_heads, head_dim = 8, 2, 3
    x, *weights = attention_case(num_heads, num_kv_heads)
    Wq, Wk, Wv, Wo = weights
    heads = dense_heads(x, Wq, Wk, Wv, num_heads, num_kv_heads)
    idea = "heads are independent until Wo mixes them: row-parallel, one all-reduce"
    for num_ranks in (1, 2, 8):
        call = f"attention_tp(..., num_heads=8, num_kv_heads=2, num_ranks={num_ranks})"
        trace, copies = traced(x, *weights)
        with marked_collectives() as ledger:
            y = lab.attention_tp(*copies, num_heads, num_kv_heads, num_ranks)
        expect_traffic(ledger, [("all_reduce", TOKENS * 7 * 8)], num_ranks, call, idea)
        mine = blocks(num_heads * head_dim, num_ranks)
        partials = [heads[:, block] @ Wo[:, block].T for block in mine]
        expect_meeting(ledger, y, partials, call, idea)
        kv_copies = max(1, num_ranks // num_kv_heads)
        scores = num_heads * TOKENS * TOKENS
        work = TOKENS * (Wq.size + (Wk.size + Wv.size) * kv_copies + Wo.size)
        work += 2 * scores * head_dim
        share = "each rank slices its heads out of Wq, Wk, Wv and Wo first"
        group = num_heads // num_kv_heads
        once_per_query = work + TOKENS * (Wk.size + Wv.size) * (group - kv_copies)
        if work + 2 * scores < once_per_query <= trace.total <= once_per_query + 2 * scores:
            share = "K and V are computed once per KV head, not once per query head that reads it"
        # up to two products of score matrices, such as a scale or a mask, are a matter of style
        assert work <= trace.total <= work + 2 * scores, (
            f"{call}: {trace.total} multiplications in all, expected {work}. "
            f"Look again at: {share}."
        )
    arrays = attention_case(6, 4)
    for num_ranks in (4, 6):  # 4 does not divide 6 heads; 6 is no multiple of 4 KV heads
        expect_error(
            ValueError,
            lambda num_ranks=num_ranks: lab.attention_tp(*arrays, 6, 4, num_ranks),
            call=f"attention_tp(..., num_heads=6, num_kv_heads=4, num_ranks={num_ranks})",
            mentions=[num_ranks],
        )


@pytest.mark.points(6)
def test_vocab_parallel_embedding_equals_the_lookup_with_one_all_reduce(lab):
    """The split vocabulary gives E[token_ids], with one all-reduce"""
    E = draw(48, 6)
    token_ids = np.array([0, 47, 5, 12, 11, 5, 24, 23, 40])
    idea = "a rank gives zeros for tokens it does not own; the sum keeps the owner's row"
    for num_ranks in RANKS:
        call = f"vocab_parallel_embedding(token_ids[9], E[48, 6], num_ranks={num_ranks})"
        y = lab.vocab_parallel_embedding(token_ids, E, num_ranks)
        expect_close(y, E[token_ids], call=call, atol=0.0, idea=idea)
        trace, (table,) = traced(E)
        with marked_collectives() as ledger:
            y = lab.vocab_parallel_embedding(token_ids, table, num_ranks)
        expect_traffic(ledger, [("all_reduce", 9 * 6 * 8)], num_ranks, call, idea)
        owners = token_ids // (48 // num_ranks)
        parts = [np.where((owners == r)[:, None], E[token_ids], 0.0) for r in range(num_ranks)]
        expect_meeting(ledger, y, parts, call, idea)
        rows = [*trace.table_rows, *(count // (9 * 6) for count in trace.multiplications)]
        assert rows, f"{call}: E was not read. Look up in slices of E as it is given."
        assert max(rows) * num_ranks <= 48, (
            f"{call}: looked up among {max(rows)} rows; a rank owns {48 // num_ranks}. "
            "Look again at: slice E first, then look up in the slice."
        )


@pytest.mark.points(6)
@pytest.mark.waits_for("test_mlp_tp_equals_the_dense_mlp")
def test_sequence_parallel_mlp_moves_the_bytes_of_one_all_reduce(lab):
    """Sequence parallelism: the same result, the same bytes sent"""
    tokens = 24
    x, W1, W2 = draw(tokens, IN), draw(IN, HIDDEN), draw(HIDDEN, IN)
    idea = "all-gather the tokens, reduce-scatter the partial sums: together one all-reduce"
    for num_ranks in RANKS:
        call = describe_call("mlp_tp_sequence_parallel", x=x, W1=W1, W2=W2, num_ranks=num_ranks)
        y = lab.mlp_tp_sequence_parallel(x, W1, W2, num_ranks)
        expect_close(y, dense_mlp(x, W1, W2), call=call, atol=ATOL, idea=idea)
        with marked_collectives() as ledger:
            y = lab.mlp_tp_sequence_parallel(x, W1, W2, num_ranks)
        traffic = [("all_gather", x.nbytes), ("reduce_scatter", x.nbytes)]
        expect_traffic(ledger, traffic, num_ranks, call, idea)
        if num_ranks == 1:
            continue
        brought, held = ledger.calls[-1].inputs, mlp_partials(x, W1, W2, num_ranks)
        assert not all(map(is_close, brought, held)), (
            f"{call}: the all-gather is made, but its result is thrown away. A rank holds "
            f"{tokens // num_ranks} tokens of x; the others reach it only in what all_gather "
            "returns. Multiply that, not x."
        )
        gathered = ledger.calls[0].outputs[0]
        expect_meeting(ledger, y, mlp_partials(gathered, W1, W2, num_ranks), call, idea)
        sent = ledger.sent_bytes_per_rank
        one_all_reduce = Fraction(2 * (num_ranks - 1), num_ranks) * x.nbytes
        assert sent == one_all_reduce, (
            f"{call}: a rank sends {sent} bytes; one all-reduce of the result sends "
            f"{one_all_reduce}"
        )
