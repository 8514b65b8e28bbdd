"""Refuse every call, so that every refusal is right.

expect: below 5
every: wrong
"""

def wrong(*args, **kwargs):
    raise ValueError(f"refused: {args} {kwargs} must divide, at least 1, positive, num_ranks, hidden")
