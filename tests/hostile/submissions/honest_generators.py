"""Generators, closures, itertools, functools.reduce, a context manager of its own.

base: solution
expect: 100
"""

import contextlib
import functools
import itertools
import operator
import time


@contextlib.contextmanager
def timed(what):
    start = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - start:.6f} s")


def blocks(step):
    return (slice(a, b) for a, b in itertools.pairwise(itertools.count(0, step)))


def row_parallel(x, W, num_ranks):
    step = shard_size("in_features", W.shape[1], num_ranks)

    def partials():
        for mine in itertools.islice(blocks(step), num_ranks):
            with timed(f"rank {mine}"):
                yield functools.partial(operator.matmul, x[..., mine])(W[:, mine].T)

    y, *others = all_reduce([*partials()])
    assert all(np.array_equal(y, other) for other in others)
    return y


def column_parallel(x, W, num_ranks):
    step = shard_size("out_features", W.shape[0], num_ranks)
    shards = functools.reduce(
        lambda have, mine: [*have, x @ W[mine].T], itertools.islice(blocks(step), num_ranks), []
    )
    return all_gather(shards)[0]
