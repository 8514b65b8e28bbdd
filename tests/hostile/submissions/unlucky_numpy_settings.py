"""Honest, with numpy told to raise and print otherwise.

base: solution
expect: 100
"""

np.seterr(all='raise', under='ignore')
np.set_printoptions(precision=1)
