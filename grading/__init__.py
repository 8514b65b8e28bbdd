"""The instructor's tool: grade untrusted submissions; `python -m grading --help`.

What a determined student could still do: whether a call left its inputs as they were is reported
by the worker, in which the student's code runs, so a submission that rewrites the worker can hide
that it changed them (the tests' own arrays never change by it). A function whose answer, a list,
tuple, dict or array, differs from the solution's in a way the check permits is not called again
with hidden numbers in that check; the instructor's notes say which checks these are.
Multiplications and look-ups are counted where numpy has them: a product made of
squares is not, and code that knows a counted array when it sees one can make the counted product
beside it.
"""
