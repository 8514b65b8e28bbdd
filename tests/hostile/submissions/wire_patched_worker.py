"""Replace the worker's own functions by ones that claim success.

expect: below 5
every: wrong
"""

import __main__

claim = ("passed", {"points": 100, "outcome": "passed"}, None)
__main__.Worker.raised = lambda self, error: claim
__main__.Worker.call = lambda self, *request: claim


def wrong(*args, **kwargs):
    return 1
