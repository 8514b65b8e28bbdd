"""The untouched starter.

base: starter
expect: 0
outcome: todo
"""

# nothing else
