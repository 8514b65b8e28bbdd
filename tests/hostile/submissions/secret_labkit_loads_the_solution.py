"""Ask labkit for the solution, as the tests do.

expect: below 5
every: wrong
"""

try:
    from labkit.loading import find_labs, load_module

    LABS = find_labs()
    MODULE = load_module(LABS[0].file("solution"))
except Exception:
    MODULE = None


def wrong(*args, **kwargs):
    return MODULE.row_parallel(*args)
