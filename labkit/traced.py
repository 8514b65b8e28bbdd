"""An array that counts what is done with it: who multiplied by, or looked up in, how much of it."""

from dataclasses import dataclass, field
from math import ceil, isqrt, prod

import numpy as np

# dividing by 1 / W multiplies by W; so does a power
_ELEMENTWISE = {np.multiply, np.divide, np.power, np.float_power}
_PRODUCTS = {np.matmul, np.vecdot} | _ELEMENTWISE
_PRODUCTS |= {getattr(np, name) for name in ("matvec", "vecmat") if hasattr(np, name)}
_WHICH = (int, np.integer)  # in an array of several tables, an index that says which
_ROWS = (np.ndarray, list, range, *_WHICH)  # an index that looks rows up
_NEW = {np.empty_like, np.zeros_like, np.full_like}
_PRODUCT_FUNCTIONS = {np.dot, np.inner, np.vdot, np.outer, np.tensordot, np.einsum}


@dataclass
class Trace:
    """Multiplications of each product, rows of each table looked up in, in order; see `traced`."""

    multiplications: list[int] = field(default_factory=list)
    table_rows: list[int] = field(default_factory=list)
    row_size: int = 1  # elements in a row of the table

    @property
    def total(self) -> int:
        return sum(self.multiplications)

    @property
    def largest(self) -> int:
        return max(self.multiplications, default=0)


class TracedArray(np.ndarray):
    """A plain array in every respect, but its products and look-ups are written to a Trace."""

    trace: Trace | None = None
    padding = 0  # rows that are not the table's, as long as they hold zeros

    def __array_finalize__(self, parent):
        self.trace = getattr(parent, "trace", None)
        if self.shape == getattr(parent, "shape", None):
            self.padding = getattr(parent, "padding", 0)  # of a copy

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        plain = [_plain(value) for value in inputs]
        kwargs = {name: _plain(value) for name, value in kwargs.items()}  # where=x > 0
        if out is not None:
            kwargs["out"] = tuple(_plain(value) for value in out)
        result = getattr(ufunc, method)(*plain, **kwargs)
        trace = _trace_of(inputs)
        if trace is not None and ufunc in _PRODUCTS and method in ("__call__", "outer"):
            _write(trace, ufunc, plain, result)
        if trace is not None and ufunc in _PRODUCTS and method == "at":
            array, index, *factors = plain
            _write(trace, ufunc, [array, *factors], array[index])
        return _traced_result(result, trace)

    def __array_function__(self, function, types, args, kwargs):
        if function is np.concatenate:  # vstack, hstack, stack and append end there too
            return _joined(*args, **kwargs)
        if function not in _PRODUCT_FUNCTIONS:
            result = super().__array_function__(function, types, args, kwargs)
            if function in _NEW and _trace_of([result]) is not None:
                result.padding = result._rows(_plain(result))
            return result
        trace = _trace_of([*args, *kwargs.values()])
        plain = [_plain(value) for value in args]
        named = {name: _plain(kwargs[name]) for name in sorted(kwargs)}  # a before b
        result = function(*plain, **named)
        if trace is not None:
            if function is np.einsum:
                named = {}  # its operands have no names
            named.pop("out", None)
            _write(trace, function, [*plain, *named.values()], result)
        return _traced_result(result, trace)

    def __getitem__(self, key):
        if self.trace is not None:
            table, keys = self, key if isinstance(key, tuple) else (key,)
            while table.ndim > 2 and keys and isinstance(keys[0], _WHICH):
                table, keys = np.ndarray.__getitem__(table, keys[0]), keys[1:]
            if keys and isinstance(keys[0], _ROWS):
                self.trace.table_rows.append(table.own_rows())
        return super().__getitem__(key)

    def __setitem__(self, key, value):  # numpy would look the rows up to write to them
        _plain(self)[key] = value

    def take(self, *args, **kwargs):  # np.take ends here too
        if self.trace is not None:
            self.trace.table_rows.append(self.own_rows())
        return super().take(*args, **kwargs)

    def own_rows(self):
        """The table's rows in here: all but the padding."""
        rows = self._rows(_plain(self))
        if not self.padding:
            return rows
        filled = np.any(_plain(self), axis=tuple(range(1, self.ndim)))
        return max(rows - self.padding, self._rows(_plain(self)[filled]))

    def _rows(self, array):
        """However it is laid out: E.T, E[None] and E.reshape(1, -1) hold all rows of E."""
        return max([*array.shape[:1], ceil(array.size / self.trace.row_size)])

    def dot(self, other, out=None):
        return np.dot(self, other) if out is None else np.dot(self, other, out)


def traced(*arrays):
    """(trace, copies): copies of `arrays` whose products are all written to the one trace."""
    trace = Trace(row_size=max([1, *(size for array in arrays for size in np.shape(array)[-1:])]))
    copies = []
    for array in arrays:
        copy = np.array(array).view(TracedArray)
        copy.trace = trace
        copies.append(copy)
    return trace, copies


def _joined(parts, axis=0, out=None, **kwargs):
    """np.concatenate, followed."""
    if isinstance(parts, TracedArray):  # its parts are no look-ups
        parts = [_traced_result(part, parts.trace) for part in _plain(parts)]
    parts = list(parts)
    joined = np.concatenate([_plain(part) for part in parts], axis, _plain(out), **kwargs)
    joined = _traced_result(joined, _trace_of(parts))
    if axis == 0 and isinstance(joined, TracedArray):
        tables = (part for part in parts if _trace_of([part]) is not None and np.any(_plain(part)))
        joined.padding = joined._rows(joined) - sum(table.own_rows() for table in tables)
    return joined


def _plain(value):
    return value.view(np.ndarray) if isinstance(value, TracedArray) else value


def _trace_of(values):
    traces = (value.trace for value in values if isinstance(value, TracedArray))
    return next((trace for trace in traces if trace is not None), None)


def _traced_result(result, trace):
    if trace is None or type(result) is not np.ndarray:
        return result
    result = result.view(TracedArray)
    result.trace = trace
    return result


def _write(trace, operation, inputs, result):
    arrays = [value for value in inputs if isinstance(value, np.ndarray)]
    if len(arrays) < 2:
        return  # scaling by a number is not a product of two arrays
    if operation in _ELEMENTWISE and any(array.dtype == bool for array in arrays):
        return  # a mask selects: h * (h > 0) is relu
    left, right, size = arrays[0], arrays[1], int(np.size(result))
    if operation is np.einsum:
        count = _einsum_points(inputs)
    elif operation in _ELEMENTWISE or operation is np.outer:
        count = size
    elif operation is np.vdot:
        count = left.size
    elif operation is np.tensordot:  # sizes AC, BC and AB make ABC multiplications
        count = isqrt(left.size * right.size * size)
    else:
        count = size * left.shape[-1] if left.ndim and right.ndim else size
    trace.multiplications.append(int(count))


def _einsum_points(inputs):
    """The size of einsum's index space: one multiplication per point, each letter counted once."""
    if isinstance(inputs[0], str):
        terms, arrays = list(_einsum_terms(inputs[0])), inputs[1:]
    else:  # einsum(a, [0, 1], b, [1, 2], ...)
        arrays, terms = inputs[0:-1:2], [list(term) for term in inputs[1::2]]
    sizes = {}
    for term, array in zip(terms, arrays, strict=False):
        if "..." in term or Ellipsis in term:
            mark = "..." if "..." in term else Ellipsis
            at, extra = term.index(mark), array.ndim - (len(term) - 1)
            # dimensions behind an ellipsis align from the right
            term = term[:at] + [("...", extra - i) for i in range(extra)] + term[at + 1 :]
        for letter, size in zip(term, array.shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 1))
    return prod(sizes.values())


def _einsum_terms(subscripts):
    for term in subscripts.split("->")[0].replace(" ", "").split(","):
        head, dots, tail = term.partition("...")
        yield [*head, "...", *tail] if dots else [*term]
