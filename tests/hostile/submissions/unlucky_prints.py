"""Honest, with a print in every function.

base: solution
expect: 100
"""

for _name in ("shard_size", "column_parallel", "row_parallel", "mlp_tp"):

    def _loud(*args, _function=globals()[_name], **kwargs):
        print("called with", args)
        return _function(*args, **kwargs)

    globals()[_name] = _loud
