"""The instructor's tool: grade untrusted hand-ins of the labs; `python -m grading --help`.

The instructor's process runs the pristine tests; a hand-in runs in a cell of its own and exchanges
plain values with it. CONTRIBUTING.md says against whom this defends, and what is not promised.
"""
