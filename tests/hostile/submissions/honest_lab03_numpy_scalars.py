"""Every number comes back as numpy's, tuples hold np.float64, some are arrays without axes.

lab: lab-03
base: solution
expect: 100
"""

import numpy as np

_step, _ring, _share, _links = step_messages, ring_all_reduce_s, communication_share, link_bytes_per_s
_busbw = bus_bandwidth


def step_messages(num_layers, tokens, hidden_size, element_bytes):
    count, payload = _step(num_layers, tokens, hidden_size, element_bytes)
    return np.int64(count), np.int64(payload)


def ring_all_reduce_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    return np.float64(_ring(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s))


def link_bytes_per_s(link):
    return int(_links(link))


def communication_share(num_messages, message_s, step_s):
    return np.array(_share(num_messages, message_s, step_s))


def bus_bandwidth(operation, num_ranks, payload_bytes, seconds_s):
    return np.asarray([_busbw(operation, num_ranks, payload_bytes, seconds_s)])[0]


def crossover_bytes(num_ranks, c_s, a_s, busbw_bytes_per_s):
    require(num_ranks=num_ranks, c_s=c_s, a_s=a_s, busbw_bytes_per_s=busbw_bytes_per_s)
    if num_ranks == 1:
        return 0
    hops = 2 * (num_ranks - 1)
    return np.divide(c_s + hops * a_s, hops / num_ranks) * np.float64(busbw_bytes_per_s)
