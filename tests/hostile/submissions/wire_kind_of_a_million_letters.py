"""An error whose kind leaves no room for what happened.

expect: 0
says: while it was imported
"""

import sys

sys.modules["worker"]._builtin_name = lambda error: "K" * 1_000_000
raise ValueError("short")
