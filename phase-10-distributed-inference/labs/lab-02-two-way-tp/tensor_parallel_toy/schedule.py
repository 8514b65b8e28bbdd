"""In which order a rank communicates and multiplies: schedules as plain lists of operations.

    ["post_recv", tensor, chunk, peer]  a buffer waits for this chunk; returns at once
    ["send", tensor, chunk, peer]       put this chunk on the wire; returns at once
    ["wait", tensor, chunk, peer]       block until the posted receive has arrived
    ["wait_send", tensor, chunk, peer]  block until the chunk has left; its buffer is free again
    ["gemm", tensor, chunk]             multiply one chunk of rows; `tensor` names the product
    ["add", tensor, chunk, peer]        add a partial sum that has arrived to the own one
    ["later"]                           the rest is not needed yet: go on with the next layer
    ["fill"]                            we are about to wait: do what earlier layers left

Rows are cut into `num_ranks * pieces` chunks; rank r owns chunks r*pieces ... r*pieces+pieces-1.
`stream_machine` says what a schedule costs and whether it is right; `parallel_linear` runs it.
Three habits make communication overlap: what does not depend on a GEMM is sent before it; a chunk
is waited for as late as possible; what others wait for is computed first. Step t talks to the
ranks t places away, so that no two ranks send to the same third one at the same time.
"""

from .stream_machine import MARKS


def all_gather_gemm(num_ranks, rank, pieces=1):
    """All-gather x, multiply every chunk as it arrives (column forward)."""
    gather = _gather(num_ranks, rank, pieces, "x")
    ops = gather["post_recv"] + gather["send"]
    ops += [["gemm", "y", chunk] for chunk in _chunks(rank, pieces)]
    for wait in gather["wait"]:
        ops += [wait, ["gemm", "y", wait[2]]]
    return ops + gather["wait_send"]


def gemm_reduce_scatter(num_ranks, rank, pieces=1):
    """Multiply chunk by chunk; each partial sum leaves for its owner at once (row forward)."""
    scatter = _scatter(num_ranks, rank, pieces, "y")
    ops = scatter["post_recv"] + scatter["gemm_send"]
    ops += [["gemm", "y", chunk] for chunk in _chunks(rank, pieces)]
    return ops + scatter["wait_add"] + scatter["wait_send"]


def column_backward(num_ranks, rank, pieces=1):
    """dx = reduce-scatter(dy @ W) and dw = dy.T @ all-gather(x).

    The layer below waits for dx, and nobody for dw: the partial sums of dx leave first, the gather
    of x follows them, and the GEMMs of dw are left to fill the waits of the layers below.
    """
    gather = _gather(num_ranks, rank, pieces, "x")
    scatter = _scatter(num_ranks, rank, pieces, "dx")
    ops = scatter["post_recv"] + scatter["gemm_send"] + gather["post_recv"] + gather["send"]
    ops += [["gemm", "dx", chunk] for chunk in _chunks(rank, pieces)]
    ops += [["fill"], *scatter["wait_add"], ["later"]]
    ops += [["gemm", "dw", chunk] for chunk in _chunks(rank, pieces)]
    for wait in gather["wait"]:
        ops += [wait, ["gemm", "dw", wait[2]]]
    return ops + scatter["wait_send"] + gather["wait_send"]


def row_backward(num_ranks, rank, pieces=1):
    """dx = all-gather(dz) @ W chunk by chunk; dw = all-gather(dz).T @ x is left for later."""
    gather = _gather(num_ranks, rank, pieces, "dz")
    own = _chunks(rank, pieces)
    ops = gather["post_recv"] + gather["send"] + [["gemm", "dx", chunk] for chunk in own]
    ops.append(["fill"])
    for wait in gather["wait"]:
        ops += [wait, ["gemm", "dx", wait[2]]]
    chunks = [*own, *(wait[2] for wait in gather["wait"])]
    return ops + [["later"], *(["gemm", "dw", chunk] for chunk in chunks), *gather["wait_send"]]


SCHEDULES = {
    "column_forward": all_gather_gemm,
    "row_forward": gemm_reduce_scatter,
    "column_backward": column_backward,
    "row_backward": row_backward,
}


def sequential(ops):
    """The same operations with nothing overlapped: gather, then multiply, then reduce."""
    ops = [op for op in ops if op not in MARKS]
    summed = {op[1] for op in ops if op[0] == "add"}
    order = {"post_recv": 0, "send": 1, "wait": 2, "add": 2, "wait_send": 3}

    def phase(op):
        if op[0] == "gemm":
            return 4
        return order[op[0]] + (5 if op[1] in summed else 0)

    return sorted(ops, key=phase)  # stable: within a phase the order stays


def without_messages(ops, tensor):
    """The same operations when every rank holds all of `tensor` already."""
    return [op for op in ops if op in MARKS or op[0] == "gemm" or op[1] != tensor]


VARIANTS = {"overlap": lambda ops: ops, "sequential": sequential}  # measure/plan.py adds two


def _chunks(rank, pieces):
    return range(rank * pieces, (rank + 1) * pieces)


def _neighbours(num_ranks, rank):
    """Whom the rank sends to, and whom it receives from, step by step."""
    steps = range(1, num_ranks)
    return [(rank + t) % num_ranks for t in steps], [(rank - t) % num_ranks for t in steps]


def _gather(num_ranks, rank, pieces, tensor):
    ahead, behind = _neighbours(num_ranks, rank)
    incoming = [[tensor, chunk, peer] for peer in behind for chunk in _chunks(peer, pieces)]
    outgoing = [[tensor, chunk, peer] for peer in ahead for chunk in _chunks(rank, pieces)]
    return {
        "post_recv": [["post_recv", *m] for m in incoming],
        "send": [["send", *m] for m in outgoing],
        "wait": [["wait", *m] for m in incoming],
        "wait_send": [["wait_send", *m] for m in outgoing],
    }


def _scatter(num_ranks, rank, pieces, tensor):
    ahead, behind = _neighbours(num_ranks, rank)
    incoming = [[tensor, chunk, peer] for peer in behind for chunk in _chunks(rank, pieces)]
    outgoing = [[tensor, chunk, peer] for peer in ahead for chunk in _chunks(peer, pieces)]
    return {
        "post_recv": [["post_recv", *m] for m in incoming],
        "gemm_send": [op for m in outgoing for op in (["gemm", tensor, m[1]], ["send", *m])],
        "wait_add": [op for m in incoming for op in (["wait", *m], ["add", *m])],
        "wait_send": [["wait_send", *m] for m in outgoing],
    }
