"""Honest, in Latin-1 and saying so.

base: solution
expect: 100
encode: latin-1
first: # -*- coding: latin-1 -*-
"""

# été
