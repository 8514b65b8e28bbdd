"""Plausible mistakes of the capstone. See labkit/mistakes/__init__.py for how they are written."""

EDITS = """
Rejected by: test_split_faults__name_everything_that_does_not_divide

split_faults__kv_heads_must_divide
more ranks than KV heads are taken as impossible.
vLLM then holds each KV head on several ranks; transformers' own tensor parallelism refuses.
    max(kv_heads, tp_size) % min(kv_heads, tp_size)  ->  kv_heads % tp_size

Rejected by: test_split_faults__latent_stages_and_blocks

split_faults__latent_has_heads
the KV heads of an MLA model are divided.
Its config.json names num_key_value_heads, but what is cached is one latent for all of them.
    if not model["latent"] and max  ->  if max

split_faults__blocks_forgotten
a quantised width may be cut anywhere.
The elements of a block share one scale: half a block on a rank has no scale of its own.
    width % (tp_size * block)  ->  width % tp_size

Rejected by: test_sequence_kv_bytes__windows_latents_and_states

sequence_kv_bytes__latent_divided
tensor parallelism divides an MLA cache.
Every head reads the whole latent, so every rank keeps all of it; only data parallel attention
or decode context parallelism spreads it.
    tokens * layer["width"]  ->  tokens * layer["width"] / tp_size

sequence_kv_bytes__window_forgotten
sliding-window layers keep every token.
A layer that looks back 128 tokens frees what lies further back.
    min(num_tokens, layer.get("window", num_tokens))  ->  num_tokens

Rejected by: test_sequence_kv_bytes__heads_are_divided_and_held_again

sequence_kv_bytes__fraction_of_a_head
a KV head is divided among the ranks that share it.
A rank of 16 beside 8 KV heads holds one whole head; half a head cannot be attended to.
    max(1, layer["kv_heads"] // tp_size)  ->  layer["kv_heads"] / tp_size

sequence_kv_bytes__keys_only
keys are counted and values forgotten.
Attention weighs the values by what the keys say; both stay.
    2 * tokens  ->  tokens

Rejected by: test_memory_verdicts__of_an_h100

memory_verdicts__decimal_label
the reported bytes are rounded down to whole GB, as on the label.
An "80 GB" H100 reports 85.5e9 bytes: five GB are the cache of thousands of tokens.
    utilization * reported_bytes
    ->  utilization * (80e9 if 80e9 < reported_bytes < 90e9 else reported_bytes)

Rejected by: test_memory_verdicts__three_that_people_mix_up

memory_verdicts__weights_against_all_memory
what the engine may use is applied to what is left, not to the whole.
gpu_memory_utilization is a part of the GPU's memory: weights are inside it as well.
    utilization * reported_bytes  ->  reported_bytes
    budget - weights_bytes - other_bytes
    ->  utilization * (budget - weights_bytes - other_bytes)

memory_verdicts__other_forgotten
activations, graphs and the runtime take no memory.
Two or three GB of every GPU; when the cache is what is left over, they decide.
    budget - weights_bytes - other_bytes  ->  budget - weights_bytes

memory_verdicts__loads_is_fits
the weights load, so everything fits.
A start that loads its weights may still end in "No available memory for the cache blocks".
    sequence_kv_bytes(layers, tokens, tp_size) <= free  ->  weights_bytes <= budget
    low == full_context  ->  weights_bytes <= budget

Rejected by: test_touched_bytes__experts_that_somebody_chose

touched_bytes__all_experts
every expert is read in every step.
One token reads top_k of them; that is why a mixture of experts is fast at batch 1.
    (1 - top_k / num_experts) ** tokens  ->  0

touched_bytes__top_k_times_tokens
two tokens never choose the same expert.
top_k x tokens experts, up to all: right for one token, and too many soon after.
    (1 - top_k / num_experts) ** tokens  ->  max(0, 1 - top_k * tokens / num_experts)

touched_bytes__active_parameters_always
a batch reads no more experts than one token does.
The active parameters on a model's card are those of one token; tokens choose differently.
    (1 - top_k / num_experts) ** tokens  ->  1 - top_k / num_experts

Rejected by: test_decode_compute_s__the_higher_of_two_roofs

decode_compute_s__memory_only
decode is bound by memory at every batch.
From about 300 tokens a step on, an H100 multiplies longer than it reads.
    max(reading, arithmetic)  ->  reading

decode_compute_s__one_flop_per_mac
a multiply-accumulate is counted as one operation.
Vendors count two: a multiplication and an addition.
    2 * macs * tokens  ->  macs * tokens

decode_compute_s__cache_hidden
the cache is read while the weights are multiplied.
Attention's kernels are kernels of their own: no arithmetic hides their reading.
    reading, arithmetic = weight_bytes  ->  reading, arithmetic = (weight_bytes + kv_bytes)
    arithmetic) + kv_bytes / memory_bytes_per_s  ->  arithmetic)

Rejected by: test_ridge_tokens__where_the_roofs_meet

ridge_tokens__without_the_two
a weight costs one operation per token.
It is multiplied and added: the ridge lies at half as many tokens.
    (2 * memory_bytes_per_s)  ->  memory_bytes_per_s

Rejected by: test_prefill_compute_s__grows_with_the_square_as_well

prefill_compute_s__linear
a prompt twice as long takes twice as long.
At 32 Ki tokens of a 70 B model attention's square is a good part of it.
    weights_s + 2 * 2 * pairs * attention_width / flops_per_s  ->  weights_s

prefill_compute_s__whole_square
every token attends to every other.
A causal mask leaves half of the square, and kernels skip the other half.
    prompt_tokens**2 / 2  ->  prompt_tokens**2

Rejected by: test_serve__a_client_without_a_slot_waits

serve__ttft_without_queueing
the first token waits for its own prompt alone.
With more clients than slots the queue is most of the wait, and it is what a limit on TTFT fails
on.
    queue_s + ahead_s + prefill_s  ->  prefill_s

Rejected by: test_serve__prompts_stop_the_decoding_of_others

serve__prefill_is_free
other clients' prompts do not slow down decoding.
One GPU does both; prompts of 2,000 tokens beside answers of 100 are most of its time.
    output_tokens * step_s + running * prefill_s  ->  output_tokens * step_s

serve__all_clients_run
clients without a slot make tokens as well.
What the cache cannot hold does not run; it queues.
    min(concurrency, slots)  ->  concurrency

Rejected by: test_cost_per_million_tokens__all_gpus_all_seconds

cost_per_million_tokens__one_gpu
the price of one GPU is set against the tokens of all.
The same rate on eight GPUs costs eight times as much a token.
    num_gpus * price_per_gpu_hour  ->  price_per_gpu_hour

Rejected by: test_choose__most_tokens_per_gpu_within_the_limits

choose__most_tokens_in_all
tokens per second are compared without the GPUs that make them.
The largest plan nearly always makes the most; what it costs is the question.
    plan["num_gpus"]  ->  1

choose__limits_ignored
a plan that is too slow for one client may still be chosen.
Throughput per GPU grows with the batch, and so does the time of every token.
    filter(within, plans)  ->  plans

Rejected by: test_regret__is_what_the_choice_costs

regret__error_of_the_number
the error of the prediction is taken for what the choice costs.
Rankings survive wrong numbers: a choice is good or bad by what was measured.
    1 - measured[max(predicted, key=predicted.get)] / max(measured.values())
    ->  abs(1 - measured[max(predicted, key=predicted.get)] / max(predicted.values()))

Rejected by: test_decompose__waiting_ends_with_the_last_rank

decompose__all_of_it_is_network
all time inside a collective is taken for transfer.
Most of it is waiting for the last rank: a faster network would not give it back.
    [min(times) for times in zip(*inside, strict=True)]  ->  inside[0]
    mine - sum(transfer[-1])  ->  0

decompose__compute_includes_the_wait
waiting is counted as computing.
A rank that waits spins at 99% of its core, and looks as busy as the one it waits for.
    duration - mine  ->  duration - sum(transfer[-1])

decompose__slowest_stay_is_the_transfer
the longest stay in a collective is taken for the transfer.
The longest stay is that of the rank that came first: it holds all of the waiting.
    min(times)  ->  max(times)
    mine - sum(transfer[-1])  ->  sum(transfer[-1]) - mine

Rejected by: test_link_line__is_the_line_through_the_medians

link_line__through_the_means
late messages bend the line.
Of a size, one message in ten that is forty times late moves the mean, not the median.
    statistics.median  ->  statistics.fmean

link_line__no_latency
the line goes through the origin.
Then a link with a long latency seems to have a low rate, and is repaired at the wrong end.
    sum((size - mean_size) * (us - mean_us) for size, us in medians) / spread
    ->  statistics.fmean(us / size for size, us in points)
    mean_us - slope * mean_size  ->  0.0

Rejected by: test_stage_times__are_the_medians_of_busy_time_and_pace

stage_times__waiting_is_busy
a stage is busy from asking for its input.
Behind a slow stage every other one then looks as slow: they wait for it.
    done - had for _, had, done, _  ->  done - asked for asked, _, done, _

stage_times__period_with_the_fill
the whole time is divided by the microbatches.
The first result needs all stages; the pace is what follows.
    statistics.median(gaps) if gaps else busy[-1]  ->  done[-1] / len(done)

Rejected by: test_diagnose__a_link_is_slow_or_unsteady

diagnose__the_mean_transfer
a link whose mean transfer is long is called slow.
The mean moves with one bad step in ten; the typical step says whether the link is slow.
    "cause": cause  ->  "cause": "slow-link" if cause == "unsteady-link" else cause

Rejected by: test_diagnose__a_slow_rank_is_who_the_others_wait_for

diagnose__no_neighbour
who uses the slow rank's core is not asked.
A throttled device is replaced; a neighbour is moved. The busy core tells them apart.
    "cause": cause  ->  "cause": "slow-rank" if cause == "busy-neighbour" else cause

Rejected by: test_diagnose__the_start_up_tells

diagnose__timings_only
the start-up is not read.
Two replicas and copied KV heads run fast: only memory, and what the log said, show them.
    found = fault  ->  found = found if rule in (_replicas, _copied_heads) else fault

Rejected by: test_diagnose__a_pipeline_is_starved_or_has_a_slow_stage

diagnose__more_microbatches
a large bubble is answered with more microbatches.
With one slow stage the others stay idle however many there are: look at the busy times.
    found = fault  ->  found = ("starved", None, fault[2]) if fault[0] == "slow-stage" else fault
"""

# These take what the solution says, and change it; it stands here under names of its own.

_decompose, _diagnose = decompose, diagnose


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


def diagnose__others_on_the_machine(evidence):
    """a capture is believed although others used the cores.

    Their load makes ranks slow, and goes away with them: nothing can be concluded.

    Rejected by: test_diagnose__healthy_or_worth_nothing
    """
    if "processor" in evidence and "ranks" in evidence:
        own = evidence["processor"]["ranks"]
        return _diagnose(evidence | {"processor": {"ranks": own, "cores": own}})
    return _diagnose(evidence)


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
