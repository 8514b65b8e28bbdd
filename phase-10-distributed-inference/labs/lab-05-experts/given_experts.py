"""Given in lab 05: what an expert computes, a message's price, and the rows that contradict."""

import itertools
import math

import numpy as np


def run_experts(x, ids, weights, W1, W2):
    """Return [tokens, hidden]: each token's sum of weight x relu(x @ W1[id]) @ W2[id].

    x is [tokens, hidden], ids and weights [tokens, top_k], W1 [experts, hidden, ffn], W2 [experts,
    ffn, hidden]. As a kernel does, it reads W1 at every id, whatever the weight: an id at or above
    the number of experts raises an IndexError here, and reads foreign memory there. Without experts
    (W1 of length 0) it returns zeros. A real expert has a third matrix, a gate; nothing here
    depends on it. Nor is a negative id legal, which numpy alone would read from the end.
    """
    if not len(W1):
        return np.zeros((len(x), W2.shape[-1]))
    if np.any(ids < 0):
        raise IndexError(f"id {ids.min()} is below 0: give an expert that is not here a legal row")
    hidden = np.maximum(np.einsum("th,tkhf->tkf", x, W1[ids]), 0.0)
    return np.einsum("tk,tkf,tkfh->th", weights, hidden, W2[ids])


def softmax(scores):
    """Softmax over the last axis."""
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True)


def all_fit(shares, rows, most):
    """Return the chance that no rank gets more than `most` of the rows, each of which falls on one.

    shares holds the ranks' probabilities, which sum to 1. Exact but for rounding, up to 100 rows.
    """
    ways = np.ones(1)  # entry n: the chance that n rows fall on the ranks so far, over n!
    for share in shares:
        here = [share**n / math.factorial(n) for n in range(most + 1)]
        ways = np.convolve(ways, here)[: rows + 1]
    return ways[rows] * math.factorial(rows) if len(ways) > rows else 0.0


def ring_s(trips, payload_bytes, machine):
    """Return the seconds of a ring collective, as lab 03 prices it; one rank pays nothing.

    trips is 2 for an all-reduce and 1 for an all-gather or a reduce-scatter.
    """
    p = machine["num_ranks"]
    if p == 1:
        return 0.0
    hops = trips * (p - 1)
    return (
        machine["c_s"]
        + hops * machine["a_s"]
        + hops / p * payload_bytes / machine["busbw_bytes_per_s"]
    )


def busiest_first(placed, loads):
    """The ranks' rows, the busiest rank's first; copies of an expert share its rows equally.

    placed is a list with the experts of each rank. Of two placements, the one with the smaller list
    is the better. [inf] when an expert stands nowhere.
    """
    copies = [sum(e in held for held in placed) for e in range(len(loads))]
    if 0 in copies:
        return [math.inf]
    return sorted((sum(loads[e] / copies[e] for e in held) for held in placed), reverse=True)


def changes(placed, num_experts, slots):
    """Every placement that is one change away: an expert more, less or another, two exchanged."""
    for r, held in enumerate(placed):
        fewer = [[e for e in held if e != gone] for gone in held]
        more = [[*k, e] for k in [held, *fewer] for e in range(num_experts) if e not in held]
        for mine in [*fewer, *more]:
            if len(mine) <= slots:
                yield [*placed[:r], mine, *placed[r + 1 :]]
        for s, other in enumerate(placed[:r]):
            for e, f in itertools.product(held, other):
                if e not in other and f not in held:
                    swapped = list(placed)
                    swapped[r] = [f if x == e else x for x in held]
                    swapped[s] = [e if x == f else x for x in other]
                    yield swapped


# Kernels multiply in tiles of so many columns: a narrower slice takes as long as a whole tile.
TILE = 128

# Shapes from the models' config.json. attention_weights is a layer's, with its shared expert;
# kv_heads and head_bytes are what a layer caches for a token, in MLA one head of the latent and the
# rotary part.
MODELS = {
    "DeepSeek-R1": {
        "hidden_size": 7168,
        "expert_ffn": 2048,
        "num_experts": 256,
        "top_k": 8,
        "num_layers": 58,
        "attention_weights": 231_145_472,
        "attention_weight_bytes": 1,
        "expert_weight_bytes": 1,
        "element_bytes": 2,
        "kv_heads": 1,
        "head_bytes": 1152,
    },
    "DeepSeek-V4-Flash": {
        "hidden_size": 4096,
        "expert_ffn": 2048,
        "num_experts": 256,
        "top_k": 6,
        "num_layers": 43,
        "attention_weights": 132_120_576,
        "attention_weight_bytes": 1,
        "expert_weight_bytes": 0.53125,  # 4 bits, and 8 bits of scale for every 32 weights
        "element_bytes": 2,
        "kv_heads": 1,
        "head_bytes": 584,  # before compression along the sequence, which is left out
    },
    "Mixtral-8x7B": {
        "hidden_size": 4096,
        "expert_ffn": 14336,
        "num_experts": 8,
        "top_k": 2,
        "num_layers": 32,
        "attention_weights": 41_943_040,
        "attention_weight_bytes": 2,
        "expert_weight_bytes": 2,
        "element_bytes": 2,
        "kv_heads": 8,
        "head_bytes": 512,
    },
}

# What a kernel gets at best of what a data sheet prints: lab 03's shares.
_H200 = {"memory_bytes_per_s": 0.93 * 4.8e12, "flops_per_s": 0.82 * 1.979e15}
# 4-bit weights, 16-bit arithmetic
_H100 = {"memory_bytes_per_s": 0.93 * 3.35e12, "flops_per_s": 0.82 * 9.89e14}
_NVLINK = {"c_s": 5e-6, "a_s": 0.75e-6}
MACHINES = {
    "8 x H200": {"num_ranks": 8, **_H200, **_NVLINK, "busbw_bytes_per_s": 450e9},
    "2 x H100": {"num_ranks": 2, **_H100, **_NVLINK, "busbw_bytes_per_s": 330e9},
}

# What requests_that_fit is given for vllm issue 51454, but for the last: one of eight B200s as the
# driver reports it, 95 % of it granted; attention, embedding and logits (16 bits); the experts; a
# request of any size; the ranks.
_FLASH = MODELS["DeepSeek-V4-Flash"]
FLASH_ON_B200S = (
    0.95 * 183359 * 2**20,
    _FLASH["num_layers"] * _FLASH["attention_weights"] + 2 * 129280 * _FLASH["hidden_size"] * 2,
    _FLASH["num_layers"] * 256 * 3 * _FLASH["hidden_size"] * _FLASH["expert_ffn"]
    * _FLASH["expert_weight_bytes"],
    1e9,
    8,
)  # fmt: skip

# How far the loads of a model's experts lie apart, as a part of their mean. One assumption for all
# rows: nobody of them published the loads.
SPREAD = 0.6


def busiest_of(num_experts, parts):
    """Return the busiest part's load over the mean's, by the largest of `parts` normal draws.

    A part sums num_experts / parts loads, each SPREAD of its mean apart: the more experts a part
    has, the more of it evens out.
    """
    return 1 + SPREAD * math.sqrt(2 * math.log(parts) * parts / num_experts)


# Two ways to split the experts of one replica; each row says which one was measured to be faster.
# ep_size 1 is tensor parallelism. A row's `missed` says why the bill orders it otherwise.
ROWS = [
    {
        "name": "vllm 28887, prefill",
        "source": "vllm-project/vllm issue 28887: 8 x H200, TP8 3.1 ms a layer, TP8 with experts "
        "dealt out 3.4 ms; time to first token at 8 requests 545.6 and 641.8 ms",
        "model": "DeepSeek-R1",
        "machine": "8 x H200",
        "tokens": 8192,  # assumed: a full chunk
        "faster": 1,
        "slower": 8,
        "missed": "",
    },
    {
        "name": "vllm 28889, few requests",
        "source": "vllm-project/vllm issue 28889: experts dealt out 4 ways are faster than 8 ways "
        "up to 32 requests (another engine, TensorRT-LLM; the chart gives no numbers)",
        "model": "DeepSeek-R1",
        "machine": "8 x H200",
        "tokens": 32,
        "faster": 4,
        "slower": 8,
        "missed": "",
    },
    {
        "name": "kaito 2305",
        "source": "kaito-project/kaito issue 2305: 2 x H100, 70,908 tokens a minute dealt out, "
        "58,275 without",
        "model": "DeepSeek-V4-Flash",
        "machine": "2 x H100",
        "tokens": 8192,  # assumed: a full chunk
        "faster": 2,
        "slower": 1,
        "missed": "bytes and arithmetic are the same and only the skew differs, so the bill can "
        "never prefer to deal out; a fifth more must lie in what it leaves out, and first of all "
        "in the kernels",
    },
    {
        "name": "sglang 3602",
        "source": "sgl-project/sglang pull request 3602: 8 x H200, DeepSeek-V3, 1,468 tokens/s "
        "dealt out, 1,403 without",
        "model": "DeepSeek-R1",
        "machine": "8 x H200",
        "tokens": 8192,
        "faster": 8,
        "slower": 1,
        "missed": "again kernels: the same split was measured slower in vLLM (28887), on the same "
        "GPUs and the same shape",
    },
]
