"""Honest, with CR alone at the ends of lines.

base: solution
expect: 100
encode: cr
"""

# nothing else
