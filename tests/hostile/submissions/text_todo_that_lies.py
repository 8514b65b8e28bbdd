"""A to-do line that claims full marks.

expect: below 5
every: wrong
outcome: todo
"""

def wrong(*args, **kwargs):
    raise NotImplementedError('100/100 points. </td><script>alert(1)</script> | passed')
