"""Honest, with a NUL byte at the end.

base: solution
expect: 0
outcome: unreadable
encode: nul
"""

# nothing else
