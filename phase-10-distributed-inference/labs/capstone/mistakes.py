"""Plausible mistakes of the capstone. See labkit/mistakes.py for how the bank is used."""

# Most are the solution, asked something else; it stands here under its own names.

_split_faults, _sequence_kv_bytes, _memory_verdicts = (
    split_faults, sequence_kv_bytes, memory_verdicts,
)  # fmt: skip
_choose, _decompose, _diagnose, _stage_times = choose, decompose, diagnose, stage_times


def _changed(layers, **values):
    """Layers with other values of what they have, each computed from the layer."""
    return [
        layer | {name: value_of(layer) for name, value_of in values.items() if name in layer}
        for layer in layers
    ]


# --- Part A: place a model -----------------------------------------------------------------------


def split_faults__kv_heads_must_divide(model, tp_size, pp_size):
    """more ranks than KV heads are taken as impossible.

    vLLM then holds each KV head on several ranks; transformers' own tensor parallelism refuses.

    Rejected by: test_split_faults__name_everything_that_does_not_divide
    """
    found = _split_faults(model, tp_size, pp_size)
    if not model["latent"] and model["num_kv_heads"] % tp_size and "num_kv_heads" not in found:
        found.insert("num_heads" in found, "num_kv_heads")
    return found


def split_faults__latent_has_heads(model, tp_size, pp_size):
    """the KV heads of an MLA model are divided.

    Its config.json names num_key_value_heads, but what is cached is one latent for all of them.

    Rejected by: test_split_faults__latent_stages_and_blocks
    """
    return _split_faults(model | {"latent": False}, tp_size, pp_size)


def split_faults__blocks_forgotten(model, tp_size, pp_size):
    """a quantised width may be cut anywhere.

    The elements of a block share one scale: half a block on a rank has no scale of its own.

    Rejected by: test_split_faults__latent_stages_and_blocks
    """
    widths = {name: (width, 1) for name, (width, _) in model["widths"].items()}
    return _split_faults(model | {"widths": widths}, tp_size, pp_size)


def sequence_kv_bytes__latent_divided(layers, num_tokens, tp_size):
    """tensor parallelism divides an MLA cache.

    Every head reads the whole latent, so every rank keeps all of it; only data parallel attention
    or decode context parallelism spreads it.

    Rejected by: test_sequence_kv_bytes__windows_latents_and_states
    """
    require(tp_size=tp_size)
    latent = _changed(layers, width=lambda layer: layer["width"] / tp_size)
    return _sequence_kv_bytes(latent, num_tokens, tp_size)


def sequence_kv_bytes__fraction_of_a_head(layers, num_tokens, tp_size):
    """a KV head is divided among the ranks that share it.

    A rank of 16 beside 8 KV heads holds one whole head; half a head cannot be attended to.

    Rejected by: test_sequence_kv_bytes__heads_are_divided_and_held_again
    """
    require(tp_size=tp_size)
    spread = {"head_dim": lambda layer: layer["head_dim"] * layer["kv_heads"] / tp_size}
    return _sequence_kv_bytes(_changed(layers, **spread, kv_heads=lambda _: 1), num_tokens, tp_size)


def sequence_kv_bytes__keys_only(layers, num_tokens, tp_size):
    """keys are counted and values forgotten.

    Attention weighs the values by what the keys say; both stay.

    Rejected by: test_sequence_kv_bytes__heads_are_divided_and_held_again
    """
    keys = _changed(layers, head_dim=lambda layer: layer["head_dim"] / 2)
    return _sequence_kv_bytes(keys, num_tokens, tp_size)


def sequence_kv_bytes__window_forgotten(layers, num_tokens, tp_size):
    """sliding-window layers keep every token.

    A layer that looks back 128 tokens frees what lies further back.

    Rejected by: test_sequence_kv_bytes__windows_latents_and_states
    """
    whole = _changed(layers, window=lambda _: num_tokens)
    return _sequence_kv_bytes(whole, num_tokens, tp_size)


def memory_verdicts__decimal_label(
    reported_bytes, utilization, weights_bytes, other_bytes, layers, tp_size, tokens, full_context
):
    """the reported bytes are rounded down to whole GB, as on the label.

    An "80 GB" H100 reports 85.5e9 bytes: five GB are the cache of thousands of tokens.

    Rejected by: test_memory_verdicts__of_an_h100
    """
    label = 80e9 if 80e9 < reported_bytes < 90e9 else reported_bytes
    rest = (weights_bytes, other_bytes, layers, tp_size, tokens, full_context)
    return _memory_verdicts(label, utilization, *rest)


def memory_verdicts__weights_against_all_memory(
    reported_bytes, utilization, weights_bytes, other_bytes, layers, tp_size, tokens, full_context
):
    """what the engine may use is applied to what is left, not to the whole.

    gpu_memory_utilization is a part of the GPU's memory: weights are inside it as well.

    Rejected by: test_memory_verdicts__three_that_people_mix_up
    """
    free = utilization * (reported_bytes - weights_bytes - other_bytes)
    room = (layers, tp_size, tokens, full_context)
    found = _memory_verdicts(reported_bytes, 1, 0, reported_bytes - free, *room)
    return found | {"weights_load": weights_bytes <= reported_bytes}


def memory_verdicts__other_forgotten(
    reported_bytes, utilization, weights_bytes, other_bytes, layers, tp_size, tokens, full_context
):
    """activations, graphs and the runtime take no memory.

    Two or three GB of every GPU; when the cache is what is left over, they decide.

    Rejected by: test_memory_verdicts__three_that_people_mix_up
    """
    rest = (layers, tp_size, tokens, full_context)
    return _memory_verdicts(reported_bytes, utilization, weights_bytes, 0, *rest)


def memory_verdicts__loads_is_fits(
    reported_bytes, utilization, weights_bytes, other_bytes, layers, tp_size, tokens, full_context
):
    """the weights load, so everything fits.

    A start that loads its weights may still end in "No available memory for the cache blocks".

    Rejected by: test_memory_verdicts__three_that_people_mix_up
    """
    rest = (layers, tp_size, tokens, full_context)
    found = _memory_verdicts(reported_bytes, utilization, weights_bytes, other_bytes, *rest)
    return found | {"tokens_fit": found["weights_load"], "full_context_fits": found["weights_load"]}


def touched_bytes__all_experts(always_bytes, experts_bytes, num_experts, top_k, tokens):
    """every expert is read in every step.

    One token reads top_k of them; that is why a mixture of experts is fast at batch 1.

    Rejected by: test_touched_bytes__experts_that_somebody_chose
    """
    require(always_bytes_or_zero=always_bytes, experts_bytes_or_zero=experts_bytes, tokens=tokens)
    return always_bytes + experts_bytes


def touched_bytes__top_k_times_tokens(always_bytes, experts_bytes, num_experts, top_k, tokens):
    """two tokens never choose the same expert.

    top_k x tokens experts, up to all: right for one token, and too many soon after.

    Rejected by: test_touched_bytes__experts_that_somebody_chose
    """
    require(always_bytes_or_zero=always_bytes, experts_bytes_or_zero=experts_bytes, tokens=tokens)
    return always_bytes + experts_bytes * min(1, top_k * tokens / num_experts)


def touched_bytes__active_parameters_always(
    always_bytes, experts_bytes, num_experts, top_k, tokens
):
    """a batch reads no more experts than one token does.

    The active parameters on a model's card are those of one token; tokens choose differently.

    Rejected by: test_touched_bytes__experts_that_somebody_chose
    """
    require(always_bytes_or_zero=always_bytes, experts_bytes_or_zero=experts_bytes, tokens=tokens)
    return always_bytes + experts_bytes * top_k / num_experts


def decode_compute_s__memory_only(
    weight_bytes, kv_bytes, macs, tokens, memory_bytes_per_s, flops_per_s
):
    """decode is bound by memory at every batch.

    From about 300 tokens a step on, an H100 multiplies longer than it reads.

    Rejected by: test_decode_compute_s__the_higher_of_two_roofs
    """
    return (weight_bytes + kv_bytes) / memory_bytes_per_s


def decode_compute_s__one_flop_per_mac(
    weight_bytes, kv_bytes, macs, tokens, memory_bytes_per_s, flops_per_s
):
    """a multiply-accumulate is counted as one operation.

    Vendors count two: a multiplication and an addition.

    Rejected by: test_decode_compute_s__the_higher_of_two_roofs
    """
    roofs = weight_bytes / memory_bytes_per_s, macs * tokens / flops_per_s
    return max(roofs) + kv_bytes / memory_bytes_per_s


def decode_compute_s__cache_hidden(
    weight_bytes, kv_bytes, macs, tokens, memory_bytes_per_s, flops_per_s
):
    """the cache is read while the weights are multiplied.

    Attention's kernels are kernels of their own: no arithmetic hides their reading.

    Rejected by: test_decode_compute_s__the_higher_of_two_roofs
    """
    reading = (weight_bytes + kv_bytes) / memory_bytes_per_s
    return max(reading, 2 * macs * tokens / flops_per_s)


def ridge_tokens__without_the_two(bytes_per_weight, memory_bytes_per_s, flops_per_s):
    """a weight costs one operation per token.

    It is multiplied and added: the ridge lies at half as many tokens.

    Rejected by: test_ridge_tokens__where_the_roofs_meet
    """
    return bytes_per_weight * flops_per_s / memory_bytes_per_s


def prefill_compute_s__linear(
    prompt_tokens, weight_bytes, macs, attention_width, memory_bytes_per_s, flops_per_s
):
    """a prompt twice as long takes twice as long.

    At 32 Ki tokens of a 70 B model attention's square is a good part of it.

    Rejected by: test_prefill_compute_s__grows_with_the_square_as_well
    """
    return decode_compute_s(weight_bytes, 0, macs, prompt_tokens, memory_bytes_per_s, flops_per_s)


def prefill_compute_s__whole_square(
    prompt_tokens, weight_bytes, macs, attention_width, memory_bytes_per_s, flops_per_s
):
    """every token attends to every other.

    A causal mask leaves half of the square, and kernels skip the other half.

    Rejected by: test_prefill_compute_s__grows_with_the_square_as_well
    """
    attention = 4 * prompt_tokens**2 * attention_width / flops_per_s
    speeds = (memory_bytes_per_s, flops_per_s)
    return decode_compute_s(weight_bytes, 0, macs, prompt_tokens, *speeds) + attention


def _served(step_s, prefill_s, output_tokens, concurrency, slots, queue=1, ahead=1, stops=1):
    running = min(concurrency, slots)
    round_s = output_tokens * step_s + running * prefill_s * stops
    busy = running * prefill_s / round_s
    wait = (concurrency - running) / running * round_s * queue
    return {
        "ttft_s": wait + busy * (running - 1) * prefill_s / 2 * ahead + prefill_s + step_s,
        "tpot_s": round_s / output_tokens,
        "tokens_per_s": running * output_tokens / round_s,
    }


def serve__ttft_without_queueing(step_s, prefill_s, output_tokens, concurrency, slots):
    """the first token waits for its own prompt alone.

    With more clients than slots the queue is most of the wait, and it is what a limit on TTFT fails
    on.

    Rejected by: test_serve__a_client_without_a_slot_waits
    """
    return _served(step_s, prefill_s, output_tokens, concurrency, slots, queue=0, ahead=0)


def serve__prefill_is_free(step_s, prefill_s, output_tokens, concurrency, slots):
    """other clients' prompts do not slow down decoding.

    One GPU does both; prompts of 2,000 tokens beside answers of 100 are most of its time.

    Rejected by: test_serve__prompts_stop_the_decoding_of_others
    """
    return _served(step_s, prefill_s, output_tokens, concurrency, slots, stops=0)


def serve__all_clients_run(step_s, prefill_s, output_tokens, concurrency, slots):
    """clients without a slot make tokens as well.

    What the cache cannot hold does not run; it queues.

    Rejected by: test_serve__prompts_stop_the_decoding_of_others
    """
    return _served(step_s, prefill_s, output_tokens, concurrency, concurrency)


def cost_per_million_tokens__one_gpu(tokens_per_s, num_gpus, price_per_gpu_hour):
    """the price of one GPU is set against the tokens of all.

    The same rate on eight GPUs costs eight times as much a token.

    Rejected by: test_cost_per_million_tokens__all_gpus_all_seconds
    """
    return price_per_gpu_hour / 3600 / tokens_per_s * 1e6


def choose__most_tokens_in_all(plans, ttft_s, tpot_s):
    """tokens per second are compared without the GPUs that make them.

    The largest plan nearly always makes the most; what it costs is the question.

    Rejected by: test_choose__most_tokens_per_gpu_within_the_limits
    """
    return _choose([plan | {"num_gpus": 1} for plan in plans], ttft_s, tpot_s)


def choose__limits_ignored(plans, ttft_s, tpot_s):
    """a plan that is too slow for one client may still be chosen.

    Throughput per GPU grows with the batch, and so does the time of every token.

    Rejected by: test_choose__most_tokens_per_gpu_within_the_limits
    """
    return _choose(plans, None, None)


def regret__error_of_the_number(predicted, measured):
    """the error of the prediction is taken for what the choice costs.

    Rankings survive wrong numbers: a choice is good or bad by what was measured.

    Rejected by: test_regret__is_what_the_choice_costs
    """
    best = max(predicted, key=predicted.get)
    return abs(1 - measured[best] / predicted[best])


# --- Part B: debug the classics ------------------------------------------------------------------


def decompose__all_of_it_is_network(evidence):
    """all time inside a collective is taken for transfer.

    Most of it is waiting for the last rank: a faster network would not give it back.

    Rejected by: test_decompose__waiting_ends_with_the_last_rank
    """
    parts = _decompose(evidence)
    steps = evidence["ranks"][0]["steps"]
    parts["transfer_us"] = [[left - came for *_, came, left in s["collectives"]] for s in steps]
    parts["wait_us"] = [[0] * len(steps) for _ in evidence["ranks"]]
    return parts


def decompose__compares_clocks(evidence):
    """moments of different ranks are subtracted.

    Every host counts from a moment of its own; only durations can be compared.

    Rejected by: test_decompose__waiting_ends_with_the_last_rank,
    test_decompose__needs_no_common_clock
    """
    parts = _decompose(evidence)
    for number, steps in enumerate(zip(*(r["steps"] for r in evidence["ranks"]), strict=True)):
        for n in range(len(steps[0]["collectives"])):
            came = [step["start_us"] + step["collectives"][n][2] for step in steps]
            left = min(step["start_us"] + step["collectives"][n][3] for step in steps)
            parts["transfer_us"][number][n] = max(0, left - max(came))
    return parts


def decompose__compute_includes_the_wait(evidence):
    """waiting is counted as computing.

    A rank that waits spins at 99% of its core, and looks as busy as the one it waits for.

    Rejected by: test_decompose__waiting_ends_with_the_last_rank
    """
    parts = _decompose(evidence)
    for rank, waits in enumerate(parts["wait_us"]):
        pairs = zip(parts["compute_us"][rank], waits, strict=True)
        parts["compute_us"][rank] = [own + waited for own, waited in pairs]
    return parts


def decompose__slowest_stay_is_the_transfer(evidence):
    """the longest stay in a collective is taken for the transfer.

    The longest stay is that of the rank that came first: it holds all of the waiting.

    Rejected by: test_decompose__waiting_ends_with_the_last_rank
    """
    parts = _decompose(evidence)
    for number, steps in enumerate(zip(*(r["steps"] for r in evidence["ranks"]), strict=True)):
        stays = [[left - came for *_, came, left in step["collectives"]] for step in steps]
        parts["transfer_us"][number] = [max(times) for times in zip(*stays, strict=True)]
        for rank, mine in enumerate(stays):
            parts["wait_us"][rank][number] = sum(parts["transfer_us"][number]) - sum(mine)
    return parts


def link_line__through_the_means(points):
    """late messages bend the line.

    Of a size, one message in ten that is forty times late moves the mean, not the median.

    Rejected by: test_link_line__is_the_line_through_the_medians
    """
    of_size = {}
    for size, us in points:
        of_size.setdefault(size, []).append(us)
    if len(of_size) < 2:
        raise ValueError("one of the sizes only")
    means = [(size, statistics.fmean(times)) for size, times in of_size.items()]
    line = statistics.linear_regression(*zip(*means, strict=True))
    return line.intercept, 1e6 / line.slope if line.slope > 0 else math.inf


def link_line__no_latency(points):
    """the line goes through the origin.

    Then a link with a long latency seems to have a low rate, and is repaired at the wrong end.

    Rejected by: test_link_line__is_the_line_through_the_medians
    """
    if len({size for size, _ in points}) < 2:
        raise ValueError("one of the sizes only")
    slope = statistics.fmean(us / size for size, us in points)
    return 0.0, 1e6 / slope


def stage_times__waiting_is_busy(microbatches):
    """a stage is busy from asking for its input.

    Behind a slow stage every other one then looks as slow: they wait for it.

    Rejected by: test_stage_times__are_the_medians_of_busy_time_and_pace
    """
    busy = [statistics.median(done - asked for asked, _, done, _ in st) for st in microbatches]
    return busy, _stage_times(microbatches)[1]


def stage_times__period_with_the_fill(microbatches):
    """the whole time is divided by the microbatches.

    The first result needs all stages; the pace is what follows.

    Rejected by: test_stage_times__are_the_medians_of_busy_time_and_pace
    """
    return _stage_times(microbatches)[0], microbatches[-1][-1][2] / len(microbatches[-1])


def diagnose__who_is_last(evidence):
    """the rank that comes last most often is called slow.

    Somebody is always last: a healthy rank that is 3% slower is last nearly every time.

    Rejected by: test_diagnose__healthy_or_worth_nothing
    """
    found = _diagnose(evidence)
    if "ranks" not in evidence or found["cause"] != "healthy":
        return found
    last = [0] * len(evidence["ranks"])
    for steps in zip(*(rank["steps"] for rank in evidence["ranks"]), strict=True):
        for calls in zip(*(step["collectives"] for step in steps), strict=True):
            last[min(range(len(calls)), key=lambda r: calls[r][3] - calls[r][2])] += 1
    rank = max(range(len(last)), key=last.__getitem__)
    if last[rank] > 0.5 * sum(last) > 0:
        return found | {"cause": "slow-rank", "where": rank}
    return found


def diagnose__the_busy_rank(evidence):
    """the rank at 99% of its core is called the bottleneck.

    It spins in a wait. The slow one may be the one that the monitor shows at 50%.

    Rejected by: test_diagnose__a_slow_rank_is_who_the_others_wait_for
    """
    found = _diagnose(evidence)
    if found["cause"] in ("slow-rank", "busy-neighbour"):
        shares = [sum(column) for column in zip(*evidence["processor"]["ranks"], strict=True)]
        found |= {"where": max(range(len(shares)), key=shares.__getitem__)}
    return found


def diagnose__time_in_collectives_is_network(evidence):
    """a run that spends its time in collectives is given a slow link.

    Ranks that wait for a slow one are in a collective too.

    Rejected by: test_diagnose__a_slow_rank_is_who_the_others_wait_for
    """
    found = _diagnose(evidence)
    if "ranks" not in evidence or not evidence["ranks"][0]["steps"][0]["collectives"]:
        return found
    inside = whole = 0
    for rank in evidence["ranks"]:
        for step in rank["steps"]:
            whole += step["end_us"] - step["start_us"]
            inside += sum(left - came for *_, came, left in step["collectives"])
    return found | {"cause": "slow-link", "where": "link"} if inside > 0.3 * whole else found


def diagnose__prefills_are_a_tail(evidence):
    """a 99th percentile far above the median is called an unsteady link.

    The slowest steps hold a prompt: their payload is ten times a decode step's.

    Rejected by: test_diagnose__healthy_or_worth_nothing
    """
    found = _diagnose(evidence)
    if "ranks" not in evidence or found["cause"] != "healthy":
        return found
    transfer = sorted(sum(times) for times in _decompose(evidence)["transfer_us"])
    if transfer[int(0.99 * len(transfer))] > 1.5 * statistics.median(transfer) > 0:
        return found | {"cause": "unsteady-link", "where": "link"}
    return found


def diagnose__the_mean_transfer(evidence):
    """a link whose mean transfer is long is called slow.

    The mean moves with one bad step in ten; the typical step says whether the link is slow.

    Rejected by: test_diagnose__a_link_is_slow_or_unsteady
    """
    found = _diagnose(evidence)
    return found | {"cause": "slow-link"} if found["cause"] == "unsteady-link" else found


def diagnose__others_on_the_machine(evidence):
    """a capture is believed although others used the cores.

    Their load makes ranks slow, and goes away with them: nothing can be concluded.

    Rejected by: test_diagnose__healthy_or_worth_nothing
    """
    if "processor" in evidence and "ranks" in evidence:
        own = evidence["processor"]["ranks"]
        return _diagnose(evidence | {"processor": {"ranks": own, "cores": own}})
    return _diagnose(evidence)


def diagnose__no_neighbour(evidence):
    """who uses the slow rank's core is not asked.

    A throttled device is replaced; a neighbour is moved. The busy core tells them apart.

    Rejected by: test_diagnose__a_slow_rank_is_who_the_others_wait_for
    """
    found = _diagnose(evidence)
    return found | {"cause": "slow-rank"} if found["cause"] == "busy-neighbour" else found


def diagnose__timings_only(evidence):
    """the start-up is not read.

    Two replicas and copied KV heads run fast: only memory, and what the log said, show them.

    Rejected by: test_diagnose__the_start_up_tells
    """
    found = _diagnose(evidence)
    if found["cause"] in ("replicas", "copied-heads"):
        return found | {"cause": "healthy", "cost": 0.0}
    return found


def diagnose__more_microbatches(evidence):
    """a large bubble is answered with more microbatches.

    With one slow stage the others stay idle however many there are: look at the busy times.

    Rejected by: test_diagnose__a_pipeline_is_starved_or_has_a_slow_stage
    """
    found = _diagnose(evidence)
    if found["cause"] == "slow-stage":
        return found | {"cause": "starved", "where": None}
    return found


def diagnose__the_stage_that_waits(evidence):
    """the stage that waits longest is called slow.

    It stands behind the slow one.

    Rejected by: test_diagnose__a_pipeline_is_starved_or_has_a_slow_stage
    """
    found = _diagnose(evidence)
    if found["cause"] == "slow-stage":
        waits = [sum(had - asked for asked, had, *_ in st) for st in evidence["microbatches"]]
        return found | {"where": max(range(len(waits)), key=waits.__getitem__)}
    return found


def diagnose__requests_so_far(evidence):
    """the fill-drain bubble of a batch is taken for a running server.

    Lab 04's (p-1)/(p+m-1) fills and drains once per batch; here m requests go round and round, and
    keep m of p stages busy. The two agree for m = 1 alone.

    Rejected by: test_diagnose__a_pipeline_is_starved_or_has_a_slow_stage
    """
    found = _diagnose(evidence)
    if found["cause"] == "starved":
        p, m = evidence["plan"]["pp_size"], len(evidence["requests"])
        return found | {"cost": (p - 1) / (p + m - 1)}
    return found


def diagnose__any_waiting_is_lost_overlap(evidence):
    """every training step that waits has lost its overlap.

    The last transfer of a pipeline has nothing to hide behind: compare with the healthy step.

    Rejected by: test_diagnose__an_overlap_that_is_lost
    """
    found = _diagnose(evidence)
    if "spans" in evidence and any(
        span[0] == "wait" for rank in evidence["spans"] for span in rank
    ):
        return found | {"cause": "no-overlap"}
    return found
