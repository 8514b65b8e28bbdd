"""An exception that `except Exception` does not see, on import.

expect: below 5
outcome: failed
"""

class Leave(BaseException):
    pass


raise Leave('all passed')
