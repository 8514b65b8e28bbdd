"""input() at the top of the file.

expect: below 5
"""

name = input('Your name? ')
