"""Hold a start-up log against the ledger of its model, and name what does not add up."""

import math
from typing import Any, NamedTuple

from given.model_shapes import DTYPE_BYTES, GIB, MIB
from given.startup_log import version_numbers

_EXACT_GIB = 0.25 * MIB / GIB  # what the arithmetic of rank_weights leaves open on published logs
_SWAP_GIB = 4  # V0 default of --swap-space, per rank
_V0_BLOCK = 16
_WRONG = {
    "pipeline not applied",
    "tensor parallel not applied",
    "different split",
    "heavier rank",
    "kv not sharded",
}
_UNEXPLAINED = {"weights unexplained", "weights missing", "kv unexplained"}


class Ledger(NamedTuple):
    """The three functions of the learner that a log is held against."""

    rank_weights: Any
    kv_bytes_per_token: Any
    which_split: Any


def reconcile(log, model, tp_size, pp_size, block_size, ledger):
    """One line per claim of the log, and a verdict.

    log: of startup_log.read. ledger: a Ledger. Returns {"lines", "verdict", "findings"}.
    A line: `claim`, `rank`, `expected`, `reported`, `residual`, `unit`, `status`, `cause`; status
    is "exact" (within what the log prints), "close" (within 5 %), "coarse" (the log's own rounding
    is more than 5 %) or "off".
    verdict: "consistent", "wrong split", "unexplained" or "nothing to check"; findings: words from
    "pipeline not applied", "tensor parallel not applied", "different split", "heavier rank",
    "kv not sharded", "kv unexplained", "weights unexplained", "weights missing", "quantized".
    """
    model = model | {"dtype_bytes": DTYPE_BYTES.get(log["dtype"], model["dtype_bytes"])}
    found = [  # (line, findings)
        *_size_lines(log, tp_size, pp_size),
        *_weights_lines(log, model, tp_size, pp_size, ledger),
        *_peer_lines(log, tp_size, pp_size),
        *_kv_lines(log, model, tp_size, pp_size, block_size, ledger),
    ]
    lines = [line for line, _ in found]
    findings = list(dict.fromkeys(word for _, words in found for word in words))
    verdict = "consistent"
    if _WRONG & set(findings):
        verdict = "wrong split"
    elif _UNEXPLAINED & set(findings):
        verdict = "unexplained"
    elif not any(line["reported"] is not None for line in lines):
        verdict = "nothing to check"
    return {"lines": lines, "verdict": verdict, "findings": findings}


def _line(claim, rank, expected, reported, unit, exact, cause="", close=False, coarse=False):
    comparable = None not in (expected, reported)
    residual = reported - expected if comparable else None
    status = "exact" if exact else "coarse" if coarse else "close" if close else "off"
    line = {"claim": claim, "rank": rank, "expected": expected, "reported": reported}
    return line | {"residual": residual, "unit": unit, "status": status, "cause": cause}


def _size_lines(log, tp_size, pp_size):
    """The sizes that the engine printed, against those asked for."""
    for name, asked in [("tp_size", tp_size), ("pp_size", pp_size)]:
        if log[name] is not None:
            same = log[name] == asked
            cause = "" if same else f"the engine was started with {name}={log[name]}"
            line = _line(name, None, asked, log[name], "", same, cause)
            yield line, [] if same else ["different split"]


# Weights


def _weights_lines(log, model, tp_size, pp_size, ledger):
    if log["quantization"]:
        cause = f"quantized ({log['quantization']}): the ledger counts {model['dtype_bytes']} bytes"
        line = _line("weights", None, None, None, "GiB", True, cause + " per weight")
        yield line, ["quantized"]
        return
    for worker in _weighed(log):
        yield _weights_line(worker, model, tp_size, pp_size, log, ledger)


def _weighed(log):
    return [worker for worker in log["ranks"] if "weights_gib" in worker]


def _weights_line(worker, model, tp_size, pp_size, log, ledger):
    reported, rank = worker["weights_gib"], worker["rank"]
    stages = range(pp_size)
    if rank is not None and rank < tp_size * pp_size:
        stages = [rank // tp_size]
    weights = [ledger.rank_weights(model, tp_size, pp_size, stage) for stage in stages]
    parts = min(weights, key=lambda parts: abs(parts["total_bytes"] / GIB - reported))
    expected = parts["total_bytes"] / GIB
    off, printed = abs(reported - expected), 0.5 * 10 ** -worker["weights_decimals"] + _EXACT_GIB
    exact, close = off <= printed, off <= 0.05 * expected
    cause, findings = "", []
    if close and not exact and reported < expected:
        whole = ledger.rank_weights(model, 1, 1, 0)["total_bytes"]
        cause = _what_is_missing(reported, printed, parts, whole / (tp_size * pp_size))
        findings = ["weights missing"]
    elif close and not exact:
        cause = "buffers and workspaces nobody itemised"
    elif not exact:
        split = _applied_split(reported, model, tp_size, pp_size, log, ledger)
        cause, findings = _explain(split, tp_size, pp_size)
    claim = "weights" if worker["who"] is None else f"weights ({worker['who']})"
    return _line(claim, rank, expected, reported, "GiB", exact, cause, close), findings


def _what_is_missing(reported, printed, parts, even_share):
    """What a log left out that says less than the ledger: a buffer only makes it say more."""
    alone = parts["parameters_bytes"]
    causes = {
        "an even share, though some tensors are whole on every rank": even_share,
        "the rope table is missing": alone + parts["allocator_rounding_bytes"],
        "the parameters alone": alone,
    }
    off, cause = min((abs(reported - size / GIB), cause) for cause, size in causes.items())
    return f"too little: {cause if off <= printed else 'a tensor of the ledger is missing'}"


def _applied_split(reported, model, tp_size, pp_size, log, ledger):
    """The split that explains these weights: of the sizes asked for, or of those in the log."""
    split = ledger.which_split(model, reported, tp_size, pp_size)
    printed = log["tp_size"] or tp_size, log["pp_size"] or pp_size
    if split is None and printed != (tp_size, pp_size):
        try:
            split = ledger.which_split(model, reported, *printed)
        except (ValueError, ZeroDivisionError):
            pass  # the log names a split that this model cannot have: another model's log
    return split


def _explain(split, tp_size, pp_size):
    if split is None:
        return "no split of these weights comes near", ["weights unexplained"]
    asked = [("tensor parallel", "tp_size", tp_size), ("pipeline", "pp_size", pp_size)]
    missed = [word for word, name, size in asked if split[name] == 1 != size]
    findings = [f"{word} not applied" for word in missed] or ["different split"]
    return f"fits tp_size={split['tp_size']} pp_size={split['pp_size']}", findings


def _peer_lines(log, tp_size, pp_size):
    """Ranks of one stage hold the same bytes: the heaviest against the lightest."""
    weights = _weighed(log)
    for stage in range(pp_size):
        peers = weights
        if pp_size > 1:
            peers = [w for w in weights if w["rank"] is not None and w["rank"] // tp_size == stage]
        if len(peers) < 2:
            continue
        least = min(peers, key=lambda worker: worker["weights_gib"])
        most = max(peers, key=lambda worker: worker["weights_gib"])
        low, high = least["weights_gib"], most["weights_gib"]
        same = high - low <= 10 ** -min(w["weights_decimals"] for w in peers) + 1e-9
        cause = "" if same else f"{most['who'] or 'one rank'} holds more than its peers"
        line = _line(f"heaviest rank of stage {stage}", most["rank"], low, high, "GiB", same, cause)
        yield line, [] if same else ["heavier rank"]


# KV cache


def _kv_lines(log, model, tp_size, pp_size, block_size, ledger):
    width = 1 if (log["kv_cache_dtype"] or "").startswith("fp8") else None
    fullest, unsharded = (
        max(ledger.kv_bytes_per_token(model, tp, pp_size, stage, width) for stage in range(pp_size))
        for tp in (tp_size, 1)
    )
    told = block_size or log["block_size"] or _block_of_concurrency(log)
    block_size = told or _V0_BLOCK
    memory = min((w["kv_memory_gib"] for w in log["ranks"] if "kv_memory_gib" in w), default=None)
    tokens = min(log["kv_tokens"], default=None)
    if tokens is None and log["gpu_blocks"] is not None:
        tokens = log["gpu_blocks"] * block_size
    if memory and memory > 0 and tokens:
        filled = _filled(log, block_size)
        line, findings = _tokens_line(tokens, memory * GIB, fullest / filled, unsharded / filled)
        if line["status"] == "coarse" and not told:
            line["cause"] += f"; nor does the log name the tokens of a block, taken as {block_size}"
        yield line, findings
    if log["cpu_blocks"]:
        yield _cpu_blocks_line(log, block_size * fullest, block_size * unsharded), []
    if log["max_concurrency"] and tokens:
        expected, said = tokens / log["tokens_per_request"], log["max_concurrency"]
        exact, close = abs(said - expected) <= 0.006, abs(said - expected) <= 0.05 * expected
        cause = "" if exact else "a request takes whole blocks"
        yield _line("max concurrency", None, expected, said, "x", exact, cause, close), []


def _filled(log, block_size):
    """The part of its blocks that a full request fills; from 0.20.1 the log counts such tokens."""
    tokens = log["tokens_per_request"]
    if not tokens or version_numbers(log["version"] or "0") < (0, 20, 1):
        return 1.0
    return tokens / (math.ceil(tokens / block_size) * block_size)


def _tokens_line(tokens, memory_bytes, fullest, unsharded):
    """Tokens of the cache against its memory; bytes per token: as split, and with all KV heads."""
    expected, whole = memory_bytes / fullest, memory_bytes / unsharded
    printed = 0.006 * GIB / fullest + 256  # two decimals, and a block not filled
    off, near = abs(tokens - expected), 0.05 * expected
    exact, close, coarse = off <= printed <= near, off <= near, off <= printed > near
    cause, findings = "", []
    if coarse:
        cause = "the memory is printed to 0.01 GiB, which is coarse here"
    elif not close and abs(tokens - whole) <= 0.05 * whole:
        cause, findings = "every rank holds all KV heads", ["kv not sharded"]
    elif not close:
        cause, findings = "no split of this memory comes near", ["kv unexplained"]
    elif not exact:
        cause = "the log counts tokens of full requests, or a stage holds more"
    line = _line("KV tokens", None, round(expected), tokens, "", exact, cause, close, coarse)
    return line, findings


def _cpu_blocks_line(log, block_bytes, unsharded_block_bytes):
    """Never a verdict: half the blocks are half the swap space, or KV heads held twice."""
    swap = _SWAP_GIB if log["swap_space_gib"] is None else log["swap_space_gib"]
    expected, reported = int(swap * GIB // block_bytes), log["cpu_blocks"]
    exact, cause = expected == reported, ""
    if not exact:
        gib = reported * block_bytes / GIB
        cause = f"a swap space of {gib:.3g} GiB per rank, or another block size"
        if int(swap * GIB // unsharded_block_bytes) == reported:
            cause += ", or every rank holds all KV heads"
    return _line("CPU blocks", None, expected, reported, "", exact, cause, not exact)


def _block_of_concurrency(log):
    """V0 prints blocks x block_size / max_model_len: the block size, if it prints all the rest."""
    if not (log["gpu_blocks"] and log["max_concurrency"] and log["tokens_per_request"]):
        return None
    found = log["max_concurrency"] * log["tokens_per_request"] / log["gpu_blocks"]
    sizes = [size for size in (8, 16, 32, 64, 128, 256) if abs(found - size) <= 0.02 * size]
    return sizes[0] if sizes else None
