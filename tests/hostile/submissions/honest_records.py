"""Imports `record` for the main block, and checks its own ledger while it works.

base: solution
expect: 100
"""

import collectives
from collectives import Ledger, all_gather, all_reduce, record, reduce_scatter

_mlp = mlp_tp


def mlp_tp(x, W1, W2, num_ranks):
    with collectives.record() as ledger:
        y = _mlp(x, W1, W2, num_ranks)
    if num_ranks > 1:
        (call,) = ledger.calls
        assert call.operation == "all_reduce" and call.num_ranks == num_ranks
        assert call.payload_bytes == y.nbytes and call.order == 0
        assert ledger.sent_bytes_per_rank * num_ranks == 2 * (num_ranks - 1) * y.nbytes
    return y


if __name__ == "__main__":
    with record() as ledger:
        mlp_tp(np.ones((3, 4)), np.ones((4, 6)), np.ones((6, 5)), 2)
    print(ledger)
