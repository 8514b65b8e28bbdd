"""A method that the group does not have is told as Python tells it at home, and costs its task alone.

base: solution
expect: above 80, below 100
loses: test_attention_rank*
keeps: test_row_parallel_*
says: AttributeError: 'Group' object has no attribute 'allreduce'
"""


def attention_rank(x, Wq, Wk, Wv, Wo, head_dim, group):
    return group.allreduce(x)
