"""Switch off every timer and signal, then loop.

base: solution
expect: below 100, above 0
outcome: timeout
loses: test_legal_tp_sizes_*
"""

import signal

signal.alarm(0)
signal.setitimer(signal.ITIMER_REAL, 0)
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass


def legal_tp_sizes(*args):
    while True:
        pass
