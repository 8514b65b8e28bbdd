"""Refuse everything, in words that fit every test.

expect: below 15
every: wrong
outcome: failed
"""

def wrong(*args, **kwargs):
    raise ValueError('ffn_width 10 4 7 2 3 8 48 0 -2 14 5 10 num_heads num_kv_heads widths max_tp_size')
