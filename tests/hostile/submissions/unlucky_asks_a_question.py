"""input() at the top of the file.

expect: below 5
outcome: failed
"""

name = input('Your name? ')
