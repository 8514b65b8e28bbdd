# capstone starter: write where NotImplementedError stands. [3bded3f50ef1]
"""Capstone: place a real model on real hardware, then find out what went wrong with a running one.

Part A  place: which splits are legal, what fits, how long a step takes, which plan to choose.
Part B  diagnose: what is wrong with a run, where, and what it costs, from recorded evidence.

Bytes are bytes, times seconds, rates per second; a GPU "of 80 GB" is whatever its driver reports.
The planner (planner/, place.py) calls these functions, and yours of labs 01 to 04.
"""

import math
import statistics

# --- Part A: place a model ----------------------------------------------------------------------


def require(**quantities):
    """Raise ValueError, naming argument and value, unless all are positive finite numbers. (Given.)

    A name that ends in `_or_zero` may be 0, and is shown without these words.
    """
    for name, value in quantities.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        zero = name.endswith("_or_zero")
        if not (number and math.isfinite(value) and (value > 0 or zero and value == 0)):
            text = "a number, 0 or more" if zero else "a number above 0"
            raise ValueError(f"{name.removesuffix('_or_zero')} must be {text}, not {value!r}")


def split_faults(model, tp_size, pp_size):
    """Return the names of everything that forbids tp_size x pp_size for a model; [] if it is legal.

    model: {"num_heads", "num_kv_heads", "num_layers", "latent", "widths"}.
    latent: True where all heads share one compressed cache (MLA): there are no KV heads to divide.
    widths: {name: (width, block)}, dimensions that tensor parallelism cuts; a quantised one may be
    cut between blocks only, block is 1 otherwise.
    Faults: "num_heads"; "num_kv_heads", unless the heads divide among the ranks or the ranks among
    the heads (each is then held several times); "num_layers", a stage needs one; a width's name.
    In that order, widths as in the dict. ValueError for sizes below 1.
    Source: vLLM model_executor/layers/linear.py, distributed/utils.py.
    """
    raise NotImplementedError(
        "capstone · split_faults is yours to write (about 11 lines). "
        "Chapter: README.md, task 1"
    )


def sequence_kv_bytes(layers, num_tokens, tp_size):
    """Return the bytes of cache that one sequence of num_tokens holds on one tensor-parallel rank.

    layers: a list of groups of equal layers, {"kind", "count", "element_bytes", ...}:
      "full"    kv_heads, head_dim: keys and values of every token, heads divided over the ranks;
      "window"  the same, and window: no more than the last `window` tokens are kept;
      "latent"  width: one vector per token that every head reads (MLA);
      "state"   elements: a state of fixed size whatever the length, divided over the ranks.
    More ranks than KV heads: each rank holds one head. ValueError for a negative num_tokens and a
    tp_size below 1. Sources: vLLM v1/kv_cache_interface.py; DeepSeek-V2, arXiv 2405.04434.
    """
    raise NotImplementedError(
        "capstone · sequence_kv_bytes is yours to write (about 13 lines). "
        "Chapter: README.md, task 2"
    )


def memory_verdicts(
    reported_bytes, utilization, weights_bytes, other_bytes, layers, tp_size, tokens, full_context
):
    """Return the three verdicts on one GPU that people mix up, with the numbers behind them.

    reported_bytes: what the driver reports. utilization: the part of it the engine may use, 0 to 1.
    other_bytes: activations, graphs, the runtime. layers: as in sequence_kv_bytes. tokens: what one
    sequence is wanted to hold. full_context: the most the model can.
    Returns {"kv_bytes", what is left for the cache (negative when the rest is too large),
    "weights_load", "tokens_fit", "full_context_fits" (bools; the first asks for weights alone, the
    others for one sequence beside everything else),
    "longest_context" (tokens of the longest sequence that fits, at most full_context; 0: none)}.
    ValueError unless utilization is above 0 and at most 1 and the byte counts are numbers.
    """
    raise NotImplementedError(
        "capstone · memory_verdicts is yours to write (about 18 lines). "
        "Chapter: README.md, task 3"
    )


def touched_bytes(always_bytes, experts_bytes, num_experts, top_k, tokens):
    """Return the weight bytes that a step of `tokens` tokens has to read, in expectation.

    always_bytes: what every token needs. experts_bytes: all experts together. Each token takes
    top_k of num_experts, every choice equally likely and tokens independent of each other; an
    expert that several tokens chose is read once. tokens may be a mean, 2.5. ValueError for
    numbers that make no sense.
    """
    raise NotImplementedError(
        "capstone · touched_bytes is yours to write (about 6 lines). "
        "Chapter: README.md, task 4"
    )


def decode_compute_s(weight_bytes, kv_bytes, macs, tokens, memory_bytes_per_s, flops_per_s):
    """Return the seconds one GPU computes in a decode step of `tokens` sequences.

    Two roofs for the weights, the higher one counts: reading weight_bytes, and 2 * macs floating
    point operations per token. Then the cache of all sequences, kv_bytes, is read besides; no other
    token shares it. macs: multiply-accumulates per token on this GPU. ValueError for bad numbers;
    bytes and macs may be 0.
    Source: Williams et al., Roofline, CACM 52(4), 2009.
    """
    raise NotImplementedError(
        "capstone · decode_compute_s is yours to write (about 4 lines). "
        "Chapter: README.md, task 5"
    )


def ridge_tokens(bytes_per_weight, memory_bytes_per_s, flops_per_s):
    """Return the tokens per step from which on arithmetic takes longer than reading the weights.

    Every weight is one multiply-accumulate per token. ValueError for bad numbers.
    """
    raise NotImplementedError(
        "capstone · ridge_tokens is yours to write (about 3 lines). "
        "Chapter: README.md, task 5"
    )


def prefill_compute_s(
    prompt_tokens, weight_bytes, macs, attention_width, memory_bytes_per_s, flops_per_s
):
    """Return the seconds one GPU computes to take in a prompt, all its tokens in one step.

    The weights have two roofs, as in decode_compute_s. Attention multiplies each token's query with
    the keys of the tokens up to itself, then their values: attention_width elements each (heads x
    head_dim x layers, on this GPU). Count half the square, and do not forget a factor of 2 per
    multiply-accumulate. ValueError for bad numbers; bytes, macs and widths may be 0.
    Source: arXiv 2205.14135 (FlashAttention).
    """
    raise NotImplementedError(
        "capstone · prefill_compute_s is yours to write (about 5 lines). "
        "Chapter: README.md, task 6"
    )


def serve(step_s, prefill_s, output_tokens, concurrency, slots):
    """Return {"ttft_s", "tpot_s", "tokens_per_s"} of one replica with `concurrency` clients.

    Every client sends its next request when the last one is answered. `slots` sequences run at
    once, the others queue. step_s: a decode step of all running sequences. prefill_s: one prompt;
    it stops the decoding of the others, so in one round every running sequence makes output_tokens
    steps and every one's prompt is taken in once.
      tokens_per_s  output tokens of a round over its seconds;
      tpot_s        seconds of a round per output token of one sequence;
      ttft_s        the wait for a slot: the clients that find none wait, each slot being given
                    away once a round; then its own prefill and one step; and on average half the
                    prefills that are under way or queued, the share of a round that is prefill
                    times those of the other running sequences.
    ValueError for numbers that make no sense.
    """
    raise NotImplementedError(
        "capstone · serve is yours to write (about 12 lines). "
        "Chapter: README.md, task 7"
    )


def cost_per_million_tokens(tokens_per_s, num_gpus, price_per_gpu_hour):
    """Return what a million output tokens cost on num_gpus GPUs, in the currency of the price.

    tokens_per_s: of all GPUs together. ValueError for bad numbers.
    """
    raise NotImplementedError(
        "capstone · cost_per_million_tokens is yours to write (about 3 lines). "
        "Chapter: README.md, task 8"
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
        "Chapter: README.md, task 8"
    )


def regret(predicted, measured):
    """Return the part of the best measured rate that is lost by choosing what is predicted best.

    Both: {name: rate}, the same names. 0.0: the best was chosen, though its prediction may be far
    off. ValueError when there is nothing to choose from or the names differ.
    """
    raise NotImplementedError(
        "capstone · regret is yours to write (about 3 lines). "
        "Chapter: README.md, task 8"
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
#             a row per sample; rank r runs on core r. A rank that waits spins.
# stages      vLLM's pipeline, per stage: [["execute" or "receive", began_us, ended_us], ...]
# microbatches  a pipeline of lab 04, per stage: [[asked, received, computed, handed on], ...]
# spans       a training step, per rank: [["GEMM"/"wait"/"issue", what, began_us, ended_us], ...]
# healthy     evidence of a healthy run of the same plan
#
# A capture holds what applies; the README says which of the recordings holds what.


def decompose(evidence):
    """Split each step of tensor-parallel ranks into computing, waiting, and transfer.

    Returns {"compute_us": [rank][step], "wait_us": [rank][step],
    "transfer_us": [step][collective]}, lists of lists of numbers. For each rank and step, compute +
    wait + the step's transfers are the step's duration. A collective ends for nobody before its
    last rank has come.
    """
    raise NotImplementedError(
        "capstone · decompose is yours to write (about 10 lines). "
        "Chapter: README.md, task 9"
    )


def link_line(points):
    """Return (latency_us, bytes_per_s) of the straight line through [(payload_bytes, us), ...].

    Of each payload size the median time counts, once: a late message must not bend the line. A line
    that does not rise gives a rate of math.inf. ValueError, naming `sizes`, unless two differ.
    """
    raise NotImplementedError(
        "capstone · link_line is yours to write (about 10 lines). "
        "Chapter: README.md, task 10"
    )


def stage_times(microbatches):
    """Return (busy_us of each stage, period_us) of a pipeline, medians over its microbatches.

    microbatches: as in the evidence. A stage is busy from having its input to having computed; the
    period is what passes between two results of the last stage, with one microbatch its busy time.
    """
    raise NotImplementedError(
        "capstone · stage_times is yours to write (about 4 lines). "
        "Chapter: README.md, task 11"
    )


def diagnose(evidence):
    """Say what is wrong with a run: {"cause", "where", "cost", "numbers"}.

    "healthy"         nothing; cost 0.0
    "disturbed"       the capture is worth nothing: others used (more than a tenth of) a core other
                      than that of the one slow rank; cost 0.0
    "slow-rank"       where = the rank. It computes longer than the others; cost: the part of the
                      mean step that would be saved at the pace of the slowest of them
    "busy-neighbour"  the same, and others use the slow rank's core
    "slow-link"       where = "link". Each decode step's transfer takes longer than in the healthy
                      run; cost: the part of the mean step that the healthy transfers would save
    "unsteady-link"   where = "link". The typical transfer is healthy, the tail is not; likewise
    "replicas"        engines of their own where one was planned; cost: the part of the weights in
                      memory that is there twice
    "copied-heads"    ranks hold the same KV heads; cost: the part of the cache that is copies
    "starved"         fewer requests in flight than stages; cost: the part of the stages' time idle
    "slow-stage"      where = the stage. It sets the period; cost: the part of lab 04's makespan
                      that would be saved at the typical stage's pace, the (lower) median's
    "no-overlap"      transfers are waited for, not hidden; cost: the part of the step waited for,
                      less the healthy run's

    where is None unless said. numbers: {name: number}, those that decided, never empty. What noise
    does: a healthy rank computes up to 1.25 times as long as another, a faulty one computes
    1.5 times or more; a slow link's typical transfer takes 1.7 times the healthy one's or more, an
    unsteady one's worst (99th percentile) three times. The README's table has the other lines.
    """
    raise NotImplementedError(
        "capstone · diagnose is yours to write (about 96 lines). "
        "Chapter: README.md, task 12"
    )
