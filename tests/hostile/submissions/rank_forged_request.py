"""A rank asks for collectives that a group does not have, with objects in the place of arrays.

base: solution
expect: below 100, above 0
loses: test_attention_rank__*
keeps: test_row_parallel__equals*
"""

def attention_rank(x, Wq, Wk, Wv, Wo, head_dim, group):
    for operation in ("__init__", "_meet", "broadcast", "__deepcopy__"):
        try:
            group._meet(operation, x, None)
        except Exception:
            pass
    for array in ({"a": 1}, [x], None, "x" * 1000, x.astype(object) if x.size < 0 else 3):
        group._meet("all_reduce", array, -(1 << 60))
    return x
