"""Send the tests away.

expect: below 5
every: wrong
"""

import numpy as np
import socket
import urllib.request

for attempt in (
    lambda: socket.create_connection(("192.0.2.1", 80), timeout=0.2),
    lambda: urllib.request.urlopen("http://example.org", timeout=0.2),
    lambda: socket.socket(socket.AF_UNIX).connect("/var/run/docker.sock"),
):
    try:
        attempt()
    except Exception:
        pass


def wrong(*args, **kwargs):
    return np.zeros(1)
