"""Text that terminals, browsers and spreadsheets would act on.

expect: below 5
every: wrong
"""

def wrong(*args, **kwargs):
    raise RuntimeError(
        "=HYPERLINK('http://evil') \x1b[2J\x1b]0;owned\x07 <script>alert(1)</script> ]]> &#x3C; \x00\x08"
        " \u202egnp.exe \ud800 100/100 passed " + "A" * 100_000
    )
