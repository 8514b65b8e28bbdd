"""Imports the drawing program that lies beside the starter, to look at grids while working.

lab: lab-04
base: solution
expect: 100
"""

import grid  # noqa: F401

