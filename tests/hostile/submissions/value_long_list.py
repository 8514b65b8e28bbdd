"""Ten million numbers.

base: starter
expect: 0
outcome: failed
"""

def legal_tp_sizes(*args):
    return [0] * 10_000_000
