"""Part C's schedules in another order that overlaps as well: posts, sends and waits per round.

lab: lab-02
base: solution
expect: above 81
"""


def all_gather_gemm_schedule(num_ranks, rank):
    n = num_ranks
    ops = []
    for d in range(1, n):
        ops.append(["post_recv", "x", (rank - d) % n, (rank - d) % n])
        ops.append(["send", "x", rank, (rank + d) % n])
    ops.append(["gemm", "y", rank])
    for d in range(1, n):
        ops.append(["wait", "x", (rank - d) % n, (rank - d) % n])
        ops.append(["gemm", "y", (rank - d) % n])
        ops.append(["wait_send", "x", rank, (rank + d) % n])
    return ops


def gemm_reduce_scatter_schedule(num_ranks, rank):
    n, ops = num_ranks, []
    for d in range(1, n):
        ops.append(("post_recv", "y", rank, (rank - d) % n))
        ops.append(("gemm", "y", (rank + d) % n))
        ops.append(("send", "y", (rank + d) % n, (rank + d) % n))
    ops.append(("gemm", "y", rank))
    for d in range(1, n):
        ops.append(("wait", "y", rank, (rank - d) % n))
        ops.append(("add", "y", rank, (rank - d) % n))
        ops.append(("wait_send", "y", (rank + d) % n, (rank + d) % n))
    return ops
