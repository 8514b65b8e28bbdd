"""Honest, and looks whether somebody typed something.

base: solution
expect: 100
"""

import sys

sys.stdin.read()
