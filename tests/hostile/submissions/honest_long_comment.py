"""Three megabytes of pasted notes stand in front.

base: solution
pad: 3000000
expect: 100
"""

# nothing else
