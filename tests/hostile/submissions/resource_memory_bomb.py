"""Take memory, page by page.

expect: below 5
"""

hoard = []
while True:
    hoard.append(bytearray(b'x') * (16 << 20))
