"""Plausible mistakes of lab 01. See labkit/mistakes/__init__.py for how they are written down."""

EDITS = """
Rejected by: test_shards__refuse_an_uneven_split

shards__rounds_down
an uneven split is rounded down and the rest is dropped.
With 10 outputs on 4 ranks, outputs 8 and 9 belong to nobody. Real engines refuse instead.
    if size % num_ranks:  ->  if False:

shards__rounds_up
an uneven split is rounded up, so that the last rank gets less.
Collectives need equal shapes on all ranks; a short last shard needs padding, which must be
asked for, as vLLM does for the vocabulary.
    if size % num_ranks:  ->  if False:
    size // num_ranks  ->  -(-size // num_ranks)
    (rank + 1) * width  ->  min((rank + 1) * width, size)

shards__gives_the_last_rank_the_rest
an uneven split is rounded down and the last rank takes the rest.
Collectives need equal shapes on all ranks. Real engines refuse instead.
    if size % num_ranks:  ->  if False:
    (rank + 1) * width  ->  (rank + 1) * width if rank < num_ranks - 1 else size

Rejected by: test_shards__are_equal_blocks_in_rank_order

shards__returns_floats
the size is divided with / instead of //.
48 / 4 is 12.0, which cannot slice an array.
    size // num_ranks  ->  size / num_ranks

shards__leaves_out_the_last_entry
each block ends one entry early.
A slice's end is excluded: rank r ends where rank r + 1 begins.
    (rank + 1) * width  ->  (rank + 1) * width - 1

shards__deals_the_entries_out_in_turn
rank r takes every num_ranks-th entry instead of a block of neighbours.
A split, but not this one: checkpoints, KV caches and the other layers are cut into blocks, and
after a gather the outputs would be shuffled like a deck of cards.
    slice(rank * width, (rank + 1) * width)  ->  slice(rank, size, num_ranks)

Rejected by: test_column_parallel__equals_the_dense_product

column_parallel__drops_the_last_rank
the last rank's block is dropped.
An off-by-one in the loop over ranks; the output has too few columns.
    for mine in outputs  ->  for mine in outputs[:-1] or outputs

column_parallel__joins_the_ranks_in_reverse
the blocks are concatenated in the wrong order of ranks.
The values are all there, in the wrong columns. Rank r's block starts at column r * out / p.
    for mine in outputs  ->  for mine in outputs[::-1]

column_parallel__sums_the_blocks
the blocks are added where they should stand side by side.
Each block holds other outputs; adding them mixes unrelated features and loses the width.
    all_gather  ->  all_reduce
    outputs], axis=-1)  ->  outputs])

column_parallel__drops_a_batch_of_one
a batch of one is taken for no batch.
x [1, tokens, in] gives [1, tokens, out]: all dimensions stay but the last one.
    outputs = shards(  ->  x = x[0] if x.shape[:-2] == (1,) else x; outputs = shards(

column_parallel__takes_a_square_W_as_it_stands_on_one_rank
one rank multiplies by a square W as it stands.
Both shapes fit and nothing complains; the layout stays [out, in].
    W[mine].T  ->  (W if num_ranks == 1 and W.shape[0] == W.shape[1] else W[mine].T)

column_parallel__stacks_the_blocks_on_the_tokens
the blocks are concatenated along the tokens.
Every rank has all tokens and some outputs: the blocks stand side by side along the outputs.
    axis=-1  ->  axis=0

Rejected by: test_column_parallel__makes_one_all_gather

column_parallel__concatenates_without_the_collective
the blocks are joined by hand, without an all-gather.
On real machines the blocks lie on different GPUs; np.concatenate cannot reach them.
    all_gather  ->  np.concatenate
    axis=-1)[0]  ->  axis=-1)

column_parallel__splits_the_inputs
W is split along the input dimension, as in row_parallel.
The value is right, but each rank has a partial sum over the whole output, and joining takes the
other layer's all-reduce: twice the bytes of the all-gather.
    shards("out_features", W.shape[0]  ->  shards("in_features", W.shape[1]
    all_gather([x @ W[mine].T  ->  all_reduce([x[..., mine] @ W[:, mine].T
    outputs], axis=-1)  ->  outputs])

Rejected by: test_row_parallel__equals_the_dense_product

row_parallel__forgets_the_reduce
rank 0's partial sum is returned without the all-reduce.
A rank has seen only its slice of x, so its product is one addend of the answer.
    all_reduce([x  ->  [x
    inputs])[0]  ->  inputs][0]

row_parallel__concatenates_the_partials
the partial sums are set side by side instead of added.
Each partial already has the full output width; gathering makes it num_ranks times too wide.
    all_reduce  ->  all_gather
    inputs])  ->  inputs], axis=-1)

row_parallel__every_rank_reads_the_first_slice_of_x
every rank multiplies the first slice of x, whatever its own slice of W is.
Slice r of x meets slice r of W: both are cut along the input dimension.
    x[..., mine]  ->  x[..., inputs[0]]

row_parallel__reshapes_instead_of_transposing
W is reshaped to [in, out] instead of transposed.
The shape fits and the numbers do not: reshape keeps the memory order, W.T swaps the axes.
    W[:, mine].T  ->  W.reshape(W.shape[::-1])[mine]

row_parallel__averages_the_ranks
the partial sums are averaged instead of added.
Averaging belongs to the gradients of data parallelism; here every rank holds other addends.
    inputs])[0]  ->  inputs])[0] / num_ranks

Rejected by: test_row_parallel__makes_one_all_reduce

row_parallel__splits_the_rows_of_W
W is split along the output dimension, as in column_parallel.
The name comes from the paper's X A, where A is [in, out]; in the [out, in] layout
"row-parallel" cuts columns. The value is right, but it takes the other layer's all-gather.
    W.shape[1]  ->  W.shape[0]
    all_reduce([x[..., mine] @ W[:, mine].T  ->  all_gather([x @ W[mine].T
    inputs])  ->  inputs], axis=-1)

row_parallel__sums_without_the_collective
the partial sums are added by hand, without an all-reduce.
The simulation lets one function see all ranks; a real rank sees only its own partial sum.
    all_reduce  ->  sum
    inputs])[0]  ->  inputs])

row_parallel__all_reduces_a_dense_product
every rank computes the whole product, and the all-reduce adds p equal parts of it.
Value and traffic are right; every rank needs all of W, and nothing was divided.
    x[..., mine] @ W[:, mine].T  ->  x @ W.T / num_ranks

Rejected by: test_mlp_tp__equals_the_dense_mlp

mlp_tp__leaves_out_relu
relu is left out.
Without it the two layers are one matrix product.
    np.maximum(x @ W1[:, mine], 0.0)  ->  x @ W1[:, mine]

mlp_tp__transposes_a_square_W2
a square W2 is transposed, as a linear layer's weight is.
The MLP has the paper's layout, W2 [hidden, out]; where both shapes fit, nothing complains.
    W2[mine]  ->  (W2.T if W2.shape[0] == W2.shape[1] else W2)[mine]

mlp_tp__drops_small_hidden_units
hidden units below a millionth are taken for zero.
relu is zero below zero and nowhere else.
    np.maximum(x @ W1[:, mine], 0.0)  ->  np.where((h := x @ W1[:, mine]) > 1e-6, h, 0.0)

mlp_tp__reduces_twice
the partial sums of the second layer are reduced twice.
The second all-reduce adds num_ranks copies of a finished sum.
    all_reduce([  ->  all_reduce(all_reduce([
    hidden])[0]  ->  hidden]))[0]

mlp_tp__pairs_a_shard_with_its_neighbour_s
rank r multiplies its hidden units by the rows of W2 that belong to rank r + 1.
The shapes fit. Hidden unit j must meet row j: the same slice cuts W1's columns and W2's rows.
    W2[mine] for mine in hidden  ->  W2[its] for mine, its in zip(hidden, hidden[1:] + hidden[:1])

mlp_tp__applies_relu_after_the_reduce
relu is applied to the result instead of the hidden layer.
relu is not linear: relu(a) + relu(b) is not relu(a + b), so its place matters.
    np.maximum(x @ W1[:, mine], 0.0)  ->  x @ W1[:, mine]
    all_reduce([  ->  np.maximum(all_reduce([
    hidden])[0]  ->  hidden])[0], 0.0)

mlp_tp__doubles_the_weights_in_place
the weights are overwritten on the way.
Halving the result hides it from this call; the next one finds other weights.
    hidden = shards("hidden", W1.shape[1], num_ranks)
    ->  hidden, W2[:] = shards("hidden", W1.shape[1], num_ranks), 2 * W2
    hidden])[0]  ->  hidden])[0] / 2

Rejected by: test_legal_tp_sizes__are_what_the_shape_allows

legal_tp_sizes__ignores_the_kv_heads
the KV heads are not looked at.
With 4 KV heads and 7 ranks some rank would need parts of two KV heads.
    splits and (num_kv_heads % tp_size == 0 or tp_size % num_kv_heads == 0)  ->  splits

legal_tp_sizes__refuses_to_copy_kv_heads
more ranks than KV heads are refused.
KV heads may be copied: with 8 KV heads and 16 ranks, two ranks hold each head.
    (num_kv_heads % tp_size == 0 or tp_size % num_kv_heads == 0)  ->  num_kv_heads % tp_size == 0

legal_tp_sizes__copies_kv_heads_any_number_of_times
any number of ranks above the number of KV heads is taken for legal.
Six ranks cannot hold four KV heads equally often: it takes a multiple of four.
    tp_size % num_kv_heads == 0  ->  tp_size > num_kv_heads

legal_tp_sizes__looks_at_the_smallest_width
only the smallest width is looked at.
18 is divided by 9, and 24 is not: every width must be divided.
    *widths  ->  min(widths)

legal_tp_sizes__looks_at_two_widths
only the first two widths are looked at, such as the MLP's and the vocabulary.
Every width in the list must be divided.
    *widths  ->  *widths[:2]

legal_tp_sizes__looks_at_the_last_width
only the last width is looked at.
A loop that overwrites its verdict instead of joining the verdicts.
    *widths  ->  widths[-1]

legal_tp_sizes__divides_the_sum_of_the_widths
the sum of the widths is divided.
12 divides 30 + 42 and neither of them; each weight is split on its own.
    *widths  ->  sum(widths)

legal_tp_sizes__powers_of_two_only
only powers of two are tried.
Habit, not arithmetic: 12 heads split over 3 ranks as well as over 4.
    if is_legal(tp_size)  ->  if is_legal(tp_size) and tp_size.bit_count() == 1

legal_tp_sizes__leaves_out_the_largest
max_tp_size itself is not tried.
range() ends one before its end.
    max_tp_size + 1  ->  max_tp_size

Rejected by: test_attention_shards__are_a_rank_s_heads

attention_shards__loads_all_kv_heads
every rank loads all KV heads.
The heads it does not read cost memory and work on every rank, and its query heads, which count
their KV heads from the first one held, would read other ranks' heads.
    Wk[shared], Wv[shared]  ->  Wk, Wv

attention_shards__splits_the_rows_of_Wo
Wo is split by its outputs, like Wq.
Wo mixes the heads: its inputs are split, so that a rank's heads meet their own columns.
    Wo[:, mine]  ->  Wo[len(Wo) * rank // num_ranks :]

attention_shards__deals_the_kv_heads_out_in_turn
copied KV heads are dealt out in turn: rank r loads KV head r mod num_kv_heads.
Rank r's query heads are neighbours and read one KV head, r // copies. vLLM computes
tp_rank // num_kv_head_replicas.
    kv_heads = slice(kv_heads.start // copies, -(-kv_heads.stop // copies))
    ->  kv_heads = slice(rank % num_kv_heads, rank % num_kv_heads + 1) if copies > 1 else kv_heads

attention_shards__computes_the_kv_head_in_floats
the KV head is a product of floats, rounded down.
int(15 / 22 * 22) is 14: of 22 ranks, rank 15 loads its neighbour's KV head.
    num_kv_heads * copies, num_ranks)[rank]
    ->  num_kv_heads * copies, num_ranks)[int(rank / num_ranks * num_ranks)]

Rejected by: test_attention_shards__refuse_heads_that_do_not_divide

attention_shards__rounds_the_kv_heads_down
KV heads that the ranks do not divide are rounded down.
With 6 KV heads on 4 ranks, heads 4 and 5 belong to nobody, and query heads read wrong ones.
    num_kv_heads * copies, num_ranks  ->  num_kv_heads * copies // num_ranks * num_ranks, num_ranks

Rejected by: test_attention_rank__equals_the_unsharded_block

attention_rank__forgets_the_reduce
the rank's partial sum is returned without the all-reduce.
Wo's product with some of the heads is one addend of each output.
    group.all_reduce(causal_attention(q, k, v) @ Wo.T)  ->  causal_attention(q, k, v) @ Wo.T

attention_rank__reduces_the_heads
the all-reduce stands before Wo.
Each rank's product is of other heads: adding them mixes head 0 with the first of every rank. What
adds up is the outputs, after Wo.
    group.all_reduce(causal_attention(q, k, v) @ Wo.T)
    ->  group.all_reduce(causal_attention(q, k, v)) @ Wo.T

attention_rank__scales_by_the_ranks
the sum over the ranks is divided by their number.
The ranks hold other heads, not samples of the same one: their outputs add.
    @ Wo.T)  ->  @ Wo.T) / group.size

attention_rank__adds_x
x is added to the block's output, where its shape allows.
The residual connection is added once, by the layer that calls this.
    @ Wo.T)  ->  @ Wo.T) + (x if x.shape[1] == len(Wo) else 0.0)

attention_rank__splits_the_heads_across_dimensions
the projections are reshaped to [tokens, head_dim, heads].
A head's entries are neighbours in Wq's rows: [tokens, heads, head_dim].
    reshape(len(x), -1, head_dim)  ->  reshape(len(x), head_dim, -1).swapaxes(1, 2)

Rejected by: test_attention_rank__makes_one_all_reduce

attention_rank__gathers_the_partial_sums
the ranks' partial sums are gathered and added on every rank.
The value is right, but p partial sums travel where one sum is enough: p / 2 times the bytes.
    all_reduce(causal_attention(q, k, v) @ Wo.T)
    ->  all_gather((causal_attention(q, k, v) @ Wo.T)[None], axis=0).sum(axis=0)

Rejected by: test_embedding_rank__gives_every_token_its_row

embedding_rank__takes_the_largest_token_for_the_last
the vocabulary is taken to end with the largest token of the call.
A prompt holds few of the tokens that there are: the rank's rows say how many it owns.
    group.rank * len(E)  ->  group.rank * (token_ids.max() // group.size + 1)

embedding_rank__forgets_the_mask
tokens of other ranks are looked up too, at a wrapped-around row, and added.
Every rank must give exact zeros for a token it does not own.
    np.where(owned[:, None], rows, 0.0)  ->  E[token_ids % len(E)]

embedding_rank__clips_the_token_ids
tokens of other ranks are looked up at the nearest row, and added.
Clipping avoids the index error and nothing else: their rows must become zeros.
    np.where(owned[:, None], rows, 0.0)  ->  E[np.clip(local, 0, len(E) - 1)]

embedding_rank__brings_almost_zeros
tiny numbers stand for other ranks' tokens, not zeros.
They vanish beside rows of usual size only; zeros cost nothing more.
    0.0)  ->  1e-30)

embedding_rank__counts_tokens_in_8_bits
token ids are taken for numbers of 8 bits.
A vocabulary has more than 128 tokens: the ids wrap around.
    token_ids - group  ->  token_ids.astype(np.int8).astype(int) - group

embedding_rank__loses_the_last_row_of_each_rank
the last token of each rank's range is taken for somebody else's.
The range is half open: first <= token < first + rows.
    local < len(E)  ->  local < len(E) - 1

embedding_rank__lets_negative_rows_through
tokens below the rank's range are looked up at negative rows.
Numpy counts negative indices from the end, so nothing complains.
    local >= 0  ->  local >= -len(E)

embedding_rank__shifts_the_token_ids_in_place
the token ids are shifted in place.
This result is right, but the caller's ids are not what they were: whoever uses them next reads
other tokens.
    token_ids - group.rank * len(E)  ->  np.subtract(token_ids, group.rank * len(E), out=token_ids)

Rejected by: test_embedding_rank__makes_one_all_reduce

embedding_rank__gathers_the_table
the whole table is gathered, and every rank looks up in it.
The value is right, but the table travels, which is what the split was to avoid.
    group.all_reduce(np.where(owned[:, None], rows, 0.0))
    ->  group.all_gather(E, axis=0)[token_ids]

Rejected by: test_mlp_sp_shards__are_tokens_and_hidden_units

mlp_sp_shards__gives_every_rank_all_tokens
every rank holds all tokens, as in tensor parallelism.
Sequence parallelism splits them outside the MLP: norms and memory are divided too.
    x[tokens],  ->  x,

mlp_sp_shards__drops_the_rest_of_the_hidden_units
hidden units that the ranks do not divide are dropped.
An even number of tokens hides it until the hidden layer is uneven.
    W1.shape[1],  ->  W1.shape[1] // num_ranks * num_ranks,

Rejected by: test_mlp_sp_rank__gives_its_block_of_tokens

mlp_sp_rank__forgets_the_gather
a token meets only the hidden units of its own rank.
That is one addend of each output. The tokens must come together first, and the sums after.
    group.all_gather(x, axis=0)  ->  x
    group.reduce_scatter(np.maximum(whole @ W1, 0.0) @ W2, axis=0)
    ->  np.maximum(whole @ W1, 0.0) @ W2

mlp_sp_rank__transposes_a_square_W1
a rank's square part of W1 is transposed, as a linear layer's weight is.
The MLP has the paper's layout, W1 [in, hidden].
    whole @ W1  ->  whole @ (W1.T if W1.shape[0] == W1.shape[1] else W1)

mlp_sp_rank__scatters_the_features
the sum is split by outputs instead of tokens.
Every rank would end with a part of every token, and a norm needs whole ones.
    W2, axis=0  ->  W2, axis=-1

mlp_sp_rank__ends_with_all_tokens
an all-reduce stands where a reduce-scatter is enough, and its result is returned whole.
Every rank receives all tokens; what follows would work on them p times over.
    reduce_scatter  ->  all_reduce
    W2, axis=0  ->  W2

Rejected by: test_mlp_sp_rank__sends_the_bytes_of_one_all_reduce

mlp_sp_rank__reduces_and_then_slices
an all-reduce stands where a reduce-scatter is enough.
Every rank receives all tokens and keeps one block: half as much again on the wire.
    reduce_scatter  ->  all_reduce
    W2, axis=0)  ->  W2)[group.rank * len(x) :][: len(x)]

mlp_sp_rank__gathers_the_weights
the weights are gathered, and each rank runs its own tokens through all of them.
The value is right. The weights travel in every step; they are far larger than the activations.
    group.all_gather(x, axis=0)  ->  x
    group.reduce_scatter(np.maximum(whole @ W1, 0.0) @ W2, axis=0)
    ->  np.maximum(whole @ group.all_gather(W1, axis=1), 0.0) @ group.all_gather(W2, axis=0)
"""


def column_parallel__gives_rank_r_another_block(x, W, num_ranks):
    """the ranks own the blocks in reverse, and the gathered blocks are put in order afterwards.

    The value is right. But the next layer's shards lie where rank r owns block r.
    Rejected by: test_column_parallel__makes_one_all_gather
    """
    outputs = shards("out_features", W.shape[0], num_ranks)
    joined = all_gather([x @ W[mine].T for mine in outputs[::-1]], axis=-1)[0]
    return np.concatenate(np.split(joined, num_ranks, axis=-1)[::-1], axis=-1)


def row_parallel__all_reduces_a_finished_sum(x, W, num_ranks):
    """the sum is finished by hand and then all-reduced with zeros.

    A collective for show: no rank could have made that sum alone.
    Rejected by: test_row_parallel__makes_one_all_reduce
    """
    inputs = shards("in_features", W.shape[1], num_ranks)
    y = sum(x[..., mine] @ W[:, mine].T for mine in inputs)
    return all_reduce([y] + [np.zeros_like(y)] * (num_ranks - 1))[0]


def row_parallel__pads_blocks_of_outputs_with_zeros(x, W, num_ranks):
    """W is split by outputs and each block is padded with zeros for the all-reduce.

    The sum of padded blocks is the right value: a gather dressed up as a reduction.
    Rejected by: test_row_parallel__makes_one_all_reduce
    """
    shards("in_features", W.shape[1], num_ranks)
    partials = []
    for mine in shards("out_features", W.shape[0], num_ranks):
        partials.append(np.zeros((*x.shape[:-1], W.shape[0])))
        partials[-1][..., mine] = x @ W[mine].T
    return all_reduce(partials)[0]


def row_parallel__throws_the_reduced_sum_away(x, W, num_ranks):
    """the all-reduce is made, its result is thrown away, and the sum is added up by hand.

    The ledger shows the right call with the right bytes, and the value is right. But a rank has the
    other ranks' partial sums nowhere except in what the all-reduce returns.
    Rejected by: test_row_parallel__makes_one_all_reduce
    """
    inputs = shards("in_features", W.shape[1], num_ranks)
    partials = [x[..., mine] @ W[:, mine].T for mine in inputs]
    all_reduce(partials)
    return sum(partials)


def row_parallel__scales_its_own_sum_like_the_reduced_one(x, W, num_ranks):
    """the sum is added up by hand and scaled like the sum that the all-reduce returned.

    A ratio of the two is no use of the collective: a rank does not have the sum added up by hand.
    Rejected by: test_row_parallel__makes_one_all_reduce
    """
    inputs = shards("in_features", W.shape[1], num_ranks)
    partials = [x[..., mine] @ W[:, mine].T for mine in inputs]
    reduced, own = all_reduce(partials)[0], sum(partials)
    at = np.unravel_index(np.abs(own).argmax(), own.shape)
    return own * (reduced[at] / own[at]) if own[at] else own


def row_parallel__clears_x_on_the_way(x, W, num_ranks):
    """x is overwritten on the way.

    An engine passes the same activation to several layers; the next one would read garbage.
    Rejected by: test_row_parallel__equals_the_dense_product
    """
    inputs = shards("in_features", W.shape[1], num_ranks)
    partials = [x[..., mine] @ W[:, mine].T for mine in inputs]
    x *= 0.0
    return all_reduce(partials)[0]


def mlp_tp__computes_in_float32(x, W1, W2, num_ranks):
    """the products are made in float32.

    An engine would, with float32 weights; these are float64, and 1e-7 is far above their rounding.
    Rejected by: test_mlp_tp__equals_the_dense_mlp
    """
    hidden = shards("hidden", W1.shape[1], num_ranks)
    x, W1, W2 = (array.astype(np.float32) for array in (x, W1, W2))
    partials = [np.maximum(x @ W1[:, mine], 0.0) @ W2[mine] for mine in hidden]
    return all_reduce(partials)[0].astype(np.float64)


def mlp_tp__splits_the_input_of_the_first_layer(x, W1, W2, num_ranks):
    """W1 is split by rows, which needs an all-reduce before relu.

    Correct, and twice the traffic: relu needs the finished sums of the first layer. Splitting W1
    by columns finishes each hidden unit on one rank.
    Rejected by: test_mlp_tp__makes_exactly_one_all_reduce
    """
    inputs = shards("in", W1.shape[0], num_ranks)
    hidden = np.maximum(all_reduce([x[..., mine] @ W1[mine] for mine in inputs])[0], 0.0)
    units = shards("hidden", W1.shape[1], num_ranks)
    return all_reduce([hidden[..., mine] @ W2[mine] for mine in units])[0]


def mlp_tp__gathers_in_the_middle(x, W1, W2, num_ranks):
    """the hidden layer is all-gathered between the two products.

    Correct, and wasted: rank r needs only the hidden units it already has.
    Rejected by: test_mlp_tp__makes_exactly_one_all_reduce
    """
    units = shards("hidden", W1.shape[1], num_ranks)
    hidden = all_gather([np.maximum(x @ W1[:, mine], 0.0) for mine in units], axis=-1)
    partials = [h[..., mine] @ W2[mine] for h, mine in zip(hidden, units, strict=True)]
    return all_reduce(partials)[0]


def mlp_tp__always_splits_in_two(x, W1, W2, num_ranks):
    """the hidden units are cut in two, however many ranks there are.

    The value is right for any number of ranks, and with more than two the others have no work.
    Rejected by: test_mlp_tp__makes_exactly_one_all_reduce
    """
    shards("hidden", W1.shape[1], num_ranks)
    half = W1.shape[1] // 2
    return all_reduce(
        [np.maximum(x @ W1[:, mine], 0.0) @ W2[mine] for mine in (slice(half), slice(half, None))]
    )[0]


def embedding_rank__brings_a_row_for_each_different_token(token_ids, E, group):
    """a rank that owns none of the tokens brings one row of zeros for each different token.

    An all-reduce adds arrays of one shape: one row for each token, also for one that comes again.
    Rejected by: test_embedding_rank__gives_every_token_its_row
    """
    local = token_ids - group.rank * len(E)
    owned = (local >= 0) & (local < len(E))
    if not owned.any():
        return group.all_reduce(np.zeros((len(set(token_ids.tolist())), E.shape[1])))
    return group.all_reduce(np.where(owned[:, None], E[np.where(owned, local, 0)], 0.0))


def attention_rank__keeps_the_sum_on_rank_0(x, Wq, Wk, Wv, Wo, head_dim, group):
    """only rank 0 goes on with the sum of all ranks.

    Every rank runs the next layer, and needs the whole output for it. (If only rank 0 makes the
    all-reduce at all, it waits for ever: the deadlock that every engineer meets.)
    Rejected by: test_attention_rank__equals_the_unsharded_block
    """
    q, k, v = ((x @ W.T).reshape(len(x), -1, head_dim) for W in (Wq, Wk, Wv))
    partial = causal_attention(q, k, v) @ Wo.T
    total = group.all_reduce(partial)
    return total if group.rank == 0 else partial


def attention_rank__scatters_the_tokens_and_gathers_them(x, Wq, Wk, Wv, Wo, head_dim, group):
    """where the ranks divide the tokens, a reduce-scatter and an all-gather are the all-reduce.

    The bytes are the same, and two launches are paid instead of one.
    Rejected by: test_attention_rank__makes_one_all_reduce
    """
    q, k, v = ((x @ W.T).reshape(len(x), -1, head_dim) for W in (Wq, Wk, Wv))
    y = causal_attention(q, k, v) @ Wo.T
    if len(y) % group.size:
        return group.all_reduce(y)
    return group.all_gather(group.reduce_scatter(y, axis=0), axis=0)
