"""Honest, but saved as UTF-16.

base: solution
expect: 0
outcome: unreadable
encode: utf-16
"""

# nothing else
