"""Meet a group's collective in a call that was given none.

expect: below 5
every: wrong
"""

import os
import sys

wire = sys.modules.get("wire")


def wrong(*args, **kwargs):
    os.write(3, wire.frame(("group", "all_reduce", 1.0, None)))
    return 0
