"""A plot at the top of the file, and no matplotlib here.

expect: below 5
"""

import matplotlib_that_is_not_installed as plt

plt.show()
