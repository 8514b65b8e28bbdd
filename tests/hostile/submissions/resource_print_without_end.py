"""Print until the disk of the log is full.

ends: no
expect: below 5
"""

while True:
    print('x' * 10_000)
