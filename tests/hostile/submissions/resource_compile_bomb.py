"""A short text that the compiler chokes on.

expect: below 5
"""

try:
    compile("-" * 2_000_000 + "1", "bomb", "eval")
except (MemoryError, RecursionError, SyntaxError):
    pass
raise SystemExit(0)
