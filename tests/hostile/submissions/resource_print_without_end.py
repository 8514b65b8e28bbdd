"""Print until the disk of the log is full.

expect: below 5
outcome: output
live: no
"""

while True:
    print('x' * 10_000)
