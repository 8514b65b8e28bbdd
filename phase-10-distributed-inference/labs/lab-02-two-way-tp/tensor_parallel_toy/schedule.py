"""In which order a rank communicates and multiplies: schedules as plain lists of operations.

    ["post_recv", tensor, chunk, peer]  a buffer waits for this chunk; returns at once
    ["send", tensor, chunk, peer]       put this chunk on the wire; returns at once
    ["wait", tensor, chunk, peer]       block until the posted receive has arrived
    ["wait_send", tensor, chunk, peer]  block until the chunk has left; its buffer is free again
    ["gemm", tensor, chunk]             multiply one chunk of rows; `tensor` names the product
    ["add", tensor, chunk, peer]        add a partial sum that has arrived to the own one
    ["later"]                           the rest is not needed yet: go on with the next layer
    ["fill"]                            we are about to wait: do what earlier layers left

Rows are cut into `num_ranks` chunks; rank r owns chunk r.
`stream_machine` says what a schedule costs and whether it is right; `parallel_linear` runs it.
Three habits make communication overlap: what does not depend on a GEMM is sent before it; a chunk
is waited for as late as possible; what others wait for is computed first. Step t talks to the
ranks t places away, so that no two ranks send to the same third one at the same time.
"""

from .stream_machine import MARKS


def all_gather_gemm(num_ranks, rank):
    """All-gather x, multiply every chunk as it arrives (column forward)."""
    gather = _gather(num_ranks, rank, "x")
    ops = gather["post_recv"] + gather["send"]
    ops.append(["gemm", "y", rank])
    for wait in gather["wait"]:
        ops += [wait, ["gemm", "y", wait[2]]]
    return ops + gather["wait_send"]


def gemm_reduce_scatter(num_ranks, rank):
    """Multiply chunk by chunk; each partial sum leaves for its owner at once (row forward)."""
    scatter = _scatter(num_ranks, rank, "y")
    ops = scatter["post_recv"] + scatter["gemm_send"]
    ops.append(["gemm", "y", rank])
    return ops + scatter["wait_add"] + scatter["wait_send"]


def column_backward(num_ranks, rank):
    """dx = reduce-scatter(dy @ W) and dw = dy.T @ all-gather(x).

    The layer below waits for dx, and nobody for dw: the partial sums of dx leave first, the gather
    of x follows them, and the GEMMs of dw are left to fill the waits of the layers below.
    """
    gather = _gather(num_ranks, rank, "x")
    scatter = _scatter(num_ranks, rank, "dx")
    ops = scatter["post_recv"] + scatter["gemm_send"] + gather["post_recv"] + gather["send"]
    ops += [["gemm", "dx", rank], ["fill"], *scatter["wait_add"], ["later"], ["gemm", "dw", rank]]
    for wait in gather["wait"]:
        ops += [wait, ["gemm", "dw", wait[2]]]
    return ops + scatter["wait_send"] + gather["wait_send"]


def row_backward(num_ranks, rank):
    """dx = all-gather(dz) @ W chunk by chunk; dw = all-gather(dz).T @ x is left for later."""
    gather = _gather(num_ranks, rank, "dz")
    ops = gather["post_recv"] + gather["send"] + [["gemm", "dx", rank], ["fill"]]
    for wait in gather["wait"]:
        ops += [wait, ["gemm", "dx", wait[2]]]
    chunks = [rank, *(wait[2] for wait in gather["wait"])]
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


def _neighbours(num_ranks, rank):
    """Whom the rank sends to, and whom it receives from, step by step."""
    steps = range(1, num_ranks)
    return [(rank + t) % num_ranks for t in steps], [(rank - t) % num_ranks for t in steps]


def _gather(num_ranks, rank, tensor):
    ahead, behind = _neighbours(num_ranks, rank)
    return {
        "post_recv": [["post_recv", tensor, peer, peer] for peer in behind],
        "send": [["send", tensor, rank, peer] for peer in ahead],
        "wait": [["wait", tensor, peer, peer] for peer in behind],
        "wait_send": [["wait_send", tensor, rank, peer] for peer in ahead],
    }


def _scatter(num_ranks, rank, tensor):
    ahead, behind = _neighbours(num_ranks, rank)
    gemm_send = [(["gemm", tensor, peer], ["send", tensor, peer, peer]) for peer in ahead]
    wait_add = [(["wait", tensor, rank, peer], ["add", tensor, rank, peer]) for peer in behind]
    return {
        "post_recv": [["post_recv", tensor, rank, peer] for peer in behind],
        "gemm_send": [operation for pair in gemm_send for operation in pair],
        "wait_add": [operation for pair in wait_add for operation in pair],
        "wait_send": [["wait_send", tensor, peer, peer] for peer in ahead],
    }
