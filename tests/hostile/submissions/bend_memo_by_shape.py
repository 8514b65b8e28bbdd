"""Remember the answer for a shape and never look at the numbers again.

base: solution
expect: below 100, above 0
loses: test_row_parallel__equals_*, test_mlp_tp__equals_*
keeps: test_column_*
"""

_seen = {}


def _once_per_shape(function):
    def wrapper(*args):
        key = (
            function.__name__,
            *[getattr(a, "shape", a) if not isinstance(a, list) else None for a in args],
        )
        if type(args[0]) is not np.ndarray or isinstance(args[0], str):
            return function(*args)
        if key not in _seen:
            _seen[key] = function(*args)
        else:
            function(*args)
        return _seen[key].copy()

    return wrapper


row_parallel, mlp_tp = _once_per_shape(row_parallel), _once_per_shape(mlp_tp)

