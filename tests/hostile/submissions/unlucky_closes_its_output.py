"""Honest, and tidy: closes what it printed to.

base: solution
expect: 100
"""

import sys

sys.stdout.close()
