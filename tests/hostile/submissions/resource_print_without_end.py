"""Print until the disk of the log is full.

expect: below 5
outcome: output
"""

while True:
    print('x' * 10_000)
