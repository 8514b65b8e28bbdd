"""The solution as it is.

base: solution
expect: 100
"""

# nothing else
