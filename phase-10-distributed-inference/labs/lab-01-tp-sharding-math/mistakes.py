"""Plausible mistakes of lab 01. Each is rejected by the check whose claim it violates.

The bank runs on top of the solution's namespace: numpy, the collectives and shard_size are there.
"""


def shard_size__rounds_down(dimension, size, num_ranks):
    """an uneven split is rounded down and the rest is dropped.

    With 10 outputs on 4 ranks, outputs 8 and 9 belong to nobody. Real engines refuse instead.
    Rejected by: test_shard_size_divides_exactly_or_says_what_does_not
    """
    return size // num_ranks


def shard_size__rounds_up(dimension, size, num_ranks):
    """an uneven split is rounded up, so that the last rank gets less.

    Collectives need equal shapes on all ranks; a short last shard needs padding, which must be
    asked for, as vLLM does for the vocabulary.
    Rejected by: test_shard_size_divides_exactly_or_says_what_does_not
    """
    return -(-size // num_ranks)


def shard_size__returns_a_float(dimension, size, num_ranks):
    """the size is divided with / instead of //.

    48 / 4 is 12.0, which cannot slice an array.
    Rejected by: test_shard_size_divides_exactly_or_says_what_does_not
    """
    if num_ranks < 1 or size % num_ranks:
        raise ValueError(f"{dimension}={size} is not divisible by num_ranks={num_ranks}")
    return size / num_ranks


def column_parallel__drops_the_last_rank(x, W, num_ranks):
    """the last rank's block is dropped.

    An off-by-one in the loop over ranks; the output has too few columns.
    Rejected by: test_column_parallel_equals_the_dense_product
    """
    rows = shard_size("out_features", W.shape[0], num_ranks)
    ranks = range(max(num_ranks - 1, 1))
    return all_gather([x @ W[r * rows : (r + 1) * rows].T for r in ranks], axis=-1)[0]


def column_parallel__joins_the_ranks_in_reverse(x, W, num_ranks):
    """the blocks are concatenated in the wrong order of ranks.

    The values are all there, in the wrong columns. Rank r's block starts at column r * out / p.
    Rejected by: test_column_parallel_equals_the_dense_product
    """
    rows = shard_size("out_features", W.shape[0], num_ranks)
    shards = [x @ W[r * rows : (r + 1) * rows].T for r in range(num_ranks)]
    return all_gather(shards[::-1], axis=-1)[0]


def column_parallel__sums_the_blocks(x, W, num_ranks):
    """the blocks are added where they should stand side by side.

    Each block holds other outputs; adding them mixes unrelated features and loses the width.
    Rejected by: test_column_parallel_equals_the_dense_product
    """
    rows = shard_size("out_features", W.shape[0], num_ranks)
    shards = [x @ W[r * rows : (r + 1) * rows].T for r in range(num_ranks)]
    return all_reduce(shards)[0]


def column_parallel__strides_over_the_rows(x, W, num_ranks):
    """rank r takes every num_ranks-th row instead of a block of neighbours.

    A split, but not this one: after the gather the outputs are shuffled like a deck of cards.
    Rejected by: test_column_parallel_equals_the_dense_product
    """
    shard_size("out_features", W.shape[0], num_ranks)
    return all_gather([x @ W[r::num_ranks].T for r in range(num_ranks)], axis=-1)[0]


def column_parallel__dense_matmul_in_disguise(x, W, num_ranks):
    """the whole product is computed, cut up and gathered again.

    The value and the traffic are right, the work is not: every rank would need the whole W.
    Rejected by: test_no_rank_multiplies_by_more_than_its_share
    """
    shard_size("out_features", W.shape[0], num_ranks)
    return all_gather(np.split(x @ W.T, num_ranks, axis=-1), axis=-1)[0]


def column_parallel__concatenates_without_the_collective(x, W, num_ranks):
    """the blocks are joined by hand, without an all-gather.

    On real machines the blocks lie on different GPUs; np.concatenate cannot reach them.
    Rejected by: test_column_parallel_makes_one_all_gather
    """
    rows = shard_size("out_features", W.shape[0], num_ranks)
    shards = [x @ W[r * rows : (r + 1) * rows].T for r in range(num_ranks)]
    return np.concatenate(shards, axis=-1)


def row_parallel__forgets_the_reduce(x, W, num_ranks):
    """rank 0's partial sum is returned without the all-reduce.

    A rank has seen only its slice of x, so its product is one addend of the answer.
    Rejected by: test_row_parallel_equals_the_dense_product
    """
    cols = shard_size("in_features", W.shape[1], num_ranks)
    return x[..., :cols] @ W[:, :cols].T


def row_parallel__averages_the_ranks(x, W, num_ranks):
    """the partial sums are averaged instead of added.

    Averaging belongs to the gradients of data parallelism; here every rank holds other addends.
    Rejected by: test_row_parallel_equals_the_dense_product
    """
    cols = shard_size("in_features", W.shape[1], num_ranks)
    mine = [slice(r * cols, (r + 1) * cols) for r in range(num_ranks)]
    return all_reduce([x[..., part] @ W[:, part].T for part in mine])[0] / num_ranks


def row_parallel__concatenates_the_partials(x, W, num_ranks):
    """the partial sums are set side by side instead of added.

    Each partial already has the full output width; gathering makes it num_ranks times too wide.
    Rejected by: test_row_parallel_equals_the_dense_product
    """
    cols = shard_size("in_features", W.shape[1], num_ranks)
    mine = [slice(r * cols, (r + 1) * cols) for r in range(num_ranks)]
    return all_gather([x[..., part] @ W[:, part].T for part in mine], axis=-1)[0]


def row_parallel__every_rank_reads_the_first_slice_of_x(x, W, num_ranks):
    """every rank multiplies the first slice of x, whatever its own slice of W is.

    Slice r of x meets slice r of W: both are cut along the input dimension.
    Rejected by: test_row_parallel_equals_the_dense_product
    """
    cols = shard_size("in_features", W.shape[1], num_ranks)
    mine = [slice(r * cols, (r + 1) * cols) for r in range(num_ranks)]
    return all_reduce([x[..., :cols] @ W[:, part].T for part in mine])[0]


def row_parallel__splits_the_rows_of_W(x, W, num_ranks):
    """W is split along the output dimension, as in column_parallel.

    The name comes from the paper's X A, where A is [in, out]; in the [out, in] layout
    "row-parallel" cuts columns. The value is right, but it takes the other layer's all-gather.
    Rejected by: test_row_parallel_makes_one_all_reduce
    """
    rows = shard_size("in_features", W.shape[0], num_ranks)
    shards = [x @ W[r * rows : (r + 1) * rows].T for r in range(num_ranks)]
    return all_gather(shards, axis=-1)[0]


def row_parallel__reshapes_instead_of_transposing(x, W, num_ranks):
    """W is reshaped to [in, out] instead of transposed.

    The shape fits and the numbers do not: reshape keeps the memory order, W.T swaps the axes.
    Rejected by: test_row_parallel_equals_the_dense_product
    """
    cols = shard_size("in_features", W.shape[1], num_ranks)
    mine = [slice(r * cols, (r + 1) * cols) for r in range(num_ranks)]
    A = W.reshape(W.shape[::-1])
    return all_reduce([x[..., part] @ A[part] for part in mine])[0]


def row_parallel__sums_without_the_collective(x, W, num_ranks):
    """the partial sums are added by hand, without an all-reduce.

    The simulation lets one function see all ranks; a real rank sees only its own partial sum.
    Rejected by: test_row_parallel_makes_one_all_reduce
    """
    cols = shard_size("in_features", W.shape[1], num_ranks)
    mine = [slice(r * cols, (r + 1) * cols) for r in range(num_ranks)]
    return sum(x[..., part] @ W[:, part].T for part in mine)


def row_parallel__all_reduces_a_finished_sum(x, W, num_ranks):
    """the sum is finished by hand and then all-reduced with zeros.

    A collective for show: no rank could have made that sum alone.
    Rejected by: test_row_parallel_makes_one_all_reduce
    """
    cols = shard_size("in_features", W.shape[1], num_ranks)
    mine = [slice(r * cols, (r + 1) * cols) for r in range(num_ranks)]
    y = sum(x[..., part] @ W[:, part].T for part in mine)
    return all_reduce([y] + [np.zeros_like(y)] * (num_ranks - 1))[0]


def row_parallel__pads_blocks_of_outputs_with_zeros(x, W, num_ranks):
    """W is split by outputs and each block is padded with zeros for the all-reduce.

    The sum of padded blocks is the right value: a gather dressed up as a reduction.
    Rejected by: test_row_parallel_makes_one_all_reduce
    """
    shard_size("in_features", W.shape[1], num_ranks)
    rows = shard_size("out_features", W.shape[0], num_ranks)
    partials = []
    for r in range(num_ranks):
        partial = np.zeros((*x.shape[:-1], W.shape[0]))
        partial[..., r * rows : (r + 1) * rows] = x @ W[r * rows : (r + 1) * rows].T
        partials.append(partial)
    return all_reduce(partials)[0]


def row_parallel__scales_x_in_place(x, W, num_ranks):
    """x is overwritten on the way.

    An engine passes the same activation to several layers; the next one would read garbage.
    Rejected by: test_inputs_are_left_as_they_were
    """
    cols = shard_size("in_features", W.shape[1], num_ranks)
    mine = [slice(r * cols, (r + 1) * cols) for r in range(num_ranks)]
    partials = [x[..., part] @ W[:, part].T for part in mine]
    x *= 0.0
    return all_reduce(partials)[0]


def row_parallel__throws_the_reduced_sum_away(x, W, num_ranks):
    """the all-reduce is made, its result is thrown away, and the sum is added up by hand.

    The ledger shows the right call with the right bytes, and the value is right. But a rank has the
    other ranks' partial sums nowhere except in what the all-reduce returns.
    Rejected by: test_row_parallel_makes_one_all_reduce
    """
    cols = shard_size("in_features", W.shape[1], num_ranks)
    mine = [slice(r * cols, (r + 1) * cols) for r in range(num_ranks)]
    partials = [x[..., part] @ W[:, part].T for part in mine]
    all_reduce(partials)
    return sum(partials)


def mlp_tp__doubles_the_weights_in_place(x, W1, W2, num_ranks):
    """the weights are overwritten on the way.

    Halving the result hides it from this call; the next one finds other weights.
    Rejected by: test_mlp_tp_equals_the_dense_mlp, test_inputs_are_left_as_they_were
    """
    width = shard_size("hidden", W1.shape[1], num_ranks)
    mine = [slice(r * width, (r + 1) * width) for r in range(num_ranks)]
    W2 *= 2
    partials = [np.maximum(x @ W1[:, part], 0.0) @ W2[part] for part in mine]
    return all_reduce(partials)[0] / 2


def mlp_tp__applies_relu_after_the_reduce(x, W1, W2, num_ranks):
    """relu is applied to the result instead of the hidden layer.

    relu is not linear: relu(a) + relu(b) is not relu(a + b), so its place matters.
    Rejected by: test_mlp_tp_equals_the_dense_mlp
    """
    width = shard_size("hidden", W1.shape[1], num_ranks)
    mine = [slice(r * width, (r + 1) * width) for r in range(num_ranks)]
    partials = [x @ W1[:, part] @ W2[part] for part in mine]
    return np.maximum(all_reduce(partials)[0], 0.0)


def mlp_tp__leaves_out_relu(x, W1, W2, num_ranks):
    """relu is left out.

    Without it the two layers are one matrix product.
    Rejected by: test_mlp_tp_equals_the_dense_mlp
    """
    width = shard_size("hidden", W1.shape[1], num_ranks)
    mine = [slice(r * width, (r + 1) * width) for r in range(num_ranks)]
    return all_reduce([x @ W1[:, part] @ W2[part] for part in mine])[0]


def mlp_tp__reduces_twice(x, W1, W2, num_ranks):
    """the partial sums of the second layer are reduced twice.

    The second all-reduce adds num_ranks copies of a finished sum.
    Rejected by: test_mlp_tp_equals_the_dense_mlp
    """
    width = shard_size("hidden", W1.shape[1], num_ranks)
    mine = [slice(r * width, (r + 1) * width) for r in range(num_ranks)]
    partials = [np.maximum(x @ W1[:, part], 0.0) @ W2[part] for part in mine]
    return all_reduce(all_reduce(partials))[0]


def mlp_tp__splits_the_input_of_the_first_layer(x, W1, W2, num_ranks):
    """W1 is split by rows, which needs an all-reduce before relu.

    Correct, and twice the traffic: relu needs the finished sums of the first layer. Splitting W1
    by columns finishes each hidden unit on one rank.
    Rejected by: test_mlp_tp_makes_exactly_one_all_reduce
    """
    cols = shard_size("in", W1.shape[0], num_ranks)
    mine = [slice(r * cols, (r + 1) * cols) for r in range(num_ranks)]
    hidden = np.maximum(all_reduce([x[..., part] @ W1[part] for part in mine])[0], 0.0)
    width = shard_size("hidden", W1.shape[1], num_ranks)
    mine = [slice(r * width, (r + 1) * width) for r in range(num_ranks)]
    return all_reduce([hidden[..., part] @ W2[part] for part in mine])[0]


def mlp_tp__gathers_in_the_middle(x, W1, W2, num_ranks):
    """the hidden layer is all-gathered between the two products.

    Correct, and wasted: rank r needs only the hidden units it already has.
    Rejected by: test_mlp_tp_makes_exactly_one_all_reduce
    """
    width = shard_size("hidden", W1.shape[1], num_ranks)
    mine = [slice(r * width, (r + 1) * width) for r in range(num_ranks)]
    hidden = all_gather([np.maximum(x @ W1[:, part], 0.0) for part in mine], axis=-1)
    partials = [h[..., part] @ W2[part] for h, part in zip(hidden, mine, strict=True)]
    return all_reduce(partials)[0]


def legal_tp_sizes__ignores_the_kv_heads(num_heads, num_kv_heads, widths, max_tp_size=64):
    """the KV heads are not looked at.

    With 4 KV heads and 7 ranks some rank would need parts of two KV heads.
    Rejected by: test_legal_tp_sizes_are_what_the_shape_allows
    """
    if min(num_heads, num_kv_heads, max_tp_size, *widths) < 1:
        raise ValueError("num_heads, num_kv_heads, widths[0] and max_tp_size must be at least 1")
    sizes = range(1, max_tp_size + 1)
    return [tp for tp in sizes if all(size % tp == 0 for size in (num_heads, *widths))]


def legal_tp_sizes__refuses_to_copy_kv_heads(num_heads, num_kv_heads, widths, max_tp_size=64):
    """more ranks than KV heads are refused.

    KV heads may be copied: with 8 KV heads and 16 ranks, two ranks hold each head.
    Rejected by: test_legal_tp_sizes_are_what_the_shape_allows
    """
    if min(num_heads, num_kv_heads, max_tp_size, *widths) < 1:
        raise ValueError("num_heads, num_kv_heads, widths[0] and max_tp_size must be at least 1")
    sizes = range(1, max_tp_size + 1)
    return [tp for tp in sizes if all(s % tp == 0 for s in (num_heads, num_kv_heads, *widths))]


def legal_tp_sizes__powers_of_two_only(num_heads, num_kv_heads, widths, max_tp_size=64):
    """only powers of two are tried.

    Habit, not arithmetic: 12 heads split over 3 ranks as well as over 4.
    Rejected by: test_legal_tp_sizes_are_what_the_shape_allows
    """
    if min(num_heads, num_kv_heads, max_tp_size, *widths) < 1:
        raise ValueError("num_heads, num_kv_heads, widths[0] and max_tp_size must be at least 1")
    sizes = [2**i for i in range(max_tp_size.bit_length()) if 2**i <= max_tp_size]
    legal = [tp for tp in sizes if all(size % tp == 0 for size in (num_heads, *widths))]
    return [tp for tp in legal if num_kv_heads % tp == 0 or tp % num_kv_heads == 0]


def attention_tp__deals_the_kv_heads_out_in_turn(
    x, Wq, Wk, Wv, Wo, num_heads, num_kv_heads, num_ranks
):
    """replicated KV heads are dealt out in turn: rank r holds KV head r mod num_kv_heads.

    Rank r's query heads are neighbours and read one KV head, r // replicas. vLLM computes
    tp_rank // num_kv_head_replicas.
    Rejected by: test_attention_tp_equals_the_unsharded_block
    """
    heads = shard_size("num_heads", num_heads, num_ranks)
    kv_heads = max(1, num_kv_heads // num_ranks)
    if num_ranks % num_kv_heads and num_kv_heads % num_ranks:
        raise ValueError(f"num_kv_heads={num_kv_heads} and num_ranks={num_ranks} do not divide")
    head_dim = Wq.shape[0] // num_heads
    partials = []
    for r in range(num_ranks):
        first = r % num_kv_heads if num_ranks > num_kv_heads else r * kv_heads
        rows = slice(r * heads * head_dim, (r + 1) * heads * head_dim)
        kv = slice(first * head_dim, (first + kv_heads) * head_dim)
        q = (x @ Wq[rows].T).reshape(-1, heads, head_dim)
        k = (x @ Wk[kv].T).reshape(-1, kv_heads, head_dim)
        v = (x @ Wv[kv].T).reshape(-1, kv_heads, head_dim)
        partials.append(causal_attention(q, k, v) @ Wo[:, rows].T)
    return all_reduce(partials)[0]


def attention_tp__gathers_the_heads(x, Wq, Wk, Wv, Wo, num_heads, num_kv_heads, num_ranks):
    """the heads are all-gathered before Wo, and every rank multiplies by the whole Wo.

    Correct, but Wo stands on every rank, and the gathered heads are wider than the output.
    Rejected by: test_attention_tp_makes_one_all_reduce_and_splits_the_work
    """
    heads = shard_size("num_heads", num_heads, num_ranks)
    if num_ranks % num_kv_heads and num_kv_heads % num_ranks:
        raise ValueError(f"num_kv_heads={num_kv_heads} and num_ranks={num_ranks} do not divide")
    head_dim = Wq.shape[0] // num_heads
    kv_heads = max(1, num_kv_heads // num_ranks)
    outputs = []
    for r in range(num_ranks):
        rows = slice(r * heads * head_dim, (r + 1) * heads * head_dim)
        first = r * num_kv_heads // num_ranks
        kv = slice(first * head_dim, (first + kv_heads) * head_dim)
        q = (x @ Wq[rows].T).reshape(-1, heads, head_dim)
        k = (x @ Wk[kv].T).reshape(-1, kv_heads, head_dim)
        v = (x @ Wv[kv].T).reshape(-1, kv_heads, head_dim)
        outputs.append(causal_attention(q, k, v))
    return all_gather(outputs, axis=-1)[0] @ Wo.T


def attention_tp__every_rank_computes_every_head(
    x, Wq, Wk, Wv, Wo, num_heads, num_kv_heads, num_ranks
):
    """every rank computes every head, and the all-reduce averages p equal results.

    The value is right; nothing was split.
    Rejected by: test_attention_tp_makes_one_all_reduce_and_splits_the_work
    """
    shard_size("num_heads", num_heads, num_ranks)
    if num_ranks % num_kv_heads and num_kv_heads % num_ranks:
        raise ValueError(f"num_kv_heads={num_kv_heads} and num_ranks={num_ranks} do not divide")
    head_dim = Wq.shape[0] // num_heads
    partials = []
    for _ in range(num_ranks):
        q = (x @ Wq.T).reshape(-1, num_heads, head_dim)
        k = (x @ Wk.T).reshape(-1, num_kv_heads, head_dim)
        v = (x @ Wv.T).reshape(-1, num_kv_heads, head_dim)
        partials.append(causal_attention(q, k, v) @ Wo.T / num_ranks)
    return all_reduce(partials)[0]


def attention_tp__every_rank_projects_all_kv_heads(
    x, Wq, Wk, Wv, Wo, num_heads, num_kv_heads, num_ranks
):
    """every rank projects all KV heads and keeps the ones it needs.

    Correct, but Wk and Wv stand whole on every rank, and their work is done num_ranks times.
    Rejected by: test_attention_tp_makes_one_all_reduce_and_splits_the_work
    """
    heads = shard_size("num_heads", num_heads, num_ranks)
    if num_ranks % num_kv_heads and num_kv_heads % num_ranks:
        raise ValueError(f"num_kv_heads={num_kv_heads} and num_ranks={num_ranks} do not divide")
    head_dim = Wq.shape[0] // num_heads
    kv_heads = max(1, num_kv_heads // num_ranks)
    partials = []
    for r in range(num_ranks):
        rows = slice(r * heads * head_dim, (r + 1) * heads * head_dim)
        first = r * num_kv_heads // num_ranks
        q = (x @ Wq[rows].T).reshape(-1, heads, head_dim)
        k = (x @ Wk.T).reshape(-1, num_kv_heads, head_dim)[:, first : first + kv_heads]
        v = (x @ Wv.T).reshape(-1, num_kv_heads, head_dim)[:, first : first + kv_heads]
        partials.append(causal_attention(q, k, v) @ Wo[:, rows].T)
    return all_reduce(partials)[0]


def vocab_parallel_embedding__forgets_the_mask(token_ids, E, num_ranks):
    """tokens of other ranks are looked up too, at a wrapped-around row, and added.

    Every rank must give exact zeros for a token it does not own.
    Rejected by: test_vocab_parallel_embedding_equals_the_lookup_with_one_all_reduce
    """
    rows = shard_size("vocab", E.shape[0], num_ranks)
    shards = [E[r * rows : (r + 1) * rows] for r in range(num_ranks)]
    return all_reduce([shard[token_ids % rows] for shard in shards])[0]


def vocab_parallel_embedding__looks_up_the_whole_table(token_ids, E, num_ranks):
    """every rank looks up in the whole table and keeps the tokens it owns.

    The value and the traffic are right, but every rank would need the whole embedding.
    Rejected by: test_vocab_parallel_embedding_equals_the_lookup_with_one_all_reduce
    """
    rows = shard_size("vocab", E.shape[0], num_ranks)
    owner = token_ids // rows
    return all_reduce(
        [np.where((owner == r)[:, None], E[token_ids], 0.0) for r in range(num_ranks)]
    )[0]


def vocab_parallel_embedding__loses_the_last_row_of_each_rank(token_ids, E, num_ranks):
    """the last token of each rank's range is taken for somebody else's.

    The range is half open: first <= token < first + rows.
    Rejected by: test_vocab_parallel_embedding_equals_the_lookup_with_one_all_reduce
    """
    rows = shard_size("vocab", E.shape[0], num_ranks)
    partials = []
    for r in range(num_ranks):
        local = token_ids - r * rows
        owned = (local >= 0) & (local < rows - 1)
        looked_up = E[r * rows : (r + 1) * rows][np.where(owned, local, 0)]
        partials.append(np.where(owned[:, None], looked_up, 0.0))
    return all_reduce(partials)[0]


def vocab_parallel_embedding__shifts_the_token_ids_in_place(token_ids, E, num_ranks):
    """the token ids are shifted in place from rank to rank.

    This result is right, but the caller's ids are not what they were: whoever uses them next reads
    other tokens.
    Rejected by: test_vocab_parallel_embedding_equals_the_lookup_with_one_all_reduce
    """
    rows = shard_size("vocab", E.shape[0], num_ranks)
    partials = []
    for r in range(num_ranks):
        owned = (token_ids >= 0) & (token_ids < rows)
        looked_up = E[r * rows : (r + 1) * rows][np.where(owned, token_ids, 0)]
        partials.append(np.where(owned[:, None], looked_up, 0.0))
        token_ids -= rows
    return all_reduce(partials)[0]


def mlp_tp_sequence_parallel__throws_the_gathered_tokens_away(x, W1, W2, num_ranks):
    """the all-gather is made, its result is thrown away, and every rank reads the caller's x.

    In this simulation x is in sight. On real machines a rank has its own tokens of x, and the
    others only in what the all-gather returns.
    Rejected by: test_sequence_parallel_mlp_moves_the_bytes_of_one_all_reduce
    """
    tokens = shard_size("tokens", x.shape[0], num_ranks)
    width = shard_size("hidden", W1.shape[1], num_ranks)
    all_gather([x[r * tokens : (r + 1) * tokens] for r in range(num_ranks)], axis=0)
    mine = [slice(r * width, (r + 1) * width) for r in range(num_ranks)]
    partials = [np.maximum(x @ W1[:, part], 0.0) @ W2[part] for part in mine]
    return np.concatenate(reduce_scatter(partials, axis=0), axis=0)


def mlp_tp_sequence_parallel__reduces_and_then_slices(x, W1, W2, num_ranks):
    """an all-reduce stands where a reduce-scatter is enough.

    Every rank receives all tokens and keeps one block: half as much again on the wire.
    Rejected by: test_sequence_parallel_mlp_moves_the_bytes_of_one_all_reduce
    """
    tokens = shard_size("tokens", x.shape[0], num_ranks)
    width = shard_size("hidden", W1.shape[1], num_ranks)
    gathered = all_gather([x[r * tokens : (r + 1) * tokens] for r in range(num_ranks)], axis=0)
    mine = [slice(r * width, (r + 1) * width) for r in range(num_ranks)]
    partials = [np.maximum(g @ W1[:, m], 0.0) @ W2[m] for g, m in zip(gathered, mine, strict=True)]
    reduced = all_reduce(partials)
    return np.concatenate([reduced[r][r * tokens : (r + 1) * tokens] for r in range(num_ranks)])


def mlp_tp_sequence_parallel__scatters_a_dense_product(x, W1, W2, num_ranks):
    """the whole MLP is computed on every rank, and the reduce-scatter adds p equal parts of it.

    The value and the bytes are right; every rank needs all of W1 and W2.
    Rejected by: test_no_rank_multiplies_by_more_than_its_share
    """
    tokens = shard_size("tokens", x.shape[0], num_ranks)
    shard_size("hidden", W1.shape[1], num_ranks)
    whole = all_gather([x[r * tokens : (r + 1) * tokens] for r in range(num_ranks)], axis=0)[0]
    y = np.maximum(whole @ W1, 0.0) @ W2
    return np.concatenate(reduce_scatter([y / num_ranks] * num_ranks, axis=0), axis=0)


def mlp_tp_sequence_parallel__drops_the_rest_of_the_hidden_layer(x, W1, W2, num_ranks):
    """hidden units that the ranks do not divide are dropped.

    An even number of tokens hides it until the hidden layer is uneven.
    Rejected by: test_layers_refuse_an_uneven_split
    """
    tokens = shard_size("tokens", x.shape[0], num_ranks)
    width = W1.shape[1] // num_ranks
    gathered = all_gather([x[r * tokens : (r + 1) * tokens] for r in range(num_ranks)], axis=0)
    mine = [slice(r * width, (r + 1) * width) for r in range(num_ranks)]
    partials = [np.maximum(g @ W1[:, m], 0.0) @ W2[m] for g, m in zip(gathered, mine, strict=True)]
    return np.concatenate(reduce_scatter(partials, axis=0), axis=0)


def mlp_tp_sequence_parallel__forgets_the_gather(x, W1, W2, num_ranks):
    """each rank runs only its own tokens through its own shard.

    Token t then meets 1/p of the hidden units. The tokens must come together first.
    Rejected by: test_sequence_parallel_mlp_moves_the_bytes_of_one_all_reduce
    """
    tokens = shard_size("tokens", x.shape[0], num_ranks)
    width = shard_size("hidden", W1.shape[1], num_ranks)
    blocks = []
    for r in range(num_ranks):
        mine = slice(r * width, (r + 1) * width)
        held = x[r * tokens : (r + 1) * tokens]
        blocks.append(np.maximum(held @ W1[:, mine], 0.0) @ W2[mine])
    return np.concatenate(blocks, axis=0)
