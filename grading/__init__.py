"""The instructor's tool: grade untrusted submissions; `python -m grading --help`.

What a determined student could still do: whether a call left its inputs as they were is reported
by the worker, in which the student's code runs, so a submission that rewrites the worker can hide
that it changed them (the tests' own arrays never change by it). A call whose answer differs from
the solution's in a way the tests permit is not made again with hidden numbers.
"""
