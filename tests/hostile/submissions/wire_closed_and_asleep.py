"""Close the connection and stay.

base: solution
expect: below 100, above 0
outcome: crashed
loses: test_legal_tp_sizes_*
says: closed its connection
"""

import os
import time


def legal_tp_sizes(*args):
    os.close(3)
    time.sleep(1000)
