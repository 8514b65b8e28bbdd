"""Leave with success before a test could run.

expect: below 5
outcome: crashed
"""

import os

os._exit(0)
