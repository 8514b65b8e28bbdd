"""A regular expression that takes for ever.

base: solution
ends: no
expect: below 100, above 0
loses: test_legal_tp_sizes_*
"""

import re


def legal_tp_sizes(*args):
    return re.match(r'(a+)+$', 'a' * 64 + 'b')
