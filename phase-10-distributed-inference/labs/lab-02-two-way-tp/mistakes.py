"""Plausible mistakes of lab 02. Each is rejected by the check whose claim it violates.

The bank runs on top of the solution's namespace: math, GIB and the given functions are there.
A name with one leading underscore keeps the solution's own version of what a mistake replaces, and
a mistake names only the arguments that it bends: the others are handed on as they come.
"""

_rank_shape, _rank_weights, _kv_bytes_per_token = rank_shape, rank_weights, kv_bytes_per_token
_kv_capacity, _tp_sizes_of_cache, _which_split = kv_capacity, tp_sizes_of_cache, which_split
_replicas_or_tp, _check_split, _treatment = replicas_or_tp, check_split, treatment
_collectives_per_step, _kv_heads_per_rank = collectives_per_step, kv_heads_per_rank

# --- Part A: the ledger of a start-up ---------------------------------------------------------


def padded_vocab__not_padded(vocab_size):
    """the vocabulary keeps its own size.

    vLLM pads the embedding and the output matrix to multiples of 64 rows, at tp_size=1 too.
    Rejected by: test_padded_vocab__is_the_next_multiple_of_64
    """
    return vocab_size


def padded_vocab__always_adds_rows(vocab_size):
    """a vocabulary that is already a multiple of 64 gets 64 rows more.

    The next multiple of a multiple is the number itself.
    Rejected by: test_padded_vocab__is_the_next_multiple_of_64
    """
    return (vocab_size // VOCAB_PADDING + 1) * VOCAB_PADDING


def kv_heads_per_rank__falls_below_one(num_kv_heads, tp_size):
    """KV heads are divided by the ranks even when there are more ranks than heads.

    8 KV heads over 16 ranks is not half a head each: every rank holds one, each head is held twice.
    Rejected by: test_kv_heads_per_rank__never_falls_below_one
    """
    _kv_heads_per_rank(num_kv_heads, tp_size)  # refuses an uneven split
    return num_kv_heads // tp_size


def kv_heads_per_rank__all_on_every_rank(num_kv_heads, tp_size):
    """every rank holds all KV heads.

    Then tensor parallelism would leave no more room for the cache; capacity doubles at tp_size=2.
    Rejected by: test_kv_heads_per_rank__never_falls_below_one
    """
    _kv_heads_per_rank(num_kv_heads, tp_size)  # refuses an uneven split
    return num_kv_heads


def kv_heads_per_rank__rounds_an_uneven_split_down(num_kv_heads, tp_size):
    """3 KV heads over 2 ranks make one each.

    A head would be lost. Engines refuse (vLLM late, by a bare assert).
    Rejected by: test_kv_heads_per_rank__refuses_an_uneven_split
    """
    return max(1, num_kv_heads // tp_size)


def _divide(size, tp_size, name):
    require(size % tp_size == 0, f"{name}: {size} does not divide by tp_size={tp_size}")
    return size // tp_size


def _padded(parameter):
    """The parameter with its vocabulary padded, if it is one."""
    rows, *columns = parameter["shape"]
    vocabulary = parameter["split"] == "vocab"
    return parameter | {"shape": [padded_vocab(rows), *columns]} if vocabulary else parameter


def rank_shape__takes_the_hidden_size_for_all_heads(parameter, model, tp_size):
    """a head is hidden_size / num_heads wide.

    Models may say head_dim: Qwen3-32B has 64 heads of 128, in a hidden size of 5120.
    Rejected by: test_rank_shape__splits_each_parameter_its_own_way
    """
    narrow = model | {"head_dim": model["hidden_size"] // model["num_heads"]}
    return _rank_shape(parameter, narrow, tp_size)


def rank_shape__halves_everything(parameter, model, tp_size):
    """every parameter is split, norms and row-parallel biases too.

    A norm needs the whole hidden vector, and a row-parallel bias is added once to the whole sum.
    Rejected by: test_rank_shape__splits_each_parameter_its_own_way
    """
    split = "columns" if parameter["split"] == "columns" else "rows"
    return _rank_shape(_padded(parameter) | {"split": split}, model, tp_size)


def rank_shape__writes_into_the_parameter(parameter, model, tp_size):
    """the list that was given is changed and returned, instead of a new one.

    Whoever describes the next rank with the same parameter splits a share of a share.
    Rejected by: test_rank_shape__splits_each_parameter_its_own_way
    """
    shape = parameter["shape"]
    shape[:] = _rank_shape(parameter, model, tp_size)
    return shape


def rank_shape__does_not_check_the_query_heads(parameter, model, tp_size):
    """only the KV heads are looked at, and query heads that do not divide are rounded down.

    12 query heads on 8 ranks: 4 of them would belong to nobody.
    Rejected by: test_rank_shape__refuses_what_does_not_divide
    """
    if parameter["split"] != "heads":
        return _rank_shape(parameter, model, tp_size)
    heads = model["num_heads"] // tp_size
    heads += 2 * kv_heads_per_rank(model["num_kv_heads"], tp_size)
    return [heads * model["head_dim"], *parameter["shape"][1:]]


def rank_shape__hands_a_whole_parameter_s_list_on(parameter, model, tp_size):
    """a parameter that stays whole gives its own list, not a new one.

    Whoever changes the rank's shape changes the model's.
    Rejected by: test_rank_shape__splits_each_parameter_its_own_way
    """
    whole = parameter["split"] == "whole"
    return parameter["shape"] if whole else _rank_shape(parameter, model, tp_size)


def rank_shape__forgets_vocabulary_padding(parameter, model, tp_size):
    """the vocabulary is split without padding it first.

    500 rows over 2 ranks are 256 each in memory, not 250.
    Rejected by: test_rank_shape__splits_each_parameter_its_own_way
    """
    split = "rows" if parameter["split"] == "vocab" else parameter["split"]
    return _rank_shape(parameter | {"split": split}, model, tp_size)


def rank_shape__pads_each_share(parameter, model, tp_size):
    """each rank's share of the vocabulary is padded instead of the whole.

    513 rows become 576 and then 288 each; padding after the split would give 320.
    Rejected by: test_rank_shape__splits_each_parameter_its_own_way
    """
    rows, *columns = parameter["shape"]
    if parameter["split"] == "vocab":
        return [padded_vocab(-(-rows // tp_size)), *columns]
    return _rank_shape(parameter, model, tp_size)


def rank_shape__swaps_rows_and_columns(parameter, model, tp_size):
    """rows and columns change places: the input dimension of a column-parallel layer is split.

    Weights are [out, in]; "column-parallel" splits the outputs, which are the rows.
    Rejected by: test_rank_shape__splits_each_parameter_its_own_way
    """
    split = {"columns": "rows", "whole": "whole"}.get(parameter["split"], "columns")
    return _rank_shape(_padded(parameter) | {"split": split}, model, tp_size)


def rank_shape__splits_qkv_like_any_rows(parameter, model, tp_size):
    """the fused q, k, v rows are divided by the ranks, KV heads or not.

    With one KV head on four ranks each rank keeps that whole head: more than a quarter of the rows.
    Rejected by: test_rank_shape__splits_each_parameter_its_own_way
    """
    split = "rows" if parameter["split"] == "heads" else parameter["split"]
    return _rank_shape(parameter | {"split": split}, model, tp_size)


def rank_shape__gives_whole_experts_to_ranks(parameter, model, tp_size):
    """expert weights are divided by expert instead of through each expert.

    That is expert parallelism. Tensor parallelism slices the width of every expert.
    Rejected by: test_rank_shape__splits_each_parameter_its_own_way
    """
    experts, *each = parameter["shape"]
    if len(each) == 2:
        return [_divide(experts, tp_size, parameter["name"]), *each]
    return _rank_shape(parameter, model, tp_size)


def rank_weights__counts_tied_embeddings_twice(model, tp_size, *rest):
    """a tied output matrix is counted beside the embedding whose storage it is.

    tie_word_embeddings means one tensor with two names.
    Rejected by: test_rank_weights__as_live_workers_held_them
    """
    return _rank_weights(model | {"tied": False}, tp_size, *rest)


def rank_weights__sums_all_ranks(model, tp_size, *rest):
    """the bytes of all tensor-parallel ranks are added up.

    A rank must fit its own GPU; the sum also counts what is held more than once.
    Rejected by: test_rank_weights__as_live_workers_held_them,
    test_rank_weights__as_published_logs_print_them
    """
    one = _rank_weights(model, tp_size, *rest)
    return {term: tp_size * value for term, value in one.items()}


def rank_weights__forgets_the_rope_table(model, *rest):
    """the cos/sin table is forgotten because no checkpoint holds it.

    Every rank computes it at start-up and keeps it whole: 32 MiB for Llama-3.1-8B.
    Rejected by: test_rank_weights__as_live_workers_held_them,
    test_rank_weights__as_published_logs_print_them
    """
    return _rank_weights(model | {"rope_positions": 0}, *rest)


def rank_weights__divides_the_hidden_size_by_the_heads(model, *rest):
    """the rope table is as wide as hidden_size / num_heads.

    A head's width is a number of its own: Qwen3-32B has 5120 / 64 = 80, and a head_dim of 128.
    Rejected by: test_rank_weights__counts_each_term_on_each_stage
    """
    narrow = model["hidden_size"] // model["num_heads"] * model["dtype_bytes"]
    table = model["rope_positions"] * narrow
    weights = _rank_weights(model, *rest)
    longer = table - weights["rope_table_bytes"]
    total = weights["total_bytes"] + longer
    return weights | {"rope_table_bytes": table, "total_bytes": total}


def rank_weights__makes_a_row_per_position(model, *rest):
    """the rope table has max_positions rows.

    OPT has no such table, and YaRN a longer one: rope_positions counts the rows.
    Rejected by: test_rank_weights__counts_each_term_on_each_stage
    """
    return _rank_weights(model | {"rope_positions": model["max_positions"]}, *rest)


def rank_weights__splits_the_rope_table(model, tp_size, *rest):
    """the cos/sin table is divided by the ranks.

    Each rank rotates its own heads, all of which need the same whole table.
    Rejected by: test_rank_weights__as_live_workers_held_them,
    test_rank_weights__as_published_logs_print_them
    """
    shorter = model | {"rope_positions": model["rope_positions"] // tp_size}
    return _rank_weights(shorter, tp_size, *rest)


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


def rank_weights__ignores_the_allocator(*arguments):
    """tensors cost what they hold and the allocator's rounding is left out.

    From 10 MiB on memory comes in steps of 2 MiB: 17.5 MiB for Llama-2-7B at tp_size=8.
    Rejected by: test_rank_weights__as_published_logs_print_them
    """
    one = _rank_weights(*arguments)
    total = one["parameters_bytes"] + one["rope_table_bytes"]
    return one | {"allocator_rounding_bytes": 0, "total_bytes": total}


def rank_weights__rounds_the_sum_once(*arguments):
    """the allocator's rounding is applied once, to the sum.

    Every tensor is a request of its own; 64 layers pay 64 times.
    Rejected by: test_rank_weights__as_published_logs_print_them
    """
    one = _rank_weights(*arguments)
    held = one["parameters_bytes"] + one["rope_table_bytes"]
    charged = allocated_bytes(held)
    return one | {"allocator_rounding_bytes": charged - held, "total_bytes": charged}


def rank_weights__rounds_parameters_only(*arguments):
    """the allocator's rounding is counted for the parameters and not for the rope table.

    To the allocator the table is one more request.
    Rejected by: test_rank_weights__counts_each_term_on_each_stage
    """
    weights = _rank_weights(*arguments)
    table = weights["rope_table_bytes"]
    rounding = allocated_bytes(table) - table
    return weights | {
        "allocator_rounding_bytes": weights["allocator_rounding_bytes"] - rounding,
        "total_bytes": weights["total_bytes"] - rounding,
    }


def rank_weights__rope_on_the_first_stage_only(model, tp_size, pp_size=1, pp_rank=0):
    """only the first pipeline stage holds a rope table.

    Every stage has attention layers, and each of them rotates its queries and keys.
    Rejected by: test_rank_weights__counts_each_term_on_each_stage
    """
    kept = model if pp_rank == 0 else model | {"rope_positions": 0}
    return _rank_weights(kept, tp_size, pp_size, pp_rank)


def kv_bytes_per_token__keys_only(*arguments):
    """only keys are counted.

    A token leaves a key and a value in every layer.
    Rejected by: test_kv_bytes_per_token__of_this_rank_and_stage
    """
    return _kv_bytes_per_token(*arguments) // 2


def kv_bytes_per_token__query_heads(model, *rest):
    """keys and values are counted for the query heads.

    With grouped-query attention only KV heads are cached: a quarter, for Llama-3-8B.
    Rejected by: test_kv_bytes_per_token__of_this_rank_and_stage
    """
    return _kv_bytes_per_token(model | {"num_kv_heads": model["num_heads"]}, *rest)


def kv_bytes_per_token__not_sharded(model, tp_size, *rest):
    """every rank caches all KV heads.

    Heads are split, so their cache is: that is why capacity doubles at tp_size=2.
    Rejected by: test_kv_bytes_per_token__of_this_rank_and_stage
    """
    return _kv_bytes_per_token(model, 1, *rest)


def kv_bytes_per_token__all_layers(model, tp_size, pp_size=1, pp_rank=0, *width):
    """a pipeline stage caches all layers.

    A stage caches its own layers; so pipeline parallelism frees as much room as tensor parallelism.
    Rejected by: test_kv_bytes_per_token__of_this_rank_and_stage
    """
    return _kv_bytes_per_token(model, tp_size, 1, 0, *width)


def kv_bytes_per_token__same_layers_on_every_stage(model, tp_size, pp_size=1, pp_rank=0, *width):
    """every stage holds num_layers // pp_size layers.

    Five layers on two stages are three and two; the first stage's cache is half as big again.
    Rejected by: test_kv_bytes_per_token__of_this_rank_and_stage
    """
    alike = model | {"num_layers": model["num_layers"] // pp_size}
    return _kv_bytes_per_token(alike, tp_size, 1, 0, *width)


def kv_bytes_per_token__ignores_the_cache_dtype(model, tp_size, pp_size=1, pp_rank=0, *_):
    """the cache has the type of the weights, whatever kv_cache_dtype says.

    An fp8 cache holds twice the tokens of a bf16 one.
    Rejected by: test_kv_bytes_per_token__of_this_rank_and_stage
    """
    return _kv_bytes_per_token(model, tp_size, pp_size, pp_rank)


def kv_capacity__counts_no_blocks(kv_memory_bytes, bytes_per_token, block_size, max_model_len, *_):
    """tokens are the memory divided by a token's bytes, blocks or not.

    Memory is handed out in whole blocks; what is left over holds nothing.
    Rejected by: test_kv_capacity__as_each_version_counts_it
    """
    tokens = int(kv_memory_bytes // bytes_per_token)
    blocks = tokens // block_size
    return {"blocks": blocks, "tokens": tokens, "max_concurrency": tokens / max_model_len}


def kv_capacity__same_for_every_version(*sizes):
    """concurrency is tokens by the longest request in every version.

    From 0.9.1 a request counts as whole blocks, from 0.20.1 the tokens follow from that.
    Rejected by: test_kv_capacity__as_each_version_counts_it
    """
    return _kv_capacity(*sizes[:4], "0.9.0")


def kv_capacity__compares_versions_as_text(
    kv_memory_bytes, bytes_per_token, block_size, max_model_len, version="0.32.0"
):
    """versions are compared as text, so that 0.20 comes before 0.9.

    "0.20.1" < "0.9.1" character by character; numbers have to be compared as numbers.
    Rejected by: test_kv_capacity__as_each_version_counts_it
    """
    blocks = int(kv_memory_bytes // (bytes_per_token * block_size))
    tokens = blocks * block_size
    concurrency = tokens / max_model_len
    if version >= "0.9.1":
        concurrency = blocks / -(-max_model_len // block_size)
    if version >= "0.20.1":
        tokens = int(concurrency * max_model_len)
    return {"blocks": blocks, "tokens": tokens, "max_concurrency": concurrency}


def kv_bytes_per_token__gives_the_first_stage_more(model, tp_size, pp_size=1, pp_rank=0, *width):
    """layers that are left over go to the first stages.

    vLLM gives them to the stages before the last one: 7 layers on 3 stages are 2, 3 and 2.
    Rejected by: test_kv_bytes_per_token__of_this_rank_and_stage
    """
    layers = model["num_layers"] // pp_size + (pp_rank < model["num_layers"] % pp_size)
    return _kv_bytes_per_token(model | {"num_layers": layers}, tp_size, 1, 0, *width)


def kv_bytes_per_token__takes_the_hidden_size_for_all_heads(model, *rest):
    """a head is hidden_size / num_heads wide.

    Models may say head_dim: Qwen3-32B has 64 heads of 128, in a hidden size of 5120.
    Rejected by: test_kv_bytes_per_token__of_this_rank_and_stage
    """
    narrow = model | {"head_dim": model["hidden_size"] // model["num_heads"]}
    return _kv_bytes_per_token(narrow, *rest)


def kv_capacity__ignores_the_major_version(*sizes):
    """only the minor version decides.

    1.5.2 comes after 0.20.1: versions compare number by number, the major one first.
    Rejected by: test_kv_capacity__as_each_version_counts_it
    """
    _, minor, patch = version_numbers(sizes[4] if sizes[4:] else "0.32.0")
    return _kv_capacity(*sizes[:4], f"0.{minor}.{patch}")


def tp_sizes_of_cache__names_the_first_only(*arguments):
    """the first size that fits is taken for the only one.

    Beyond the number of KV heads every size gives the same cache: the log cannot tell them apart.
    Rejected by: test_tp_sizes_of_cache__reads_the_split_off_a_log
    """
    return _tp_sizes_of_cache(*arguments)[:1]


def tp_sizes_of_cache__divides_whole_tokens_by_the_ranks(
    model, kv_memory_bytes, cached_tokens, tp_sizes=(1, 2, 4, 8, 16)
):
    """a token's bytes are divided by the ranks, KV heads or not.

    A KV head is never cut: one KV head takes the same room on every rank.
    Rejected by: test_tp_sizes_of_cache__reads_the_split_off_a_log
    """
    whole = kv_bytes_per_token(model, 1)
    return [
        tp_size
        for tp_size in tp_sizes
        if abs(cached_tokens - kv_memory_bytes * tp_size / whole)
        <= 0.05 * kv_memory_bytes * tp_size / whole
    ]


def tp_sizes_of_cache__looks_at_kv_heads_only(
    model, kv_memory_bytes, cached_tokens, tp_sizes=(1, 2, 4, 8, 16)
):
    """a size is taken for possible as soon as the KV heads divide.

    12 heads over 8 ranks are no split, although 4 KV heads may be held by two ranks each.
    Rejected by: test_tp_sizes_of_cache__reads_the_split_off_a_log
    """
    any_heads = model | {"num_heads": math.lcm(*tp_sizes)}
    return _tp_sizes_of_cache(any_heads, kv_memory_bytes, cached_tokens, tp_sizes)


def tp_sizes_of_cache__takes_whatever_has_room(
    model, kv_memory_bytes, cached_tokens, tp_sizes=(1, 2, 4, 8, 16)
):
    """every size whose memory has room for these tokens is named.

    A checksum must come out: half of the tokens that would fit are no sign of this split.
    Rejected by: test_tp_sizes_of_cache__reads_the_split_off_a_log
    """
    found = []
    for tp_size in tp_sizes:
        few, many = sorted([model["num_kv_heads"], tp_size])
        if model["num_heads"] % tp_size == many % few == 0:
            if cached_tokens <= 1.05 * kv_memory_bytes / kv_bytes_per_token(model, tp_size):
                found.append(tp_size)
    return found


def which_split__believes_the_command(model, weights_gib, tp_size, pp_size=1):
    """the split asked for is taken for the split applied.

    The log is there to be checked: a rank that holds twice its share was not split.
    Rejected by: test_which_split__finds_the_split_that_was_applied
    """
    expected = rank_weights(model, tp_size, pp_size)["total_bytes"]
    split = {"tp_size": tp_size, "pp_size": pp_size, "pp_rank": 0}
    return split | {"residual_bytes": round(weights_gib * GIB - expected)}


def which_split__first_near_one(model, weights_gib, tp_size, pp_size=1):
    """the first split within 5% is taken instead of the nearest.

    Two stages of Llama-3-8B and two tensor-parallel ranks differ by 0.04%: only the nearest tells.
    Rejected by: test_which_split__finds_the_split_that_was_applied
    """
    for tp, pp in [(tp_size, pp_size), (1, pp_size), (tp_size, 1), (1, 1)]:
        expected = rank_weights(model, tp, pp)["total_bytes"]
        residual = round(weights_gib * GIB - expected)
        if abs(residual) <= 0.05 * expected:
            split = {"tp_size": tp, "pp_size": pp, "pp_rank": 0}
            return split | {"residual_bytes": residual}
    return None


def which_split__explains_everything(model, weights_gib, tp_size, pp_size=1):
    """the nearest split explains any number, however far away.

    4.1 GiB is no split of this model; a checksum that fits everything checks nothing.
    Rejected by: test_which_split__finds_the_split_that_was_applied
    """
    best = None
    for tp, pp in [(tp_size, pp_size), (1, pp_size), (tp_size, 1), (1, 1)]:
        for stage in range(pp):
            expected = rank_weights(model, tp, pp, stage)["total_bytes"]
            residual = round(weights_gib * GIB - expected)
            if best is None or abs(residual) < abs(best["residual_bytes"]):
                split = {"tp_size": tp, "pp_size": pp, "pp_rank": stage}
                best = split | {"residual_bytes": residual}
    return best


def which_split__always_names_stage_0(model, weights_gib, tp_size, pp_size=1):
    """the stage that explains the weights is reported as stage 0.

    Stages differ: [3, 2] layers for five, and the ends hold the embedding or the output matrix.
    Rejected by: test_which_split__finds_the_split_that_was_applied
    """
    found = _which_split(model, weights_gib, tp_size, pp_size)
    return found and found | {"pp_rank": 0}


def replicas_or_tp__forgets_the_all_reduces(model, memory_bytes, bytes_per_s, all_reduce_s, *rest):
    """the all-reduces cost nothing.

    Half the bytes take half the time, and then 65 all-reduces come on top.
    Rejected by: test_replicas_or_tp__from_memory_bandwidth_and_lockstep
    """
    return _replicas_or_tp(model, memory_bytes, bytes_per_s, 0.0, *rest)


def replicas_or_tp__averages_the_ranks(*arguments):
    """a slow GPU is averaged with the fast one.

    Ranks meet at every all-reduce: the slowest one sets the pace of all.
    Rejected by: test_replicas_or_tp__from_memory_bandwidth_and_lockstep
    """
    mean = [(sum(slowdowns) / 2,) * 2 for slowdowns in arguments[6:]]
    return _replicas_or_tp(*arguments[:6], *mean)


def replicas_or_tp__replicas_wait_for_each_other(*arguments):
    """replicas go in lockstep too.

    Replicas share nothing; the fast one goes on while the slow one is late.
    Rejected by: test_replicas_or_tp__from_memory_bandwidth_and_lockstep
    """
    answer = _replicas_or_tp(*arguments)
    replicas, num_sequences = answer["replicas"], arguments[5]
    if replicas["fits"]:
        replicas["tokens_per_s"] = num_sequences / replicas["step_s"]
    return answer


def replicas_or_tp__larger_share_to_the_second(*arguments):
    """of an odd number of sequences the second GPU takes one more.

    The first GPU takes it (its share is rounded up); GPUs of different speed show the difference.
    Rejected by: test_replicas_or_tp__from_memory_bandwidth_and_lockstep
    """
    turned = [slowdowns[::-1] for slowdowns in arguments[6:]]
    other = _replicas_or_tp(*arguments[:6], *turned)["replicas"]
    return _replicas_or_tp(*arguments) | {"replicas": other}


def replicas_or_tp__everything_fits(model, gpu_memory_bytes, *rest):
    """memory is not looked at.

    A replica holds all the weights; what is left must hold the cache of its sequences.
    Rejected by: test_replicas_or_tp__from_memory_bandwidth_and_lockstep
    """
    return _replicas_or_tp(model, float("inf"), *rest)


def replicas_or_tp__only_weights_and_cache_must_fit(model, gpu_memory_bytes, *rest):
    """a GPU holds the parameters and the cache, and nothing else.

    The rope table and the allocator's rounding take memory, though no step reads them.
    Rejected by: test_replicas_or_tp__from_memory_bandwidth_and_lockstep
    """
    weights = rank_weights(model, 2)
    roomier = gpu_memory_bytes + weights["total_bytes"] - weights["parameters_bytes"]
    return _replicas_or_tp(model, roomier, *rest)


# --- Part B: the same numbers, live -----------------------------------------------------------


def check_split__looks_at_heads_only(model, tp_size):
    """only the attention heads are checked.

    KV heads and the MLP width fail as well, later and less clearly.
    Rejected by: test_check_split__names_what_does_not_divide
    """
    if tp_size < 1 or model["num_heads"] % tp_size:
        raise ValueError(f"num_heads={model['num_heads']} cannot be split over tp_size={tp_size}")


def check_split__names_the_first_only(model, tp_size):
    """the message names the first dimension that fails and stops.

    Whoever mends that one meets the next, one start-up later.
    Rejected by: test_check_split__names_what_does_not_divide
    """
    try:
        _check_split(model, tp_size)
    except ValueError as error:
        first, _, rest = str(error).partition(" and ")
        over = f" cannot be split evenly over tp_size={tp_size} ranks"
        raise ValueError(first + over if rest else str(error)) from None


def check_split__names_every_size(model, tp_size):
    """all sizes are named, those that divide too.

    Whoever reads the message looks for what to change; 12 heads over 2 ranks are no problem.
    Rejected by: test_check_split__names_what_does_not_divide
    """
    names = ("num_heads", "num_kv_heads", "intermediate_size")
    try:
        return _check_split(model, tp_size)
    except ValueError:
        sizes = ", ".join(f"{name}={model[name]}" for name in names)
        raise ValueError(f"{sizes} cannot be split over tp_size={tp_size}") from None


def check_split__copies_kv_heads_unevenly(model, tp_size):
    """more ranks than KV heads are always taken for possible.

    4 KV heads over 6 ranks: two of them would be held twice and two once.
    Rejected by: test_check_split__names_what_does_not_divide
    """
    held = math.lcm(tp_size, model["num_kv_heads"]) if tp_size > model["num_kv_heads"] else None
    return _check_split(model | {"num_kv_heads": held or model["num_kv_heads"]}, tp_size)


def check_split__refuses_copied_kv_heads(model, tp_size):
    """fewer KV heads than ranks are refused.

    They are copied: one KV head on four ranks is legal, it only saves no cache.
    Rejected by: test_check_split__names_what_does_not_divide
    """
    _check_split(model, tp_size)
    if model["num_kv_heads"] % tp_size:
        raise ValueError(f"num_kv_heads={model['num_kv_heads']} and tp_size={tp_size}")


def treatment__names_by_the_paper(full_shape, rank_shapes):
    """rows and columns are named after the paper's transposed weights.

    Here W is [out, in]: what the paper calls column-parallel splits the rows.
    Rejected by: test_treatment__tells_rows_columns_experts_and_copies
    """
    if all(list(shape) == list(full_shape) for shape in rank_shapes):
        return "replicated"
    rows = any(shape[0] != full_shape[0] for shape in rank_shapes)
    return "columns" if rows else "rows"


def treatment__believes_shares_add_up(full_shape, rank_shapes):
    """parts are taken to add up to the whole without adding them.

    Copied KV heads add up to more; a lost part adds up to less.
    Rejected by: test_treatment__tells_rows_columns_experts_and_copies
    """
    if all(list(shape) == list(full_shape) for shape in rank_shapes):
        return "replicated"
    rows = any(shape[0] != full_shape[0] for shape in rank_shapes)
    return "rows" if rows else "columns"


def treatment__looks_at_rank_0_only(full_shape, rank_shapes):
    """rank 0's shape is taken for every rank's.

    300 and 212 rows are 512; two times 300 are not.
    Rejected by: test_treatment__tells_rows_columns_experts_and_copies
    """
    return _treatment(full_shape, [rank_shapes[0]] * len(rank_shapes))


def treatment__counts_dimensions_from_the_front(full_shape, rank_shapes):
    """the first dimension is called rows and the second columns, of experts' weights too.

    [experts, out, in]: rows and columns are the last two, and experts stand in front of them.
    Rejected by: test_treatment__tells_rows_columns_experts_and_copies
    """
    said = _treatment(full_shape, rank_shapes)
    if len(full_shape) == 3:
        return {"experts": "rows", "rows": "columns"}.get(said, said)
    return said


def treatment__ignores_what_is_missing(full_shape, rank_shapes):
    """a dimension that became smaller was split, whether its parts add up or not.

    2 x 128 rows are not 512: half of the matrix would be nowhere.
    Rejected by: test_treatment__refuses_what_is_no_split
    """
    for axis, size in enumerate(full_shape):
        if rank_shapes[0][axis] < size:
            names = ["experts", "rows", "columns"] if len(full_shape) > 1 else ["rows"]
            return names[axis - len(full_shape)]
    return _treatment(full_shape, rank_shapes)


def collectives_per_step__layers_only(model, tp_size, num_tokens, num_sequences, element_bytes=4):
    """two all-reduces per layer are the whole bill.

    The embedding is split by vocabulary, and so are the logits: one all-reduce, one all-gather.
    Rejected by: test_collectives_per_step__as_workers_counted_them
    """
    count = 2 * model["num_layers"] if tp_size > 1 else 0
    payload = num_tokens * model["hidden_size"] * element_bytes
    found = {"all_reduces": count, "all_reduce_bytes": count * payload}
    return found | {"all_gathers": 0, "all_gather_bytes": 0}


def collectives_per_step__logits_of_every_token(model, tp_size, num_tokens, _, *width):
    """the logits of every prompt token are gathered.

    Only the last token of each sequence is sampled from.
    Rejected by: test_collectives_per_step__as_workers_counted_them
    """
    return _collectives_per_step(model, tp_size, num_tokens, num_tokens, *width)


def collectives_per_step__one_rank_too(model, tp_size, *rest):
    """one rank alone pays like two.

    There is nobody to exchange with: no collective is made at tp_size=1.
    Rejected by: test_collectives_per_step__as_workers_counted_them
    """
    return _collectives_per_step(model, max(2, tp_size), *rest)


def collectives_per_step__share_of_the_payload(model, tp_size, *rest):
    """an all-reduce carries one rank's share of the activation.

    Every rank holds a partial sum of the whole activation; the payload does not shrink with ranks.
    Rejected by: test_collectives_per_step__as_workers_counted_them
    """
    bill = _collectives_per_step(model, tp_size, *rest)
    return bill | {"all_reduce_bytes": bill["all_reduce_bytes"] // tp_size}


def collectives_per_step__bytes_on_the_wire(model, tp_size, *rest):
    """the bytes that a ring sends are counted, 2 (p - 1) / p of the payload.

    At two ranks that is the payload itself. The bill lists payloads; lab 03 prices them.
    Rejected by: test_collectives_per_step__as_workers_counted_them
    """
    bill = _collectives_per_step(model, tp_size, *rest)
    sent = bill["all_reduce_bytes"] * 2 * (tp_size - 1) // tp_size
    return bill | {"all_reduce_bytes": sent}


def collectives_per_step__bytes_of_float32(model, tp_size, num_tokens, num_sequences, *_):
    """every element takes four bytes.

    The default is float32; an engine in bfloat16 sends two.
    Rejected by: test_collectives_per_step__as_workers_counted_them
    """
    return _collectives_per_step(model, tp_size, num_tokens, num_sequences)


# --- Part C: tensor and sequence parallelism in Torch -----------------------------------------


def _gathering(num_ranks, rank):
    """The right gather: peers as their chunks come, receives, sends, and the waits for these."""
    peers = [(rank - distance) % num_ranks for distance in range(1, num_ranks)]
    receives = [["post_recv", "x", peer, peer] for peer in peers]
    sends = [["send", "x", rank, peer] for peer in peers[::-1]]
    return peers, receives, sends, [["wait_send", "x", rank, peer] for peer in peers[::-1]]


def _scattering(num_ranks, rank):
    """The right scatter: peers as they are sent to, receives, waits and adds, waits for sends."""
    peers = [(rank + distance) % num_ranks for distance in range(1, num_ranks)]
    receives = [["post_recv", "y", rank, peer] for peer in peers[::-1]]
    sums = [[verb, "y", rank, peer] for peer in peers[::-1] for verb in ("wait", "add")]
    return peers, receives, sums, [["wait_send", "y", peer, peer] for peer in peers]


def _gemms(chunks):
    return [["gemm", "y", chunk] for chunk in chunks]


def _as_they_come(peers):
    return [op for peer in peers for op in (["wait", "x", peer, peer], ["gemm", "y", peer])]


def _as_they_are_done(peers):
    return [op for peer in peers for op in (["gemm", "y", peer], ["send", "y", peer, peer])]


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


def all_gather_gemm_schedule__waits_for_all_chunks_first(num_ranks, rank):
    """every chunk is waited for before the first GEMM.

    That is a plain all-gather followed by a GEMM: right, and all of the communication is exposed.
    Rejected by: test_all_gather_gemm_schedule__hides_behind_the_gemms
    """
    peers, receives, sends, sent = _gathering(num_ranks, rank)
    waits = [["wait", "x", peer, peer] for peer in peers]
    return receives + sends + waits + _gemms([rank, *peers]) + sent


def all_gather_gemm_schedule__starts_with_a_chunk_of_another_rank(num_ranks, rank):
    """one's own chunk, the only one that needs no wait, is multiplied last.

    While the first transfer runs nothing is multiplied.
    Rejected by: test_all_gather_gemm_schedule__hides_behind_the_gemms
    """
    peers, receives, sends, sent = _gathering(num_ranks, rank)
    return receives + sends + _as_they_come(peers) + _gemms([rank]) + sent


def all_gather_gemm_schedule__multiplies_before_waiting(num_ranks, rank):
    """a chunk is multiplied without waiting for it to arrive.

    A data race: on a fast link the numbers are right most of the time.
    Rejected by: test_all_gather_gemm_schedule__hides_behind_the_gemms
    """
    peers, receives, sends, sent = _gathering(num_ranks, rank)
    waits = [["wait", "x", peer, peer] for peer in peers]
    return receives + sends + _gemms([rank, *peers]) + waits + sent


def all_gather_gemm_schedule__waits_in_another_order_than_it_multiplies(num_ranks, rank):
    """the chunks are waited for in one order and multiplied in another.

    The right number of waits is not enough: each GEMM needs the wait of its own chunk before it.
    Rejected by: test_all_gather_gemm_schedule__hides_behind_the_gemms
    """
    peers, receives, sends, sent = _gathering(num_ranks, rank)
    schedule = receives + sends + _gemms([rank])
    for peer, other in zip(peers, peers[::-1], strict=True):
        schedule += [["wait", "x", peer, peer], ["gemm", "y", other]]
    return schedule + sent


def all_gather_gemm_schedule__posts_its_receives_after_its_sends(num_ranks, rank):
    """the receives are posted after the sends.

    On gloo the two directions of a link then take turns in half of the exchanges, and a send
    without a posted receive has nowhere to go.
    Rejected by: test_all_gather_gemm_schedule__hides_behind_the_gemms
    """
    peers, receives, sends, sent = _gathering(num_ranks, rank)
    return sends + receives + _gemms([rank]) + _as_they_come(peers) + sent


def all_gather_gemm_schedule__never_waits_for_its_sends(num_ranks, rank):
    """the function returns while its chunk is still being sent.

    The caller may free or overwrite the buffer; the others then receive something else.
    Rejected by: test_all_gather_gemm_schedule__hides_behind_the_gemms
    """
    peers, receives, sends, _ = _gathering(num_ranks, rank)
    return receives + sends + _gemms([rank]) + _as_they_come(peers)


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


def all_gather_gemm_schedule__everyone_sends_to_rank_0_first(num_ranks, rank):
    """all ranks send in the order 0, 1, 2, ... instead of to the rank t places ahead at step t.

    The values are right, but all ranks talk to the same one at the same time and queue there.
    Rejected by: test_all_gather_gemm_schedule__hides_behind_the_gemms
    """
    peers = [peer for peer in range(num_ranks) if peer != rank]
    schedule = [["post_recv", "x", peer, peer] for peer in peers]
    schedule += [["send", "x", rank, peer] for peer in peers]
    schedule.append(["gemm", "y", rank])
    for peer in peers:
        schedule += [["wait", "x", peer, peer], ["gemm", "y", peer]]
    return schedule + [["wait_send", "x", rank, peer] for peer in peers]


def all_gather_gemm_schedule__gathers_twice(num_ranks, rank):
    """every chunk is gathered from its owner and again around the ring.

    Twice the bytes, and two transfers that write into one buffer.
    Rejected by: test_all_gather_gemm_schedule__hides_behind_the_gemms
    """
    peers, receives, sends, sent = _gathering(num_ranks, rank)
    twice = [op for ops in (receives, sends) for op in ops for _ in range(2)]
    return twice + _gemms([rank]) + _as_they_come(peers) + sent


def all_gather_gemm_schedule__skips_its_own_chunk(num_ranks, rank):
    """a rank multiplies what it receives and forgets the chunk it had.

    One block of rows of the result is never written.
    Rejected by: test_all_gather_gemm_schedule__hides_behind_the_gemms
    """
    peers, receives, sends, sent = _gathering(num_ranks, rank)
    return receives + sends + _as_they_come(peers) + sent


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


def gemm_reduce_scatter_schedule__sends_after_all_gemms(num_ranks, rank):
    """the partial sums leave only when all of them are computed.

    A plain GEMM followed by a reduce-scatter: all of the communication is exposed.
    Rejected by: test_gemm_reduce_scatter_schedule__hides_behind_the_gemms
    """
    peers, receives, sums, sent = _scattering(num_ranks, rank)
    sends = [["send", "y", peer, peer] for peer in peers]
    return receives + _gemms([*peers, rank]) + sends + sums + sent


def gemm_reduce_scatter_schedule__waits_for_each_send_at_once(num_ranks, rank):
    """every send is waited for before the next GEMM.

    The transfer and the next GEMM take turns: an asynchronous send made synchronous.
    Rejected by: test_gemm_reduce_scatter_schedule__hides_behind_the_gemms
    """
    peers, schedule, sums, _ = _scattering(num_ranks, rank)
    for peer in peers:
        schedule += [["gemm", "y", peer], ["send", "y", peer, peer], ["wait_send", "y", peer, peer]]
    return schedule + _gemms([rank]) + sums


def gemm_reduce_scatter_schedule__scatters_to_the_wrong_rank(num_ranks, rank):
    """chunk i is sent to a rank that does not own it.

    Rank r owns chunk r. Numbering the peers of a sub-group by their global ranks ends like this.
    Rejected by: test_gemm_reduce_scatter_schedule__hides_behind_the_gemms
    """
    peers, schedule, sums, _ = _scattering(num_ranks, rank)
    behind = (rank - 1) % num_ranks
    for peer in peers:
        schedule += [["gemm", "y", peer], ["send", "y", peer, behind]]
    return schedule + _gemms([rank]) + sums + [["wait_send", "y", peer, behind] for peer in peers]


def gemm_reduce_scatter_schedule__adds_before_waiting(num_ranks, rank):
    """a partial sum is added without waiting for it to arrive.

    A data race: what is added may be an empty buffer.
    Rejected by: test_gemm_reduce_scatter_schedule__hides_behind_the_gemms
    """
    peers, receives, sums, sent = _scattering(num_ranks, rank)
    waits, adds = sums[::2], sums[1::2]
    return receives + _as_they_are_done(peers) + _gemms([rank]) + adds + waits + sent


def gemm_reduce_scatter_schedule__sends_before_the_gemm(num_ranks, rank):
    """a partial sum is sent before the GEMM that computes it.

    What all-gather may do, reduce-scatter may not: here the message is the GEMM's result.
    Rejected by: test_gemm_reduce_scatter_schedule__hides_behind_the_gemms
    """
    peers, schedule, sums, sent = _scattering(num_ranks, rank)
    for peer in peers:
        schedule += [["send", "y", peer, peer], ["gemm", "y", peer]]
    return schedule + _gemms([rank]) + sums + sent


def gemm_reduce_scatter_schedule__leaves_out_its_own_share(num_ranks, rank):
    """the owner sums what arrives and leaves out its own partial sum.

    A sum over p ranks has p terms; p - 1 of them arrive.
    Rejected by: test_gemm_reduce_scatter_schedule__hides_behind_the_gemms
    """
    peers, receives, sums, sent = _scattering(num_ranks, rank)
    return receives + _as_they_are_done(peers) + sums + sent


def gemm_reduce_scatter_schedule__adds_twice(num_ranks, rank):
    """each partial sum that arrives is added twice.

    Rejected by: test_gemm_reduce_scatter_schedule__hides_behind_the_gemms
    """
    peers, receives, sums, sent = _scattering(num_ranks, rank)
    twice = [op for op in sums for _ in range(2 if op[0] == "add" else 1)]
    return receives + _as_they_are_done(peers) + _gemms([rank]) + twice + sent


def gemm_reduce_scatter_schedule__receives_and_never_adds(num_ranks, rank):
    """the partial sums arrive and are never added: a scatter without the reduce.

    Rejected by: test_gemm_reduce_scatter_schedule__hides_behind_the_gemms
    """
    peers, receives, sums, sent = _scattering(num_ranks, rank)
    return receives + _as_they_are_done(peers) + _gemms([rank]) + sums[::2] + sent


def gemm_reduce_scatter_schedule__never_waits_for_its_sends(num_ranks, rank):
    """the function returns while partial sums are still being sent.

    Their buffers are temporaries: freed on return, reused by the next layer, and the owner adds
    whatever stands there by then.
    Rejected by: test_gemm_reduce_scatter_schedule__hides_behind_the_gemms
    """
    peers, receives, sums, _ = _scattering(num_ranks, rank)
    return receives + _as_they_are_done(peers) + _gemms([rank]) + sums


def gemm_reduce_scatter_schedule__everyone_computes_chunk_0_first(num_ranks, rank):
    """all ranks compute and send the chunks in the order 0, 1, 2, ...

    Right, but rank 0 receives from everybody at once and the others wait for their turn.
    Rejected by: test_gemm_reduce_scatter_schedule__hides_behind_the_gemms
    """
    peers = [peer for peer in range(num_ranks) if peer != rank]
    schedule = [["post_recv", "y", rank, peer] for peer in peers]
    for peer in peers:
        schedule += [["gemm", "y", peer], ["send", "y", peer, peer]]
    schedule.append(["gemm", "y", rank])
    for peer in peers:
        schedule += [["wait", "y", rank, peer], ["add", "y", rank, peer]]
    return schedule + [["wait_send", "y", peer, peer] for peer in peers]
