"""A vocabulary's slice with a row of zeros under it; Wq, Wk and Wv joined into one product.

base: solution
expect: 100
"""
