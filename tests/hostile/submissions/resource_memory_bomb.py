"""Take memory, page by page.

expect: below 5
outcome: memory
"""

hoard = []
while True:
    hoard.append(bytearray(b'x') * (16 << 20))
