"""Exact inside: Fractions and Decimals, floats only at the end. Some results stay Fractions.

lab: lab-03
base: solution
expect: 100
"""

from decimal import Decimal, getcontext
from fractions import Fraction

getcontext().prec = 50


def decode_step_s(weight_bytes, num_ranks, memory_bytes_per_s):
    require(weight_bytes=weight_bytes, num_ranks=num_ranks, memory_bytes_per_s=memory_bytes_per_s)
    return float(Fraction(weight_bytes) / num_ranks / Fraction(memory_bytes_per_s))


def communication_share(num_messages, message_s, step_s):
    require(num_messages=num_messages, message_s=message_s, step_s=step_s)
    bill = num_messages * Decimal(message_s)
    return float(bill / (bill + Decimal(step_s))) if bill else 0


def latency_share(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    require(num_ranks=num_ranks, payload_bytes=payload_bytes, c_s=c_s, a_s=a_s)
    require(busbw_bytes_per_s=busbw_bytes_per_s)
    if num_ranks == 1:
        return Fraction(0)
    wait = Fraction(c_s) + 2 * (num_ranks - 1) * Fraction(a_s)
    move = Fraction(2 * (num_ranks - 1), num_ranks) * payload_bytes / Fraction(busbw_bytes_per_s)
    return float(wait / (wait + move)) if wait + move else 0


def expert_parallel_bytes(tokens, top_k, hidden_size, dispatch_element_bytes=1 + 4 / 128, combine_element_bytes=2):
    require(tokens=tokens, top_k=top_k, hidden_size=hidden_size)
    require(dispatch_element_bytes=dispatch_element_bytes, combine_element_bytes=combine_element_bytes)
    elements = tokens * top_k * hidden_size
    out = elements * Fraction(dispatch_element_bytes)
    return (int(out) if out == int(out) else float(out)), elements * combine_element_bytes


def link_bytes_per_s(link):
    try:
        number, unit = LINKS[link]["printed"]
    except (KeyError, TypeError):
        known = ", ".join(LINKS)
        raise ValueError(f"link {link!r} is unknown (B/s); known are {known}") from None
    return Fraction(number * 10**9, 2 if "both" in unit else 8)
