"""Honest, from Windows: a byte order mark and CR LF.

base: solution
expect: 100
encode: utf-8-sig crlf
"""

# nothing else
