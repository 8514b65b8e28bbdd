"""An assertion without text, on a line that the lab's own file does not have.

expect: below 5
every: wrong
outcome: failed
"""

exec(
    compile("\n" * 5000 + "def wrong(*args, **kwargs):\n    raise AssertionError", __file__, "exec")
)
