"""Plausible mistakes of lab 02. Each is rejected by the check whose claim it violates.

The bank runs on top of the solution's namespace: math, re, GIB and every given function are there.
"""

# --- Part A: the ledger of a start-up ---------------------------------------------------------

# --- Part B: the same numbers, live -----------------------------------------------------------

# --- Part C: tensor and sequence parallelism in Torch -----------------------------------------


def all_gather_gemm_schedule__sends_after_the_gemm(num_ranks, rank):
    """a chunk is sent only after its own GEMM, although the send does not need the GEMM.

    GEMM, transfer, GEMM, transfer: nothing overlaps, the makespan is the sum. This was the order
    of a public tensor-parallel toy whose overlapped mode is its slowest.
    Rejected by: test_all_gather_hides_behind_the_gemms
    """
    ahead, behind = (rank + 1) % num_ranks, (rank - 1) % num_ranks
    schedule = []
    for step in range(num_ranks):
        chunk, coming = (rank - step) % num_ranks, (rank - step - 1) % num_ranks
        schedule.append(["gemm", "y", chunk])
        if step < num_ranks - 1:
            schedule += [["post_recv", "x", coming, behind], ["send", "x", chunk, ahead]]
            schedule += [["wait", "x", coming, behind], ["wait_send", "x", chunk, ahead]]
    return schedule


def all_gather_gemm_schedule__waits_for_all_chunks_first(num_ranks, rank):
    """every chunk is waited for before the first GEMM.

    That is a plain all-gather followed by a GEMM: right, and all of the communication is exposed.
    Rejected by: test_all_gather_hides_behind_the_gemms
    """
    peers = [(rank - distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "x", peer, peer] for peer in peers]
    schedule += [["send", "x", rank, peer] for peer in peers[::-1]]
    schedule += [["wait", "x", peer, peer] for peer in peers]
    schedule += [["gemm", "y", chunk] for chunk in [rank, *peers]]
    return schedule + [["wait_send", "x", rank, peer] for peer in peers[::-1]]


def all_gather_gemm_schedule__starts_with_a_chunk_of_another_rank(num_ranks, rank):
    """one's own chunk, the only one that needs no wait, is multiplied last.

    While the first transfer runs nothing is multiplied.
    Rejected by: test_all_gather_hides_behind_the_gemms
    """
    peers = [(rank - distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "x", peer, peer] for peer in peers]
    schedule += [["send", "x", rank, peer] for peer in peers[::-1]]
    for peer in peers:
        schedule += [["wait", "x", peer, peer], ["gemm", "y", peer]]
    schedule.append(["gemm", "y", rank])
    return schedule + [["wait_send", "x", rank, peer] for peer in peers[::-1]]


def all_gather_gemm_schedule__multiplies_before_waiting(num_ranks, rank):
    """a chunk is multiplied without waiting for it to arrive.

    A data race: on a fast link the numbers are right most of the time.
    Rejected by: test_all_gather_hides_behind_the_gemms
    """
    peers = [(rank - distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "x", peer, peer] for peer in peers]
    schedule += [["send", "x", rank, peer] for peer in peers[::-1]]
    schedule += [["gemm", "y", chunk] for chunk in [rank, *peers]]
    schedule += [["wait", "x", peer, peer] for peer in peers]
    return schedule + [["wait_send", "x", rank, peer] for peer in peers[::-1]]


def all_gather_gemm_schedule__waits_in_another_order_than_it_multiplies(num_ranks, rank):
    """the chunks are waited for in one order and multiplied in another.

    The right number of waits is not enough: each GEMM needs the wait of its own chunk before it.
    Rejected by: test_all_gather_hides_behind_the_gemms
    """
    peers = [(rank - distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "x", peer, peer] for peer in peers]
    schedule += [["send", "x", rank, peer] for peer in peers[::-1]]
    schedule.append(["gemm", "y", rank])
    for peer, other in zip(peers, peers[::-1], strict=True):
        schedule += [["wait", "x", peer, peer], ["gemm", "y", other]]
    return schedule + [["wait_send", "x", rank, peer] for peer in peers[::-1]]


def all_gather_gemm_schedule__posts_its_receives_after_its_sends(num_ranks, rank):
    """the receives are posted after the sends.

    On gloo the two directions of a link then take turns in half of the exchanges, and a send
    without a posted receive has nowhere to go.
    Rejected by: test_all_gather_hides_behind_the_gemms
    """
    peers = [(rank - distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["send", "x", rank, peer] for peer in peers[::-1]]
    schedule += [["post_recv", "x", peer, peer] for peer in peers]
    schedule.append(["gemm", "y", rank])
    for peer in peers:
        schedule += [["wait", "x", peer, peer], ["gemm", "y", peer]]
    return schedule + [["wait_send", "x", rank, peer] for peer in peers[::-1]]


def all_gather_gemm_schedule__never_waits_for_its_sends(num_ranks, rank):
    """the function returns while its chunk is still being sent.

    The caller may free or overwrite the buffer; the others then receive something else.
    Rejected by: test_all_gather_hides_behind_the_gemms
    """
    peers = [(rank - distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "x", peer, peer] for peer in peers]
    schedule += [["send", "x", rank, peer] for peer in peers[::-1]]
    schedule.append(["gemm", "y", rank])
    for peer in peers:
        schedule += [["wait", "x", peer, peer], ["gemm", "y", peer]]
    return schedule


def all_gather_gemm_schedule__forwards_before_it_has_received(num_ranks, rank):
    """a ring forwards chunks before it has received them.

    At the start only its owner has a chunk; whoever passes it on must have waited for it.
    Rejected by: test_all_gather_hides_behind_the_gemms
    """
    ahead, behind = (rank + 1) % num_ranks, (rank - 1) % num_ranks
    others = [(rank - distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "x", chunk, behind] for chunk in others]
    schedule += [["send", "x", (chunk + 1) % num_ranks, ahead] for chunk in others]
    schedule.append(["gemm", "y", rank])
    for chunk in others:
        schedule += [["wait", "x", chunk, behind], ["gemm", "y", chunk]]
    return schedule + [["wait_send", "x", (chunk + 1) % num_ranks, ahead] for chunk in others]


def all_gather_gemm_schedule__everyone_sends_to_rank_0_first(num_ranks, rank):
    """all ranks send in the order 0, 1, 2, ... instead of to the rank t places ahead at step t.

    The values are right, but all ranks talk to the same one at the same time and queue there.
    Rejected by: test_all_gather_hides_behind_the_gemms
    """
    peers = [peer for peer in range(num_ranks) if peer != rank]
    schedule = [["post_recv", "x", peer, peer] for peer in peers]
    schedule += [["send", "x", rank, peer] for peer in peers]
    schedule.append(["gemm", "y", rank])
    for peer in peers:
        schedule += [["wait", "x", peer, peer], ["gemm", "y", peer]]
    return schedule + [["wait_send", "x", rank, peer] for peer in peers]


def all_gather_gemm_schedule__gathers_twice(num_ranks, rank):
    """every chunk is gathered from its owner and again around the ring.

    Twice the bytes, and two transfers that write into one buffer.
    Rejected by: test_all_gather_hides_behind_the_gemms
    """
    peers = [(rank - distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "x", peer, peer] for peer in peers for _ in range(2)]
    schedule += [["send", "x", rank, peer] for peer in peers[::-1] for _ in range(2)]
    schedule.append(["gemm", "y", rank])
    for peer in peers:
        schedule += [["wait", "x", peer, peer], ["gemm", "y", peer]]
    return schedule + [["wait_send", "x", rank, peer] for peer in peers[::-1]]


def all_gather_gemm_schedule__skips_its_own_chunk(num_ranks, rank):
    """a rank multiplies what it receives and forgets the chunk it had.

    One block of rows of the result is never written.
    Rejected by: test_all_gather_hides_behind_the_gemms
    """
    peers = [(rank - distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "x", peer, peer] for peer in peers]
    schedule += [["send", "x", rank, peer] for peer in peers[::-1]]
    for peer in peers:
        schedule += [["wait", "x", peer, peer], ["gemm", "y", peer]]
    return schedule + [["wait_send", "x", rank, peer] for peer in peers[::-1]]


def gemm_reduce_scatter_schedule__computes_its_own_chunk_first(num_ranks, rank):
    """one's own chunk, which nobody waits for, is multiplied first.

    The first partial sum leaves one GEMM later, and the last transfer has nothing to hide behind.
    Rejected by: test_reduce_scatter_hides_behind_the_gemms
    """
    ahead = [(rank + distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "y", rank, peer] for peer in ahead[::-1]] + [["gemm", "y", rank]]
    for peer in ahead:
        schedule += [["gemm", "y", peer], ["send", "y", peer, peer]]
    for peer in ahead[::-1]:
        schedule += [["wait", "y", rank, peer], ["add", "y", rank, peer]]
    return schedule + [["wait_send", "y", peer, peer] for peer in ahead]


def gemm_reduce_scatter_schedule__sends_after_all_gemms(num_ranks, rank):
    """the partial sums leave only when all of them are computed.

    A plain GEMM followed by a reduce-scatter: all of the communication is exposed.
    Rejected by: test_reduce_scatter_hides_behind_the_gemms
    """
    ahead = [(rank + distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "y", rank, peer] for peer in ahead[::-1]]
    schedule += [["gemm", "y", chunk] for chunk in [*ahead, rank]]
    schedule += [["send", "y", peer, peer] for peer in ahead]
    for peer in ahead[::-1]:
        schedule += [["wait", "y", rank, peer], ["add", "y", rank, peer]]
    return schedule + [["wait_send", "y", peer, peer] for peer in ahead]


def gemm_reduce_scatter_schedule__waits_for_each_send_at_once(num_ranks, rank):
    """every send is waited for before the next GEMM.

    The transfer and the next GEMM take turns: an asynchronous send made synchronous.
    Rejected by: test_reduce_scatter_hides_behind_the_gemms
    """
    ahead = [(rank + distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "y", rank, peer] for peer in ahead[::-1]]
    for peer in ahead:
        schedule += [["gemm", "y", peer], ["send", "y", peer, peer], ["wait_send", "y", peer, peer]]
    schedule.append(["gemm", "y", rank])
    for peer in ahead[::-1]:
        schedule += [["wait", "y", rank, peer], ["add", "y", rank, peer]]
    return schedule


def gemm_reduce_scatter_schedule__scatters_to_the_wrong_rank(num_ranks, rank):
    """chunk i is sent to a rank that does not own it.

    Rank r owns chunk r. Numbering the peers of a sub-group by their global ranks ends like this.
    Rejected by: test_reduce_scatter_hides_behind_the_gemms
    """
    ahead = [(rank + distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "y", rank, peer] for peer in ahead[::-1]]
    for peer in ahead:
        schedule += [["gemm", "y", peer], ["send", "y", peer, (rank - 1) % num_ranks]]
    schedule.append(["gemm", "y", rank])
    for peer in ahead[::-1]:
        schedule += [["wait", "y", rank, peer], ["add", "y", rank, peer]]
    return schedule + [["wait_send", "y", peer, (rank - 1) % num_ranks] for peer in ahead]


def gemm_reduce_scatter_schedule__adds_before_waiting(num_ranks, rank):
    """a partial sum is added without waiting for it to arrive.

    A data race: what is added may be an empty buffer.
    Rejected by: test_reduce_scatter_hides_behind_the_gemms
    """
    ahead = [(rank + distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "y", rank, peer] for peer in ahead[::-1]]
    for peer in ahead:
        schedule += [["gemm", "y", peer], ["send", "y", peer, peer]]
    schedule.append(["gemm", "y", rank])
    schedule += [["add", "y", rank, peer] for peer in ahead[::-1]]
    schedule += [["wait", "y", rank, peer] for peer in ahead[::-1]]
    return schedule + [["wait_send", "y", peer, peer] for peer in ahead]


def gemm_reduce_scatter_schedule__sends_before_the_gemm(num_ranks, rank):
    """a partial sum is sent before the GEMM that computes it.

    What all-gather may do, reduce-scatter may not: here the message is the GEMM's result.
    Rejected by: test_reduce_scatter_hides_behind_the_gemms
    """
    ahead = [(rank + distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "y", rank, peer] for peer in ahead[::-1]]
    for peer in ahead:
        schedule += [["send", "y", peer, peer], ["gemm", "y", peer]]
    schedule.append(["gemm", "y", rank])
    for peer in ahead[::-1]:
        schedule += [["wait", "y", rank, peer], ["add", "y", rank, peer]]
    return schedule + [["wait_send", "y", peer, peer] for peer in ahead]


def gemm_reduce_scatter_schedule__leaves_out_its_own_share(num_ranks, rank):
    """the owner sums what arrives and leaves out its own partial sum.

    A sum over p ranks has p terms; p - 1 of them arrive.
    Rejected by: test_reduce_scatter_hides_behind_the_gemms
    """
    ahead = [(rank + distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "y", rank, peer] for peer in ahead[::-1]]
    for peer in ahead:
        schedule += [["gemm", "y", peer], ["send", "y", peer, peer]]
    for peer in ahead[::-1]:
        schedule += [["wait", "y", rank, peer], ["add", "y", rank, peer]]
    return schedule + [["wait_send", "y", peer, peer] for peer in ahead]


def gemm_reduce_scatter_schedule__adds_twice(num_ranks, rank):
    """each partial sum that arrives is added twice.

    Rejected by: test_reduce_scatter_hides_behind_the_gemms
    """
    ahead = [(rank + distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "y", rank, peer] for peer in ahead[::-1]]
    for peer in ahead:
        schedule += [["gemm", "y", peer], ["send", "y", peer, peer]]
    schedule.append(["gemm", "y", rank])
    for peer in ahead[::-1]:
        schedule += [["wait", "y", rank, peer]] + 2 * [["add", "y", rank, peer]]
    return schedule + [["wait_send", "y", peer, peer] for peer in ahead]


def gemm_reduce_scatter_schedule__receives_and_never_adds(num_ranks, rank):
    """the partial sums arrive and are never added: a scatter without the reduce.

    Rejected by: test_reduce_scatter_hides_behind_the_gemms
    """
    ahead = [(rank + distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "y", rank, peer] for peer in ahead[::-1]]
    for peer in ahead:
        schedule += [["gemm", "y", peer], ["send", "y", peer, peer]]
    schedule.append(["gemm", "y", rank])
    schedule += [["wait", "y", rank, peer] for peer in ahead[::-1]]
    return schedule + [["wait_send", "y", peer, peer] for peer in ahead]


def gemm_reduce_scatter_schedule__never_waits_for_its_sends(num_ranks, rank):
    """the function returns while partial sums are still being sent.

    Their buffers are temporaries: freed on return, reused by the next layer, and the owner adds
    whatever stands there by then.
    Rejected by: test_reduce_scatter_hides_behind_the_gemms
    """
    ahead = [(rank + distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "y", rank, peer] for peer in ahead[::-1]]
    for peer in ahead:
        schedule += [["gemm", "y", peer], ["send", "y", peer, peer]]
    schedule.append(["gemm", "y", rank])
    for peer in ahead[::-1]:
        schedule += [["wait", "y", rank, peer], ["add", "y", rank, peer]]
    return schedule


def gemm_reduce_scatter_schedule__everyone_computes_chunk_0_first(num_ranks, rank):
    """all ranks compute and send the chunks in the order 0, 1, 2, ...

    Right, but rank 0 receives from everybody at once and the others wait for their turn.
    Rejected by: test_reduce_scatter_hides_behind_the_gemms
    """
    peers = [peer for peer in range(num_ranks) if peer != rank]
    schedule = [["post_recv", "y", rank, peer] for peer in peers]
    for peer in peers:
        schedule += [["gemm", "y", peer], ["send", "y", peer, peer]]
    schedule.append(["gemm", "y", rank])
    for peer in peers:
        schedule += [["wait", "y", rank, peer], ["add", "y", rank, peer]]
    return schedule + [["wait_send", "y", peer, peer] for peer in peers]
