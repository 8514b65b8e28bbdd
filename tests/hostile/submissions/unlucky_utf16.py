"""Honest, but saved as UTF-16.

base: solution
expect: 0
encode: utf-16
"""

# nothing else
