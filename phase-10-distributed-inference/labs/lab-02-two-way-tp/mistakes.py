"""Plausible mistakes of lab 02. See labkit/mistakes/__init__.py for how they are written down."""

EDITS = """
Rejected by: test_rank_shape__splits_each_parameter_its_own_way

rank_shape__takes_the_hidden_size_for_all_heads
a head is hidden_size / num_heads wide.
Models may say head_dim: Qwen3-32B has 64 heads of 128, in a hidden size of 5120.
    model["head_dim"]  ->  (model["hidden_size"] // model["num_heads"])

rank_shape__halves_everything
every parameter is split, norms and row-parallel biases too.
A norm needs the whole hidden vector, and a row-parallel bias is added once to the whole sum.
    if split == "whole":  ->  if False:
    if split == "heads":  ->  if False:

rank_shape__writes_into_the_parameter
the list that was given is changed and returned, instead of a new one.
Whoever describes the next rank with the same parameter splits a share of a share.
    list(parameter["shape"])  ->  parameter["shape"]

rank_shape__forgets_vocabulary_padding
the vocabulary is split without padding it first.
500 rows over 2 ranks are 256 each in memory, not 250.
    shape[0] = padded_vocab(shape[0])  ->  pass

rank_shape__pads_each_share
each rank's share of the vocabulary is padded instead of the whole.
513 rows become 576 and then 288 each; padding after the split would give 320.
    padded_vocab(shape[0])  ->  padded_vocab(-(-shape[0] // tp_size)) * tp_size

rank_shape__swaps_rows_and_columns
rows and columns change places: the input dimension of a column-parallel layer is split.
Weights are [out, in]; "column-parallel" splits the outputs, which are the rows.
    if split == "heads":  ->  if False:
    split == "columns"  ->  split != "columns"

rank_shape__splits_qkv_like_any_rows
the fused q, k, v rows are divided by the ranks, KV heads or not.
With one KV head on four ranks each rank keeps that whole head: more than a quarter of the rows.
    if split == "heads":  ->  if False:

rank_shape__gives_whole_experts_to_ranks
expert weights are divided by expert instead of through each expert.
That is expert parallelism. Tensor parallelism slices the width of every expert.
    dimension = len(shape) - 1 if  ->  dimension = 0 if len(shape) == 3 else len(shape) - 1 if

rank_shape__hands_a_whole_parameter_s_list_on
a parameter that stays whole gives its own list, not a new one.
Whoever changes the rank's shape changes the model's.
    list(parameter["shape"]),
    ->  parameter["shape"] if parameter["split"] == "whole" else [*parameter["shape"]],

Rejected by: test_rank_shape__refuses_what_does_not_divide

rank_shape__copies_query_heads_too
with more ranks than query heads, each rank gets one of them, as KV heads are copied.
A copied KV head is read by other queries; a copied query head would count twice in the sum.
    require(model["num_heads"] % tp_size == 0, f"num_heads={model['num_heads']}: not even")
    ->  require(model["num_heads"] < tp_size or model["num_heads"] % tp_size == 0, "not even")
    model["num_heads"] // tp_size + 2  ->  max(1, model["num_heads"] // tp_size) + 2

rank_shape__rounds_kv_heads_down
KV heads that the ranks do not divide are rounded down where there are more heads than ranks.
6 KV heads on 4 ranks: two of them would belong to nobody.
    kv_heads_per_rank(model["num_kv_heads"], tp_size)
    ->  kv_heads_per_rank(max(1, model["num_kv_heads"] // tp_size) * tp_size, tp_size)

rank_shape__rounds_a_bias_down
a bias that the ranks do not divide is rounded down.
It goes with the rows of its matrix, of which none may be left over.
    require(shape[dimension] % tp_size == 0
    ->  require(len(shape) == 1 or shape[dimension] % tp_size == 0

rank_shape__does_not_check_the_query_heads
only the KV heads are looked at, and query heads that do not divide are rounded down.
12 query heads on 8 ranks: 4 of them would belong to nobody.
    model["num_heads"] % tp_size == 0  ->  True

Rejected by: test_rank_weights__as_live_workers_held_them

rank_weights__counts_tied_embeddings_twice
a tied output matrix is counted beside the embedding whose storage it is.
tie_word_embeddings means one tensor with two names.
    parameters(model)  ->  parameters(model | {"tied": False})

Rejected by: test_rank_weights__as_live_workers_held_them,
    test_rank_weights__as_published_logs_print_them

rank_weights__forgets_the_rope_table
the cos/sin table is forgotten because no checkpoint holds it.
Every rank computes it at start-up and keeps it whole: 32 MiB for Llama-3.1-8B.
    rope_table = model["rope_positions"]  ->  rope_table = 0 * model["rope_positions"]

rank_weights__splits_the_rope_table
the cos/sin table is divided by the ranks.
Each rank rotates its own heads, all of which need the same whole table.
    model["rope_positions"]  ->  model["rope_positions"] // tp_size

Rejected by: test_rank_weights__counts_each_term_on_each_stage

rank_weights__a_tied_embedding_on_every_stage
a tied embedding is held by every stage of a pipeline.
The first stage looks tokens up in it, and the last multiplies by it; those between need none.
    if on_stage(  ->  if parameter["where"] == "both" or on_stage(

rank_weights__divides_the_hidden_size_by_the_heads
the rope table is as wide as hidden_size / num_heads.
A head's width is a number of its own: Qwen3-32B has 5120 / 64 = 80, and a head_dim of 128.
    model["head_dim"]  ->  (model["hidden_size"] // model["num_heads"])

rank_weights__makes_a_row_per_position
the rope table has max_positions rows.
OPT has no such table, and YaRN a longer one: rope_positions counts the rows.
    model["rope_positions"]  ->  model["max_positions"]

rank_weights__rounds_parameters_only
the allocator's rounding is counted for the parameters and not for the rope table.
To the allocator the table is one more request.
    sum(map(allocated_bytes, [*tensors, rope_table]))
    ->  sum(map(allocated_bytes, tensors)) + rope_table

rank_weights__rope_on_the_first_stage_only
only the first pipeline stage holds a rope table.
Every stage has attention layers, and each of them rotates its queries and keys.
    model["rope_positions"]  ->  (pp_rank == 0) * model["rope_positions"]

Rejected by: test_rank_weights__as_published_logs_print_them

rank_weights__ignores_the_allocator
tensors cost what they hold and the allocator's rounding is left out.
From 10 MiB on memory comes in steps of 2 MiB: 17.5 MiB for Llama-2-7B at tp_size=8.
    sum(map(allocated_bytes, [*tensors, rope_table]))  ->  sum([*tensors, rope_table])

rank_weights__rounds_the_sum_once
the allocator's rounding is applied once, to the sum.
Every tensor is a request of its own; 64 layers pay 64 times.
    sum(map(allocated_bytes, [*tensors, rope_table]))
    ->  allocated_bytes(sum([*tensors, rope_table]))

Rejected by: test_kv_bytes_per_token__of_this_rank_and_stage

kv_bytes_per_token__keys_only
only keys are counted.
A token leaves a key and a value in every layer.
    2 * layers  ->  layers

kv_bytes_per_token__query_heads
keys and values are counted for the query heads.
With grouped-query attention only KV heads are cached: a quarter, for Llama-3-8B.
    model["num_kv_heads"]  ->  model["num_heads"]

kv_bytes_per_token__not_sharded
every rank caches all KV heads.
Heads are split, so their cache is: that is why capacity doubles at tp_size=2.
    kv_heads_per_rank(model["num_kv_heads"], tp_size)  ->  model["num_kv_heads"]

kv_bytes_per_token__all_layers
a pipeline stage caches all layers.
A stage caches its own layers; so pipeline parallelism frees as much room as tensor parallelism.
    stage_layers(model["num_layers"], pp_size)[pp_rank]  ->  model["num_layers"]

kv_bytes_per_token__same_layers_on_every_stage
every stage is taken to hold as few layers as the last, which has the fewest.
Five layers on two stages are three and two; the first stage's cache is half as big again.
    stage_layers(model["num_layers"], pp_size)[pp_rank]  ->  model["num_layers"] // pp_size

kv_bytes_per_token__ignores_the_cache_dtype
the cache has the type of the weights, whatever kv_cache_dtype says.
An fp8 cache holds twice the tokens of a bf16 one.
    (kv_dtype_bytes or model["dtype_bytes"])  ->  model["dtype_bytes"]

kv_bytes_per_token__gives_the_first_stage_more
layers that are left over go to the first stages.
vLLM gives them to the stages before the last one: 7 layers on 3 stages are 2, 3 and 2.
    stage_layers(model["num_layers"], pp_size)[pp_rank]
    ->  model["num_layers"] // pp_size + (pp_rank < model["num_layers"] % pp_size)

kv_bytes_per_token__takes_the_hidden_size_for_all_heads
a head is hidden_size / num_heads wide.
Models may say head_dim: Qwen3-32B has 64 heads of 128, in a hidden size of 5120.
    model["head_dim"]  ->  (model["hidden_size"] // model["num_heads"])

Rejected by: test_kv_capacity__as_each_version_counts_it

kv_capacity__counts_no_blocks
tokens are the memory divided by a token's bytes, blocks or not.
Memory is handed out in whole blocks; what is left over holds nothing.
    blocks * block_size  ->  int(kv_memory_bytes // bytes_per_token)
    version_numbers(version)  ->  (0, 9, 0)

kv_capacity__rounds_the_memory
the memory is rounded to whole bytes first.
A block that is not whole holds nothing, however little is missing.
    int(kv_memory_bytes  ->  int(round(kv_memory_bytes)

kv_capacity__same_for_every_version
concurrency is tokens by the longest request in every version.
From 0.9.1 a request counts as whole blocks, from 0.20.1 the tokens follow from that.
    version_numbers(version)  ->  (0, 9, 0)

kv_capacity__nothing_for_part_of_a_request
a cache that is smaller than one request holds none of it.
Two blocks of the three that a request takes are a concurrency of 2/3; the log says so.
    return {"blocks"  ->  concurrency *= concurrency >= 1; return {"blocks"

kv_capacity__compares_versions_as_text
versions are compared as text, so that 0.20 comes before 0.9.
"0.20.1" < "0.9.1" character by character; numbers have to be compared as numbers.
    version_numbers(version) >= (0, 9, 1)  ->  version >= "0.9.1"
    version_numbers(version) >= (0, 20, 1)  ->  version >= "0.20.1"

kv_capacity__ignores_the_major_version
the major version is left out.
1.5.2 comes after 0.20.1: versions compare number by number, the major one first.
    version_numbers(version)  ->  (0, *version_numbers(version)[1:])

Rejected by: test_kv_capacity__refuses_sizes_that_are_not_positive

kv_capacity__looks_at_the_product
only the product of the sizes is looked at.
Two below zero make it positive: each size is to be above zero.
    min(sizes) > 0  ->  math.prod(sizes) > 0

Rejected by: test_tp_sizes_of_cache__reads_the_split_off_a_log

tp_sizes_of_cache__names_the_first_only
the first size that fits is taken for the only one.
Beyond the number of KV heads every size gives the same cache: the log cannot tell them apart.
    return found  ->  return found[:1]

tp_sizes_of_cache__stops_at_the_first_miss
the sizes that fit are taken to stand together, and those after a miss are left out.
tp_sizes may come in any order: 16 and 8 ranks can explain a cache that 2 between them do not.
    return found
    ->  return [t for n, t in enumerate(found) if tp_sizes.index(t) == tp_sizes.index(found[0]) + n]

tp_sizes_of_cache__divides_whole_tokens_by_the_ranks
a KV head that several ranks hold is taken for none, or for a part of one on each rank.
A KV head is never cut: one KV head takes the same room on every rank.
    kv_bytes_per_token(model, tp_size)  ->  kv_bytes_per_token(model, 1) * tp_size

tp_sizes_of_cache__looks_at_kv_heads_only
a size is taken for possible as soon as the KV heads divide.
12 heads over 8 ranks are no split, although 4 KV heads may be held by two ranks each.
    if model["num_heads"] % tp_size:  ->  if False:

tp_sizes_of_cache__takes_whatever_has_room
every size whose memory has room for these tokens is named.
A checksum must come out: half of the tokens that would fit are no sign of this split.
    abs(cached_tokens - expected) <= 0.05 * expected  ->  cached_tokens <= 1.05 * expected

Rejected by: test_which_split__finds_the_split_that_was_applied

which_split__first_near_one
the first split within 5% is taken instead of the nearest.
Two stages of Llama-3-8B and two tensor-parallel ranks differ by 0.04%: only the nearest tells.
    (best is None or abs(residual) < abs(best["residual_bytes"]))  ->  best is None

which_split__the_one_asked_for_if_near
the split asked for is taken whenever it is within 5%, though another one is nearer.
It wins where two tie; else the nearest of all candidates' stages does.
    range(pp)
    ->  range(0 if best and best["tp_size"] * best["pp_size"] == tp_size * pp_size else pp)

which_split__tries_half_of_the_ranks
half of the ranks asked for are tried too.
The candidates are what was asked for and 1: other numbers need another reason.
    dict.fromkeys([  ->  dict.fromkeys([(max(1, tp_size // 2), pp_size),

which_split__compares_with_a_sign
residuals are compared with their sign, and a negative one is never beaten.
A pipeline's stage may be heavier than the half that was applied: what is nearest has no sign.
    abs(residual) < abs(best["residual_bytes"])  ->  abs(residual) < best["residual_bytes"]

which_split__explains_everything
the nearest split explains a number that is more than 5% away.
4.1 GiB is no split of this model; a checksum that fits everything checks nothing.
    near = abs(residual) <= 0.05 * expected  ->  near = True

which_split__always_names_stage_0
the stage that explains the weights is reported as stage 0.
Stages differ: [3, 2] layers for five, and the ends hold the embedding or the output matrix.
    "pp_rank": stage  ->  "pp_rank": 0

Rejected by: test_replicas_or_tp__from_memory_bandwidth_and_lockstep

replicas_or_tp__forgets_the_all_reduces
the all-reduces cost nothing.
Half the bytes take half the time, and then 65 all-reduces come on top.
    max(slowdowns) + all_reduces * all_reduce_s  ->  max(slowdowns)

replicas_or_tp__averages_the_ranks
a slow GPU is averaged with the fast one.
Ranks meet at every all-reduce: the slowest one sets the pace of all.
    * max(slowdowns)  ->  * sum(slowdowns) / 2

replicas_or_tp__replicas_wait_for_each_other
replicas go in lockstep too.
Replicas share nothing; the fast one goes on while the slow one is late.
    share / step for  ->  share / max(replica_s) for

replicas_or_tp__larger_share_to_the_second
of an odd number of sequences the second GPU takes one more, or the slowdowns change places.
The first GPU takes it (its share is rounded up); GPUs of different speed show the difference.
    [math.ceil(num_sequences / 2),  ->  [num_sequences // 2,
    num_sequences // 2]  ->  math.ceil(num_sequences / 2)]

replicas_or_tp__the_smaller_share_must_fit
replicas fit although the GPU with the larger share has no room for it and all of total_bytes.
The first GPU holds one sequence more: 17 of 33.
    all(held <= gpu_memory_bytes for _, held in replicas)  ->  replicas[1][1] <= gpu_memory_bytes

replicas_or_tp__neither_of_a_tie
of two plans that tie neither is chosen.
Both fit; a fleet has to run one of them.
    if options[best]["fits"]
    ->  if options["tp"]["tokens_per_s"] != options["replicas"]["tokens_per_s"]

replicas_or_tp__everything_fits
memory is not looked at.
A replica holds all the weights; what is left must hold the cache of its sequences.
    all(held <= gpu_memory_bytes for _, held in replicas)  ->  True
    held <= gpu_memory_bytes,  ->  True,

replicas_or_tp__only_weights_and_cache_must_fit
a GPU holds the parameters and the cache, and nothing else.
The rope table and the allocator's rounding take memory, though no step reads them.
    weights["total_bytes"] + cache  ->  weights["parameters_bytes"] + cache

Rejected by: test_treatment__tells_rows_columns_experts_and_copies

treatment__believes_shares_add_up
parts are taken to add up to the whole without adding them.
Copied KV heads add up to more; a lost part adds up to less.
    if total > size and name == "rows":  ->  if False:
    total == size,  ->  True,

treatment__looks_at_rank_0_only
rank 0's shape is taken for every rank's.
300 and 212 rows are 512; two times 300 are not.
    *rank_shapes, strict  ->  *[rank_shapes[0]] * len(rank_shapes), strict

treatment__takes_copies_for_equal
a parameter is replicated as soon as rank 0 holds all of it.
Rank 1 may hold less: then rows were copied, or something is wrong.
    if not changed:  ->  if list(rank_shapes[0]) == list(full_shape):

treatment__wants_a_part_for_every_rank
a rank without a row, column or expert is taken for a lost one.
Parts need not be equal, and one may be empty: the others then hold the whole.
    if not changed:  ->  if require(0 not in sum(rank_shapes, []), "empty") or not changed:

treatment__counts_dimensions_from_the_front
the first dimension is called rows and the second columns, of experts' weights too.
[experts, out, in]: rows and columns are the last two, and experts stand in front of them.
    ["experts", "rows", "columns"][-len(full_shape) :]
    ->  ["rows", "columns", "columns"][: len(full_shape)]

Rejected by: test_treatment__refuses_what_is_no_split

treatment__ignores_what_is_missing
a dimension that became smaller was split, whether its parts add up or not.
2 x 128 rows are not 512: half of the matrix would be nowhere.
    total == size,  ->  True,

Rejected by: test_collectives_per_step__as_workers_counted_them

collectives_per_step__layers_only
two all-reduces per layer are the whole bill.
The embedding is split by vocabulary, and so are the logits: one all-reduce, one all-gather.
    2 * model["num_layers"] + 1  ->  2 * model["num_layers"]
    "all_gathers": 1  ->  "all_gathers": 0
    num_sequences * padded_vocab  ->  0 * padded_vocab

collectives_per_step__logits_of_every_token
the logits of every prompt token are gathered.
Only the last token of each sequence is sampled from.
    num_sequences * padded_vocab  ->  num_tokens * padded_vocab

collectives_per_step__one_rank_too
one rank alone pays like two.
There is nobody to exchange with: no collective is made at tp_size=1.
    if tp_size == 1:  ->  if False:

collectives_per_step__share_of_the_payload
an all-reduce carries one rank's share of the activation.
Every rank holds a partial sum of the whole activation; the payload does not shrink with ranks.
    model["hidden_size"]  ->  model["hidden_size"] // tp_size

collectives_per_step__takes_the_embedding_s_width
every all-reduce is as wide as the embedding.
OPT-350m's embedding has 512 columns and its layers 1024: project_in stands between.
    model["hidden_size"]  ->  model["embedding_width"]

collectives_per_step__bytes_on_the_wire
the bytes that a ring sends are counted, 2 (p - 1) / p of the payload.
At two ranks that is the payload itself. The bill lists payloads; lab 03 prices them.
    model["hidden_size"]  ->  model["hidden_size"] * 2 * (tp_size - 1) // tp_size

collectives_per_step__bytes_of_float32
every element takes four bytes.
The default is float32; an engine in bfloat16 sends two.
    * element_bytes  ->  * 4

Rejected by: test_all_gather_gemm_schedule__hides_behind_the_gemms

all_gather_gemm_schedule__waits_for_all_chunks_first
every chunk is waited for before the first GEMM.
That is a plain all-gather followed by a GEMM: right, and all of the communication is exposed.
    schedule.append(["gemm", "y", rank])
    ->  schedule += [["wait", "x", peer, peer] for peer in behind] + [["gemm", "y", rank]]
    [["wait", "x", peer, peer], ["gemm", "y", peer]]  ->  [["gemm", "y", peer]]

all_gather_gemm_schedule__starts_with_a_chunk_of_another_rank
one's own chunk, the only one that needs no wait, is multiplied last.
While the first transfer runs nothing is multiplied.
    schedule.append(["gemm", "y", rank])  ->  pass
    return schedule +  ->  return schedule + [["gemm", "y", rank]] +

all_gather_gemm_schedule__multiplies_before_waiting
a chunk is multiplied without waiting for it to arrive.
A data race: on a fast link the numbers are right most of the time.
    ["wait", "x", peer, peer], ["gemm", "y", peer]
    ->  ["gemm", "y", peer], ["wait", "x", peer, peer]

all_gather_gemm_schedule__waits_in_another_order_than_it_multiplies
the chunks are waited for in one order and multiplied in another.
The right number of waits is not enough: each GEMM needs the wait of its own chunk before it.
    for peer in behind:  ->  for peer, other in zip(behind, ahead):
    ["gemm", "y", peer]  ->  ["gemm", "y", other]

all_gather_gemm_schedule__posts_its_receives_after_its_sends
the receives are posted after the sends.
On gloo the two directions of a link then take turns in half of the exchanges, and a send
without a posted receive has nowhere to go.
    schedule = [["post_recv", "x", peer, peer] for peer in behind]
    ->  schedule = [["send", "x", rank, peer] for peer in ahead]
    schedule += [["send", "x", rank, peer] for peer in ahead]
    ->  schedule += [["post_recv", "x", peer, peer] for peer in behind]

all_gather_gemm_schedule__never_waits_for_its_sends
the function returns while its chunk is still being sent.
The caller may free or overwrite the buffer; the others then receive something else.
    return schedule + [["wait_send", "x", rank, peer] for peer in ahead]  ->  return schedule

all_gather_gemm_schedule__everyone_sends_to_rank_0_first
all ranks send in the order 0, 1, 2, ... instead of to the rank t places ahead at step t.
The values are right, but all ranks talk to the same one at the same time and queue there.
    in ahead  ->  in sorted(ahead)
    in behind  ->  in sorted(behind)

all_gather_gemm_schedule__gathers_twice
every chunk is gathered from its owner and again around the ring.
Twice the bytes, and two transfers that write into one buffer.
    in behind]  ->  in behind * 2]
    "send", "x", rank, peer] for peer in ahead  ->  "send", "x", rank, peer] for peer in ahead * 2

all_gather_gemm_schedule__skips_its_own_chunk
a rank multiplies what it receives and forgets the chunk it had.
One block of rows of the result is never written.
    schedule.append(["gemm", "y", rank])  ->  pass

Rejected by: test_gemm_reduce_scatter_schedule__hides_behind_the_gemms

gemm_reduce_scatter_schedule__sends_after_all_gemms
the partial sums leave only when all of them are computed.
A plain GEMM followed by a reduce-scatter: all of the communication is exposed.
    [["gemm", "y", peer], ["send", "y", peer, peer]]  ->  [["gemm", "y", peer]]
    schedule.append(["gemm", "y", rank])
    ->  schedule += [["gemm", "y", rank], *(["send", "y", peer, peer] for peer in ahead)]

gemm_reduce_scatter_schedule__waits_for_each_send_at_once
every send is waited for before the next GEMM.
The transfer and the next GEMM take turns: an asynchronous send made synchronous.
    ["send", "y", peer, peer]]  ->  ["send", "y", peer, peer], ["wait_send", "y", peer, peer]]
    return schedule + [["wait_send", "y", peer, peer] for peer in ahead]  ->  return schedule

gemm_reduce_scatter_schedule__scatters_to_the_wrong_rank
chunk i is sent to a rank that does not own it.
Rank r owns chunk r. Numbering the peers of a sub-group by their global ranks ends like this.
    "send", "y", peer, peer  ->  "send", "y", peer, behind[0]
    "wait_send", "y", peer, peer  ->  "wait_send", "y", peer, behind[0]

gemm_reduce_scatter_schedule__adds_before_waiting
a partial sum is added without waiting for it to arrive.
A data race: what is added may be an empty buffer.
    ["wait", "y", rank, peer], ["add", "y", rank, peer]
    ->  ["add", "y", rank, peer], ["wait", "y", rank, peer]

gemm_reduce_scatter_schedule__sends_before_the_gemm
a partial sum is sent before the GEMM that computes it.
What all-gather may do, reduce-scatter may not: here the message is the GEMM's result.
    ["gemm", "y", peer], ["send", "y", peer, peer]
    ->  ["send", "y", peer, peer], ["gemm", "y", peer]

gemm_reduce_scatter_schedule__leaves_out_its_own_share
the owner sums what arrives and leaves out its own partial sum.
A sum over p ranks has p terms; p - 1 of them arrive.
    schedule.append(["gemm", "y", rank])  ->  pass

gemm_reduce_scatter_schedule__adds_twice
each partial sum that arrives is added twice.
    ["add", "y", rank, peer]]  ->  ["add", "y", rank, peer], ["add", "y", rank, peer]]

gemm_reduce_scatter_schedule__receives_and_never_adds
the partial sums arrive and are never added: a scatter without the reduce.
    ["wait", "y", rank, peer], ["add", "y", rank, peer]  ->  ["wait", "y", rank, peer]

gemm_reduce_scatter_schedule__never_waits_for_its_sends
the function returns while partial sums are still being sent.
Their buffers are temporaries: freed on return, reused by the next layer, and the owner adds
whatever stands there by then.
    return schedule + [["wait_send", "y", peer, peer] for peer in ahead]  ->  return schedule

gemm_reduce_scatter_schedule__everyone_computes_chunk_0_first
all ranks compute and send the chunks in the order of the ranks, 0 first
Right, but rank 0 receives from everybody at once and the others wait for their turn.
    in ahead  ->  in sorted(ahead)
    in behind  ->  in sorted(behind)
"""

_rank_weights = rank_weights


def rank_weights__sums_all_ranks(model, tp_size, *rest):
    """the bytes of all tensor-parallel ranks are added up.

    A rank must fit its own GPU; the sum also counts what is held more than once.
    Rejected by: test_rank_weights__as_live_workers_held_them,
    test_rank_weights__as_published_logs_print_them
    """
    one = _rank_weights(model, tp_size, *rest)
    return {term: tp_size * value for term, value in one.items()}


def rank_weights__ends_on_every_stage(model, tp_size, pp_size=1, pp_rank=0):
    """every pipeline stage holds the embedding, the last norm and the output matrix.

    Only the first stage embeds and only the last one makes logits.
    Rejected by: test_rank_weights__as_live_workers_held_them
    """
    own = model | {"num_layers": stage_layers(model["num_layers"], pp_size)[pp_rank]}
    return _rank_weights(own, tp_size)


def rank_weights__divides_by_the_stages(model, tp_size, pp_size=1, pp_rank=0):
    """a stage's bytes are the whole model's divided by the number of stages.

    Stages hold whole layers; the ends also hold the embedding or the output matrix.
    Rejected by: test_rank_weights__as_live_workers_held_them
    """
    return {term: value // pp_size for term, value in _rank_weights(model, tp_size).items()}


def which_split__believes_the_command(model, weights_gib, tp_size, pp_size=1):
    """the split asked for is taken for the split applied.

    The log is there to be checked: a rank that holds twice its share was not split.
    Rejected by: test_which_split__finds_the_split_that_was_applied
    """
    expected = rank_weights(model, tp_size, pp_size)["total_bytes"]
    split = {"tp_size": tp_size, "pp_size": pp_size, "pp_rank": 0}
    return split | {"residual_bytes": round(weights_gib * GIB - expected)}


def treatment__names_by_the_paper(full_shape, rank_shapes):
    """rows and columns are named after the paper's transposed weights.

    Here W is [out, in]: what the paper calls column-parallel splits the rows.
    Rejected by: test_treatment__tells_rows_columns_experts_and_copies
    """
    if all(list(shape) == list(full_shape) for shape in rank_shapes):
        return "replicated"
    rows = any(shape[0] != full_shape[0] for shape in rank_shapes)
    return "columns" if rows else "rows"


def all_gather_gemm_schedule__sends_after_the_gemm(num_ranks, rank):
    """a chunk is sent only after its own GEMM, although the send does not need the GEMM.

    GEMM, transfer, GEMM, transfer: nothing overlaps, the makespan is the sum. This was the order
    of a public tensor-parallel toy whose overlapped mode is its slowest.
    Rejected by: test_all_gather_gemm_schedule__hides_behind_the_gemms
    """
    ahead, behind = (rank + 1) % num_ranks, (rank - 1) % num_ranks
    schedule = []
    for step in range(num_ranks):
        chunk, coming = (rank - step) % num_ranks, (rank - step - 1) % num_ranks
        schedule.append(["gemm", "y", chunk])
        if step < num_ranks - 1:
            schedule += [["post_recv", "x", coming, behind], ["send", "x", chunk, ahead]]
            schedule += [["wait", "x", coming, behind], ["wait_send", "x", chunk, ahead]]
    return schedule


def all_gather_gemm_schedule__forwards_before_it_has_received(num_ranks, rank):
    """a ring forwards chunks before it has received them.

    At the start only its owner has a chunk; whoever passes it on must have waited for it.
    Rejected by: test_all_gather_gemm_schedule__hides_behind_the_gemms
    """
    ahead, behind = (rank + 1) % num_ranks, (rank - 1) % num_ranks
    others = [(rank - distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "x", chunk, behind] for chunk in others]
    schedule += [["send", "x", (chunk + 1) % num_ranks, ahead] for chunk in others]
    schedule.append(["gemm", "y", rank])
    for chunk in others:
        schedule += [["wait", "x", chunk, behind], ["gemm", "y", chunk]]
    return schedule + [["wait_send", "x", (chunk + 1) % num_ranks, ahead] for chunk in others]


def gemm_reduce_scatter_schedule__computes_its_own_chunk_first(num_ranks, rank):
    """one's own chunk, which nobody waits for, is multiplied first.

    The first partial sum leaves one GEMM later, and the last transfer has nothing to hide behind.
    Rejected by: test_gemm_reduce_scatter_schedule__hides_behind_the_gemms
    """
    ahead = [(rank + distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "y", rank, peer] for peer in ahead[::-1]] + [["gemm", "y", rank]]
    for peer in ahead:
        schedule += [["gemm", "y", peer], ["send", "y", peer, peer]]
    for peer in ahead[::-1]:
        schedule += [["wait", "y", rank, peer], ["add", "y", rank, peer]]
    return schedule + [["wait_send", "y", peer, peer] for peer in ahead]
