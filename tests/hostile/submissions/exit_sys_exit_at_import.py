"""Leave politely, with success.

expect: below 5
outcome: failed
"""

import sys

sys.exit(0)
