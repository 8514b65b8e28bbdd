"""The instructor's tool: grade untrusted submissions; `python -m grading --help`."""
