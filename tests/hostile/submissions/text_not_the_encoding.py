"""A declared encoding that does not exist.

expect: below 5
first: # -*- coding: evil-8 -*-
"""

pass
