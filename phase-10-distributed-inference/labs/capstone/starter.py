# capstone starter: write where NotImplementedError stands. [c0a22cb78fbc]
"""Capstone: place a real model on real hardware, then find out what went wrong with a running one.

Part A  place: which splits are legal, what fits, how long a step takes, which plan to choose.
Part B  diagnose: what is wrong with a run, where, and what it costs, from recorded evidence.

Bytes are bytes, times seconds, rates per second; a GPU "of 80 GB" is whatever its driver reports.
The planner (planner/, place.py) calls these functions, and yours of labs 01 to 04; for a model with
experts those of lab 05 too.
"""

import math
import statistics

from arguments import ABOVE_ZERO, ANYTHING, COUNT, PART, ZERO_OR_MORE, checked, require

# --- Part A: place a model ----------------------------------------------------------------------


@checked(tp_size=COUNT, pp_size=COUNT)
def split_faults(model, tp_size, pp_size):
    """Return the names of everything that forbids tp_size x pp_size for a model; [] if it is legal.

    model: {"num_heads", "num_kv_heads", "num_layers", "latent", "widths"}.
    latent: True where all heads share one compressed cache (MLA): there are no KV heads to divide.
    widths: {name: (width, block)}, dimensions that tensor parallelism cuts; a quantised one may be
    cut between blocks only, block is 1 otherwise. One rank alone cuts nothing: its last block may
    be a part of one.
    Faults: "num_heads"; "num_kv_heads", unless the heads divide among the ranks or the ranks among
    the heads (each is then held several times); "num_layers", a stage needs one; a width's name.
    In that order, widths as in the dict. ValueError for sizes below 1.
    Source: vLLM model_executor/layers/linear.py, distributed/utils.py.
    """
    raise NotImplementedError(
        "capstone · split_faults is yours to write (about 10 lines). "
        "The book (make book) says more: capstone, task 1"
    )


@checked(num_tokens=ZERO_OR_MORE, tp_size=COUNT)
def sequence_kv_bytes(layers, num_tokens, tp_size):
    """Return the bytes of cache that one sequence of num_tokens holds on one tensor-parallel rank.

    layers: a list of groups of equal layers, {"kind", "count", "element_bytes", ...}:
      "full"    kv_heads, head_dim: keys and values of every token, heads divided over the ranks;
      "window"  the same, and window: no more than the last `window` tokens are kept;
      "latent"  width: one vector per token that every head reads (MLA);
      "state"   elements: a state of fixed size whatever the length, divided over the ranks
                (a multiple of their number).
    More ranks than KV heads: each rank holds one head (a number of ranks that neither divides the
    heads nor is a multiple of them is split_faults' to refuse). ValueError for a negative
    num_tokens and a tp_size below 1. Sources: vLLM v1/kv_cache_interface.py; DeepSeek-V2, arXiv
    2405.04434.
    """
    raise NotImplementedError(
        "capstone · sequence_kv_bytes is yours to write (about 12 lines). "
        "The book (make book) says more: capstone, task 2"
    )


@checked(
    ABOVE_ZERO,
    utilization=PART,
    tp_size=COUNT,
    layers=ANYTHING,
    weights_bytes=ZERO_OR_MORE,
    other_bytes=ZERO_OR_MORE,
)
def memory_verdicts(
    reported_bytes, utilization, weights_bytes, other_bytes, layers, tp_size, tokens, full_context
):
    """Return the three verdicts on one GPU that people mix up, with the numbers behind them.

    reported_bytes: what the driver reports. utilization: the part of it the engine may use, 0 to 1.
    other_bytes: activations, graphs, the runtime. layers: as in sequence_kv_bytes. tokens: what one
    sequence is wanted to hold; memory alone decides, also above full_context, the most the model
    can.
    Returns {"kv_bytes", what is left for the cache (negative when the rest is too large),
    "weights_load", "tokens_fit", "full_context_fits" (bools; the first asks for weights alone, the
    others for one sequence beside everything else),
    "longest_context" (tokens of the longest sequence that fits, at most full_context; 0: none)}.
    The planner asks often, and bytes grow with the tokens: halve the range, and do not count up.
    ValueError unless utilization is above 0 and at most 1 and the byte counts are numbers.
    """
    raise NotImplementedError(
        "capstone · memory_verdicts is yours to write (about 14 lines). "
        "The book (make book) says more: capstone, task 3"
    )


@checked(ABOVE_ZERO, always_bytes=ZERO_OR_MORE, experts_bytes=ZERO_OR_MORE)
def touched_bytes(always_bytes, experts_bytes, num_experts, top_k, tokens):
    """Return the weight bytes that a step of `tokens` tokens has to read, in expectation.

    always_bytes: what every token needs. experts_bytes: all experts together. Each token takes
    top_k of num_experts, every choice equally likely and tokens independent of each other; an
    expert that several tokens chose is read once. tokens may be a mean, 2.5. ValueError for
    numbers that make no sense.
    """
    require(top_k <= num_experts, f"top_k={top_k}: there are num_experts={num_experts}")
    raise NotImplementedError(
        "capstone · touched_bytes is yours to write (about 2 lines). "
        "The book (make book) says more: capstone, task 4"
    )


@checked(ABOVE_ZERO, weight_bytes=ZERO_OR_MORE, kv_bytes=ZERO_OR_MORE, macs=ZERO_OR_MORE)
def decode_compute_s(weight_bytes, kv_bytes, macs, tokens, memory_bytes_per_s, flops_per_s):
    """Return the seconds one GPU computes in a decode step of `tokens` sequences, a mean perhaps.

    The weights, weight_bytes, are read once for all tokens, and multiplied meanwhile. kv_bytes is
    the cache of all sequences together, which no two tokens share; nothing hides its reading, and
    its arithmetic is left out. macs: multiply-accumulates per token on this GPU, two floating point
    operations each. ValueError for bad numbers; bytes and macs may be 0.
    Source: Williams et al., Roofline, CACM 52(4), 2009.
    """
    raise NotImplementedError(
        "capstone · decode_compute_s is yours to write (about 2 lines). "
        "The book (make book) says more: capstone, task 5"
    )


@checked(ABOVE_ZERO)
def ridge_tokens(bytes_per_weight, memory_bytes_per_s, flops_per_s):
    """Return the tokens per step from which on arithmetic takes longer than reading the weights.

    Given, not a task. Every weight is one multiply-accumulate per token. ValueError for bad
    numbers.
    """
    return bytes_per_weight * flops_per_s / (2 * memory_bytes_per_s)


@checked(ABOVE_ZERO, weight_bytes=ZERO_OR_MORE, macs=ZERO_OR_MORE, attention_width=ZERO_OR_MORE)
def prefill_compute_s(
    prompt_tokens, weight_bytes, macs, attention_width, memory_bytes_per_s, flops_per_s
):
    """Return the seconds one GPU computes to take in a prompt, all its tokens in one step.

    The weights are as in decode_compute_s. After them attention multiplies each token's query with
    the keys of the tokens up to itself, then their values: attention_width elements each (heads x
    head_dim x layers, on this GPU), a multiply-accumulate an element. Count half the square.
    ValueError for bad numbers; bytes, macs and widths may be 0.
    Source: arXiv 2205.14135 (FlashAttention).
    """
    raise NotImplementedError(
        "capstone · prefill_compute_s is yours to write (about 4 lines). "
        "The book (make book) says more: capstone, task 6"
    )


@checked(ABOVE_ZERO, prefill_s=ZERO_OR_MORE)
def serve(step_s, prefill_s, output_tokens, concurrency, slots):
    """Return {"ttft_s", "tpot_s", "tokens_per_s"} of one replica with `concurrency` clients.

    Every client sends its next request when the last one is answered. `slots` sequences run at
    once, the others queue. step_s: a decode step of all running sequences. prefill_s: one prompt;
    it stops the decoding of the others, so in one round every running sequence makes output_tokens
    steps and every one's prompt is taken in once.
      tokens_per_s  of all running sequences, over a whole round;
      tpot_s        of one sequence: a whole round, shared among its output tokens;
      ttft_s        the sum of four: the wait for a slot, until as many more are given away as there
                    are clients without one, each slot once in a round, at equal distances; the wait
                    for prompts ahead, in the mean over all moments of a round: while prompts are
                    taken in, half of the other running sequences' stand before one's own, and at
                    other times none; one's own prefill; one step.
    prefill_s may be 0, the others not.
    """
    raise NotImplementedError(
        "capstone · serve is yours to write (about 10 lines). "
        "The book (make book) says more: capstone, task 7"
    )


@checked(ABOVE_ZERO, price_per_gpu_hour=ZERO_OR_MORE)
def cost_per_million_tokens(tokens_per_s, num_gpus, price_per_gpu_hour):
    """Return what a million output tokens cost on num_gpus GPUs, in the currency of the price.

    tokens_per_s: of all GPUs together. ValueError for bad numbers.
    """
    raise NotImplementedError(
        "capstone · cost_per_million_tokens is yours to write (about 1 line). "
        "The book (make book) says more: capstone, task 8"
    )


def choose(plans, ttft_s, tpot_s):
    """Return {"choice", "runner_up", "close"} among plans: names, None where there is none.

    plans: a list of {"name", "num_gpus", "ttft_s", "tpot_s", "tokens_per_s"}; the last three are
    [best, typical, worst] over the constants nobody knows exactly. ttft_s, tpot_s: the most they
    may be, None for no limit.
    Of the plans whose typical times keep both limits, the choice makes the most typical tokens/s
    per GPU, the runner-up the second most; a tie goes to fewer GPUs, then to the earlier one.
    close: whether the runner-up's best is at least the choice's worst, per GPU: then the constants
    do not decide between them.
    """

    raise NotImplementedError(
        "capstone · choose is yours to write (about 10 lines). "
        "The book (make book) says more: capstone, task 8"
    )


def regret(predicted, measured):
    """Return the part of the best measured rate that is lost by choosing what is predicted best.

    Both: {name: rate}, the same names. 0.0: the best was chosen, though its prediction may be far
    off. ValueError when there is nothing to choose from or the names differ.
    """
    same = predicted and predicted.keys() == measured.keys()
    require(same, "predicted and measured must hold the same names, at least one")
    raise NotImplementedError(
        "capstone · regret is yours to write (about 1 line). "
        "The book (make book) says more: capstone, task 8"
    )


@checked(
    ABOVE_ZERO,
    kv_bytes=ZERO_OR_MORE,
    latency_s=ZERO_OR_MORE,
    num_layers=COUNT,
    layer_by_layer=ANYTHING,
)
def transfer_s(kv_bytes, link_bytes_per_s, latency_s, num_layers, prefill_s, layer_by_layer):
    """Return the seconds after a prefill until its cache, kv_bytes in all, lies in the other pool.

    At the end: one message, latency_s and the bytes over the link. Layer by layer: one message per
    layer, each with latency_s and its equal part of the bytes; a layer's cache is ready when its
    equal part of prefill_s is over, and the link carries one message after the other, in order.
    Source: TensorRT-LLM issue 9212.
    """
    raise NotImplementedError(
        "capstone · transfer_s is yours to write (about 6 lines). "
        "The book (make book) says more: capstone, task 14"
    )


@checked(ABOVE_ZERO, sequence_s=ZERO_OR_MORE, sent_s=ZERO_OR_MORE, engines=COUNT)
def pools_or_one(requests_per_s, engines, prefill_s, output_tokens, step_s, sequence_s, sent_s):
    """Return {"first_pool": engines that only prefill, 0 for one pool, "tpot_s", "ttft_s"}.

    A prompt keeps its engine busy for prefill_s; a decode step takes step_s, and sequence_s more
    for each sequence in it. Requests spread evenly over the engines that take them.
      one pool: prompts take a share u of everybody's time, and steps get the rest; in a step are as
        many sequences as arrive in the time in which one is answered, output_tokens * tpot_s
      two pools: prompts take a share u of the first one's time, the second's steps have all of it
      ttft_s: prefill_s, the wait for the prompts ahead, u / (1 - u) / 2 of prefill_s, one step of
        the engine that answers (tpot_s), and with two pools sent_s
    A choice whose u is not below 1, or whose steps never catch up, is impossible. Of the possible
    ones take the shortest tpot_s; one pool if it is within 5% of that. ValueError when none is
    possible, naming requests_per_s. Source: DistServe, arXiv 2401.09670 (M/D/1 waiting).
    """
    raise NotImplementedError(
        "capstone · pools_or_one is yours to write (about 16 lines). "
        "The book (make book) says more: capstone, task 14"
    )


# --- Part B: debug the classics -----------------------------------------------------------------

# What an engineer has in hand is a dict, `evidence`. Times are microseconds ("_us").
#
# plan        tp_size, pp_size, hosts, model (its config.json)
# start_up    per process: rank, world_size, parameters_bytes, kv_cache {kv_heads, blocks, ...}
# ranks       tensor parallel: [{"steps": [{"start_us", "end_us", "requests", "tokens",
#             "collectives": [[operation, payload_bytes, entered_us, left_us], ...]}]}], one entry
#             per rank; collectives in the order made, their times from the start of the step. The
#             clocks of two ranks do not agree.
# requests    [{"arrived_us", "token_us": [...]}]: when a request came, and when each of its tokens
# processor   {"ranks": [[share of a core, per rank], ...], "cores": [[share busy, per core], ...]},
#             a row per sample; rank r runs on core r. A rank that waits spins. Nobody watched the
#             cores where "cores" is [].
# stages      vLLM's pipeline, per stage: [["execute" or "receive", began_us, ended_us], ...]. An
#             "execute" is a call of the model, or a call after it that chooses tokens or has
#             nothing to choose, of some 10 us: their median is nobody's busy time. They are for
#             you to look at; no task reads them.
# microbatches  a pipeline of lab 04, per stage: [[asked, received, computed, handed on], ...]
# spans       a training step, per rank: [["GEMM"/"wait"/"issue", what, began_us, ended_us], ...]
# healthy     evidence of a healthy run, of the same plan where one was recorded
#
# A capture holds what applies; the chapter says which of the recordings holds what.
#
# A look reads one kind of evidence and returns a finding:
#
# cause       one of those that its docstring names, or "healthy"
# where       the rank, the stage or "link"; None unless the docstring says it
# cost        what the fault costs, a part of 1; 0.0 for "healthy" and "disturbed"
# numbers     {name: number}, those that the docstring names: what the look went by
#
# Thresholds lie between what noise does and what a fault does; the chapter says how far apart.


def finding(cause="healthy", where=None, cost=0.0, **numbers):
    """Return {"cause", "where", "cost", "numbers"}. (Given.)"""
    return {"cause": cause, "where": where, "cost": cost, "numbers": numbers}


def mean_step_us(evidence):
    """Return the mean duration of all steps of all ranks, prefills included. (Given.)"""
    steps = [step for rank in evidence["ranks"] for step in rank["steps"]]
    return statistics.fmean(step["end_us"] - step["start_us"] for step in steps)


def decompose(evidence):
    """Split each step of tensor-parallel ranks into computing, waiting, and transfer.

    Returns {"compute_us": [rank][step], "wait_us": [rank][step],
    "transfer_us": [step][collective]}, lists of lists of numbers. For each rank and step, compute +
    wait + the step's transfers are the step's duration. A collective ends for nobody before its
    last rank has come.
    """
    raise NotImplementedError(
        "capstone · decompose is yours to write (about 10 lines). "
        "The book (make book) says more: capstone, task 9"
    )


def used_by_others(evidence):
    """Return, per core, the share of it that somebody other than its rank used: a list.

    In a sample that is what core r was busy beyond what rank r used, and 0 where the rank used
    more: two clocks never agree. Then the mean over the samples. [] where nobody watched.
    """
    raise NotImplementedError(
        "capstone · used_by_others is yours to write (about 3 lines). "
        "The book (make book) says more: capstone, task 10"
    )


def slowest_rank(evidence):
    """Return (rank, ratio): who typically computes longest, and how long beside the fastest rank.

    Typically: the median over a rank's steps. ratio: the slowest rank's median over the fastest
    one's. The first rank of several that are as slow.
    """
    raise NotImplementedError(
        "capstone · slowest_rank is yours to write (about 2 lines). "
        "The book (make book) says more: capstone, task 10"
    )


def look_at_ranks(evidence):
    """Find a rank that computes longer than the others.

    "disturbed"       the capture is worth nothing: others used more than 0.1 of a core that is not
                      the slow rank's (of any core, when no rank is slow)
    "slow-rank"       where = the rank. Its ratio (slowest_rank) is above 1.37. cost: the part of
                      mean_step_us by which its mean computing is above the longest mean of the
                      others, negative where it is below; means over all steps, prefills included
    "busy-neighbour"  the same, and others used more than 0.1 of its core
    numbers: "compute_ratio", and "foreign", the largest share of a core that others used. (Where
    ranks have steps, their cores were watched.)
    """
    raise NotImplementedError(
        "capstone · look_at_ranks is yours to write (about 11 lines). "
        "The book (make book) says more: capstone, task 10"
    )


def link_line(points):
    """Return (latency_us, bytes_per_s) of the least-squares line through [(payload_bytes, us)].

    Of each payload size the median time counts, once: a late message must not bend the line. A line
    that does not rise gives a rate of math.inf. ValueError, naming `sizes`, unless two differ.
    """
    sizes = {size for size, _ in points}
    require(len(sizes) > 1, f"points of {len(sizes)} different sizes; a line needs 2 sizes")
    raise NotImplementedError(
        "capstone · link_line is yours to write (about 8 lines). "
        "The book (make book) says more: capstone, task 11"
    )


def all_reduces(evidence):
    """Return [(payload_bytes, transfer_us), ...] of all all-reduces, for link_line. (Given.)"""
    steps = zip(evidence["ranks"][0]["steps"], decompose(evidence)["transfer_us"], strict=True)
    return [
        (payload, us)
        for step, times in steps
        for (operation, payload, *_), us in zip(step["collectives"], times, strict=True)
        if operation == "all_reduce"
    ]


def decode_transfer(evidence):
    """Return (median, tail): the transfer of a decode step in us, all its collectives together.

    A step with as many tokens as requests is a decode step; a prefill's payload is another one.
    tail, the 99th percentile: of the sorted times the one at index int(0.99 * (count - 1)).
    """
    raise NotImplementedError(
        "capstone · decode_transfer is yours to write (about 3 lines). "
        "The book (make book) says more: capstone, task 11"
    )


def look_at_link(evidence):
    """Find a link that is slower than in the healthy run.

    "slow-link"      where = "link". The median of decode_transfer is more than 1.6 times that of
                     the healthy run. cost: the part of mean_step_us by which a step's mean
                     transfer is above the healthy run's, negative where it is below; means over all
                     steps, prefills included
    "unsteady-link"  where = "link", cost alike. The median is not, but the tail is more than 2.4
                     times the healthy run's tail
    numbers: "transfer_ratio", "tail_ratio"; if there is a fault, also "latency_us" and
    "bytes_per_s" of the link_line through all_reduces.
    """
    raise NotImplementedError(
        "capstone · look_at_link is yours to write (about 11 lines). "
        "The book (make book) says more: capstone, task 11"
    )


def requests_in_flight(evidence):
    """Return how many requests are here at once, by Little's law.

    On average over the window from the first arrival to the last token of all. A request is here
    from arriving to its own last token.
    """
    raise NotImplementedError(
        "capstone · requests_in_flight is yours to write (about 3 lines). "
        "The book (make book) says more: capstone, task 12"
    )


def look_at_requests(evidence):
    """Find a pipeline that has too little to do: requests in flight beside its stages.

    "starved"  requests_in_flight are at most pp_size - 0.5. cost: the part of the stages that has
               no request to work on, when each request keeps one stage busy. Not the time that
               they were seen idle: that holds the engine's own pauses too
    numbers: "in_flight".
    """
    raise NotImplementedError(
        "capstone · look_at_requests is yours to write (about 4 lines). "
        "The book (make book) says more: capstone, task 12"
    )


def stage_times(microbatches):
    """Return (busy_us of each stage, period_us) of a pipeline, medians over its microbatches.

    microbatches: as in the evidence. A stage is busy from having its input to having computed; the
    period passes between two results that the last stage computed, with one microbatch its busy
    time.
    """
    raise NotImplementedError(
        "capstone · stage_times is yours to write (about 4 lines). "
        "The book (make book) says more: capstone, task 12"
    )


def look_at_stages(evidence):
    """Find the stage of a pipeline that is busy longer than the typical one.

    The typical stage: the median of the busy times (stage_times), of two in the middle the lower.
    "slow-stage"  where = the stage that is busy longest, the first of several. It is busy at least
                  1.37 times as long as the typical one. cost: the part of the makespan that is
                  saved when no stage is busy longer than the typical one; a makespan is what lab
                  04's makespan_s says (write it again) of the busy times and all microbatches
    numbers: "busy_ratio", the longest over the typical, and "period_us".
    """
    raise NotImplementedError(
        "capstone · look_at_stages is yours to write (about 9 lines). "
        "The book (make book) says more: capstone, task 12"
    )


def look_at_start_up(evidence):
    """Find what no clock shows: engines of their own, KV heads that are held twice.

    "replicas"      engines is above 1. cost: the part of the weights in memory that could go if
                    one engine stayed
    "copied-heads"  else copies is above 1. cost: the part of the cache that could go if every head
                    were held once
    numbers: "engines", the planned ranks, tp_size x pp_size, over the world_size that every process
    states alike (do not count processes: a log may lack some); "copies", the KV heads that tp_size
    ranks hold, each as many as one process says, over the model's num_key_value_heads. Both may be
    fractions, and below 1.
    """
    raise NotImplementedError(
        "capstone · look_at_start_up is yours to write (about 9 lines). "
        "The book (make book) says more: capstone, task 13"
    )


def share_waited(spans):
    """Return the part of all ranks' steps, added up, that the ranks waited, added up too.

    spans: as in the evidence, in no order. A rank's step lasts from the earliest beginning of a
    span to the latest end, and what it waited are its "wait" spans; to issue is not to wait.
    """
    raise NotImplementedError(
        "capstone · share_waited is yours to write (about 3 lines). "
        "The book (make book) says more: capstone, task 13"
    )


def look_at_overlap(evidence):
    """Find transfers of a training step that are waited for and were hidden on the healthy day.

    "no-overlap"  the share waited is at least 0.1 above the healthy run's. cost: the difference
    numbers: "waited" and "usually_waited", the healthy run's.
    """
    raise NotImplementedError(
        "capstone · look_at_overlap is yours to write (about 4 lines). "
        "The book (make book) says more: capstone, task 13"
    )


def diagnose(evidence):
    """Say what is wrong with a run: the first finding that is not healthy, or the last one.

    spans: look_at_overlap. microbatches: look_at_stages. stages: the start-up, then the requests.
    ranks: the start-up, then the ranks, then the link. A start-up comes first, because no timing
    shows what it tells; the link last, because a slow rank makes others wait in collectives.
    numbers: those of all looks that were taken, together.
    """
    raise NotImplementedError(
        "capstone · diagnose is yours to write (about 15 lines). "
        "The book (make book) says more: capstone, task 13"
    )
