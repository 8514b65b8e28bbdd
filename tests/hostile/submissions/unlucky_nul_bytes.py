"""Honest, with a NUL byte at the end.

base: solution
expect: 0
encode: nul
"""

# nothing else
