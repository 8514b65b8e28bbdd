"""An exception that only calls itself ValueError.

expect: below 5
every: wrong
"""

Fake = type('ValueError', (Exception,), {'__module__': 'builtins'})


def wrong(*args, **kwargs):
    raise Fake('ffn_width 10 4 in_features 14 num_ranks')
