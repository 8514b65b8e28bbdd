# lab-05 starter: write where NotImplementedError stands. [2a7749256dba]
"""Lab 05: experts and latent attention, as a rank runs them.

In a sparse layer each token passes through top_k of many experts. Attention with a latent cache
keeps one short vector per position for all heads. Both break what labs 01 to 04 took for granted:
that a rank's share of the work is known in advance, and that more ranks mean less cache on each.

Shapes: x is [tokens, hidden]; logits [tokens, experts]; ids (integers) and weights are [tokens,
top_k]. W1 is [experts, hidden, ffn], W2 [experts, ffn, hidden]. A placement is an integer array
[experts], the rank that holds each expert; a rank holds its experts in ascending order. Functions
that end in _rank are one rank's, number group.rank of group.size, which calls the collectives of
its `group`, as in lab 01. Arrays are float64. given_experts.py holds what you read and do not
write: run_experts, softmax, all_fit, ring_s and, for the stretch task, busiest_first and changes.
"""

import math

import numpy as np
from arguments import ABOVE_ZERO, COUNT, ZERO_OR_MORE, checked
from given_experts import TILE, all_fit, busiest_first, changes, ring_s, run_experts, softmax

# --- Task 1: which experts? ----------------------------------------------------------------------


def route(logits, top_k, renormalize):
    """Return (ids, weights) of each token's top_k experts, [tokens, top_k], the best first.

    Equal logits: the lower id first; logits that differ in the last bit are not equal. A weight is
    the expert's part of the softmax over all experts (DeepSeek-V2, arXiv:2405.04434) or, with
    renormalize, over the token's chosen ones, so that they sum to 1 (Mixtral, arXiv:2401.04088),
    however large the logits. Raises ValueError, its message with top_k and its value, unless it is
    from 1 to the number of experts. Source: vLLM `fused_topk`.
    """
    raise NotImplementedError(
        "lab-05 · route is yours to write (about 7 lines). "
        "The book (make book) says more: lab-05, task 1"
    )


# --- Task 2: every rank has all tokens -----------------------------------------------------------


@checked(num_ranks=COUNT)
def place_in_order(num_experts, num_ranks):
    """Return the placement [experts] in blocks, in rank order; the first ranks take what is over.

    There may be more ranks than experts. Source: vLLM `determine_expert_map`, "linear".
    """
    raise NotImplementedError(
        "lab-05 · place_in_order is yours to write (about 2 lines). "
        "The book (make book) says more: lab-05, task 2"
    )


def experts_tp_rank(x, ids, weights, W1, W2, group):
    """Return the sparse layer's output [tokens, hidden], complete, on this rank: one all-reduce.

    Tensor parallelism: W1 [experts, hidden, ffn / ranks] and W2 [experts, ffn / ranks, hidden] are
    this rank's slice of every expert. x, ids and weights are the same on every rank.
    """
    raise NotImplementedError(
        "lab-05 · experts_tp_rank is yours to write (about 1 line). "
        "The book (make book) says more: lab-05, task 2"
    )


def my_experts(x, ids, weights, W1, W2, placement, rank):
    """Return [tokens, hidden]: what the experts of this rank add to each token.

    W1 and W2 hold the rank's experts, whole, in ascending order; it may have none. ids may be those
    of any experts: another rank's adds nothing, an own one its weight times its output, however
    small the weight. Source: vLLM `expert_map`.
    """
    raise NotImplementedError(
        "lab-05 · my_experts is yours to write (about 3 lines). "
        "The book (make book) says more: lab-05, task 2"
    )


def experts_ep_rank(x, ids, weights, W1, W2, placement, group):
    """Return the sparse layer's output [tokens, hidden], complete, on this rank: one all-reduce.

    Experts dealt out: W1 and W2 hold this rank's experts, whole. x, ids and weights are the same on
    every rank. Source: vLLM with --enable-expert-parallel and one replica.
    """
    raise NotImplementedError(
        "lab-05 · experts_ep_rank is yours to write (about 1 line). "
        "The book (make book) says more: lab-05, task 2"
    )


def touched_bytes(ids, placement, expert_bytes, num_ranks):
    """Return (sliced, dealt): bytes of experts that each rank reads for these tokens.

    Each has one whole number per rank. An expert that is chosen is read once, however many
    tokens chose it; others are not read. sliced: every rank has 1 / num_ranks of every expert,
    which num_ranks divides. dealt: whole experts, as placed. ids may be those of no token.
    """
    raise NotImplementedError(
        "lab-05 · touched_bytes is yours to write (about 3 lines). "
        "The book (make book) says more: lab-05, task 2"
    )


# --- Task 3: every rank has its own tokens -------------------------------------------------------


def gathered_rank(x, ids, weights, W1, W2, placement, sizes, group):
    """Return the output [tokens, hidden] of this rank's own tokens; every rank sees all tokens.

    sizes holds the ranks' numbers of tokens, which engines exchange beforehand; some may be 0.
    Dispatch: an all-gather each of x, ids and weights. Combine: one reduce-scatter. Source: vLLM
    `AgRsAll2AllManager`, its default.
    """
    raise NotImplementedError(
        "lab-05 · gathered_rank is yours to write (about 3 lines). "
        "The book (make book) says more: lab-05, task 3"
    )


def tokens_for_ranks(ids, placement, num_ranks):
    """Return a list with one integer array per rank: which tokens it must see, ascending, once.

    A rank must see a token that chose one of its experts, or several of them.
    """
    raise NotImplementedError(
        "lab-05 · tokens_for_ranks is yours to write (about 1 line). "
        "The book (make book) says more: lab-05, task 3"
    )


def exchanged_rank(x, ids, weights, W1, W2, placement, group):
    """Return the output [tokens, hidden] of this rank's own tokens; a rank sees what it must.

    Dispatch: an all-to-all each of x, ids and weights, a token once to each rank that must see it;
    what a rank needs of its own tokens may stay at home. Combine: an all-to-all of what the ranks'
    experts add to it. Source: DeepEP `dispatch` and `combine`; vLLM --all2all-backend
    deepep_high_throughput.
    """
    raise NotImplementedError(
        "lab-05 · exchanged_rank is yours to write (about 9 lines). "
        "The book (make book) says more: lab-05, task 3"
    )


def traffic_bytes(ids_of_ranks, placement, hidden_size, number_bytes):
    """Return (gathered, exchanged): bytes that all ranks together send in one sparse layer.

    ids_of_ranks has one array [tokens, top_k] per rank. gathered is the traffic of gathered_rank,
    around a ring; exchanged that of exchanged_rank, what a rank keeps for itself not counted. A
    number of x, ids or weights takes number_bytes. Two whole numbers.
    """
    raise NotImplementedError(
        "lab-05 · traffic_bytes is yours to write (about 8 lines). "
        "The book (make book) says more: lab-05, task 3"
    )


# --- Task 4: the busiest rank --------------------------------------------------------------------


def busiest_rank(ids, placement, num_ranks):
    """Return (rank, rows) of the rank whose experts have the most rows to compute.

    A token that chose two experts of a rank is two rows there. The lowest such rank on a tie.
    """
    raise NotImplementedError(
        "lab-05 · busiest_rank is yours to write (about 2 lines). "
        "The book (make book) says more: lab-05, task 4"
    )


def expected_busiest(shares, rows):
    """Return the expected number of rows on the busiest rank, when each falls on one by chance.

    shares holds the ranks' probabilities, which sum to 1; each of `rows` rows, at most 100, falls
    on its own, whatever the others do. Exact but for rounding. Given: `all_fit`, the chance that no
    rank has more than so many.
    """
    raise NotImplementedError(
        "lab-05 · expected_busiest is yours to write (about 1 line). "
        "The book (make book) says more: lab-05, task 4"
    )


def place_experts(loads, num_ranks, slots):
    """Return a list with the experts of each rank, a list of ids, such that no rank is too busy.

    loads holds each expert's rows. A rank has room for `slots` experts. Every expert stands on one
    rank at least; where room is left it may stand on several, which share its rows equally. The
    busiest rank has at most 20 % more rows than in the best of all such placements, and not more
    than in order (place_in_order). The checks draw small cases, up to 12 experts on 4 ranks. Given:
    `busiest_first` compares two placements, `changes` lists all that one change away from one.
    Raises ValueError when the experts need more room. Source: vLLM EPLB, `rebalance_experts`.
    """
    raise NotImplementedError(
        "lab-05 · place_experts is yours to write (about 27 lines). "
        "The book (make book) says more: lab-05, task 4"
    )


# --- Task 5: one latent for all heads ------------------------------------------------------------


def latent_shards(Wd, Wq, W_uk, W_uv, Wo, num_ranks, rank):
    """Return what one rank loads of (Wd, Wq, W_uk, W_uv, Wo): its heads, and all of Wd.

    Wd [latent, hidden] makes the latent; Wq [heads, head_dim, hidden]; W_uk [heads, head_dim,
    latent] and W_uv [heads, head_dim, latent] make keys and values from it; Wo [heads, head_dim,
    hidden]. Heads are dealt out in blocks, in rank order. When the ranks do not divide them, raises
    ValueError (given). Source: DeepSeek-V2, arXiv:2405.04434, section 2.1.
    """
    num_heads = len(Wq)
    if num_heads % num_ranks:  # given
        raise ValueError(f"num_heads={num_heads} is not divisible by num_ranks={num_ranks}")
    raise NotImplementedError(
        "lab-05 · latent_shards is yours to write (about 3 lines). "
        "The book (make book) says more: lab-05, task 5"
    )


def mla_rank(x, latents, Wd, Wq, W_uk, W_uv, Wo, group):
    """Return (y, latents) after one more token, both complete on this rank: one all-reduce.

    x [1, hidden] is the token; latents [positions, latent] the cache, which grows by the token's
    own latent x @ Wd.T; it attends to all of them. The weights are what latent_shards gives this
    rank. y [1, hidden]. Keys latent @ W_uk.T and values latent @ W_uv.T of the positions need not
    be made: W_uk may be applied to the query, W_uv to the output. Scores are divided by
    sqrt(head_dim), and may be large. The rotary part is left out. Source: vLLM `MLAAttention`,
    decode.
    """
    raise NotImplementedError(
        "lab-05 · mla_rank is yours to write (about 6 lines). "
        "The book (make book) says more: lab-05, task 5"
    )


@checked(kv_heads=COUNT, num_ranks=COUNT)
def cache_bytes_per_token(kv_heads, head_bytes, num_ranks, attention_dp):
    """Return the bytes that one rank caches, per layer, for one token of a request it serves.

    head_bytes is what one KV head caches for a token, key and value; a latent is one head. Without
    attention_dp, heads are divided over the ranks, or copied when there are more ranks; ValueError
    when neither is even. With it, a rank serves its own requests and holds all heads. A whole
    number.
    """
    raise NotImplementedError(
        "lab-05 · cache_bytes_per_token is yours to write (about 5 lines). "
        "The book (make book) says more: lab-05, task 5"
    )


@checked(request_bytes=ABOVE_ZERO, num_ranks=COUNT)
def requests_that_fit(
    memory_bytes, attention_bytes, expert_bytes, request_bytes, num_ranks, attention_dp
):
    """Return how many requests fit on all ranks together, not rounded; each engine logs its own.

    memory_bytes is one rank's; what its weights leave is cache. attention_bytes and expert_bytes
    are the whole model's weights: attention with whatever else is not an expert, and the experts,
    which are divided over the ranks either way. Attention is divided too, and every request is
    held by all ranks, or with attention_dp it is copied, and a request is held by one. A rank
    caches request_bytes for a request it holds. 0 when the weights leave nothing.
    """
    raise NotImplementedError(
        "lab-05 · requests_that_fit is yours to write (about 3 lines). "
        "The book (make book) says more: lab-05, task 5"
    )


# --- Task 6: a request over several ranks --------------------------------------------------------


def attention_part(q, k, v):
    """Return (out, lse): attention over some of a request's positions.

    q is [heads, head_dim], k and v are [positions, heads, head_dim]. out [heads, head_dim] is as if
    these were all positions; lse [heads] the logarithm of the sum of exp(score), a score being
    q . k / sqrt(head_dim), however large or far below zero. Without positions out is zero and lse
    minus infinity.
    """
    raise NotImplementedError(
        "lab-05 · attention_part is yours to write (about 6 lines). "
        "The book (make book) says more: lab-05, task 6"
    )


def join(outs, lses):
    """Return the attention output [heads, head_dim] over all positions, from that over parts.

    outs is [parts, heads, head_dim], lses [parts, heads], as attention_part gives them; some parts
    may be empty. When all are, the output is zero. Source: vLLM `correct_attn_out`.
    """
    raise NotImplementedError(
        "lab-05 · join is yours to write (about 5 lines). "
        "The book (make book) says more: lab-05, task 6"
    )


def context_rank(q, k, v, group):
    """Return the attention output [heads, head_dim] over all positions, complete on this rank.

    q is the same on every rank; k and v [positions, heads, head_dim] are this rank's positions:
    every c-th, c being the ranks, so that a short request may leave a rank without any, and an
    empty one all of them: then the output is zero. Two collectives: an all-gather of every rank's
    lse [1, heads], axis=0, and an all-reduce of its addend [heads, head_dim], divided by the sum of
    the ranks' shares before it or after it. Source: vLLM `cp_lse_ag_out_ar`,
    --prefill-context-parallel-size.
    """
    raise NotImplementedError(
        "lab-05 · context_rank is yours to write (about 5 lines). "
        "The book (make book) says more: lab-05, task 6"
    )


# --- Task 7: ranks that go in step ---------------------------------------------------------------


@checked(check_every=COUNT)
def steps_of_lockstep(work, check_every):
    """Return (steps, dummies): the steps that every rank makes, and how many of each are dummies.

    work holds the steps that each rank's requests need, 0 if it has none. While one rank has work
    all make steps, an idle one with a dummy batch. Whether all are done they ask each other only
    before the first and after every check_every steps, one rank alone too.
    Source: vLLM `DPEngineCoreProc`, which asks after the first step and then after every
    dp_sync_interval, 16.
    """
    raise NotImplementedError(
        "lab-05 · steps_of_lockstep is yours to write (about 2 lines). "
        "The book (make book) says more: lab-05, task 7"
    )


@checked(check_every=COUNT)
def lockstep_rank(batches, hidden_size, check_every, group):
    """Return (steps, dummies): how many steps this rank made, and how many of them were dummies.

    batches is a list of this rank's work, one array [tokens, hidden_size] for each step, tokens
    being 1 or more; the list is the caller's and stays as it is. All ranks begin with an all_reduce
    of one number each, [the batches it has left]; while the sum is above 0 they make check_every
    steps and ask again. In a step a rank brings its next batch to an all_gatherv, which stands for
    the sparse layers, or if it has none left an empty one.
    """
    raise NotImplementedError(
        "lab-05 · lockstep_rank is yours to write (about 6 lines). "
        "The book (make book) says more: lab-05, task 7"
    )


# --- Task 8: the bill ----------------------------------------------------------------------------


@checked(num_experts=COUNT, top_k=COUNT, tokens=ZERO_OR_MORE)
def expected_experts(num_experts, top_k, tokens):
    """Return how many experts some tokens touch on average, not rounded.

    Each token chooses top_k different experts, all equally likely, whatever the others do.
    """
    raise NotImplementedError(
        "lab-05 · expected_experts is yours to write (about 1 line). "
        "The book (make book) says more: lab-05, task 8"
    )


@checked(ep_size=COUNT, busiest=ABOVE_ZERO)
def experts_s(tokens, ep_size, busiest, model, machine):
    """Return the seconds of one layer's experts on the busiest rank, for all ranks' tokens.

    The experts are dealt out to ep_size equal parts, and each part's are sliced over its equal
    share of the ranks: ep_size 1 is tensor parallelism. In the mean a part gets an equal share of
    the rows, top_k a token, and of the experts that are touched (expected_experts); the busiest
    part `busiest` times as many of both, but it touches no more experts than it has. An expert has
    three matrices [hidden_size, expert_ffn]. The rank reads its slices of what is touched once,
    and does two flops per weight and row, at the same time; for the flops, a slice of expert_ffn
    counts as whole tiles of TILE columns. Keys of model and machine: see MODELS and MACHINES in
    given_experts.py.
    """
    raise NotImplementedError(
        "lab-05 · experts_s is yours to write (about 7 lines). "
        "The book (make book) says more: lab-05, task 8"
    )


def attention_s(tokens, context, attention_dp, model, machine):
    """Return the seconds of one layer's attention and shared expert, for all ranks' tokens.

    A rank reads attention_weights once, its part of them or with attention_dp all, and the cache of
    `context` positions (task 5's cache_bytes_per_token) for each token it attends for: all tokens,
    or with attention_dp its equal part of them. At the same time it does its equal part, either
    way, of two flops per weight and token.
    """
    raise NotImplementedError(
        "lab-05 · attention_s is yours to write (about 6 lines). "
        "The book (make book) says more: lab-05, task 8"
    )


def moe_step_s(tokens, context, ep_size, attention_dp, busiest, model, machine):
    """Return the seconds of one step over all layers: attention, experts and messages in turn.

    tokens are all ranks' together. Each layer makes two messages of [tokens, hidden_size] numbers
    of element_bytes: two all-reduces, or with attention_dp an all-gather and a reduce-scatter, as
    gathered_rank does (ids and weights left out). A floor: nothing else takes time.
    """
    raise NotImplementedError(
        "lab-05 · moe_step_s is yours to write (about 5 lines). "
        "The book (make book) says more: lab-05, task 8"
    )
