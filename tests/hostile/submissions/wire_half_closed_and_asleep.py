"""Close half of the connection and stay.

base: solution
expect: below 100, above 0
outcome: crashed
loses: test_legal_tp_sizes_*
says: closed its connection
"""

import socket
import time


def legal_tp_sizes(*args):
    socket.socket(fileno=3).shutdown(socket.SHUT_WR)
    time.sleep(1000)
