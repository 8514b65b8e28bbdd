"""Leave politely, with success.

expect: below 5
"""

import sys

sys.exit(0)
