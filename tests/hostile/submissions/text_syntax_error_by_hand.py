"""A syntax error whose line is no number.

expect: 0
every: wrong
outcome: protocol
"""

error = SyntaxError("m" * 100000)
error.lineno, error.msg = "\x1b[2J" * 1000, ["not", "text"]
raise error


def wrong():
    pass
