"""What lab 05 must prove: first the claims, task by task, then inputs, oracles and comparisons.

A rank is given its own experts, tokens, heads or positions and nothing else. What it brings to a
collective must be its own part, and the bytes are predicted before they are counted. The oracles go
token by token, head by head, outcome by outcome. What the checks cannot see: whether mla_rank
makes the keys and values of the whole cache on the way, which a real engine has no memory for.
"""

import contextlib
import itertools
import math
import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from collectives import Deadlock, record, run_ranks

from labkit.expect import (
    Unexpected,
    alike,
    describe,
    expect_close,
    expect_equal,
    expect_error,
    kind_of,
    looking_at,
    of_rank,
)
from labkit.loading import load_module
from labkit.recorder import brief

GIVEN = load_module(Path(__file__).with_name("given_experts.py"))
GROUPS = (1, 2, 3, 4, 8)
# float64 rounding of sums over at most some hundred products of numbers near 1, in another order;
# what a marked collective returns is hundreds of times further from the same numbers unmarked
ATOL = 1e-11
RTOL = 1e-9  # of a time or a number of requests: the same few products and sums in another order
ROUTE = "test_route__chooses_the_best_and_weighs_them"
MINE = "test_my_experts__add_nothing_for_others"
SEEN = "test_tokens_for_ranks__are_those_that_chose_an_expert_there"


# --- task 1 -------------------------------------------------------------------------------------


@pytest.mark.points(5)
def test_route__chooses_the_best_and_weighs_them(lab):
    """route gives each token its top_k experts, best first, with their softmax weights"""
    for logits, top_k in routings():
        for renormalize in (False, True):
            given = lab.route(logits, top_k, renormalize)
            ids, weights = oracle_route(logits, top_k, renormalize)
            expect_pair(given, ("ids", "weights"))
            idea = "the top_k largest logits of each token, the largest first"
            expect_ids(given[0], ids, idea)
            over = "its chosen experts" if renormalize else "all experts, chosen or not"
            idea = f"renormalize={renormalize}: a weight is exp(logit) over the sum of {over}"
            if isinstance(given[1], np.ndarray) and not np.isfinite(given[1]).all():
                idea = f"logits up to {logits.max():.0f}: take a token's largest out before exp"
            expect_floats(given[1], weights, ATOL, idea, ", its weights")


@pytest.mark.points(2)
@pytest.mark.waits_for(ROUTE)
def test_route__gives_ties_to_the_lower_id(lab):
    """Of equal logits the lower id comes first"""
    rng = np.random.default_rng(2)
    cases = [rng.integers(0, 3, (7, experts)).astype(float) for experts in (2, 5, 40)]
    ties = (*cases, np.zeros((3, 30)), -np.zeros((2, 20)))
    order = rng.permuted(np.tile(np.arange(5), (7, 1)), axis=1)
    near = [1000 + 2.0**-17 * order, *(cases[1] + step * order for step in (2.0**-27, 2.0**-51))]
    near.append(near[-1] + [0, 0, 0, 0, 1000.0])  # taken out of the others, it would leave ties
    near.append(2.0**-60 * order)  # added to another number, they would be ties
    for number, logits in enumerate((*ties, *near)):
        idea = "equal logits: the lower id first, whatever a sort does"
        if number >= len(ties):
            idea = "logits that differ in the last digits only: the larger first, they are no tie"
        for top_k in {1, logits.shape[1] // 2, logits.shape[1]}:
            ids, _ = oracle_route(logits, top_k, False)
            given = lab.route(logits, top_k, bool(rng.integers(2)))
            expect_pair(given, ("ids", "weights"))
            expect_ids(given[0], ids, idea)


@pytest.mark.points(2)
@pytest.mark.waits_for(ROUTE)
def test_route__refuses_a_top_k_that_cannot_be(lab):
    """route refuses a top_k below 1 or above the number of experts, and says which"""
    rng = np.random.default_rng(3)
    for experts in (1, 4, int(rng.integers(5, 30))):
        logits = rng.standard_normal((int(rng.integers(0, 3)), experts))
        for top_k in (0, -int(rng.integers(1, 4)), experts + 1, experts + int(rng.integers(2, 9))):
            idea = f"top_k goes from 1 to the number of experts, here {experts}"
            mentions = ["top_k", top_k]
            expect_error(ValueError, lab.route, logits, top_k, True, mentions=mentions, idea=idea)
        expect_ids(lab.route(logits, experts, True)[0], oracle_route(logits, experts, True)[0], "")


# --- task 2 -------------------------------------------------------------------------------------


@pytest.mark.points(2)
def test_place_in_order__deals_out_blocks(lab):
    """place_in_order deals the experts out in blocks; the first ranks take what is over"""
    chance = random.Random(4)
    cases = [(8, 4), (5, 3), (1, 1), (1, 4), (3, 8), (0, 2), (7, 8), (8, 7)]
    cases += [(chance.randint(1, 70), chance.randint(1, 40)) for _ in range(20)]
    for num_experts, num_ranks in cases:
        expected = oracle_in_order(num_experts, num_ranks)
        given = lab.place_in_order(num_experts, num_ranks)
        counts = [expected.count(rank) for rank in range(num_ranks)]
        idea = f"blocks in rank order, of {counts} experts"
        expect_ids(given, np.array(expected, dtype=int), idea, "")


@pytest.mark.points(3)
def test_experts_tp_rank__equals_the_dense_layer(lab):
    """Every rank, given a slice of every expert, returns the dense layer by one all-reduce"""
    idea = "a slice gives one addend of every output; one all-reduce adds the ranks' addends"
    for case in layers():
        x, ids, weights, W1, W2, _, p = case
        width = W1.shape[2] // p
        cuts = [slice(r * width, (r + 1) * width) for r in range(p)]
        held = [(x, ids, weights, W1[:, :, cut], W2[:, cut]) for cut in cuts]
        parts = [dense_layer(*one) for one in held]
        with marked_collectives() as ledger:
            results = on_ranks(lab.experts_tp_rank, held, idea)
        expect_traffic(ledger, [("all_reduce", x.nbytes)], p, idea)
        expect_brought(ledger, -1, parts, idea)
        expect_ranks(results, [dense_layer(x, ids, weights, W1, W2)] * p, idea, marked=True)
        expect_last(ledger, results)


@pytest.mark.points(4)
def test_my_experts__add_nothing_for_others(lab):
    """my_experts gives what this rank's experts add; an id of another rank's counts zero"""
    for x, ids, weights, W1, W2, placement, p in layers():
        for rank, own in enumerate(dealt(W1, W2, placement, p)):
            ids_held = np.flatnonzero(placement == rank).tolist()
            with looking_at(
                f"W1 and W2 hold this rank's experts alone, {ids_held} in rows "
                f"{list(range(len(ids_held)))}; an id is no row of theirs"
            ):
                given = lab.my_experts(x, ids, weights, *own, placement, rank)
            mine = np.where(placement[ids] == rank, weights, 0.0)
            wanted = dense_layer(x, ids, mine, W1, W2)
            idea = what_a_rank_adds(given, wanted, ids, weights, placement, rank)
            expect_floats(given, wanted, ATOL, idea, f", {len(own[0])} experts")


@pytest.mark.points(4)
@pytest.mark.waits_for(MINE)
def test_experts_ep_rank__equals_the_dense_layer_by_one_all_reduce(lab):
    """Dealt out, too, every rank returns the dense layer, by one all-reduce of the same bytes"""
    idea = "every rank has every token: one all-reduce, of what my_experts gives for group.rank"
    for x, ids, weights, W1, W2, placement, p in layers():
        held = [(x, ids, weights, *mine, placement) for mine in dealt(W1, W2, placement, p)]
        with marked_collectives() as ledger:
            results = on_ranks(lab.experts_ep_rank, held, idea)
        expect_traffic(ledger, [("all_reduce", x.nbytes)], p, idea)
        mine = [np.where(placement[ids] == r, weights, 0.0) for r in range(p)]
        parts = [dense_layer(x, ids, own, W1, W2) for own in mine]
        expect_brought(ledger, -1, parts, idea)
        expect_ranks(results, [dense_layer(x, ids, weights, W1, W2)] * p, idea, marked=True)
        expect_last(ledger, results)


@pytest.mark.points(3)
def test_touched_bytes__counts_every_chosen_expert_once(lab):
    """touched_bytes counts each chosen expert once: shared equally if sliced, by owner if dealt"""
    chance = random.Random(5)
    for ids, placement, p in choices(chance):
        # small, and near real experts': 20 are more than 2**31 bytes, and no float32 holds them
        expert_bytes = p * chance.choice((chance.randint(1, 50), 44_040_193 * chance.randint(5, 9)))
        expert_bytes = 45 if p == 5 else expert_bytes  # int(7 / 5 * 45) is 62
        given = plain(lab.touched_bytes(ids, placement, expert_bytes, p))
        owners = [int(placement[e]) for e in sorted(set(ids.ravel().tolist()))]
        sliced = [len(owners) * expert_bytes // p] * p
        own = [owners.count(r) * expert_bytes for r in range(p)]
        expect_pair(given, ("sliced", "dealt"))
        ideas = {
            "sliced": f"each rank reads its 1 / {p} of every chosen expert, once; they choose "
            f"{len(owners)} different ones",
            "dealt": "a chosen expert is read once, whole, by the rank that placement names; the "
            f"ranks hold {[owners.count(r) for r in range(p)]} of the chosen ones",
        }
        for name, one, wanted in zip(("sliced", "dealt"), given, (sliced, own), strict=True):
            expect_equal(one, wanted, idea=ideas[name], part=f", {name}")


# --- task 3 -------------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.waits_for(MINE)
def test_gathered_rank__equals_the_dense_layer(lab):
    """Ranks with different tokens, some with none, each return their own, complete"""
    idea = "gather all tokens, add what my experts say to each, and scatter the sum by sizes"
    for case in split_layers():
        results = on_ranks(lab.gathered_rank, own_arguments(case, with_sizes=True), idea)
        expect_ranks(results, own_results(case), idea)


@pytest.mark.points(3)
@pytest.mark.waits_for("test_gathered_rank__equals_the_dense_layer")
def test_gathered_rank__gathers_three_and_scatters_one(lab):
    """It makes an all-gather each of x, ids and weights, and one reduce-scatter"""
    idea = "dispatch gathers x, ids and weights; combine is one reduce-scatter of partial sums"
    for case in split_layers():
        parts, W1, W2, placement = case
        p = len(parts)
        with marked_collectives() as ledger:
            results = on_ranks(lab.gathered_rank, own_arguments(case, with_sizes=True), idea)
        sizes = [sum(part[i].nbytes for part in parts) for i in range(3)]
        expected = [("all_gatherv", size) for size in sizes] + [("reduce_scatterv", sizes[0])]
        expect_traffic(ledger, expected, p, idea, any_order=3)
        x, ids, weights = (np.concatenate([part[i] for part in parts]) for i in range(3))
        mine = [np.where(placement[ids] == r, weights, 0.0) for r in range(p)]
        partials = [dense_layer(x, ids, own, W1, W2) for own in mine]
        expect_brought(ledger, -1, partials, idea, atol=1e-6)  # of gathered, hence marked, numbers
        expect_last(ledger, results)


@pytest.mark.points(3)
def test_tokens_for_ranks__are_those_that_chose_an_expert_there(lab):
    """A rank must see each token that chose one of its experts, once"""
    for ids, placement, p in choices(random.Random(6)):
        expected = [
            [t for t, row in enumerate(ids) if any(placement[e] == r for e in row)]
            for r in range(p)
        ]
        given = lab.tokens_for_ranks(ids, placement, p)
        if not isinstance(given, (list, tuple)) or len(given) != p:
            count = f" of {len(given)}" if isinstance(given, (list, tuple)) else ""
            raise Unexpected(
                f"returned {kind_of(given)}{count}, expected a list of {p} arrays, one per rank."
            )
        for r, (one, wanted) in enumerate(zip(given, expected, strict=True)):
            if np.size(one) == 0 and getattr(one, "dtype", None) == np.float64:
                raise Unexpected(
                    "is an empty array of floats, by which no array can be indexed: say dtype=int.",
                    f", the tokens for rank {r}",
                )
            idea = "a token goes once to each rank that holds one or more of its experts, in order"
            expect_ids(one, np.array(wanted, dtype=int), idea, f", the tokens for rank {r}")


@pytest.mark.points(5)
@pytest.mark.waits_for(MINE, SEEN)
def test_exchanged_rank__equals_the_dense_layer(lab):
    """By all-to-all too, each rank returns its own tokens, complete"""
    idea = (
        "a token goes once to each rank with experts of it, your own too, which gives one addend "
        "of its output; what comes back is in the order of what went out: add it to those tokens"
    )
    for case in split_layers():
        results = on_ranks(lab.exchanged_rank, own_arguments(case), idea)
        expect_ranks(results, own_results(case), idea, alone=False)


@pytest.mark.points(3)
@pytest.mark.waits_for("test_exchanged_rank__equals_the_dense_layer")
def test_exchanged_rank__sends_a_token_once_to_a_rank(lab):
    """A token goes once to each rank that must see it, and one sum comes back"""
    idea = "once per rank and not once per expert; the rank adds its experts before it answers"
    for case in split_layers():
        parts, _, _, placement = case
        p = len(parts)
        with record() as ledger:
            on_ranks(lab.exchanged_rank, own_arguments(case), idea)
        if p == 1:
            expect_traffic(ledger, [], 1, ALONE)
            continue
        if ledger.operations != ["all_to_allv"] * 4:
            raise Unexpected(
                f"made {', '.join(ledger.operations) or 'no collective'}; expected four "
                "all_to_allv: of x, ids and weights, and of what comes back."
            )
        rows = np.array(
            [
                [sum(any(placement[e] == s for e in token) for token in ids) for s in range(p)]
                for _, ids, _ in parts
            ]
        )
        for number, (call, wanted) in enumerate(
            zip(ledger.calls, (rows, rows, rows, rows.T), strict=True)
        ):
            sent = np.array([[len(array) for array in row] for row in call.inputs])
            if not np.diagonal(sent).any():  # a rank's own tokens may stay at home
                wanted = wanted - np.diag(np.diagonal(wanted))
            where = f", all_to_allv number {number + 1}, rows from each rank to each"
            expect_ids(sent, wanted, idea, where)
        crossing = int(rows.sum() - np.trace(rows))
        hidden, top_k = parts[0][0].shape[1], parts[0][1].shape[1]
        sent = ledger.sent_bytes_per_rank * p
        if sent != crossing * (2 * hidden + 2 * top_k) * 8:
            raise Unexpected(f"sent {sent} bytes. Look again at: {idea}.")


@pytest.mark.points(3)
@pytest.mark.waits_for(SEEN)
def test_traffic_bytes__says_what_all_ranks_send(lab):
    """traffic_bytes says what both ways send, to the byte"""
    chance = random.Random(7)
    for number, (parts, _, _, placement) in enumerate(split_layers()):
        ids_of_ranks = [ids for _, ids, _ in parts]
        hidden = chance.randint(1, 9000) + 2**28 * (number % 2)
        number_bytes = chance.choice((1, 2, 8))  # of a whole step: more than 2**31 bytes
        given = lab.traffic_bytes(ids_of_ranks, placement, hidden, number_bytes)
        expected = oracle_traffic(ids_of_ranks, placement, hidden, number_bytes)
        expect_pair(given, ("gathered", "exchanged"))
        for name, one, wanted in zip(("gathered", "exchanged"), given, expected, strict=True):
            expect_equal(plain(one), wanted, idea=TRAFFIC[name], part=f", {name}")


@pytest.mark.points(2)
@pytest.mark.waits_for(
    "test_traffic_bytes__says_what_all_ranks_send",
    "test_gathered_rank__equals_the_dense_layer",
    "test_exchanged_rank__equals_the_dense_layer",
)
def test_traffic_bytes__foretells_your_own_ledger(lab):
    """What traffic_bytes foretells is what the ledger then counts of your two functions"""
    for case in split_layers():
        parts, _, _, placement = case
        given = lab.traffic_bytes([ids for _, ids, _ in parts], placement, parts[0][0].shape[1], 8)
        expect_pair(given, ("gathered", "exchanged"))
        for name, foretold in zip(("gathered", "exchanged"), given, strict=True):
            with record() as ledger:
                own = own_arguments(case, name == "gathered")
                on_ranks(getattr(lab, f"{name}_rank"), own, TRAFFIC[name])
            sent = ledger.sent_bytes_per_rank * len(parts)
            if sent != foretold:
                raise Unexpected(
                    f"sent {sent} bytes, of which traffic_bytes had said {foretold}. "
                    f"Look again at: {TRAFFIC[name]}.",
                    f", {name}",
                )


# --- task 4 -------------------------------------------------------------------------------------


@pytest.mark.points(2)
def test_busiest_rank__counts_rows(lab):
    """busiest_rank counts every choice as a row, and names the lowest busiest rank"""
    for ids, placement, p in choices(random.Random(8)):
        rows = [sum(int(placement[e]) == r for e in ids.ravel()) for r in range(p)]
        expected = (rows.index(max(rows)), max(rows))
        idea = f"(rank, rows): each choice is a row of the expert's rank, which makes {rows}"
        if rows.count(max(rows)) > 1:
            idea += "; on a tie the lowest rank"
        with looking_at(idea):
            given = lab.busiest_rank(ids, placement, p)
        expect_equal(plain(given), expected, idea=idea)


@pytest.mark.points(2)
def test_expected_busiest__is_the_mean_over_all_outcomes(lab):
    """expected_busiest is the mean over every way in which the rows may fall"""
    for shares, rows in falls():
        given, wanted = lab.expected_busiest(shares, rows), oracle_busiest(shares, rows)
        idea = "the sum over m from 0 of the chance that the busiest has more than m rows; "
        near = isinstance(given, float) and abs(given - wanted) < 0.01 * wanted
        idea += "exact, not simulated" if near else "1 - all_fit(shares, rows, m) is that chance"
        expect_close(given, wanted, atol=1e-9, idea=idea)


@pytest.mark.points(4)
@pytest.mark.waits_for("test_place_in_order__deals_out_blocks")
def test_place_experts__comes_near_the_best(lab):
    """place_experts comes within 20 % of the best placement, and is never worse than in order"""
    chance = random.Random(10)
    for loads, p, slots in placements(chance):
        busiest = checked_placement(lab.place_experts(loads, p, slots), loads, p, slots)
        in_order = oracle_in_order(len(loads), p)
        ordered = max(
            sum(n for n, at in zip(loads, in_order, strict=True) if at == r) for r in range(p)
        )
        best = best_placement(loads, p, slots) if p**slots <= 27 else ordered
        limit, what = min((ordered, "in order"), (1.2 * best, "1.2 x the best"))
        if busiest > limit * (1 + 1e-12):
            raise Unexpected(
                f"leaves the busiest rank {busiest:g} rows, where {limit:g} is the limit ({what})."
                " Look again at: the heaviest first, onto the least busy rank; then look for "
                "exchanges, and for experts to copy, that take rows from the busiest."
            )
    idea = "there is no room for all of them"
    for p, slots in ((1, 1), (2, 3), (3, 2)):
        loads = [chance.randint(1, 9) for _ in range(p * slots + chance.randint(1, 3))]
        expect_error(ValueError, lab.place_experts, loads, p, slots, idea=idea)


# --- task 5 -------------------------------------------------------------------------------------


@pytest.mark.points(3)
def test_latent_shards__divide_heads_and_copy_the_latent(lab):
    """A rank loads its heads and all of Wd, and uneven heads are refused"""
    names = ("Wd", "Wq", "W_uk", "W_uv", "Wo")
    for _, _, arrays, p in latent_cases():
        heads = len(arrays[1])
        for rank in range(p):
            mine = [h for h in range(heads) if h * p // heads == rank]
            given = lab.latent_shards(*arrays, p, rank)
            expect_pair(given, names)
            for name, one, whole in zip(names, given, arrays, strict=True):
                wanted = whole if name == "Wd" else whole[mine]
                idea = "the latent serves all heads, so Wd is copied; heads are dealt out in blocks"
                expect_floats(one, wanted, 0.0, idea, f" on rank {rank}, {name}")
        for ranks in (heads + 1, 2 * heads + 1):
            expect_error(
                ValueError,
                lab.latent_shards,
                *arrays,
                ranks,
                ranks - 1,
                mentions=["num_heads", heads],
                idea=f"{ranks} ranks do not divide {heads} heads",
            )


@pytest.mark.points(4)
def test_mla_rank__equals_the_expanded_form(lab):
    """Each rank returns what keys and values, made for every head, would give"""
    for x, latents, arrays, p in latent_cases():
        y, cache = expanded(x, latents, *arrays)
        held, idea = latent_arguments(x, latents, arrays, p), what_y_is(y, y, cache, arrays, p)
        results = on_ranks(lab.mla_rank, held, idea)
        for rank, given in enumerate(results):
            expect_pair(given, ("y", "latents"))
            part = f" on rank {rank}, "
            grown = "the cache grows by the new token's latent, x @ Wd.T, at its end"
            expect_floats(given[1], cache, ATOL, grown, f"{part}latents")
            # sums over all positions
            atol, idea = ATOL * (1 + len(cache) / 100), what_y_is(given[0], y, cache, arrays, p)
            expect_floats(given[0], y, atol, idea, f"{part}y")


@pytest.mark.points(2)
@pytest.mark.waits_for("test_mla_rank__equals_the_expanded_form")
def test_mla_rank__makes_one_all_reduce(lab):
    """It makes one all-reduce, of the ranks' own heads' addends; no latent crosses"""
    idea = "the latents are on every rank already; only the heads' addends must be summed"
    for x, latents, arrays, p in latent_cases():
        held = latent_arguments(x, latents, arrays, p)
        with marked_collectives() as ledger:
            results = on_ranks(lab.mla_rank, held, idea)
        expect_traffic(ledger, [("all_reduce", x.nbytes)], p, idea)
        parts = [expanded(*own)[0] for own in held]
        expect_brought(ledger, -1, parts, idea)
        expect_last(ledger, [y for y, _ in results])


@pytest.mark.points(3)
def test_cache_bytes_per_token__divides_heads_and_copies_what_is_left(lab):
    """A rank caches the KV heads that its query heads read; its own requests whole under DP"""
    chance = random.Random(12)
    for kv_heads in (1, 2, 3, 4, 64, chance.randint(5, 12)):
        for p in (1, 2, 3, 4, 6, 8, 32, chance.randint(5, 24)):
            head_bytes = chance.randint(1, 2000)
            arguments = (kv_heads, head_bytes, p)
            whole = kv_heads * head_bytes
            idea = (
                f"attention-DP: a request is one rank's, all {kv_heads} heads of {head_bytes} bytes"
                " (key and value together)"
            )
            given = lab.cache_bytes_per_token(*arguments, True)
            expect_equal(plain(given), whole, idea=idea)
            if math.gcd(kv_heads, p) not in (kv_heads, p):
                idea = f"{p} ranks neither divide {kv_heads} KV heads nor copy each equally often"
                expect_error(ValueError, lab.cache_bytes_per_token, *arguments, False, idea=idea)
                continue
            queries = kv_heads * p  # so many query heads, in blocks on the ranks
            read = {head * kv_heads // queries for head in range(queries // p)}
            idea = (
                f"{len(read)} of the {kv_heads} KV heads on each of {p} ranks, at {head_bytes} "
                "bytes (key and value together)"
            )
            given = lab.cache_bytes_per_token(*arguments, False)
            expect_equal(plain(given), len(read) * head_bytes, idea=idea)


@pytest.mark.points(3)
def test_requests_that_fit__fill_what_the_weights_leave(lab):
    """What a rank's weights leave is cache; under DP every rank has its own requests"""
    chance = random.Random(13)
    for number in range(60):
        p = chance.choice((1, 2, 3, 4, 8))
        memory, request = chance.randint(50, 200), chance.randint(1, 9)
        attention, experts = chance.randint(0, 60), chance.randint(0, 60 * p)
        if number % 5 == 3:
            request *= 100  # there may be room for less than one
        if number % 5 == 4:
            attention = memory * p + chance.randint(0, 9)  # the weights leave nothing
        if number % 5 == 2:  # the ranks hold together what one cannot
            attention, experts = memory * p - chance.randint(1, 9), 0
        for dp in (False, True):
            given = lab.requests_that_fit(memory, attention, experts, request, p, dp)
            expected = oracle_requests(memory, attention, experts, request, p, dp)
            held = Fraction(experts, p) + (attention if dp else Fraction(attention, p))
            idea = (
                f"the weights take {float(held):.6g} of a rank's {memory} bytes, and a rank caches "
                f"{request} for a request that it holds; "
                + ("the ranks' requests are added up" if dp else "all ranks hold every request")
                + "; as a float, not rounded"
            )
            atol = RTOL * (1 + float(expected))
            expect_close(given, float(expected), atol=atol, idea=idea, units=p != 8)


@pytest.mark.points(2)
@pytest.mark.waits_for("test_requests_that_fit__fill_what_the_weights_leave")
def test_requests_that_fit__explain_a_published_ratio(lab):
    """Attention-DP over 8 ranks holds {7.7} times the requests of TP, not 8: copied weights"""
    fits = [lab.requests_that_fit(*GIVEN.FLASH_ON_B200S, dp) for dp in (True, False)]
    idea = "the copies of what is not an expert leave each rank less room than TP does"
    # vllm issue 51454; the engine's own working memory is not in the bill
    expect_close(fits[0] / fits[1], 156.9 / 20.43, atol=0.05, idea=idea)


# --- task 6 -------------------------------------------------------------------------------------


@pytest.mark.points(3)
def test_attention_part__is_attention_with_its_lse(lab):
    """attention_part returns attention over its positions, and the log of the sum of exp(scores)"""
    for q, k, v in (*attentions(), long_attention()):
        out, lse = whole_attention(q, k, v)
        idea = (
            f"head by head: the log of the sum of exp(q . k / sqrt({q.shape[1]})) over the "
            f"positions, {len(k)} here"
        )
        with looking_at(idea if len(k) else "without positions out is zero and lse minus infinity"):
            given = lab.attention_part(q, k, v)
        expect_pair(given, ("out", "lse"))
        if len(k):
            if np.abs(lse).max() > 100:
                idea += "; take the head's largest score out before exp, and add it after log"
            expect_floats(given[1], lse, ATOL * (1 + np.abs(lse).max()), idea, ", lse")
        elif np.shape(given[1]) != lse.shape:
            raise Unexpected(
                f"returned {describe(given[1])}, expected an array of shape {list(lse.shape)}.",
                ", lse of no position",
            )
        elif not np.array_equal(given[1], np.full(len(q), -np.inf)):
            raise Unexpected(
                "is not minus infinity, the log of an empty sum.", ", lse of no position"
            )
        idea = f"each head's softmax over its {len(k)} positions, times v; without any, zero"
        expect_floats(given[0], out, ATOL, idea, ", out")


@pytest.mark.points(3)
def test_join__weighs_parts_by_their_lse(lab):
    """join gives attention over all positions from that over parts, empty ones included"""
    chance = random.Random(15)
    for q, k, v in attentions():
        for count in (1, 2, 3, 17):
            owner = np.array([chance.randrange(count) for _ in k], dtype=int)
            if chance.random() < 0.3:
                owner[:] = count - 1  # the others are empty
            parts = [whole_attention(q, k[owner == c], v[owner == c]) for c in range(count)]
            outs, lses = (np.stack([part[i] for part in parts]) for i in range(2))
            idea = (
                "head by head: lse is the log of what a part divided by, and the whole divides by "
                f"the sum of these, as large as they may be; {np.isinf(lses[:, 0]).sum()} of "
                f"{count} parts are empty"
            )
            if not len(k):
                idea = "every part is empty: the output is zero"
            given = lab.join(outs, lses)
            expect_floats(given, whole_attention(q, k, v)[0], ATOL, idea)
    outs = np.array([chance.randrange(-(2**30), 2**30) for _ in range(24)], float).reshape(4, 2, 3)
    idea = "4 parts of the same lse weigh 1/4 each, with nothing added"
    # float64 rounding of numbers near 2**30
    expect_close(lab.join(outs, np.full((4, 2), 3.0)), outs.mean(axis=0), atol=1e-6, idea=idea)
    for least, times in (-3e5, 2.0), (0.0, 2.0), (0.0, 2.0**60):  # what weighs little counts too
        idea = f"parts whose lse is {least:g} and log({times:g}) more weigh 1 to {times:g}"
        lses = least + np.log(np.array([[1.0, 1.0], [times, times]]))
        both = np.stack([times * outs[0], outs[1]]) / 2**30
        given, wanted = lab.join(both, lses), (both[0] + times * both[1]) / (1 + times)
        expect_close(given, wanted, atol=1e-9, idea=idea)  # rounding of lses near 3e5


@pytest.mark.points(2)
@pytest.mark.waits_for("test_attention_part__is_attention_with_its_lse")
def test_context_rank__equals_attention_over_all_positions(lab):
    """Ranks with every c-th position each, some with none, return the whole attention"""
    idea = (
        "my part weighs as much as it has of what all parts together divide by, which everybody's "
        "lse tells; the ranks' addends add"
    )
    for q, k, v in attentions():
        for p in GROUPS:
            held = [(q, k[r::p], v[r::p]) for r in range(p)]
            results = on_ranks(lab.context_rank, held, idea)
            empty = "no rank has a position: the output is zero"
            expected = [whole_attention(q, k, v)[0]] * p
            expect_ranks(results, expected, idea if len(k) else empty, alone=False)


@pytest.mark.points(2)
@pytest.mark.waits_for("test_context_rank__equals_attention_over_all_positions")
def test_context_rank__gathers_lse_and_sums_addends(lab):
    """It makes an all-gather of the lse and an all-reduce of addends, whatever the context"""
    idea = "gather [1, heads] of lse, then all-reduce [heads, head_dim]: no key or value crosses"
    for q, k, v in attentions():
        for p in GROUPS:
            held = [(q, k[r::p], v[r::p]) for r in range(p)]
            with marked_collectives() as ledger:
                results = on_ranks(lab.context_rank, held, idea)
            lse_bytes = p * len(q) * 8
            expect_traffic(ledger, [("all_gather", lse_bytes), ("all_reduce", q.nbytes)], p, idea)
            expect_last(ledger, results, divided=True)


# --- task 7 -------------------------------------------------------------------------------------


@pytest.mark.points(2)
def test_steps_of_lockstep__are_the_longest_rank_s(lab):
    """All ranks make the steps of the longest, up to the next check; the rest are dummies"""
    for work, check_every in (*shifts(), ([3, 10_001], 10_000)):
        expected = walk(work, check_every)
        given = lab.steps_of_lockstep(work, check_every)
        idea = (
            f"all make {expected[0]} steps, whole intervals of {check_every} for the longest work "
            f"of {max(work)}; a rank's dummies are the steps beyond its own work"
        )
        expect_equal(plain(given), expected, idea=idea)


@pytest.mark.points(4)
def test_lockstep_rank__comes_to_every_step(lab):
    """A rank without work comes to every step with an empty batch, until all are done"""
    rng = np.random.default_rng(17)
    for work, check_every in shifts():
        p, hidden = len(work), int(rng.integers(1, 9))
        held = [
            ([rng.standard_normal((int(rng.integers(1, 4)), hidden)) for _ in range(own)],)
            for own in work
        ]
        steps, dummies = walk(work, check_every)
        brings = "to all_reduce an array [1], the batches left; to all_gatherv [tokens, hidden]"
        wanted = ["all_reduce"]
        wanted += (["all_gatherv"] * check_every + ["all_reduce"]) * (steps // check_every)
        with record() as ledger, contextlib.suppress(TooOften):
            ledger.calls, results = Meetings(most=len(wanted)), []
            own = [(*one, hidden, check_every) for one in held]
            results = on_ranks(lab.lockstep_rank, own, brings)
        if all(map(str.__eq__, ledger.operations, wanted)):  # so far
            expect_left(ledger, work, check_every)
        for rank, given in enumerate(results):
            idea = (
                f"{own_steps(work[rank])} of its own; they ask again after every {check_every} "
                "steps, one rank alone too, and a step without a batch is a dummy"
            )
            part = f" on rank {rank}"
            expect_equal(plain(given), (steps, dummies[rank]), idea=idea, part=part)
        if ledger.operations != wanted * (p > 1):
            made = f"{len(ledger.calls)} collectives{' and went on' * (not results)}"
            for number, (one, due) in enumerate(zip(ledger.operations, wanted, strict=False)):
                if one != due:
                    made += f" (number {number + 1} is {one})"
                    break
            raise Unexpected(
                f"the ranks made {made}, expected {len(wanted) * (p > 1)}: an all_reduce, then "
                f"{check_every} all_gatherv and another all_reduce, for as long as the sum is "
                "above 0."
            )
        expect_batches(ledger, held, hidden)


class TooOften(Exception):
    """The ranks meet more often than they can need."""


class Meetings(list):
    """A ledger's calls, of which one more than `most` ends the ranks."""

    def __init__(self, most):
        super().__init__()
        self.most = most

    def append(self, call):
        super().append(call)
        if len(self) > self.most:
            raise TooOften


def expect_left(ledger, work, check_every):
    """To each all_reduce every rank brought the number of the batches that it had left."""
    asked = [call for call in ledger.calls if call.operation == "all_reduce"]
    for number, call in enumerate(asked):
        left = [[max(own - number * check_every, 0)] for own in work]
        brought = [np.ravel(array).tolist() for array in call.inputs]
        if brought != left:
            raise Unexpected(
                f"the ranks brought {brought}, expected the batches that each has left, {left}.",
                f", all_reduce number {number + 1}",
            )


def expect_batches(ledger, held, hidden):
    """In each step every rank brought its next batch, or without any an empty one."""
    made = [call for call in ledger.calls if call.operation == "all_gatherv"]
    for step, call in enumerate(made):
        for rank, brought in enumerate(call.inputs):
            own = held[rank][0]
            batch = own[step] if step < len(own) else np.zeros((0, hidden))
            if not np.array_equal(brought, batch):
                what = "its next batch" if step < len(own) else "an empty batch"
                shapes = list(np.shape(brought)), list(batch.shape)
                other = f"an array {shapes[0]}" if shapes[0] != shapes[1] else "other numbers"
                raise Unexpected(
                    f"brought {other}, expected {what}, {shapes[1]}.",
                    f", rank {rank} in step {step}",
                )


# --- task 8 -------------------------------------------------------------------------------------


@pytest.mark.points(2)
def test_expected_experts__is_the_mean_over_all_choices(lab):
    """expected_experts is the mean number of different experts over all possible choices"""
    idea = "an expert stays untouched when every token leaves it out: how likely is that?"
    for experts, top_k, tokens in (
        (1, 1, 1),
        (3, 1, 2),
        (3, 2, 3),
        (4, 2, 3),
        (4, 4, 2),
        (5, 3, 0),
        (2, 2, 0),
    ):
        choices_ = list(itertools.combinations(range(experts), top_k))
        outcomes = [len(set().union(*all_)) for all_ in itertools.product(choices_, repeat=tokens)]
        given = lab.expected_experts(experts, top_k, tokens)
        expect_close(given, sum(outcomes) / len(outcomes), atol=1e-9, idea=idea)
    chance = random.Random(18)
    for _ in range(30):
        experts, tokens = chance.randint(1, 300), chance.randint(0, 900)
        top_k = chance.randint(1, experts)
        left = Fraction(math.comb(experts - 1, top_k), math.comb(experts, top_k)) ** tokens
        given = lab.expected_experts(experts, top_k, tokens)
        expect_close(given, float(experts * (1 - left)), atol=1e-9 * experts, idea=idea)


@pytest.mark.points(4)
@pytest.mark.waits_for("test_expected_experts__is_the_mean_over_all_choices")
def test_experts_s__is_what_the_busiest_part_takes(lab):
    """experts_s: the busiest rank reads its slices once, or multiplies its rows by whole tiles"""
    for tokens, _, ep_size, busiest, model, machine in bills():
        given = lab.experts_s(tokens, ep_size, busiest, model, machine)
        read_s, math_s = oracle_experts(tokens, ep_size, busiest, model, machine)
        width = model["expert_ffn"] * ep_size / machine["num_ranks"]
        expert_s = 3 * model["hidden_size"] * width * model["expert_weight_bytes"]
        expert_s /= machine["memory_bytes_per_s"]
        idea = (
            f"reading takes {read_s:.3g} s and arithmetic {math_s:.3g} s at the same time; the "
            f"busiest part touches {read_s / expert_s:.4g} of {model['num_experts'] / ep_size:g} "
            f"experts, reads {width:g} columns of each and multiplies by whole tiles"
        )
        wanted = max(read_s, math_s)
        # neither 1 / 8, of the ranks, nor 2000 / 2048, of the tiles, is a unit
        expect_close(given, wanted, atol=RTOL * wanted, idea=idea, units=False)


@pytest.mark.points(2)
@pytest.mark.waits_for("test_cache_bytes_per_token__divides_heads_and_copies_what_is_left")
def test_attention_s__copies_weights_or_cache(lab):
    """attention_s: TP divides the weights and copies a latent; attention-DP the other way round"""
    for tokens, context, _, _, model, machine in bills():
        for dp in (False, True):
            given = lab.attention_s(tokens, context, dp, model, machine)
            read_s, math_s = oracle_attention(tokens, context, dp, model, machine)
            idea = (
                f"reading weights and cache takes {read_s:.3g} s, arithmetic {math_s:.3g} s at the "
                "same time"
            )
            wanted, p = max(read_s, math_s), machine["num_ranks"]  # 1 / 8 is no unit there
            expect_close(given, wanted, atol=RTOL * wanted, idea=idea, units=p != 8)


@pytest.mark.points(2)
@pytest.mark.waits_for(
    "test_experts_s__is_what_the_busiest_part_takes", "test_attention_s__copies_weights_or_cache"
)
def test_moe_step_s__adds_layers_and_messages(lab):
    """moe_step_s adds attention, experts and two messages, over all layers"""
    for tokens, context, ep_size, busiest, model, machine in bills():
        p = machine["num_ranks"]
        for dp in (False, True):
            given = lab.moe_step_s(tokens, context, ep_size, dp, busiest, model, machine)
            experts_s = max(oracle_experts(tokens, ep_size, busiest, model, machine))
            heads_s = max(oracle_attention(tokens, context, dp, model, machine))
            payload, messages_s = tokens * model["hidden_size"] * model["element_bytes"], 0.0
            for trips in (1, 1) if dp else (2, 2):
                bytes_s = payload / p / machine["busbw_bytes_per_s"]
                messages_s += (p > 1) * machine["c_s"]
                messages_s += trips * (p - 1) * (machine["a_s"] + bytes_s)
            expected = (heads_s + experts_s + messages_s) * model["num_layers"]
            which = "all-gather and reduce-scatter" if dp else "two all-reduces"
            idea = (
                f"attention {heads_s:.3g} s, experts {experts_s:.3g} s and {which} "
                f"{messages_s:.3g} s, one after the other in each of {model['num_layers']} layers"
            )
            expect_close(given, expected, atol=RTOL * expected, idea=idea, units=p != 8)


@pytest.mark.points(1)
@pytest.mark.waits_for("test_moe_step_s__adds_layers_and_messages")
def test_moe_step_s__orders_the_published_rows(lab):
    """It orders published measurements as they came out, or the row says why it cannot"""
    for row in GIVEN.ROWS:
        model, machine = GIVEN.MODELS[row["model"]], GIVEN.MACHINES[row["machine"]]
        times = [
            lab.moe_step_s(
                row["tokens"],
                0,
                ep,
                False,
                GIVEN.busiest_of(model["num_experts"], ep),
                model,
                machine,
            )
            for ep in (row["faster"], row["slower"])
        ]
        if (times[0] < times[1]) == bool(row["missed"]):
            raise Unexpected(
                f"says {times[0]:.4g} s for the faster and {times[1]:.4g} s for the slower split.",
                f", {row['name']}",
            )


# --- inputs -------------------------------------------------------------------------------------

ALONE = "one rank holds everything: nothing is split, and the formula itself is to be looked at"
PRECISION = "precision: all arrays are float64, also in between"
TRAFFIC = {
    "gathered": "a ring takes each token's x, ids and weights to p - 1 ranks, as many sums back",
    "exchanged": "for each token and each other rank that must see it: x, ids, weights, one x back",
}


def routings():
    """(logits, top_k): no token, one expert, all experts, logits whose exp overflows."""
    rng = np.random.default_rng(1)
    for tokens, experts, top_k in (
        (6, 8, 2),
        (5, 3, 1),
        (4, 5, 5),
        (1, 1, 1),
        (0, 4, 2),
        (9, 60, 8),
    ):
        yield rng.standard_normal((tokens, experts)), top_k
        yield 800.0 + 5 * rng.standard_normal((tokens, experts)), top_k
        yield -900.0 + 999 * rng.standard_normal((tokens, experts)), top_k  # exp of most is 0


def draw_ids(rng, tokens, experts, top_k):
    return np.argsort(rng.random((tokens, experts)), axis=1)[:, :top_k]


def layers():
    """(x, ids, weights, W1, W2, placement, ranks): any placement; all tokens to one expert."""
    rng = np.random.default_rng(4)
    yield *_layer(rng, draw_ids(rng, 6, 6, 3), 6, 2), np.array([0, 1, 0, 0, 1, 1]), 2
    of_one_rank = np.array([[1, 3], [3, 1]])
    yield *_layer(rng, of_one_rank, 4, 2), np.array([0, 1, 0, 1]), 2
    shapes = [(5, 4, 2, 1), (6, 4, 2, 2), (4, 3, 3, 3), (7, 8, 2, 4), (1, 5, 1, 4), (0, 4, 2, 2)]
    shapes += [(5, 3, 1, 8), (6, 1, 1, 2), (4, 8, 8, 8), (9, 12, 4, 3)]
    for number, (tokens, experts, top_k, p) in enumerate(shapes):
        ids = draw_ids(rng, tokens, experts, top_k)
        if number % 3 == 1 and tokens:
            ids = np.repeat(ids[:1], tokens, axis=0)  # all tokens choose alike
        yield *_layer(rng, ids, experts, p), _placement(rng, experts, p, number), p


def _layer(rng, ids, experts, p):
    hidden, ffn = int(rng.integers(3, 7)), p * int(rng.integers(1, 4))
    x, weights = rng.standard_normal((len(ids), hidden)), rng.random(ids.shape) + 0.1
    weights[1::2, 1:] *= 1e-8  # counts all the same
    x[-1:], weights[-1:] = 2.0**500 * x[-1:], 2.0**-500 * weights[-1:]  # so does this
    return (
        x,
        ids,
        weights,
        *(rng.standard_normal((experts, *s)) for s in ((hidden, ffn), (ffn, hidden))),
    )


def _placement(rng, experts, p, number):
    if number % 4 == 0:
        return np.array(oracle_in_order(experts, p), dtype=int)
    if number % 4 == 3:
        return np.full(experts, int(rng.integers(p)))  # all on one rank
    return rng.integers(0, p, experts)


def split_layers():
    """(parts, W1, W2, placement): each rank's own (x, ids, weights), some ranks without tokens."""
    rng = np.random.default_rng(6)
    cases = [([4], 3, 2), ([3, 5], 4, 2), ([0, 4], 4, 3), ([2, 0, 1], 5, 1), ([0, 0, 0], 3, 2)]
    cases += [([3, 1, 4, 2], 8, 3), ([1, 0, 2, 0], 3, 3), ([1, 2, 0, 3, 1, 1, 2, 0], 6, 2)]
    cases += [([2, 0, 1, 1, 0, 2, 1, 0, 1, 3], 12, 6)]
    found = []
    for number, (sizes, experts, top_k) in enumerate(cases):
        ids = draw_ids(rng, sum(sizes), experts, top_k)
        if number == 5:
            ids = np.repeat(ids[:1], len(ids), axis=0)
        x, ids, weights, W1, W2 = _layer(rng, ids, experts, 1)
        ends = np.cumsum(sizes)[:-1]
        parts = list(zip(*(np.split(array, ends) for array in (x, ids, weights)), strict=True))
        found.append((parts, W1, W2, _placement(rng, experts, len(sizes), number)))
    return [found[1], found[0], *found[2:]]  # a plain case is the first


def choices(chance):
    """(ids, placement, ranks): no token, one expert, all, more ranks than experts, one rank."""
    rng = np.random.default_rng(chance.randrange(2**32))
    shapes = [(6, 8, 2, 4), (0, 4, 2, 2), (1, 1, 1, 1), (5, 1, 1, 3), (4, 4, 4, 2), (9, 3, 2, 8)]
    shapes += [
        (chance.randint(1, 12), e := chance.randint(2, 20), chance.randint(1, min(e, 4)), p)
        for p in (1, 2, 3, 4, 8)
    ]
    shapes += [(1, 7, 7, 5), (9, 13, 5, 11)]
    for number, (tokens, experts, top_k, p) in enumerate(shapes):
        ids = draw_ids(rng, tokens, experts, top_k)
        yield ids, _placement(rng, experts, p, number), p
        yield np.repeat(ids[:1], tokens, axis=0), _placement(rng, experts, p, 1), p


def falls():
    """(shares, rows): no row, one rank, ranks without a share, equal ones and skewed ones."""
    chance = random.Random(9)
    for p, rows in ((1, 4), (2, 0), (2, 1), (2, 6), (3, 5), (4, 4), (10, 2), (2, 40), (2, 100)):
        yield [1 / p] * p, rows
        drawn = [chance.random() ** 2 for _ in range(p)]
        yield [one / sum(drawn) for one in drawn], rows
    yield [0.0, 1.0], 5
    yield [0.0, 1.0], 0
    yield [0.5, 0.0, 0.5], 4
    yield [0.5, 0.5, 0.0], 4


def placements(chance):
    for p, slots in ((1, 3), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3)):
        for few in {1, p, max(1, p * slots - 1), min(p * slots, 5)}:
            yield [chance.randint(0, 99) for _ in range(few)], p, slots
            yield [int(1000 * chance.random() ** 4) for _ in range(few)], p, slots
            yield [1] * few, p, slots
            yield chance.sample([1, 0], few, counts=[few // 2, few - few // 2]), p, slots
    yield [9, 9, 1], 3, 3  # best with each of them on every rank
    yield [1, 95, 21, 7, 29], 3, 3  # these two take more than one change from any deal
    yield [94, 24, 132, 24], 3, 2
    yield [2, 2, 2, 3, 3], 2, 3  # in order is best, and the heaviest first is not
    yield [1, 19, 0, 214, 0, 380], 2, 4
    yield [chance.randint(1, 50) for _ in range(12)], 4, 4
    yield [chance.randint(1, 50) for _ in range(8)], 8, 1


def latent_cases():
    """(x, latents, (Wd, Wq, W_uk, W_uv, Wo), ranks): an empty cache, a long one, large scores."""
    rng = np.random.default_rng(11)
    sizes = ((4, 1, 5), (4, 2, 0), (6, 3, 1), (8, 4, 9), (16, 8, 40), (2, 2, 1500))
    for heads, p, positions in sizes:
        hidden, dim, latent = (int(n) for n in rng.permutation([5, 6, 7, 8])[:3])
        shapes = [(latent, hidden), (heads, dim, hidden), (heads, dim, latent)]
        shapes += [(heads, dim, latent), (heads, dim, hidden)]
        arrays = tuple(rng.standard_normal(shape) for shape in shapes)
        x, latents = rng.standard_normal((1, hidden)), rng.standard_normal((positions, latent))
        yield x, latents, arrays, p
        Wd, Wq, *others = arrays
        yield x, latents, (Wd, 1000 * Wq, *others), p  # exp of a score overflows


def latent_arguments(x, latents, arrays, p):
    """What each rank of mla_rank is given."""
    Wd, *others = arrays
    width = len(others[0]) // p
    return [(x, latents, Wd, *(W[r * width : (r + 1) * width] for W in others)) for r in range(p)]


def attentions():
    """(q, k, v): no position, one, many; scores of 0, and whose exp overflows, or vanishes."""
    rng = np.random.default_rng(14)
    for heads, dim, positions in ((3, 2, 5), (2, 3, 0), (1, 4, 1), (2, 5, 17), (4, 1, 8)):
        for scale in (1.0, 0.0, 60.0):
            q, k, v = (
                rng.standard_normal(s) for s in ((heads, dim), *[(positions, heads, dim)] * 2)
            )
            yield scale * q, scale * k, v
        yield 60 * np.abs(q), -60 * np.abs(k), v  # every score is far below zero
    far = rng.integers(100, 103, (9, 2, 4))  # whole scores, below -10,000: no lse is rounded much
    yield np.full((2, 4), 64.0), -1.0 * far, rng.standard_normal((9, 2, 4))


def long_attention():
    """(q, k, v) of more than 1,000 positions."""
    rng = np.random.default_rng(15)
    return [rng.standard_normal(shape) for shape in ((1, 2), (1100, 1, 2), (1100, 1, 2))]


def shifts():
    """(work, check_every): ranks without work, one rank, equal and unequal ones."""
    chance = random.Random(16)
    yield from (([0, 7, 3, 8], 4), ([0], 3), ([0, 0], 4), ([5], 1), ([4, 4], 2), ([1, 0], 16))
    yield from (([3], 16), ([5], 4), ([6], 3))  # one rank alone
    for p in (2, 3, 4, 8):
        yield [chance.randint(0, 9) for _ in range(p)], chance.randint(1, 6)
    yield from (([5, 5], 4), ([0] * 9 + [1, 7], 3), ([3, 201], 200))  # equal work; many ranks; long


def bills():
    """(tokens, context, ep_size, busiest, model, machine): real shapes and drawn ones."""
    chance = random.Random(19)
    for number in range(60):
        model = dict(chance.choice(list(GIVEN.MODELS.values())))
        p = chance.choice((1, 2, 4, 8))
        if number % 2:
            model["expert_ffn"] = 8 * chance.randint(3, 400)
            model["hidden_size"] = chance.randint(50, 9000)  # of any width: no tiles of it
            model["top_k"] = chance.randint(1, 4)
            model["element_bytes"] = chance.choice((1, 2, 4))
            model["attention_weight_bytes"] = chance.choice((1, 2))
            model["kv_heads"] = chance.choice((1, 2, 4, 8))
        machine = {
            "num_ranks": p,
            "memory_bytes_per_s": chance.uniform(1e12, 8e12),
            "flops_per_s": chance.uniform(1e14, 2e15),
            "c_s": chance.uniform(0, 2e-5),
            "a_s": chance.uniform(0, 5e-6),
            "busbw_bytes_per_s": chance.uniform(1e9, 9e11),
        }
        ep_size = chance.choice([one for one in (1, 2, 4, 8) if p % one == 0])
        busiest = chance.uniform(1, min(ep_size, 3)) if ep_size > 1 else chance.choice((1.0, 1.5))
        tokens = int(2 ** chance.uniform(0, 14)) * (number % 20 > 0)
        yield tokens, chance.choice((0, 1, 4000)), ep_size, busiest, model, machine


# --- oracles ------------------------------------------------------------------------------------


def oracle_route(logits, top_k, renormalize):
    """Token by token, by sorting (logit, id)."""
    ids, weights = [], []
    for row in logits:
        best = sorted(range(len(row)), key=lambda e: (-row[e], e))[:top_k]
        over = best if renormalize else range(len(row))
        weights.append([1 / sum(math.exp(min(row[o] - row[e], 700)) for o in over) for e in best])
        ids.append(best)
    shape = len(logits), top_k
    return np.array(ids, dtype=int).reshape(shape), np.array(weights, dtype=float).reshape(shape)


def oracle_in_order(num_experts, num_ranks):
    """Card by card: the number that each rank gets, then blocks of so many."""
    counts = [0] * num_ranks
    for expert in range(num_experts):
        counts[expert % num_ranks] += 1
    return [rank for rank, count in enumerate(counts) for _ in range(count)]


def dense_layer(x, ids, weights, W1, W2):
    """Token by token, choice by choice."""
    y = np.zeros((len(x), W2.shape[2]))
    for t in range(len(x)):
        for e, weight in zip(ids[t], weights[t], strict=True):
            y[t] += weight * (np.maximum(x[t] @ W1[e], 0.0) @ W2[e])
    return y


def dealt(W1, W2, placement, p):
    return [(W1[placement == r], W2[placement == r]) for r in range(p)]


def own_arguments(case, with_sizes=False):
    """What each rank of gathered_rank or exchanged_rank is given."""
    parts, W1, W2, placement = case
    sizes = ([len(part[0]) for part in parts],) if with_sizes else ()
    experts = dealt(W1, W2, placement, len(parts))
    return [(*part, *mine, placement, *sizes) for part, mine in zip(parts, experts, strict=True)]


def own_results(case):
    parts, W1, W2, _ = case
    return [dense_layer(*part, W1, W2) for part in parts]


def oracle_traffic(ids_of_ranks, placement, hidden, number_bytes):
    """Message by message."""
    p, gathered, exchanged = len(ids_of_ranks), 0, 0
    for rank, ids in enumerate(ids_of_ranks):
        for token in ids:
            message = number_bytes * (hidden + len(token) + len(token)) + number_bytes * hidden
            others = {int(placement[e]) for e in token} - {rank}
            gathered += (p - 1) * message
            exchanged += len(others) * message
    return gathered, exchanged


def oracle_busiest(shares, rows):
    """Over all outcomes: every way in which the rows fall; by counts where two ranks have many."""
    if len(shares) == 2:
        terms = (
            math.comb(rows, n) * shares[0] ** n * shares[1] ** (rows - n) * max(n, rows - n)
            for n in range(rows + 1)
        )
        return math.fsum(terms)
    total = 0.0
    for outcome in itertools.product(range(len(shares)), repeat=rows):
        counts = [outcome.count(rank) for rank in range(len(shares))]
        total += math.prod(shares[rank] for rank in outcome) * max(counts)
    return total


def rows_of(placed, loads):
    copies = [sum(expert in held for held in placed) for expert in range(len(loads))]
    return [sum(loads[expert] / copies[expert] for expert in held) for held in placed]


def best_placement(loads, p, slots):
    """The busiest rank's rows in the best of all placements, by trying them all."""
    experts = range(len(loads))
    sets = [one for size in range(slots + 1) for one in itertools.combinations(experts, size)]
    every = itertools.combinations_with_replacement(sets, p)
    full = (placed for placed in every if len(set().union(*placed)) == len(loads))
    return min(max(rows_of(placed, loads)) for placed in full)


def expanded(x, latents, Wd, Wq, W_uk, W_uv, Wo):
    """Head by head, position by position, with keys and values made for each."""
    cache = np.concatenate([latents, x @ Wd.T])
    y = np.zeros(Wo.shape[2])
    for head in range(len(Wq)):
        keys, values = (cache @ W[head].T for W in (W_uk, W_uv))
        scores = keys @ (Wq[head] @ x[0]) / math.sqrt(Wq.shape[1])
        weights = np.exp(scores - scores.max())
        y += (weights / weights.sum() @ values) @ Wo[head]
    return y[None], cache


def oracle_requests(memory, attention, experts, request, p, dp):
    """Rank by rank, in fractions."""
    total = Fraction(0)
    for _ in range(p):
        held = Fraction(experts, p) + (attention if dp else Fraction(attention, p))
        total += max(memory - held, Fraction(0)) / request
    return total if dp else total / p


def whole_attention(q, k, v):
    """Head by head: (out, lse)."""
    out, lse = np.zeros(q.shape), np.full(len(q), -np.inf)
    for head in range(len(q) if len(k) else 0):
        scores = [float(key @ q[head]) / math.sqrt(q.shape[1]) for key in k[:, head]]
        lse[head] = max(scores) + math.log(math.fsum(math.exp(s - max(scores)) for s in scores))
        out[head] = sum(
            math.exp(s - lse[head]) * row for s, row in zip(scores, v[:, head], strict=True)
        )
    return out, lse


def walk(work, check_every):
    """Step by step."""
    left, steps = list(work), 0
    while any(left):
        for _ in range(check_every):
            left = [max(one - 1, 0) for one in left]
            steps += 1
    return steps, [steps - own for own in work]


def oracle_experts(tokens, ep_size, busiest, model, machine):
    """(reading, arithmetic): the seconds of one expert, times experts or rows."""
    experts, sliced = model["num_experts"], machine["num_ranks"] / ep_size
    mean = experts * (1 - ((experts - model["top_k"]) / experts) ** tokens) / ep_size
    matrices = 3 * model["hidden_size"] * model["expert_ffn"] / sliced
    read_s = matrices * model["expert_weight_bytes"] / machine["memory_bytes_per_s"]
    tiles = -(-model["expert_ffn"] // (128 * sliced))
    row_s = 2 * 3 * model["hidden_size"] * 128 * tiles / machine["flops_per_s"]
    rows = tokens * model["top_k"] / ep_size * busiest
    return read_s * min(mean * busiest, experts / ep_size), row_s * rows


def oracle_attention(tokens, context, dp, model, machine):
    p, weights = machine["num_ranks"], model["attention_weights"]
    heads = model["kv_heads"] if dp else max(model["kv_heads"] / p, 1)
    positions = context * tokens / (p if dp else 1)
    read = weights * model["attention_weight_bytes"] / (1 if dp else p)
    read += positions * heads * model["head_bytes"]
    return read / machine["memory_bytes_per_s"], 2 * weights * tokens / p / machine["flops_per_s"]


# --- comparisons --------------------------------------------------------------------------------


def marked_collectives():
    """The ledger of collectives whose results are marked, element by element."""
    return record(mark=np.random.default_rng(20))


def on_ranks(function, held, idea):
    """The ranks' results; held: what each rank is given; idea: to look at again after a crash."""
    try:
        with looking_at(idea):
            return run_ranks(function, held)
    except Deadlock as error:
        raise Unexpected(f"{error}. On a cluster they would wait for ever.") from None


def plain(value):
    """Numpy's whole numbers as Python's, and arrays of them as lists."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
        return value.tolist()
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value)) if type(value) in (list, tuple) else value
    return value


def expect_floats(given, wanted, atol, idea, part=""):
    """As expect_close. Where all is rounded, up or down, no more than float32 does, it says so."""
    if type(given) is np.ndarray and given.shape == wanted.shape and given.dtype.kind == "f":
        off, most = np.abs(given - wanted).max(initial=0.0), np.abs(wanted).max(initial=0.0)
        signs = np.sign(np.abs(given) - np.abs(wanted))[wanted != 0]
        if set(signs.tolist()) == {-1, 1} and 1e-9 * most < off < 1e-5 * most:
            idea = PRECISION
    expect_close(given, wanted, atol=atol, idea=idea, part=part)


def expect_pair(given, names):
    if not isinstance(given, (list, tuple)) or len(given) != len(names):
        raise Unexpected(f"returned {kind_of(given)}, expected {', '.join(names)}.")


def expect_ids(given, expected, idea, part=", its ids"):
    """An integer array with exactly these entries."""
    if type(given) is not np.ndarray or (given.dtype.kind not in "iu" and given.size):
        what = f"dtype {given.dtype}" if type(given) is np.ndarray else kind_of(given)
        raise Unexpected(f"returned {what}, expected an array of whole numbers.", part)
    expect_close(given.astype(int), expected, atol=0.0, idea=idea, part=part)


def expect_ranks(results, expected, idea, marked=False, alone=True):
    """Every rank returned what it should. alone: to one rank, another idea is told.

    The last calls are the ranks', in their order: the sentence shows that of the rank it names.
    """
    idea = ALONE if alone and len(expected) == 1 else idea
    for rank, (y, wanted) in enumerate(zip(results, expected, strict=True)):
        atol = 1e-6 if marked else ATOL
        with of_rank(rank, len(expected)):
            expect_floats(y, wanted, atol, idea, f" on rank {rank}")


def expect_traffic(ledger, expected, p, idea, any_order=0):
    """The ledger holds `expected`, (operation, payload bytes); the first few in any order."""
    made = [(call.operation, call.payload_bytes) for call in ledger.calls]
    expected = expected if p > 1 else []
    if (
        sorted(made[:any_order]) + made[any_order:]
        != sorted(expected[:any_order]) + expected[any_order:]
    ):
        said, want = (
            ", ".join(f"{name} of {size} bytes" for name, size in calls) or "no collective"
            for calls in (made, expected)
        )
        raise Unexpected(f"made {said}, expected {want}. Look again at: {idea}.")


def expect_brought(ledger, number, parts, idea, atol=ATOL):
    """To this collective every rank brought its own part."""
    for call in ledger.calls[number:][:1]:
        for rank, (brought, part) in enumerate(zip(call.inputs, parts, strict=True)):
            where = f": what rank {rank} brings to the {call.operation}"
            if not alike(brought, part, atol):
                shaped = brought.reshape(part.shape) if brought.size == part.size else brought
                expect_floats(shaped, part, atol, idea, where)


def what_a_rank_adds(given, wanted, ids, weights, placement, rank):
    """What the worst token of a wrong result chose, and what of it this rank holds."""
    if not isinstance(given, np.ndarray) or given.shape != wanted.shape or not wanted.size:
        return "one row per token, zero where the rank adds nothing"
    t = int(np.abs(np.nan_to_num(given - wanted, nan=np.inf)).max(axis=1).argmax())
    held = np.flatnonzero(placement == rank).tolist()
    rows = {e: held.index(e) for e in ids[t].tolist() if e in held}
    adds = ", ".join(f"expert {e} is row {row} of W1" for e, row in rows.items())
    shares = [float(f"{weight:.3g}") for weight in weights[t]]
    return (
        f"token {t} chose {ids[t].tolist()} with weights {shares}; of these this rank holds "
        f"{list(rows) or 'none, and adds zero'}{': ' * bool(adds)}{adds}"
    )


def what_y_is(given, y, cache, arrays, p):
    """What y of mla_rank is in this call."""
    if isinstance(given, np.ndarray) and given.shape == y.shape and not np.isfinite(given).all():
        return "scores may be large: take the largest out before exp, for each head by itself"
    if np.shape(given) != y.shape:
        return f"y is one token, [1, {y.shape[1]}]"
    heads, dim, _ = arrays[1].shape
    return (
        f"each of {heads} heads, {heads // p} on a rank: scores over sqrt({dim}), a softmax over "
        f"the positions, {len(cache)} with the new one, values latent @ W_uv.T; summed over heads"
    )


def own_steps(count):
    return f"{count} step{'s' * (count != 1)}"


def expect_last(ledger, results, divided=False):
    """Every rank returned what the last collective gave it; the collectives must be marked.

    divided: or that divided by one number for each row, as who divides last does.
    """
    for call in ledger.calls[-1:]:
        for y, received in zip(results, call.outputs, strict=True):
            if np.shape(y) != received.shape and np.size(y) == received.size:
                turned = np.shape(y) == received.shape[::-1]
                received = received.T if turned else received.reshape(np.shape(y))
            wanted = received
            if divided and np.shape(y) == received.shape:
                scale = (y * received).sum(axis=-1, keepdims=True)
                squares = (received * received).sum(axis=-1, keepdims=True)
                wanted = received * (scale / np.where(squares > 0, squares, 1.0))
            if not alike(y, wanted, ATOL):
                raise Unexpected(
                    f"made the {call.operation}, but returned something else than what it gives"
                    + ", or that divided by a number for each head." * divided
                    + "." * (not divided)
                )


def checked_placement(placed, loads, p, slots):
    """The busiest rank's rows; the placement must be one."""
    good = isinstance(placed, (list, tuple)) and len(placed) == p
    if not good or not all(isinstance(held, (list, tuple)) for held in placed):
        held = f" of {len(placed)}: {brief(placed)}" if isinstance(placed, (list, tuple)) else ""
        raise Unexpected(
            f"returned {kind_of(placed)}{held}; expected a list for each of {p} ranks, of ids."
        )
    placed = [plain(list(held)) for held in placed]
    for rank, held in enumerate(placed):
        if any(type(e) is not int or not 0 <= e < len(loads) for e in held):
            raise Unexpected(
                f"holds {held}, where ids go from 0 to {len(loads) - 1}.", f", rank {rank}"
            )
        if len(held) > slots or len(set(held)) < len(held):
            raise Unexpected(
                f"holds {held}; there is room for {slots}, each once.", f", rank {rank}"
            )
    if missing := set(range(len(loads))) - set().union(*placed):
        raise Unexpected(f"leaves expert {min(missing)} without a rank.")
    return max(rows_of(placed, loads))
