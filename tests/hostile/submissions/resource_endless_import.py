"""A training loop at the top of the file.

ends: no
expect: below 5
"""

while True:
    pass
