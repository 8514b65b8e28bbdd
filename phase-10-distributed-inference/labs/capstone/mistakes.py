"""Plausible mistakes of the capstone. See labkit/mistakes/__init__.py for how they are written."""

EDITS = """
Rejected by: test_split_faults__name_everything_that_does_not_divide

split_faults__kv_heads_must_divide
more ranks than KV heads are taken as impossible.
vLLM then holds each KV head on several ranks; transformers' own tensor parallelism refuses.
    max(kv_heads, tp_size) % min(kv_heads, tp_size)  ->  kv_heads % tp_size

Rejected by: test_split_faults__latent_stages_and_blocks

split_faults__one_rank_needs_a_block
a width below one block is refused for one rank too.
One rank alone cuts nothing: its last block may be a part of one, be it the only one.
    model["widths"].items() if tp_size > 1 else ()  ->  model["widths"].items()
    if width % (tp_size * block)  ->  if width < block or tp_size > 1 and width % (tp_size * block)

split_faults__latent_has_heads
the KV heads of an MLA model are divided.
Its config.json names num_key_value_heads, but what is cached is one latent for all of them.
    if not model["latent"] and max  ->  if max

split_faults__blocks_forgotten
a quantised width may be cut anywhere.
The elements of a block share one scale: half a block on a rank has no scale of its own.
    width % (tp_size * block)  ->  width % tp_size

split_faults__the_last_block_may_be_a_part
a ragged width is dealt out block by block, the last one as it is.
Ranks hold shards of equal width: where it is no whole number of blocks, a cut falls into one.
    width % (tp_size * block)  ->  -(-width // block) % tp_size

Rejected by: test_sequence_kv_bytes__windows_latents_and_states

sequence_kv_bytes__latent_divided
tensor parallelism divides an MLA cache.
Every head reads the whole latent, so every rank keeps all of it; only data parallel attention
or decode context parallelism spreads it.
    tokens * layer["width"]  ->  tokens * layer["width"] / tp_size

sequence_kv_bytes__a_node_at_most
a state is divided over eight ranks at most.
tp_size says over how many; nodes do not matter to what a rank holds.
    layer["elements"] / tp_size  ->  layer["elements"] / min(tp_size, 8)

sequence_kv_bytes__window_forgotten
sliding-window layers keep every token.
A layer that looks back 128 tokens frees what lies further back.
    min(num_tokens, layer.get("window", num_tokens))  ->  num_tokens

Rejected by: test_sequence_kv_bytes__heads_are_divided_and_held_again

sequence_kv_bytes__fraction_of_a_head
a KV head is divided among the ranks that share it.
A rank of 16 beside 8 KV heads holds one whole head; half a head cannot be attended to.
    max(1, layer["kv_heads"] // tp_size)  ->  layer["kv_heads"] / tp_size

sequence_kv_bytes__heads_of_a_node
heads are divided over eight ranks at most.
tp_size says over how many; nodes do not matter to what a rank holds.
    layer["kv_heads"] // tp_size  ->  layer["kv_heads"] // min(tp_size, 8)

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

memory_verdicts__every_token_costs_as_much
every token is taken to cost what the first one does.
A window stops growing, and a state is all there with the first token: search, and do not divide.
    low, high = 0, full_context
    ->  low = high = min(full_context, int(max(0, free) // sequence_kv_bytes(layers, 1, tp_size)))
    low == full_context  ->  sequence_kv_bytes(layers, full_context, tp_size) <= free

memory_verdicts__no_more_than_the_model_can
tokens above full_context are taken for full_context.
Whether a model can is another question than whether memory can; a longer one is asked for as well.
    sequence_kv_bytes(layers, tokens,  ->  sequence_kv_bytes(layers, min(tokens, full_context),

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

Rejected by: test_prefill_compute_s__grows_with_the_square_as_well

prefill_compute_s__one_token
the weights are multiplied with one token of the prompt only.
All its tokens pass through them, in one step.
    macs, prompt_tokens, *speeds  ->  macs, 1, *speeds

prefill_compute_s__linear
a prompt twice as long takes twice as long.
At 32 Ki tokens of a 70 B model attention's square is a good part of it.
    weights_s + 2 * 2 * pairs * attention_width / flops_per_s  ->  weights_s

prefill_compute_s__attention_behind_the_reading
attention's arithmetic is hidden behind the reading of the weights.
It comes after each layer's weights: they are read and multiplied at the same time, then it follows.
    0, macs, prompt_tokens  ->  0, macs + 2 * pairs * attention_width / prompt_tokens, prompt_tokens
    weights_s + 2 * 2 * pairs * attention_width / flops_per_s  ->  weights_s

prefill_compute_s__whole_square
every token attends to every other.
A causal mask leaves half of the square, and kernels skip the other half.
    prompt_tokens**2 / 2  ->  prompt_tokens**2

Rejected by: test_serve__a_client_without_a_slot_waits

serve__no_prompts_no_queue
without prompts nobody waits.
A client without a slot waits for one all the same, while others decode.
    queue_s = (concurrency - running)  ->  queue_s = (prefill_s > 0) * (concurrency - running)

serve__ttft_without_queueing
the first token waits for its own prompt alone.
With more clients than slots the queue is most of the wait, and it is what a limit on TTFT fails
on.
    queue_s + ahead_s + prefill_s  ->  prefill_s

serve__prompts_in_progress_at_every_moment
half of the others' prompts stand before one's own, whatever the moment.
Prompts are taken in for a part of the round only; at other times none stands before one's own.
    busy * (running - 1) * prefill_s / 2  ->  (running - 1) * prefill_s / 2

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

cost_per_million_tokens__an_hours_price_a_second
an hour's price is paid every second.
The price is for 3600 seconds, and tokens_per_s for one.
    price_per_gpu_hour / 3600  ->  price_per_gpu_hour

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

choose__whole_tokens
rates are rounded before they are compared.
A tie is a tie only where the rates are equal: the better plan may be better by a fraction.
    return plan["tokens_per_s"][which] / plan["num_gpus"]
    ->  return round(plan["tokens_per_s"][which] / plan["num_gpus"])

choose__any_other_is_close
the best of any other plan makes it close, be it far behind typically.
The question is which of two to take: the choice, or the one that would be taken in its place.
    per_gpu(second, 0) >=  ->  max(per_gpu(plan, 0) for plan in kept[1:]) >=

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

decompose__all_reduces_only
only all-reduces are taken for collectives.
Ranks meet in an all-gather as well: whoever comes early waits in it, and that is no computing.
    for *_, entered, left in step["collectives"]]
    ->  for what, _, entered, left in step["collectives"] if what == "all_reduce"]

decompose__one_length_for_all_ranks
every rank's step is taken to last as long as the first rank's.
Ranks leave the last collective together and go on computing, each for a time of its own.
    step["end_us"] - step["start_us"]  ->  steps[0]["end_us"] - steps[0]["start_us"]

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

Rejected by: test_used_by_others__is_what_no_rank_did

used_by_others__clocks_that_disagree
a rank that used more than its core was busy is counted as less than nobody.
Two clocks never agree: what is below zero in one sample hides somebody in another.
    max(0, c - r)  ->  c - r

used_by_others__busy_is_others
a busy core is taken for somebody else's.
The rank itself uses it, and spins where it waits: only what lies beyond is another's.
    max(0, c - r)  ->  c

Rejected by: test_slowest_rank__by_the_median_of_its_computing

slowest_rank__beside_the_next
the slowest rank is compared with the next one.
Two slow ranks of four then look healthy: compare with the fastest.
    max(medians) / min(medians)  ->  max(medians) / sorted(medians)[max(0, len(medians) - 2)]

slowest_rank__by_the_mean
the mean step is taken for the typical one.
One long interruption moves the mean: a rank that stopped once is not slow.
    statistics.median(times)  ->  statistics.fmean(times)

Rejected by: test_look_at_ranks__a_slow_rank_is_who_the_others_wait_for

look_at_ranks__no_neighbour
who uses the slow rank's core is not asked.
A throttled device is replaced; a neighbour is moved. The busy core tells them apart.
    "busy-neighbour" if foreign[rank] > 0.1 else "slow-rank"  ->  "slow-rank"

look_at_ranks__at_the_fastest_pace
the cost is reckoned at the pace of the fastest rank.
Mended, the slow rank is as slow as the others: the slowest of them then sets the step.
    longest = max(  ->  longest = min(

look_at_ranks__the_second_longest
the second longest mean is taken for the longest of another rank.
The slow rank's own mean may be the second: who was stopped once for long has a longer one.
    longest = max(us for other, us in enumerate(means) if other != rank)
    ->  longest = sorted(means)[-2]

look_at_ranks__never_below_zero
a cost below 0 is taken for none.
It is a difference of two means, and another rank may have been stopped for long.
    (means[rank] - longest)  ->  max(0, means[rank] - longest)

look_at_ranks__of_the_computing
the cost is a part of the slow rank's computing.
What users feel is the step: waiting and transfer are in it.
    / mean_step_us(evidence)  ->  / means[rank]

look_at_ranks__over_its_own_step
the cost is a part of the slow rank's own steps.
Every look has its cost over the same mean_step_us, or two costs could not be compared.
    mean_step_us(evidence), **  ->  mean_step_us({"ranks": [evidence["ranks"][rank]]}), **

Rejected by: test_look_at_ranks__a_capture_that_is_worth_nothing

look_at_ranks__others_on_the_machine
a capture is believed although others used the cores.
Their load makes ranks slow, and goes away with them: nothing can be concluded.
    if any(share > 0.1  ->  if any(share > 9

look_at_ranks__the_neighbour_disturbs
others on the slow rank's own core make the capture worthless.
They are the incident: the rank is slow because of them.
    if not (slow and core == rank)  ->  if core >= 0

Rejected by: test_decode_transfer__is_of_whole_decode_steps

decode_transfer__prefills_too
prefills are steps like the others.
Their payload is ten times a decode step's: a 99th percentile of all is one of prefills.
    if step["tokens"] == step["requests"]  ->  if step["tokens"]

decode_transfer__the_longest_message
the longest transfer of a step stands for all of it.
A step needs all its collectives, one after the other: add them up.
    sum(times)  ->  max(times)

decode_transfer__the_worst
the worst step is taken for the 99th percentile.
One bad step in a thousand is nobody's fault, and every run has one.
    decode[int(0.99 * (len(decode) - 1))]  ->  decode[-1]

decode_transfer__one_below
the index is taken of the count, and one is taken off.
int(0.99 * (count - 1)) is another one at 101 steps.
    int(0.99 * (len(decode) - 1))  ->  max(0, int(0.99 * len(decode)) - 1)

decode_transfer__few_tokens
a step with few tokens is taken for a decode step.
A prompt of two tokens is a prefill too: its step has more tokens than requests.
    step["tokens"] == step["requests"]  ->  step["tokens"] <= 2 * step["requests"]

Rejected by: test_look_at_link__a_link_is_slow_or_unsteady

look_at_link__one_kind
a link whose tail is long is called slow.
The typical step says whether the link is slow; an unsteady one is healthy most of the time.
    "slow-link" if typical > 1.6 else "unsteady-link"  ->  "slow-link"

look_at_link__tail_of_this_run
the tail is compared with this run's own median.
Every run has a tail. The healthy run's says how long it may be.
    decode_transfer(healthy), strict=True)
    ->  (decode_transfer(healthy)[0], decode_transfer(evidence)[0]), strict=True)

look_at_link__tail_beside_a_median
the tail is compared with the healthy run's median.
Every run has a tail. The healthy run's says how long it may be.
    zip(decode_transfer(evidence), decode_transfer(healthy), strict=True)
    ->  zip(decode_transfer(evidence), decode_transfer(healthy)[:1] * 2, strict=True)

look_at_link__over_the_first_ranks_step
the cost is a part of the first rank's steps.
Every look has its cost over the same mean_step_us, or two costs could not be compared.
    mean_step_us(evidence), **  ->  mean_step_us({"ranks": evidence["ranks"][:1]}), **

look_at_link__never_below_zero
a cost below 0 is taken for none.
It is a difference of two means, and the healthy run may have had the worse days.
    (now_us - usual_us)  ->  max(0, now_us - usual_us)

look_at_link__cost_of_all_transfers
the whole transfer is called the fault's cost.
A healthy link needs time as well: only what lies beyond is saved.
    (now_us - usual_us)  ->  now_us

Rejected by: test_requests_in_flight__by_littles_law

requests_in_flight__the_list_in_order
the first of the list is taken to have come first.
The list is in no order: the window begins with the earliest arrival.
    min(came)  ->  came[0]

requests_in_flight__first_and_last_of_the_list
the first of the list is taken to have come first, and the last of it to be gone last.
The list is in no order: the window begins with the earliest arrival, and ends with the last token.
    (max(gone) - min(came))  ->  (gone[-1] - came[0])

requests_in_flight__how_many_came
the requests are counted.
Four that come one after the other are one in flight.
    (sum(gone) - sum(came)) / (max(gone) - min(came))  ->  float(len(came))

requests_in_flight__the_first_token
a request is taken for gone with its first token.
It stays until its last one: decoding is most of its time.
    ["token_us"][-1]  ->  ["token_us"][0]

requests_in_flight__from_zero
the window begins at 0.
Clocks begin anywhere: it begins with the first arrival.
    (max(gone) - min(came))  ->  max(gone)

Rejected by: test_look_at_requests__fewer_than_stages

look_at_requests__fewer_than_stages_by_a_hair
anything below the number of stages starves.
At the ends of a window requests come and go: half a request is noise.
    stages - 0.5  ->  stages

look_at_requests__fill_and_drain
the fill-drain bubble of a batch is taken for a running server.
Lab 04's (p-1)/(p+m-1) fills and drains once per batch; here m requests go round and round, and
keep m of p stages busy. The two agree for m = 1 alone.
    1 - in_flight / stages  ->  (stages - 1) / (stages + in_flight - 1)

Rejected by: test_look_at_stages__one_is_busier_than_the_typical

look_at_stages__beside_the_fastest
a stage is compared with the fastest one.
A fast stage makes no other one slow: it waits.
    statistics.median_low(busy)  ->  min(busy)

look_at_stages__between_two
of an even number of stages the typical one lies between two.
Of two stages the slow one then is part of what is typical.
    statistics.median_low(busy)  ->  statistics.median(busy)

look_at_stages__a_microbatch_for_each_stage
the stages are counted, and taken for the microbatches.
evidence["microbatches"] has one list for each stage; each of these has one row per microbatch.
    len(evidence["microbatches"][0]) - 1  ->  len(evidence["microbatches"]) - 1

look_at_stages__pace_alone
the cost is that of the pace, without the fill and the drain.
A slow stage costs its microbatches' waiting, and a few microbatches pay the fill once each.
    1 - without / with_it  ->  1 - typical / longest

Rejected by: test_look_at_start_up__engines_and_copies

look_at_start_up__timings_only
engines of their own are not looked for.
Two replicas run fast: only memory, and what the log said, show them.
    if engines > 1:  ->  if engines > 99:

look_at_start_up__copies_are_needed
KV heads that are held twice are taken as planned.
The second GPU then buys no cache.
    if copies > 1:  ->  if copies > 99:

look_at_start_up__stages_forgotten
the planned ranks are those of tensor parallelism alone.
Stages are ranks as well: world_size counts both.
    plan["tp_size"] * plan["pp_size"]  ->  plan["tp_size"]

look_at_start_up__processes
the processes are counted.
A log may lack some; each says the size of its own world.
    / process["world_size"]  ->  / max(1, len(evidence["start_up"]) // process["world_size"])

look_at_start_up__copies_of_engines
the cost of engines of their own is that of copied heads, where these are more.
The first cause is the answer, and so is its cost.
    cost=1 - 1 / engines  ->  cost=1 - 1 / max(engines, copies)

look_at_start_up__whole_engines
fewer than two engines are taken for one.
Six planned ranks in worlds of four are one and a half: that plan runs nowhere either.
    engines > 1  ->  engines >= 2

Rejected by: test_share_waited__of_all_ranks_together

share_waited__issuing_is_waiting
to issue a transfer is taken for waiting.
The call returns at once: the products go on behind it.
    lane == "wait"  ->  lane != "GEMM"

share_waited__mean_of_ranks
the ranks' shares are averaged, whatever their steps take.
All waiting over all time: a short step counts for less.
    return waits / steps
    ->  return statistics.fmean(_share_of(rank) for rank in spans)

share_waited__the_last_to_begin
a rank's step ends with the span that begins last.
Two lanes overlap: an early transfer may end after the GEMM that began behind it.
    max(span[3] for span in rank)  ->  max(rank, key=lambda span: span[2])[3]

Rejected by: test_look_at_overlap__against_the_healthy_step

look_at_overlap__any_waiting
every training step that waits has lost its overlap.
The last transfer of a pipeline has nothing to hide behind: compare with the healthy step.
    if lost >= 0.1  ->  if waited > 0

look_at_overlap__any_difference
it waits less than on the healthy day, and that counts as a fault.
A run that hides more of its transfers than the healthy one has lost nothing.
    lost >= 0.1  ->  abs(lost) >= 0.1

Rejected by: test_diagnose__asks_in_order

diagnose__the_last_word
the last fault that is found is the answer.
A slow rank makes the others wait, and a wrong start-up makes all of it slow: ask in order, and
stop.
    break  ->  pass

diagnose__link_first
the link is asked before the ranks.
The cheapest explanation is not the first one to ask: where a rank is slow, the others wait in
collectives, and only their shortest stay is the link's.
    look_at_ranks, look_at_link]  ->  look_at_link, look_at_ranks]

diagnose__the_start_up_last
the start-up is read after the timings.
It shows what no clock shows, and explains timings that look ill.
    looks = [look_at_start_up, look_at_ranks, look_at_link]
    ->  looks = [look_at_ranks, look_at_link, look_at_start_up]

Rejected by: test_transfer_s__behind_the_computing_or_after_it

transfer_s__layers_wait_for_the_prefill
the layers are sent one by one, and only after the prefill.
Then nothing is hidden: a layer may leave as soon as it is computed.
    max(free_s, layer * prefill_s / num_layers)  ->  max(free_s, prefill_s)

transfer_s__the_link_carries_all_at_once
each layer's message begins when the layer is ready, whether the link is free or not.
A link that is too slow falls behind: messages queue.
    max(free_s, layer * prefill_s / num_layers)  ->  layer * prefill_s / num_layers

transfer_s__one_latency_for_all_layers
the latency is paid once.
Each message pays it; many small ones may cost more than one large one.
    latency_s + kv_bytes / num_layers / link
    ->  (latency_s * link_bytes_per_s + kv_bytes) / num_layers / link

transfer_s__ready_before_it_is_computed
a layer's cache is sent before the layer is computed.
Layer 1 is ready when its part of the prefill is over.
    range(1, num_layers + 1)  ->  range(num_layers)

transfer_s__from_the_start
the seconds are counted from the start of the prefill.
What matters is what comes on top of it.
    return free_s - prefill_s  ->  return free_s

Rejected by: test_pools_or_one__where_two_pools_pay

pools_or_one__prompts_cost_nothing
in one pool the steps have all the time.
That is the very thing that two pools are for: prompts interrupt everybody's answers.
    (1 if first_pool else 1 - busy)  ->  1

pools_or_one__prompts_slow_both_pools
with two pools, too, prompts take their share of the steps' time.
The second pool takes in no prompt: its steps have all the time.
    (1 if first_pool else 1 - busy)  ->  (1 - busy)

pools_or_one__the_first_token_as_well
one pool is taken only where its first token comes no later either.
The 5% are of tpot_s alone.
    <= 1.05 * best["tpot_s"]
    ->  <= 1.05 * best["tpot_s"] and together["ttft_s"] <= best["ttft_s"]

pools_or_one__all_engines_answer
with two pools all engines answer.
Those that prefill do nothing else.
    answering = engines - first_pool  ->  answering = engines

pools_or_one__all_engines_prefill
with two pools prompts spread over all engines.
They go to the first pool only.
    (first_pool or engines)  ->  engines

pools_or_one__two_whenever_shorter
two pools are taken even where one is as good.
Within 5% the simpler one wins: no cache has to travel.
    together["tpot_s"] <= 1.05 * best["tpot_s"]  ->  together["tpot_s"] <= best["tpot_s"]

pools_or_one__never_waits
the wait for the prompts ahead is left out.
At 80% load a prompt waits for twice its own length.
    prefill_s * (1 + busy / (1 - busy) / 2)  ->  prefill_s

pools_or_one__sent_in_one_pool_too
the transfer is added to one pool as well.
There the cache stays where it is.
    sent_s * (first_pool > 0)  ->  sent_s

pools_or_one__the_shortest_ttft
the shortest first token decides.
Both are reported; the choice asked for is by the time per token.
    best = min(found, key=lambda one: one["tpot_s"])
    ->  best = min(found, key=lambda one: one["ttft_s"])
"""

# These take what the solution says, and change it; it stands here under names of its own.

_decompose, _look_at_ranks, _look_at_link = decompose, look_at_ranks, look_at_link
_look_at_stages, _slowest_rank = look_at_stages, slowest_rank


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


def slowest_rank__most_often(evidence):
    """the rank that is longest most often is taken for the slowest.

    A rank that is interrupted now and then is longest often, and typically fast.

    Rejected by: test_slowest_rank__by_the_median_of_its_computing
    """
    steps = zip(*_decompose(evidence)["compute_us"], strict=True)
    longest = [times.index(max(times)) for times in steps]
    return max(sorted(set(longest)), key=longest.count), _slowest_rank(evidence)[1]


def look_at_ranks__who_is_last(evidence):
    """the rank that comes last most often is called slow.

    Somebody is always last: a healthy rank that is 3% slower is last nearly every time.

    Rejected by: test_look_at_ranks__a_capture_that_is_worth_nothing
    """
    found = _look_at_ranks(evidence)
    if found["cause"] != "healthy":
        return found
    last = [0] * len(evidence["ranks"])
    for steps in zip(*(rank["steps"] for rank in evidence["ranks"]), strict=True):
        for calls in zip(*(step["collectives"] for step in steps), strict=True):
            last[min(range(len(calls)), key=lambda r: calls[r][3] - calls[r][2])] += 1
    rank = max(range(len(last)), key=last.__getitem__)
    if last[rank] > 0.5 * sum(last) > 0:
        return found | {"cause": "slow-rank", "where": rank}
    return found


def look_at_ranks__the_busy_rank(evidence):
    """the rank at 99% of its core is called the bottleneck.

    It spins in a wait. The slow one may be the one that the monitor shows at 50%.

    Rejected by: test_look_at_ranks__a_slow_rank_is_who_the_others_wait_for
    """
    found = _look_at_ranks(evidence)
    if found["cause"] in ("slow-rank", "busy-neighbour"):
        shares = [sum(column) for column in zip(*evidence["processor"]["ranks"], strict=True)]
        found |= {"where": max(range(len(shares)), key=shares.__getitem__)}
    return found


def look_at_link__time_in_collectives_is_network(evidence):
    """a run that spends its time in collectives is given a slow link.

    Ranks that wait for a slow one are in a collective too.

    Rejected by: test_look_at_link__a_link_is_slow_or_unsteady
    """
    found = _look_at_link(evidence)
    inside = whole = 0
    for rank in evidence["ranks"]:
        for step in rank["steps"]:
            whole += step["end_us"] - step["start_us"]
            inside += sum(left - came for *_, came, left in step["collectives"])
    return found | {"cause": "slow-link", "where": "link"} if inside > 0.3 * whole else found


def look_at_stages__the_stage_that_waits(evidence):
    """the stage that waits longest is called slow.

    It stands behind the slow one.

    Rejected by: test_look_at_stages__one_is_busier_than_the_typical
    """
    found = _look_at_stages(evidence)
    if found["cause"] == "slow-stage":
        waits = [sum(had - asked for asked, had, *_ in st) for st in evidence["microbatches"]]
        return found | {"where": max(range(len(waits)), key=waits.__getitem__)}
    return found


def _share_of(rank):
    waits = sum(ended - began for lane, _, began, ended in rank if lane == "wait")
    return waits / (max(span[3] for span in rank) - min(span[2] for span in rank))
