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
    # BEGIN SOLUTION (task 1)
    require(tp_size=tp_size, pp_size=pp_size)
    kv_heads = model["num_kv_heads"]
    faults = []
    if model["num_heads"] % tp_size:
        faults.append("num_heads")
    if not model["latent"] and max(kv_heads, tp_size) % min(kv_heads, tp_size):
        faults.append("num_kv_heads")
    if model["num_layers"] < pp_size:
        faults.append("num_layers")
    cut = model["widths"].items()
    return faults + [name for name, (width, block) in cut if width % (tp_size * block)]
    # END SOLUTION


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
    # BEGIN SOLUTION (task 2)
    require(num_tokens_or_zero=num_tokens, tp_size=tp_size)
    total = 0
    for layer in layers:
        tokens = min(num_tokens, layer.get("window", num_tokens))
        if layer["kind"] == "latent":
            elements = tokens * layer["width"]
        elif layer["kind"] == "state":
            elements = layer["elements"] / tp_size
        else:
            heads = max(1, layer["kv_heads"] // tp_size)
            elements = 2 * tokens * heads * layer["head_dim"]
        total += layer["count"] * elements * layer["element_bytes"]
    return total
    # END SOLUTION


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
    # BEGIN SOLUTION (task 3)
    require(reported_bytes=reported_bytes, utilization=utilization, full_context=full_context)
    require(weights_bytes_or_zero=weights_bytes, other_bytes_or_zero=other_bytes, tokens=tokens)
    if utilization > 1:
        raise ValueError(f"utilization must be a part of 1, not {utilization!r}")
    budget = utilization * reported_bytes
    free = budget - weights_bytes - other_bytes
    low, high = 0, full_context  # `low` tokens fit (or none do), more than `high` are not asked for
    while low < high:
        middle = (low + high + 1) // 2
        fits = sequence_kv_bytes(layers, middle, tp_size) <= free
        low, high = (middle, high) if fits else (low, middle - 1)
    return {
        "kv_bytes": free,
        "weights_load": weights_bytes <= budget,
        "tokens_fit": sequence_kv_bytes(layers, tokens, tp_size) <= free,
        "full_context_fits": low == full_context,
        "longest_context": low,
    }
    # END SOLUTION


def touched_bytes(always_bytes, experts_bytes, num_experts, top_k, tokens):
    """Return the weight bytes that a step of `tokens` tokens has to read, in expectation.

    always_bytes: what every token needs. experts_bytes: all experts together. Each token takes
    top_k of num_experts, every choice equally likely and tokens independent of each other; an
    expert that several tokens chose is read once. tokens may be a mean, 2.5. ValueError for
    numbers that make no sense.
    """
    # BEGIN SOLUTION (task 4)
    require(always_bytes_or_zero=always_bytes, experts_bytes_or_zero=experts_bytes, tokens=tokens)
    require(num_experts=num_experts, top_k=top_k)
    if top_k > num_experts:
        raise ValueError(f"top_k={top_k}: there are num_experts={num_experts}")
    missed = (1 - top_k / num_experts) ** tokens
    return always_bytes + experts_bytes * (1 - missed)
    # END SOLUTION


def decode_compute_s(weight_bytes, kv_bytes, macs, tokens, memory_bytes_per_s, flops_per_s):
    """Return the seconds one GPU computes in a decode step of `tokens` sequences.

    Two roofs for the weights, the higher one counts: reading weight_bytes, and 2 * macs floating
    point operations per token. Then the cache of all sequences, kv_bytes, is read besides; no other
    token shares it. macs: multiply-accumulates per token on this GPU. ValueError for bad numbers;
    bytes and macs may be 0.
    Source: Williams et al., Roofline, CACM 52(4), 2009.
    """
    # BEGIN SOLUTION (task 5)
    require(memory_bytes_per_s=memory_bytes_per_s, flops_per_s=flops_per_s, tokens=tokens)
    require(weight_bytes_or_zero=weight_bytes, kv_bytes_or_zero=kv_bytes, macs_or_zero=macs)
    reading, arithmetic = weight_bytes / memory_bytes_per_s, 2 * macs * tokens / flops_per_s
    return max(reading, arithmetic) + kv_bytes / memory_bytes_per_s
    # END SOLUTION


def ridge_tokens(bytes_per_weight, memory_bytes_per_s, flops_per_s):
    """Return the tokens per step from which on arithmetic takes longer than reading the weights.

    Every weight is one multiply-accumulate per token. ValueError for bad numbers.
    """
    # BEGIN SOLUTION (task 5)
    require(bytes_per_weight=bytes_per_weight, memory_bytes_per_s=memory_bytes_per_s)
    require(flops_per_s=flops_per_s)
    return bytes_per_weight * flops_per_s / (2 * memory_bytes_per_s)
    # END SOLUTION


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
    # BEGIN SOLUTION (task 6)
    require(prompt_tokens=prompt_tokens, attention_width_or_zero=attention_width)
    pairs = prompt_tokens**2 / 2
    speeds = (memory_bytes_per_s, flops_per_s)
    weights_s = decode_compute_s(weight_bytes, 0, macs, prompt_tokens, *speeds)
    return weights_s + 2 * 2 * pairs * attention_width / flops_per_s
    # END SOLUTION


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
    # BEGIN SOLUTION (task 7)
    require(step_s=step_s, prefill_s_or_zero=prefill_s, output_tokens=output_tokens)
    require(concurrency=concurrency, slots=slots)
    running = min(concurrency, slots)
    round_s = output_tokens * step_s + running * prefill_s
    busy = running * prefill_s / round_s
    queue_s = (concurrency - running) / running * round_s
    ahead_s = busy * (running - 1) * prefill_s / 2
    return {
        "ttft_s": queue_s + ahead_s + prefill_s + step_s,
        "tpot_s": round_s / output_tokens,
        "tokens_per_s": running * output_tokens / round_s,
    }
    # END SOLUTION


def cost_per_million_tokens(tokens_per_s, num_gpus, price_per_gpu_hour):
    """Return what a million output tokens cost on num_gpus GPUs, in the currency of the price.

    tokens_per_s: of all GPUs together. ValueError for bad numbers.
    """
    # BEGIN SOLUTION (task 8)
    require(tokens_per_s=tokens_per_s, num_gpus=num_gpus)
    require(price_per_gpu_hour_or_zero=price_per_gpu_hour)
    return num_gpus * price_per_gpu_hour / 3600 / tokens_per_s * 1e6
    # END SOLUTION


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

    # BEGIN SOLUTION (task 8)
    def within(plan):
        limits = [(plan["ttft_s"], ttft_s), (plan["tpot_s"], tpot_s)]
        return all(limit is None or times[1] <= limit for times, limit in limits)

    def per_gpu(plan, which):
        return plan["tokens_per_s"][which] / plan["num_gpus"]

    kept = sorted(filter(within, plans), key=lambda plan: (-per_gpu(plan, 1), plan["num_gpus"]))
    first, second, *_ = [*kept, None, None]
    close = second is not None and per_gpu(second, 0) >= per_gpu(first, 2)
    names = [plan and plan["name"] for plan in (first, second)]
    return {"choice": names[0], "runner_up": names[1], "close": close}
    # END SOLUTION


def regret(predicted, measured):
    """Return the part of the best measured rate that is lost by choosing what is predicted best.

    Both: {name: rate}, the same names. 0.0: the best was chosen, though its prediction may be far
    off. ValueError when there is nothing to choose from or the names differ.
    """
    # BEGIN SOLUTION (task 8)
    if not predicted or predicted.keys() != measured.keys():
        raise ValueError("predicted and measured must hold the same names, at least one")
    return 1 - measured[max(predicted, key=predicted.get)] / max(measured.values())
    # END SOLUTION


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
    # BEGIN SOLUTION (task 9)
    ranks = evidence["ranks"]
    compute, wait, transfer = [[] for _ in ranks], [[] for _ in ranks], []
    for steps in zip(*(rank["steps"] for rank in ranks), strict=True):
        inside = [[left - entered for *_, entered, left in step["collectives"]] for step in steps]
        transfer.append([min(times) for times in zip(*inside, strict=True)])
        for rank, step in enumerate(steps):
            duration, mine = step["end_us"] - step["start_us"], sum(inside[rank])
            compute[rank].append(duration - mine)
            wait[rank].append(mine - sum(transfer[-1]))
    return {"compute_us": compute, "wait_us": wait, "transfer_us": transfer}
    # END SOLUTION


def link_line(points):
    """Return (latency_us, bytes_per_s) of the straight line through [(payload_bytes, us), ...].

    Of each payload size the median time counts, once: a late message must not bend the line. A line
    that does not rise gives a rate of math.inf. ValueError, naming `sizes`, unless two differ.
    """
    # BEGIN SOLUTION (task 10)
    of_size = {}
    for size, us in points:
        of_size.setdefault(size, []).append(us)
    if len(of_size) < 2:
        raise ValueError(f"points of {len(of_size)} different sizes; a line needs 2 sizes")
    medians = [(size, statistics.median(times)) for size, times in of_size.items()]
    mean_size, mean_us = (statistics.fmean(column) for column in zip(*medians, strict=True))
    spread = sum((size - mean_size) ** 2 for size, _ in medians)
    slope = sum((size - mean_size) * (us - mean_us) for size, us in medians) / spread
    return mean_us - slope * mean_size, 1e6 / slope if slope > 0 else math.inf
    # END SOLUTION


def stage_times(microbatches):
    """Return (busy_us of each stage, period_us) of a pipeline, medians over its microbatches.

    microbatches: as in the evidence. A stage is busy from having its input to having computed; the
    period is what passes between two results of the last stage, with one microbatch its busy time.
    """
    # BEGIN SOLUTION (task 11)
    busy = [statistics.median(done - had for _, had, done, _ in stage) for stage in microbatches]
    done = [row[2] for row in microbatches[-1]]
    gaps = [later - earlier for earlier, later in zip(done, done[1:], strict=False)]
    return busy, statistics.median(gaps) if gaps else busy[-1]
    # END SOLUTION


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
    # BEGIN SOLUTION (task 12)
    if "spans" in evidence:
        rules = [_lost_overlap]
    elif "microbatches" in evidence:
        rules = [_slow_stage]
    elif "stages" in evidence:
        rules = [_replicas, _copied_heads, _starved]
    else:
        rules = [_replicas, _copied_heads, _slow_rank, _bad_link]
    numbers = {}
    found = ("healthy", None, 0.0)
    for rule in rules:
        if fault := rule(evidence, numbers):
            found = fault
            break
    cause, where, cost = found
    return {"cause": cause, "where": where, "cost": cost, "numbers": numbers}
    # END SOLUTION


# BEGIN SOLUTION (task 12)
# A rule looks at one thing. It returns (cause, where, cost), or None when it sees no fault, and
# puts what it went by into `numbers`.


def _replicas(evidence, numbers):
    plan = evidence["plan"]
    planned = plan["tp_size"] * plan["pp_size"]
    numbers["engines"] = engines = planned / evidence["start_up"][0]["world_size"]
    return ("replicas", None, 1 - 1 / engines) if engines != 1 else None


def _copied_heads(evidence, numbers):
    plan, held = evidence["plan"], evidence["start_up"][0]["kv_cache"]["kv_heads"]
    numbers["copies"] = copies = held * plan["tp_size"] / plan["model"]["num_key_value_heads"]
    return ("copied-heads", None, 1 - 1 / copies) if copies > 1 else None


def _slow_rank(evidence, numbers):
    compute = decompose(evidence)["compute_us"]
    typical = [statistics.median(times) for times in compute]
    slowest = max(range(len(typical)), key=typical.__getitem__)
    numbers["compute_ratio"] = ratio = typical[slowest] / min(typical)
    slow, foreign = ratio > 1.37, _foreign(evidence)
    numbers["foreign"] = max(foreign)
    if any(share > 0.1 for core, share in enumerate(foreign) if not (slow and core == slowest)):
        return "disturbed", None, 0.0
    if not slow:
        return None
    mean = [statistics.fmean(times) for times in compute]
    others = max(us for rank, us in enumerate(mean) if rank != slowest)
    cause = "busy-neighbour" if foreign[slowest] > 0.1 else "slow-rank"
    return cause, slowest, (mean[slowest] - others) / _mean_step_us(evidence)


def _foreign(evidence):
    """Mean share of each core that somebody else used."""
    rows = zip(evidence["processor"]["ranks"], evidence["processor"]["cores"], strict=True)
    beyond = [[max(0, c - r) for r, c in zip(*row, strict=True)] for row in rows]
    return [statistics.fmean(column) for column in zip(*beyond, strict=True)]


def _mean_step_us(evidence):
    steps = [step for rank in evidence["ranks"] for step in rank["steps"]]
    return statistics.fmean(step["end_us"] - step["start_us"] for step in steps)


def _bad_link(evidence, numbers):
    now, usual = (decompose(run)["transfer_us"] for run in (evidence, evidence["healthy"]))
    typical, tail = _of_decode_steps(evidence, now)
    usually, usual_tail = _of_decode_steps(evidence["healthy"], usual)
    numbers |= {"transfer_ratio": typical / usually, "tail_ratio": tail / usual_tail}
    if typical <= 1.6 * usually and tail <= 2.4 * usual_tail:
        return None
    numbers["latency_us"], numbers["bytes_per_s"] = link_line(_points(evidence, now))
    mine, theirs = (statistics.fmean(map(sum, transfer)) for transfer in (now, usual))
    cause = "slow-link" if typical > 1.6 * usually else "unsteady-link"
    return cause, "link", (mine - theirs) / _mean_step_us(evidence)


def _of_decode_steps(run, transfer):
    """Transfer of a decode step: (median, 99th percentile). A prefill's payload is another one."""
    steps = zip(run["ranks"][0]["steps"], transfer, strict=True)
    decode = sorted(sum(times) for step, times in steps if step["tokens"] == step["requests"])
    return statistics.median(decode), decode[int(0.99 * (len(decode) - 1))]


def _points(evidence, transfer):
    return [
        (payload, us)
        for step, times in zip(evidence["ranks"][0]["steps"], transfer, strict=True)
        for (operation, payload, *_), us in zip(step["collectives"], times, strict=True)
        if operation == "all_reduce"
    ]


def _starved(evidence, numbers):
    """By Little's law: requests in flight are the time all of them spent here over the window."""
    came = [request["arrived_us"] for request in evidence["requests"]]
    gone = [request["token_us"][-1] for request in evidence["requests"]]
    numbers["in_flight"] = in_flight = (sum(gone) - sum(came)) / (max(gone) - min(came))
    stages = evidence["plan"]["pp_size"]
    return ("starved", None, 1 - in_flight / stages) if in_flight <= stages - 0.5 else None


def _slow_stage(evidence, numbers):
    busy, numbers["period_us"] = stage_times(evidence["microbatches"])
    m, typical = len(evidence["microbatches"][0]), statistics.median_low(busy)
    slowest = max(range(len(busy)), key=busy.__getitem__)
    numbers["busy_ratio"] = busy[slowest] / typical
    with_it = sum(busy) + (m - 1) * busy[slowest]
    without = sum(min(us, typical) for us in busy) + (m - 1) * typical
    slow = busy[slowest] >= 1.37 * typical
    return ("slow-stage", slowest, 1 - without / with_it) if slow else None


def _lost_overlap(evidence, numbers):
    now, usually = (_waited(run["spans"]) for run in (evidence, evidence["healthy"]))
    numbers |= {"waited": now, "usually_waited": usually}
    return ("no-overlap", None, now - usually) if now >= usually + 0.1 else None


def _waited(spans):
    """The share of the step that the ranks' main threads were blocked by communication."""
    waits = sum(ended - began for rank in spans for lane, _, began, ended in rank if lane == "wait")
    steps = sum(max(span[3] for span in rank) - min(span[2] for span in rank) for rank in spans)
    return waits / steps


# END SOLUTION
