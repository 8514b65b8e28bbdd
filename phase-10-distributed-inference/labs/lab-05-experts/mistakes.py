"""Plausible mistakes of lab 05. See labkit/mistakes/__init__.py for how they are written down."""

EDITS = """
Rejected by: test_route__chooses_the_best_and_weighs_them

route__always_renormalizes
the weights are renormalised whatever the model says.
DeepSeek-V2 leaves them as they come out of the softmax over all experts: they sum to less than 1.
    if renormalize:  ->  if True:

route__never_renormalizes
the weights are those of the softmax over all experts, whatever the model says.
Mixtral's sum to 1 over the chosen experts.
    if renormalize:  ->  if False:

route__chooses_the_worst
the smallest logits are chosen.
argsort sorts upwards: the best come last unless the logits are negated.
    np.argsort(-logits  ->  np.argsort(logits

route__sorts_the_softmax
the softmax is sorted, in which logits far below the largest are all 0 and tie.
exp is 0 below about -745: the order of what is sent there is lost. Sort the logits.
    np.argsort(-logits  ->  np.argsort(-softmax(logits)

route__returns_them_in_order_of_id
the chosen experts are sorted by id.
The same set, but the best is to come first, and the weights go with it.
    [:, :top_k]  ->  [:, :top_k].copy(); ids.sort(axis=1)

route__overflows
exp is taken of the logits as they are.
exp(800) is infinite. Only differences matter: take the largest logit out first.
    return ids, softmax(chosen)
    ->  return ids, np.exp(chosen) / np.exp(chosen).sum(axis=1, keepdims=True)

route__returns_logits_for_weights
the chosen logits are returned instead of their softmax.
A weight says how much of an expert's output counts; logits may be negative.
    return ids, softmax(chosen)  ->  return ids, chosen

route__weighs_over_the_tokens
the softmax runs over the tokens.
A token's weights depend on that token alone.
    softmax(logits)  ->  softmax(logits.T).T

Rejected by: test_route__gives_ties_to_the_lower_id

route__gives_ties_to_the_higher_id
of equal logits the higher id comes first.
Reversing an ascending sort reverses the ties too.
    np.argsort(-logits, axis=1, kind="stable")[:, :top_k]
    ->  np.argsort(logits, axis=1, kind="stable")[:, ::-1][:, :top_k]

route__sorts_what_the_largest_leaves
each token's largest logit is taken out before the others are sorted.
Beside a large one, two that differ in the last bit round to the same: sort the logits as they are.
    np.argsort(-logits  ->  np.argsort(logits.max(axis=1, keepdims=True) - logits

route__compares_in_float32
logits are compared in float32, so that near ones tie.
Two that differ in the last digits change places, and another expert may be chosen.
    np.argsort(-logits  ->  np.argsort(-logits.astype(np.float32)

Rejected by: test_route__refuses_a_top_k_that_cannot_be

route__takes_what_there_is
more experts than there are is taken for all of them.
Nobody would notice that the model is another one than its config says.
    if not 1 <= top_k <= logits.shape[1]:  ->  if top_k < 1:

route__lets_a_token_choose_nothing
a top_k of 0 is let through.
Then no expert runs, and the layer returns zeros.
    if not 1 <= top_k  ->  if not top_k

Rejected by: test_place_in_order__deals_out_blocks

place_in_order__deals_in_turn
the experts are dealt out in turn, one to each rank.
vLLM calls that "round_robin". In order means blocks of neighbours.
    np.repeat(np.arange(num_ranks), [len(block) for block in blocks])
    ->  np.arange(num_experts) % num_ranks

place_in_order__gives_the_last_rank_the_rest
what is over goes to the last rank.
Then it has up to p - 1 experts more than any other; the first ranks take one each.
    np.repeat(np.arange(num_ranks), [len(block) for block in blocks])
    ->  np.minimum(np.arange(num_experts) // max(num_experts // num_ranks, 1), num_ranks - 1)

place_in_order__spreads_by_rounding
expert e goes to rank e * p / experts, rounded down.
As even, but what is over then falls on ranks in the middle and not on the first ones.
    np.repeat(np.arange(num_ranks), [len(block) for block in blocks])
    ->  np.arange(num_experts) * num_ranks // max(num_experts, 1)

Rejected by: test_experts_tp_rank__equals_the_dense_layer

experts_tp_rank__forgets_the_reduce
the rank's addends are returned without the all-reduce.
A slice of every expert gives one addend of every output.
    group.all_reduce(run_experts(x, ids, weights, W1, W2))  ->  run_experts(x, ids, weights, W1, W2)

experts_tp_rank__averages_the_ranks
the sum over the ranks is divided by their number.
The ranks hold other hidden units of the same experts: their addends add.
    W1, W2))  ->  W1, W2)) / group.size

experts_tp_rank__gathers_the_weights
the slices are gathered, and every rank runs whole experts.
The value is right. The weights travel in every step, and nothing was divided.
    group.all_reduce(run_experts(x, ids, weights, W1, W2))
    ->  run_experts(x, ids, weights, group.all_gather(W1, axis=2), group.all_gather(W2, axis=1))

Rejected by: test_my_experts__add_nothing_for_others

my_experts__counts_foreign_ids_as_its_first
an id of another rank's is looked up as the first expert, with its weight.
A weight of zero is what makes the row count nothing; the id only has to be a legal one.
    np.where(mine, weights, 0.0)  ->  weights

my_experts__drops_small_weights
weights below a millionth are taken for zero.
Zero stands for other ranks' experts; a small weight is one of mine, and counts.
    np.where(mine, weights, 0.0)  ->  np.where(mine & (weights > 1e-6), weights, 0.0)

my_experts__wraps_ids_around
ids are taken modulo the number of own experts.
Every foreign id then is some expert of mine, and counts.
    np.where(mine, local[ids], 0), np.where(mine, weights, 0.0)  ->  ids % max(len(W1), 1), weights

my_experts__clears_the_ids_and_not_the_weights_of_strangers
foreign ids are clipped into the rank's range, and their weights kept.
Clipping avoids the index error and nothing else.
    np.where(mine, local[ids], 0), np.where(mine, weights, 0.0)
    ->  np.clip(local[ids], 0, None), weights

my_experts__keeps_whole_tokens
a token is dropped when its first choice is not mine.
Each choice is looked at on its own: the second may be mine.
    mine = placement[ids] == rank
    ->  mine = (placement[ids] == rank) & (placement[ids][:, :1] == rank)

my_experts__masks_the_ids_in_place
the caller's weights are set to zero in place.
The result is right; the router's weights are not what they were, and the next layer or a shared
expert reads them.
    mine = placement[ids] == rank  ->  mine = placement[ids] == rank; weights[~mine] = 0.0

Rejected by: test_experts_ep_rank__equals_the_dense_layer_by_one_all_reduce

experts_ep_rank__forgets_the_reduce
what the rank's own experts add is returned without the all-reduce.
A token's other choices are on other ranks.
    group.all_reduce(my_experts(x, ids, weights, W1, W2, placement, group.rank))
    ->  my_experts(x, ids, weights, W1, W2, placement, group.rank)

Rejected by: test_touched_bytes__counts_every_chosen_expert_once

touched_bytes__reads_an_expert_for_every_token
an expert is counted once for every token that chose it.
Its weights are read once, and all of its tokens multiplied by them: that is why batches pay.
    touched = np.unique(ids)  ->  touched = ids.ravel()

touched_bytes__reads_all_experts
all experts are read, chosen or not.
True of large batches. A few tokens leave most experts alone.
    touched = np.unique(ids)  ->  touched = np.arange(len(placement))

touched_bytes__gives_every_rank_whole_experts
under tensor parallelism every rank reads whole experts.
It holds and reads 1 / p of each.
    len(touched) * expert_bytes // num_ranks  ->  len(touched) * expert_bytes

touched_bytes__counts_in_32_bits
bytes are multiplied as numbers of 32 bits.
Fifty experts of 44 MB are more than 2**31 bytes: the product wraps around.
    minlength=num_ranks) * expert_bytes
    ->  minlength=num_ranks).astype(np.int32) * np.array(expert_bytes).astype(np.int32)

touched_bytes__divides_in_floats
each rank's part is a product of floats, rounded down.
7 / 5 is a little less than 1.4: times 45 bytes that is 62, not 63. Multiply whole numbers first.
    len(touched) * expert_bytes // num_ranks  ->  int(len(touched) / num_ranks * expert_bytes)

touched_bytes__divides_what_is_dealt
the dealt-out experts are divided over the ranks as if they were sliced.
An expert that is dealt out is read whole by its own rank, and by nobody else.
    dealt.tolist()  ->  (dealt // num_ranks).tolist()

touched_bytes__forgets_idle_ranks
ranks without a chosen expert are left out of the list.
They read nothing, and are idle: 0 bytes is their entry.
    minlength=num_ranks  ->  minlength=0

Rejected by: test_gathered_rank__equals_the_dense_layer

gathered_rank__takes_equal_sizes
the sum is cut into equal blocks.
Ranks have as many tokens as they have requests, some none: the sizes say how many.
    return group.reduce_scatterv(partial, sizes)
    ->  return np.array_split(group.all_reduce(partial), group.size)[group.rank]

gathered_rank__keeps_its_own_experts_sum
the rank returns what its own experts add to its tokens.
Its tokens' other choices are on other ranks, which have computed them: the sum must come back.
    group.reduce_scatterv(partial, sizes)
    ->  np.split(partial, np.cumsum(sizes)[:-1])[group.rank]

gathered_rank__returns_all_tokens
the whole sum is returned instead of the rank's own tokens.
The next attention layer works on own tokens; the others are other ranks'.
    group.reduce_scatterv(partial, sizes)  ->  group.all_reduce(partial)

gathered_rank__scatters_in_reverse
the blocks go to the ranks in reverse.
Rank r's tokens are block r of the gathered ones.
    group.reduce_scatterv(partial, sizes)
    ->  np.split(group.all_reduce(partial), np.cumsum(sizes)[:-1])[group.size - 1 - group.rank]

Rejected by: test_gathered_rank__gathers_three_and_scatters_one

gathered_rank__reduces_and_then_cuts
an all-reduce stands where a reduce-scatter is enough.
Every rank receives all tokens and keeps its own: twice the bytes on the way back.
    return group.reduce_scatterv(partial, sizes)
    ->  return np.split(group.all_reduce(partial), np.cumsum(sizes)[:-1])[group.rank]

Rejected by: test_tokens_for_ranks__are_those_that_chose_an_expert_there

tokens_for_ranks__sends_once_per_expert
a token is listed once for every expert that it chose there.
It travels once per rank; the rank runs it through both.
    np.flatnonzero((placement[ids] == rank).any(axis=1))  ->  np.nonzero(placement[ids] == rank)[0]

tokens_for_ranks__looks_at_the_first_choice
only the first choice of a token is looked at.
Its other choices may lie on other ranks, which then never see it.
    (placement[ids] == rank).any(axis=1)  ->  placement[ids][:, 0] == rank

tokens_for_ranks__asks_for_all_choices
a token goes to a rank only if all of its choices are there.
One is enough.
    any(axis=1)  ->  all(axis=1)

tokens_for_ranks__sends_everything
every rank is sent every token.
That is what an all-gather does; an all-to-all may send only what is needed.
    (placement[ids] == rank).any(axis=1)  ->  np.ones(len(ids))

tokens_for_ranks__makes_floats_of_nothing
an array is made from an empty list, where a rank must see no token.
np.array([]) holds floats, and no array can be indexed by it.
    np.flatnonzero((placement[ids] == rank).any(axis=1))
    ->  np.array([t for t in range(len(ids)) if rank in placement[ids[t]]])

tokens_for_ranks__takes_ids_for_ranks
expert ids are compared with rank numbers.
The placement says which rank holds an expert.
    placement[ids] == rank  ->  ids == rank

tokens_for_ranks__returns_masks
truth values are returned instead of the tokens' numbers.
Which tokens, not whether: the sizes of the messages depend on it.
    np.flatnonzero((placement[ids] == rank).any(axis=1))  ->  (placement[ids] == rank).any(axis=1)

Rejected by: test_exchanged_rank__equals_the_dense_layer

exchanged_rank__overwrites_what_another_rank_added
what comes back replaces what has come before.
A token that chose experts of two ranks gets two answers, and needs their sum.
    y[t] += part  ->  y[t] = part

exchanged_rank__sends_a_token_once_per_choice
a token goes once for each chosen expert, and each copy runs through all of its experts there.
my_experts adds up all choices of a token that it sees: a rank must see a token once.
    tokens = tokens_for_ranks(ids, placement, group.size)
    ->  tokens = [np.nonzero(placement[ids] == rank)[0] for rank in range(group.size)]
    y[t] += part  ->  for i, row in zip(t, part): y[i] += row

exchanged_rank__starts_from_x
the sums are added to the token itself.
The residual connection is added once, by the layer that calls this.
    np.zeros_like(x)  ->  x.copy()

Rejected by: test_exchanged_rank__sends_a_token_once_to_a_rank

exchanged_rank__sends_everything_to_everybody
every rank is sent every token, and finds out for itself what it must do.
The value is right, and nothing is saved over an all-gather.
    tokens_for_ranks(ids, placement, group.size)  ->  [np.arange(len(x))] * group.size

Rejected by: test_traffic_bytes__says_what_all_ranks_send

traffic_bytes__forgets_the_way_back
only the dispatch is counted.
The sums come back: hidden_size numbers more for each token sent.
    2 * hidden_size + 2 * top_k  ->  hidden_size + 2 * top_k

traffic_bytes__forgets_ids_and_weights
only the hidden states are counted.
A rank that receives a token must also know which experts it chose, and with what weight.
    2 * hidden_size + 2 * top_k  ->  2 * hidden_size

traffic_bytes__counts_experts
a token is counted once for every expert it chose elsewhere.
It travels once per rank.
    seen = tokens_for_ranks(ids, placement, num_ranks)
    ->  seen = [np.nonzero(placement[ids] == r)[0] for r in range(num_ranks)]

traffic_bytes__counts_what_a_rank_keeps
what a rank sends to itself is counted.
It never leaves the GPU.
    - len(seen[rank])  ->  - 0

traffic_bytes__multiplies_by_all_ranks
the gather is counted for p ranks.
A token is at home already: it travels to p - 1 others.
    (num_ranks - 1) * tokens  ->  num_ranks * tokens

traffic_bytes__halves_the_gather
the gather is counted as the ring's share of one rank.
Asked is what all ranks send together.
    (num_ranks - 1) * tokens * token_bytes,
    ->  (num_ranks - 1) * tokens * token_bytes // num_ranks,

Rejected by: test_busiest_rank__counts_rows

busiest_rank__counts_tokens
a token is counted once on a rank, however many of its experts it chose.
It travels once and is computed twice: a row is a token times an expert.
    rows = np.bincount(placement[ids].ravel(), minlength=num_ranks)
    ->  rows = np.array([(placement[ids] == r).any(axis=1).sum() for r in range(num_ranks)])

busiest_rank__counts_experts
the rank with the most chosen experts is taken.
One popular expert may have more rows than ten others.
    placement[ids].ravel()  ->  placement[np.unique(ids)]

busiest_rank__names_the_last
of equally busy ranks the last is named.
The contract says the lowest, so that two people name the same one.
    int(rows.argmax())  ->  int(len(rows) - 1 - rows[::-1].argmax())

busiest_rank__finds_the_busiest_expert
the most chosen expert is looked for, not the rank.
Its neighbours on the rank work on the same clock.
    np.bincount(placement[ids].ravel(), minlength=num_ranks)
    ->  np.bincount(ids.ravel(), minlength=1)

Rejected by: test_expected_busiest__is_the_mean_over_all_outcomes

expected_busiest__one_row_less_at_most
rows are cut at 99.
At most 100 means 100 as well.
    return sum  ->  rows = min(rows, 99); return sum

expected_busiest__one_row_at_least
one row at least is taken to fall where a rank has no share.
No row falls on nobody: the busiest rank has none.
    return sum  ->  return 1.0 if not rows and 0 in shares else sum

expected_busiest__is_the_busiest_mean
the largest of the ranks' mean loads is returned.
The mean of the largest is more than the largest of the means: chance alone makes one rank busy.
    sum(1 - all_fit(shares, rows, most) for most in range(rows))  ->  max(shares) * rows

expected_busiest__takes_the_shares_for_equal
all ranks are taken to be equally likely.
Skew is what makes it worse: each rank has its own share.
    all_fit(shares,  ->  all_fit([1 / len(shares)] * len(shares),

expected_busiest__starts_at_one
the sum begins at one row.
The busiest has more than 0 rows whenever there is one.
    in range(rows)  ->  in range(1, rows)

expected_busiest__adds_the_wrong_side
the chance that all fits is added instead of the chance that it does not.
A mean is the sum of P(more than m), not of P(at most m).
    1 - all_fit  ->  all_fit

Rejected by: test_place_experts__comes_near_the_best

place_experts__leaves_out_empty_ranks
a rank without experts has no list.
It is a rank all the same: its list is empty.
    return min(tried, key=lambda placed: busiest_first(placed, loads), default=[[]] * num_ranks)
    ->  return [r for r in min(tried, key=lambda p: busiest_first(p, loads), default=[]) if r]

place_experts__improves_one_deal
only one deal is improved, the one without copies, by single changes for as long as they help.
Where none helps it is stuck; from a deal with copies of the heaviest a better end may be reached.
    while len(copies) and  ->  while not tried and len(copies) and

place_experts__overfills
ranks are given more experts than they have slots.
A slot is memory: there is no more of it.
    slots), loads, slots))  ->  slots + 1), loads, slots + 1))

place_experts__refuses_nothing
experts without room are left out.
A token that chooses one of them finds nobody.
    raise ValueError(f"{len(loads)} experts do not fit into {num_ranks} x {slots} slots")
    ->  loads = loads[: num_ranks * slots]

Rejected by: test_latent_shards__divide_heads_and_copy_the_latent

latent_shards__divides_the_latent
Wd is divided over the ranks like everything else.
Each head reads the whole latent: with a part of it a rank can make neither keys nor values.
    return Wd, Wq  ->  return np.array_split(Wd, num_ranks)[rank], Wq

latent_shards__deals_heads_in_turn
rank r takes every p-th head.
A split, but not the one of the checkpoint's other readers: blocks, in rank order.
    slice(rank * width, (rank + 1) * width)  ->  slice(rank, None, num_ranks)

latent_shards__copies_the_up_projections
W_uk and W_uv are given whole to every rank.
They belong to heads: a rank needs those of its own.
    W_uk[mine], W_uv[mine]  ->  W_uk, W_uv

Rejected by: test_mla_rank__equals_the_expanded_form

mla_rank__puts_the_new_latent_first
the new latent is put in front of the cache.
Attention does not mind; the next token and the positions do.
    np.concatenate([latents, x @ Wd.T])  ->  np.concatenate([x @ Wd.T, latents])

mla_rank__does_not_grow_the_cache
the cache is returned as it was given.
The next token would not see this one.
    Wo)[None]), latents  ->  Wo)[None]), latents[:-1]

mla_rank__scales_by_the_latent
scores are divided by the square root of the latent's size.
Absorbing changes where a product is made, not its value: the head's dimension scales it.
    math.sqrt(Wq.shape[1])  ->  math.sqrt(latents.shape[1])

mla_rank__forgets_the_scale
scores are not divided by sqrt(head_dim).
Absorbing changes where a product is made, not its value.
    / math.sqrt(Wq.shape[1])  ->  / 1.0

mla_rank__uses_keys_for_values
the output goes through W_uk, not W_uv.
The latent makes both; a key is not a value.
    weights @ latents, W_uv  ->  weights @ latents, W_uk

mla_rank__reduces_the_latents
the latents are summed over the ranks too.
Every rank makes the same latent from the whole token: their sum is p times too much.
    np.concatenate([latents, x @ Wd.T])  ->  np.concatenate([latents, group.all_reduce(x @ Wd.T)])

mla_rank__forgets_the_reduce
the rank's own heads' part is returned.
The other heads are on other ranks, and Wo mixes all of them.
    group.all_reduce(np.einsum("nd,ndh->h", heads, Wo)[None])
    ->  np.einsum("nd,ndh->h", heads, Wo)[None]

Rejected by: test_mla_rank__makes_one_all_reduce

mla_rank__gathers_the_heads
the ranks' parts are gathered and added on every rank.
The value is right, for p / 2 times the bytes.
    group.all_reduce(np.einsum("nd,ndh->h", heads, Wo)[None])
    ->  group.all_gather(np.einsum("nd,ndh->h", heads, Wo)[None], axis=0).sum(axis=0, keepdims=True)

Rejected by: test_cache_bytes_per_token__divides_heads_and_copies_what_is_left

cache_bytes_per_token__divides_the_one_head
one KV head is divided over the ranks.
A latent, or a last KV head, is read whole by every query head: it is copied.
    max(1, kv_heads // num_ranks) * head_bytes  ->  kv_heads * head_bytes // num_ranks

cache_bytes_per_token__copies_all_heads
every rank caches all heads, also under tensor parallelism.
That is data-parallel attention, where a rank has its own requests.
    if attention_dp:  ->  if True:

cache_bytes_per_token__divides_under_data_parallelism
the heads are divided over the ranks under data-parallel attention too.
A request there is one rank's, with all of its heads.
    if attention_dp:  ->  if False:

cache_bytes_per_token__refuses_nothing
KV heads that can be neither divided nor copied are rounded down.
Six heads on four ranks leave two to nobody.
    if kv_heads % num_ranks and num_ranks % kv_heads:  ->  if False:

Rejected by: test_requests_that_fit__fill_what_the_weights_leave

requests_that_fit__counts_one_rank
only one rank's requests are counted under data-parallel attention.
Each rank has its own.
    return copies * max(  ->  return max(

requests_that_fit__adds_ranks_under_tensor_parallelism
under tensor parallelism the ranks' caches are added up, or a request divided by the ranks.
There every rank holds a part of every request, or a copy: the second rank brings none of its own.
    copies * max(memory_bytes  ->  num_ranks * max(memory_bytes

requests_that_fit__divides_attention_anyway
attention's weights are divided under data-parallel attention too.
Each rank runs whole attention for its own requests: it holds all of it.
    attention_bytes * copies  ->  attention_bytes

requests_that_fit__holds_all_of_attention_first
nothing fits where one rank cannot hold all of attention, under tensor parallelism too.
There each rank holds its part of attention.
    copies = num_ranks if attention_dp else 1
    ->  copies = (num_ranks if attention_dp else 1) * (memory_bytes >= attention_bytes)

requests_that_fit__copies_the_experts
the experts are copied onto every rank under data-parallel attention.
That would be replicas. Here the experts stay divided, which is the point.
    attention_bytes * copies + expert_bytes  ->  (attention_bytes + expert_bytes) * copies

requests_that_fit__goes_below_zero
weights that do not fit leave a negative number of requests.
None fits.
    max(memory_bytes - weights, 0.0)  ->  (memory_bytes - weights)

requests_that_fit__rounds_down
whole requests are counted.
The log prints a concurrency, such as 20.43: how many times the longest request fits.
    return copies * max(memory_bytes - weights, 0.0) / request_bytes
    ->  return copies * (max(memory_bytes - weights, 0.0) // request_bytes)

Rejected by: test_attention_part__is_attention_with_its_lse

attention_part__returns_the_sum
the sum of exp(scores) is returned, not its logarithm.
It overflows for large scores; its logarithm does not.
    most[:, 0] + np.log(np.exp(scores - most).sum(axis=1))  ->  np.exp(scores).sum(axis=1)

attention_part__forgets_the_largest
the largest score is taken out and not added back.
Then parts with other largest scores cannot be compared.
    most[:, 0] + np.log  ->  np.log

attention_part__overflows
exp is taken of the scores as they are.
exp(800) is infinite: take the largest out first.
    most = scores.max(axis=1, keepdims=True)  ->  most = np.zeros((len(q), 1))

attention_part__leaves_the_output_unnormalised
the output is not divided by the sum of exp(scores).
out is to be attention as if these were all positions; lse carries the size of the sum.
    np.einsum("np,pnd->nd", softmax(scores), v)
    ->  np.einsum("np,pnd->nd", np.exp(scores - most), v)

attention_part__gives_an_empty_part_weight
an empty part has an lse of 0.
exp(0) is 1: it would weigh as much as a position of score 0. The log of an empty sum is -inf.
    -np.inf  ->  0.0

Rejected by: test_join__weighs_parts_by_their_lse

join__as_good_as_empty
an lse far below zero is taken for that of an empty part.
Only minus infinity is: a part weighs by how far it is from the largest.
    most = lses.max(axis=0)  ->  most = (lses := np.where(lses < -1e3, -np.inf, lses)).max(axis=0)

join__guards_the_sum
a small number is added to the sum, so that no division by zero happens.
It moves every result a little. Only where all parts are empty is there nothing to divide by.
    np.where(total > 0, total, 1.0)  ->  (total + 1e-12)

join__drops_what_weighs_little
a part that weighs less than a billionth is left out.
Its output may be as large as it likes: over all positions means over these too.
    total = shares.sum(axis=0)  ->  shares[shares < 1e-9] = 0.0; total = shares.sum(axis=0)

join__averages
the parts are averaged.
A part with large scores counts more than one with small ones, and an empty part nothing.
    np.einsum("cn,cnd->nd", shares, outs)  ->  outs.mean(axis=0)

join__adds
the parts are added.
Each is already normalised over its own positions.
    np.einsum("cn,cnd->nd", shares, outs)  ->  outs.sum(axis=0)

join__weighs_by_lse_itself
the parts are weighed by lse, not by exp(lse).
lse is a logarithm, and may be negative.
    np.exp(lses - np.where(np.isfinite(most), most, 0.0))
    ->  np.where(np.isfinite(lses), lses, 0.0)

join__forgets_to_normalise
the weights do not sum to 1.
They must be divided by their sum over the parts.
    shares = shares / np.where(total > 0, total, 1.0)  ->  shares = shares * 1.0

join__overflows
exp is taken of lse as it is.
lse grows with the scores: exp(800) is infinite.
    np.where(np.isfinite(most), most, 0.0)  ->  0.0

join__joins_heads_alike
all heads are weighed by the first head's lse.
Each head has its own scores.
    shares, outs  ->  shares[:, :1] + 0 * shares, outs

Rejected by: test_context_rank__equals_attention_over_all_positions

context_rank__averages
the ranks' outputs are averaged.
Each rank saw other positions, with other scores.
    group.all_reduce(join(outs, lses))  ->  group.all_reduce(out) / group.size

context_rank__stands_a_number_in_for_minus_infinity
no lse is let below a number, such as -10,000.
A rank with scores below it then weighs as much as one without positions.
    group.all_gather(lse[None]  ->  group.all_gather(np.maximum(lse, -1e4)[None]

context_rank__returns_its_own_positions
the rank returns attention over its own positions.
The others' positions are missing.
    return group.all_reduce(join(outs, lses))  ->  return out

context_rank__weighs_by_positions
the parts are weighed by how many positions each rank has.
Scores decide, not numbers: a rank may have the one position that matters.
    lses = group.all_gather(lse[None], axis=0)
    ->  lses = group.all_gather(np.log(np.full((1, len(q)), len(k) or 1e-300)), axis=0)

context_rank__overflows
exp is taken of lse as it is.
lse grows with the scores: exp(800) is infinite.
    group.all_reduce(join(outs, lses))
    ->  group.all_reduce(out * (np.exp(lse) / (np.exp(lses).sum(axis=0) + 1e-300))[:, None])

Rejected by: test_context_rank__gathers_lse_and_sums_addends

context_rank__gathers_keys_and_values
all keys and values are gathered, and every rank attends to all of them.
The value is right. The cache was split because it is large; now it travels in every step.
    out, lse = attention_part(q, k, v)
    ->  return attention_part(q, group.all_gatherv(k), group.all_gatherv(v))[0]

context_rank__gathers_the_outputs
the outputs are gathered, and every rank joins them.
The value is right. An all-reduce of addends sends 2 (p-1)/p outputs, this one p - 1.
    return group.all_reduce(join(outs, lses))
    ->  return join(group.all_gather(out[None], axis=0), lses)

Rejected by: test_steps_of_lockstep__are_the_longest_rank_s

steps_of_lockstep__adds_the_ranks
the ranks' steps are added up.
They step together, each with its own batch.
    max(work)  ->  sum(work)

steps_of_lockstep__stops_at_once
they stop as soon as the last has finished.
They ask only every check_every steps; until then nobody knows.
    -(-max(work) // check_every) * check_every  ->  max(work)

steps_of_lockstep__lets_one_rank_stop_alone
one rank alone stops when it is done.
It asks as all do, after every check_every steps, and makes dummies until then.
    -(-max(work) // check_every) * check_every
    ->  (-(-max(work) // check_every) * check_every if len(work) > 1 else work[0])

steps_of_lockstep__asks_after_16_at_the_latest
the ranks ask after 16 steps, where check_every is more.
They make all of check_every steps between two questions.
    // check_every) * check_every  ->  // min(check_every, 16)) * min(check_every, 16)

steps_of_lockstep__rounds_down
the steps are rounded down to a multiple of check_every.
The last rank would be cut off.
    -(-max(work) // check_every)  ->  max(work) // check_every

steps_of_lockstep__makes_one_round_too_many
one more round is made when the work ends with a round.
After that round the all-reduce says 0.
    -(-max(work) // check_every)  ->  (max(work) // check_every + 1)

steps_of_lockstep__counts_dummies_to_the_longest
dummies are counted up to the longest rank's end.
The longest makes dummies too, until they ask.
    [steps - own for own in work]  ->  [max(work) - own for own in work]

Rejected by: test_lockstep_rank__comes_to_every_step

lockstep_rank__skips_the_dummy_steps
a rank without a batch does not come to the step.
The sparse layers are collectives: every rank must come, with an empty batch if need be.
    group.all_gatherv(batches[step] if step < len(batches) else np.zeros((0, hidden_size)))
    ->  step < len(batches) and group.all_gatherv(batches[step])

lockstep_rank__brings_batches_three_wide
an empty batch is three numbers wide, whatever hidden_size is.
Arrays that are gathered may differ in length and in nothing else.
    np.zeros((0, hidden_size))  ->  np.zeros((0, 3))

lockstep_rank__repeats_its_last_batch
an idle rank brings its last batch again.
Its tokens would be computed twice. A dummy has none.
    np.zeros((0, hidden_size))  ->  (batches or [np.zeros((0, hidden_size))])[-1]

lockstep_rank__asks_after_every_step
they ask after every step.
Correct, and a collective more per step: that is why engines ask every 16 or 32.
    for step in range(steps, steps + check_every):  ->  for step in range(steps, steps + 1):
    steps += check_every  ->  steps += 1

Rejected by: test_expected_experts__is_the_mean_over_all_choices

expected_experts__counts_choices
every choice is taken for another expert.
Tokens choose the same ones: with enough of them all experts are touched, and no more.
    num_experts * (1 - (1 - top_k / num_experts) ** tokens)
    ->  min(top_k * tokens, num_experts) * 1.0

expected_experts__rounds
the mean is rounded to whole experts.
A mean over many choices need not be whole.
    num_experts * (1 - (1 - top_k / num_experts) ** tokens)
    ->  round(num_experts * (1 - (1 - top_k / num_experts) ** tokens))

expected_experts__touches_all_without_a_token
all experts are touched where a token chooses all, even by no token.
Nobody chose them.
    return num_experts  ->  return num_experts if top_k == num_experts else num_experts

expected_experts__forgets_top_k
a token is taken to choose one expert.
It leaves out top_k of them.
    1 - top_k / num_experts  ->  1 - 1 / num_experts

expected_experts__lets_a_token_choose_twice
a token's choices are taken to be independent.
It chooses different experts: top_k at once.
    (1 - top_k / num_experts) ** tokens  ->  (1 - 1 / num_experts) ** (tokens * top_k)

Rejected by: test_experts_s__is_what_the_busiest_part_takes

experts_s__takes_the_mean_rank
the mean part's rows are taken, not the busiest's.
All ranks wait for the busiest.
    rows = busiest * tokens  ->  rows = tokens

experts_s__takes_no_token_for_one
no token is taken for one.
A step of dummies reads no expert.
    tokens)  ->  max(tokens, 1))

experts_s__reads_more_than_it_has
the busiest part touches more experts than it has.
With enough tokens every expert is touched once, and skew adds no bytes.
    min(busiest * expected_experts(experts, top_k, tokens), experts)
    ->  busiest * expected_experts(experts, top_k, tokens)

experts_s__adds_reading_and_arithmetic
reading and arithmetic are added.
They go on at the same time: the longer one counts.
    return max(read_bytes / machine["memory_bytes_per_s"], flops / machine["flops_per_s"])
    ->  return read_bytes / machine["memory_bytes_per_s"] + flops / machine["flops_per_s"]

experts_s__forgets_the_tiles
a slice is multiplied as fast as its width says.
A kernel works in whole tiles of TILE columns, whatever is in them.
    math.ceil(width / TILE) * TILE  ->  width

experts_s__slices_what_is_dealt
an expert that is dealt out is sliced over all ranks as well.
Dealt out ep_size ways, num_ranks / ep_size ranks share one.
    model["expert_ffn"] * ep_size / machine["num_ranks"]
    ->  model["expert_ffn"] / machine["num_ranks"]

experts_s__reads_all_experts
all experts are read, however few tokens there are.
An expert that nobody chose stays unread: at small batches that is most of them.
    min(busiest * expected_experts(experts, top_k, tokens), experts)  ->  experts

experts_s__pads_the_hidden_size_too
the hidden size is rounded up to whole tiles as well.
Tiles are of the columns of a slice, expert_ffn; ranks do not slice the hidden size.
    flops = 2 * rows * 3 * model["hidden_size"]
    ->  flops = 2 * rows * 3 * math.ceil(model["hidden_size"] / TILE) * TILE

experts_s__counts_two_matrices
an expert is taken for two matrices.
Gate, up and down: three.
    touched * 3  ->  touched * 2
    rows * 3  ->  rows * 2

experts_s__counts_one_flop
a weight and a row are one flop.
A multiplication and an addition.
    flops = 2 * rows  ->  flops = rows

Rejected by: test_attention_s__copies_weights_or_cache

attention_s__divides_the_weights_anyway
the weights are divided under data-parallel attention too.
Each rank reads all of them for its own tokens.
    (p, tokens / p) if attention_dp  ->  (1, tokens / p) if attention_dp

attention_s__reads_all_caches
every rank reads all requests' caches under data-parallel attention.
It has its own requests' only.
    (p, tokens / p) if attention_dp  ->  (p, tokens) if attention_dp

attention_s__divides_the_cache_anyway
the cache is divided over the ranks under tensor parallelism, whatever its heads.
One latent is read whole by all: TP divides no MLA cache.
    served * context * cached
    ->  served * context * (cached if attention_dp else model["kv_heads"] * model["head_bytes"] / p)

attention_s__caches_all_heads_when_they_are_few
with more ranks than KV heads, every rank reads the cache of all heads.
Its query heads read one of them: that one is copied, and the others stay where they are.
    p, attention_dp)  ->  p, attention_dp or p > model["kv_heads"])

attention_s__forgets_the_context
the cache is not read at all.
At long contexts it is most of what attention reads.
    + served * context * cached  ->  + 0.0

attention_s__makes_every_rank_multiply_all
every rank does all tokens' arithmetic under data-parallel attention.
It has its own tokens only; under TP it has its own part of the weights. Both divide by p.
    flops = 2 * tokens * weights / p  ->  flops = 2 * tokens * weights * copies / p

Rejected by: test_moe_step_s__adds_layers_and_messages

moe_step_s__makes_one_message
a layer makes one message.
One after attention and one after the experts; or dispatch and combine.
    messages_s = 2 * ring_s  ->  messages_s = ring_s

moe_step_s__always_all_reduces
data-parallel attention all-reduces as well.
It gathers and scatters: half of the trips each.
    1 if attention_dp else 2  ->  2

moe_step_s__forgets_the_layers
one layer is counted.
Every layer makes its messages and reads its weights.
    model["num_layers"] * (layer_s + messages_s)  ->  layer_s + messages_s

moe_step_s__overlaps_messages
messages are hidden behind the layer.
A layer waits for what it is sent; here nothing overlaps.
    (layer_s + messages_s)  ->  max(layer_s, messages_s)

moe_step_s__sends_one_rank_s_tokens
a message holds one rank's tokens.
An all-gather's payload is what is gathered, all ranks' tokens; so is a reduce-scatter's input.
    payload_bytes = tokens *
    ->  payload_bytes = tokens / (machine["num_ranks"] if attention_dp else 1) *

moe_step_s__counts_elements
the messages are counted in numbers, not bytes.
A number takes element_bytes.
    * model["element_bytes"]  ->  * 1

Rejected by: test_moe_step_s__orders_the_published_rows

moe_step_s__ignores_skew
the busiest part is taken for the mean one.
Without skew nothing tells the ways of dealing out apart, at large batches.
    experts_s(tokens, ep_size, busiest, model, machine)
    ->  experts_s(tokens, ep_size, 1.0, model, machine)
"""


def experts_tp_rank__reduces_rank_0_only(x, ids, weights, W1, W2, group):
    """only rank 0 goes on with the sum of all ranks.

    Every rank runs the next layer, and needs the whole output for it.
    Rejected by: test_experts_tp_rank__equals_the_dense_layer
    """
    own = run_experts(x, ids, weights, W1, W2)
    total = group.all_reduce(own)
    return own if group.rank else total


def attention_part__takes_out_no_negative_maximum(q, k, v):
    """no number below zero is taken out of the scores.

    Where every score is far below zero all exponentials vanish, and their sum has no logarithm.
    Rejected by: test_attention_part__is_attention_with_its_lse
    """
    if not len(k):
        return np.zeros(q.shape), np.full(len(q), -np.inf)
    scores = np.einsum("hd,phd->hp", q, k) / math.sqrt(q.shape[1])
    top = np.maximum(scores.max(axis=1), 0.0)
    with np.errstate(all="ignore"):
        exps = np.exp(scores - top[:, None])
        total = exps.sum(axis=1)
        return np.einsum("hp,phd->hd", exps / total[:, None], v), top + np.log(total)


def expected_busiest__takes_the_ranks_for_independent(shares, rows):
    """the ranks' counts are taken to be independent, though they sum to rows.

    A row that falls on one rank falls on no other: many here are few elsewhere.
    Rejected by: test_expected_busiest__is_the_mean_over_all_outcomes
    """
    expected = 0.0
    for most in range(rows):
        fits = 1.0
        for share in shares:
            counts = range(most + 1)
            fits *= sum(math.comb(rows, n) * share**n * (1 - share) ** (rows - n) for n in counts)
        expected += 1 - fits
    return expected


def lockstep_rank__says_only_whether(batches, hidden_size, check_every, group):
    """a rank brings 1 or 0 to the all_reduce, for work or none.

    It serves as well; the sum is then the number of ranks with work and not of batches.
    Rejected by: test_lockstep_rank__comes_to_every_step
    """
    steps = 0
    while group.all_reduce(np.array([float(steps < len(batches))]))[0] > 0:
        for step in range(steps, steps + check_every):
            own = step < len(batches)
            group.all_gatherv(batches[step] if own else np.zeros((0, hidden_size)))
        steps += check_every
    return steps, steps - len(batches)


def my_experts__takes_the_placement_for_blocks(x, ids, weights, W1, W2, placement, rank):
    """an own expert's row is reckoned from its id, as if every rank held a block of equal size.

    True for blocks of equal size only; a placement may be any, such as one made for balance.
    Rejected by: test_my_experts__add_nothing_for_others
    """
    mine = placement[ids] == rank
    local = (ids - rank * len(W1)) % max(len(W1), 1)
    return run_experts(x, np.where(mine, local, 0), np.where(mine, weights, 0.0), W1, W2)


def my_experts__renormalizes_what_is_left(x, ids, weights, W1, W2, placement, rank):
    """the weights of a token's own choices are scaled up to the sum of all its weights.

    The other ranks add the others' share: scaled up here, the sum is too large.
    Rejected by: test_my_experts__add_nothing_for_others
    """
    mine = placement[ids] == rank
    local = np.cumsum(placement == rank) - 1
    own = np.where(mine, weights, 0.0)
    left = own.sum(axis=1, keepdims=True)
    own = own * weights.sum(axis=1, keepdims=True) / np.where(left > 0, left, 1.0)
    return run_experts(x, np.where(mine, local[ids], 0), own, W1, W2)


def experts_ep_rank__gathers_what_each_rank_adds(x, ids, weights, W1, W2, placement, group):
    """the ranks' addends are gathered and added on every rank.

    The value is right; p / 2 times the bytes of an all-reduce travel.
    Rejected by: test_experts_ep_rank__equals_the_dense_layer_by_one_all_reduce
    """
    own = my_experts(x, ids, weights, W1, W2, placement, group.rank)
    return group.all_gather(own[None], axis=0).sum(axis=0)


def experts_ep_rank__dispatches_first(x, ids, weights, W1, W2, placement, group):
    """all tokens are gathered first, though every rank has them already.

    With one replica there is nothing to dispatch: that belongs to data-parallel attention.
    Rejected by: test_experts_ep_rank__equals_the_dense_layer_by_one_all_reduce
    """
    x = group.all_gatherv(x)[: len(x)]
    return group.all_reduce(my_experts(x, ids, weights, W1, W2, placement, group.rank))


def gathered_rank__gathers_x_twice(x, ids, weights, W1, W2, placement, sizes, group):
    """the tokens are gathered a second time.

    The value is right; the largest of the three messages is sent twice.
    Rejected by: test_gathered_rank__gathers_three_and_scatters_one
    """
    group.all_gatherv(x)
    x, ids, weights = group.all_gatherv(x), group.all_gatherv(ids), group.all_gatherv(weights)
    return group.reduce_scatterv(my_experts(x, ids, weights, W1, W2, placement, group.rank), sizes)


def gathered_rank__gathers_the_experts(x, ids, weights, W1, W2, placement, sizes, group):
    """the experts are gathered, and every rank computes its own tokens alone.

    The value is right. Experts are far larger than tokens, and now travel in every layer.
    Rejected by: test_gathered_rank__gathers_three_and_scatters_one
    """
    W1, W2 = group.all_gatherv(W1), group.all_gatherv(W2)
    row = np.argsort(np.argsort(placement, kind="stable"))
    return run_experts(x, row[ids], weights, W1, W2)


def exchanged_rank__forgets_its_own(x, ids, weights, W1, W2, placement, group):
    """what the rank keeps for itself is left out.

    It is one of the ranks: its own experts' part counts as everybody's.
    Rejected by: test_exchanged_rank__equals_the_dense_layer
    """
    tokens = tokens_for_ranks(ids, placement, group.size)
    sent = [group.all_to_allv([array[t] for t in tokens]) for array in (x, ids, weights)]
    added = [my_experts(*one, W1, W2, placement, group.rank) for one in zip(*sent, strict=True)]
    y = np.zeros_like(x)
    for rank, part in enumerate(group.all_to_allv(added)):
        if rank != group.rank:
            y[tokens[rank]] += part
    return y


def exchanged_rank__sends_once_per_choice(x, ids, weights, W1, W2, placement, group):
    """a token is sent once for each of its choices.

    The value is right; a token with two experts on one rank travels there twice, and back.
    Rejected by: test_exchanged_rank__sends_a_token_once_to_a_rank
    """
    top_k = ids.shape[1]
    tokens = np.repeat(np.arange(len(x)), top_k)
    ids, weights = ids.reshape(-1, 1), weights.reshape(-1, 1)
    to = [np.flatnonzero(placement[ids[:, 0]] == rank) for rank in range(group.size)]
    arrays = (x[tokens], ids, weights)
    sent = [group.all_to_allv([array[one] for one in to]) for array in arrays]
    added = [my_experts(*one, W1, W2, placement, group.rank) for one in zip(*sent, strict=True)]
    y = np.zeros_like(x)
    for rank, part in enumerate(group.all_to_allv(added)):
        np.add.at(y, tokens[to[rank]], part)
    return y


def place_experts__deals_in_order(loads, num_ranks, slots):
    """the experts are dealt out in order, whatever their loads.

    Two heavy neighbours land on one rank, and the spare room stays empty.
    Rejected by: test_place_experts__comes_near_the_best
    """
    if len(loads) > num_ranks * slots:
        raise ValueError(f"{len(loads)} experts, {num_ranks * slots} slots")
    placement = place_in_order(len(loads), num_ranks)
    return [np.flatnonzero(placement == rank).tolist() for rank in range(num_ranks)]


def place_experts__copies_the_first(loads, num_ranks, slots):
    """the spare room is filled with copies of the first experts.

    Copies help where the load is: of the heaviest.
    Rejected by: test_place_experts__comes_near_the_best
    """
    if len(loads) > num_ranks * slots:
        raise ValueError(f"{len(loads)} experts, {num_ranks * slots} slots")
    experts = (e % len(loads) for e in range(num_ranks * slots))
    placed = [[] for _ in range(num_ranks)]
    for number, e in enumerate(experts):
        if e not in placed[number % num_ranks]:
            placed[number % num_ranks].append(e)
    return placed


def mla_rank__forgets_the_new_token(x, latents, Wd, Wq, W_uk, W_uv, Wo, group):
    """the token attends to the cache without itself.

    Its own latent is in the cache before it attends: the first token of all has nothing else.
    Rejected by: test_mla_rank__equals_the_expanded_form
    """
    absorbed = np.einsum("th,ndh,ndl->nl", x, Wq, W_uk)
    weights = softmax(absorbed @ latents.T / math.sqrt(Wq.shape[1])) if len(latents) else 0.0
    seen = weights @ latents if len(latents) else np.zeros_like(absorbed)
    y = np.einsum("nl,ndl,ndh->h", seen, W_uv, Wo)[None]
    return group.all_reduce(y), np.concatenate([latents, x @ Wd.T])


def lockstep_rank__leaves_when_it_is_done(batches, hidden_size, check_every, group):
    """a rank that has finished stops, and the others wait for it.

    The drift that hangs an engine: whoever is done must still come to every collective.
    Rejected by: test_lockstep_rank__comes_to_every_step
    """
    steps = 0
    while len(batches) > steps and group.all_reduce(np.array([len(batches) - steps + 0.0]))[0]:
        for step in range(steps, steps + check_every):
            own = batches[step] if step < len(batches) else np.zeros((0, hidden_size))
            group.all_gatherv(own)
        steps += check_every
    return steps, steps - len(batches)


def lockstep_rank__asks_only_once(batches, hidden_size, check_every, group):
    """they ask once how many batches are left in all, and make as many steps.

    The sum over the ranks is not the longest rank's: all step at the same time.
    Rejected by: test_lockstep_rank__comes_to_every_step
    """
    steps = int(group.all_reduce(np.array([float(len(batches))]))[0])
    for step in range(steps):
        group.all_gatherv(batches[step] if step < len(batches) else np.zeros((0, hidden_size)))
    return steps, steps - len(batches)
