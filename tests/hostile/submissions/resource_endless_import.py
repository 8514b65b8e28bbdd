"""A training loop at the top of the file.

expect: below 5
outcome: timeout
"""

while True:
    pass
