"""The one exception of this tool for what a person can put right."""


class Problem(Exception):
    """str() is one sentence: what was wrong, what is accepted, what to do."""
