"""Honest, with experiments below __main__.

base: solution
expect: 100
"""

if __name__ == '__main__':
    raise SystemExit('this part is for the command line')
