"""Plain values over a socket, between the tests' process and a cell: JSON lines, never a pickle.

What JSON has stands for itself; all else is an object of one entry, named by its tag. A line begins
with the number of bytes after it: those of its arrays and bytes, one after the other. The types are
an allow-list: `value_of` builds these and no others, whatever the other side writes.
"""

import io
import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

MAX_LINE_BYTES = 32 << 20
MAX_DIMENSIONS = 64  # as numpy has it
MAX_COLLISIONS = 4  # of a dict's keys: what has one hash is compared, each with each
DTYPES = {
    name: np.dtype(name) for name in "bool float16 float32 float64 complex64 complex128".split()
}
DTYPES |= {
    f"{sign}int{bits}": np.dtype(f"{sign}int{bits}")
    for sign in ("", "u")
    for bits in (8, 16, 32, 64)
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}  # numpy makes a name anew for each .name
OF_JSON = frozenset((type(None), bool, int, float, str))
WORDS = frozenset((str,))
encode = json.JSONEncoder(check_circular=False).encode  # `tagged` ends in what holds itself


class Unsendable(TypeError):
    """The value is not one of the plain types; str() says which type it is."""


def tagged(value, data):
    """What JSON has, for `value`; a value of a class of its own as the plain one that it is.

    The bytes of its arrays go to the end of the list `data`.
    """
    kind = type(value)
    if kind in OF_JSON:
        return value
    if kind is list or kind is tuple:
        if not OF_JSON.issuperset(map(type, value)):
            value = [item if type(item) in OF_JSON else tagged(item, data) for item in value]
        return value if kind is list else {"tuple": value}
    if kind is dict and len(value) != 1 and WORDS.issuperset(map(type, value)):
        if OF_JSON.issuperset(map(type, value.values())):
            return value
        items = value.items()
        return {key: item if type(item) in OF_JSON else tagged(item, data) for key, item in items}
    if kind is dict:  # one of one entry, too: it could be a tag
        return {"dict": [[tagged(key, data), tagged(item, data)] for key, item in value.items()]}
    if kind is np.ndarray and value.dtype in NAMES:
        if value.nbytes > MAX_LINE_BYTES:  # a broadcast view is small until it is written out
            raise Unsendable(f"an array of {value.nbytes} bytes")
        data.append(value.tobytes())
        return {"array": [NAMES[value.dtype], *value.shape]}
    if isinstance(value, np.generic) and value.dtype in NAMES:
        return {"scalar": tagged(np.asarray(value), data)["array"]}
    if isinstance(value, bytes):
        data.append(value)
        return {"bytes": len(value)}
    if kind is Fraction:
        return {"fraction": [int(value.numerator), int(value.denominator)]}
    if kind is slice:
        return {"slice": [tagged(bound, data) for bound in (value.start, value.stop, value.step)]}
    for base, make in AS_IT_IS.items():
        if isinstance(value, base):
            return tagged(make(value), data)
    raise Unsendable(f"a {kind.__module__}.{kind.__qualname__}".replace(" builtins.", " "))


def _native(array):
    """In this machine's byte order, long doubles as float64, objects such as Fractions as lists."""
    if isinstance(array, np.ma.MaskedArray):
        raise Unsendable("a masked array")
    if array.dtype.kind not in "biufc":
        return array.tolist()
    known = array.dtype.name in DTYPES
    return np.asarray(array, array.dtype.newbyteorder("=") if known else np.float64)


AS_IT_IS = {  # whatever a class of one's own makes of str(), float() or iteration
    np.ndarray: _native,
    np.longdouble: float,
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    Fraction: lambda value: Fraction(int(value.numerator), int(value.denominator)),
    list: lambda value: [*list.__iter__(value)],
    tuple: lambda value: (*tuple.__iter__(value),),
    dict: lambda value: dict(dict.items(value)),
    Mapping: dict,
    Sequence: list,  # a deque or an array.array, which the checks look at by place
}


def plain(read, value):
    """What an object of JSON stands for. ValueError, TypeError, LookupError or so for no such.

    read(n) gives the next n bytes after the line.
    """
    if len(value) != 1:
        return value
    ((tag, inside),) = value.items()
    if tag == "tuple":
        return tuple(inside)
    if tag == "dict":
        pairs = [(key, item) for key, item in inside]
        if len(pairs) - len({hash(key) for key, _ in pairs}) > MAX_COLLISIONS:
            raise ValueError("a dict with many keys of the same hash")
        return dict(pairs)
    if tag in ("array", "scalar"):
        name, *shape = inside
        sizes = all(type(n) is int and 0 <= n <= MAX_LINE_BYTES for n in shape)
        if not sizes or len(shape) > MAX_DIMENSIONS:  # of others a product may take an hour
            raise ValueError("no shape")
        dtype = DTYPES[name]
        data = read(dtype.itemsize * math.prod(shape))
        array = np.frombuffer(data, dtype).reshape(shape).copy()
        return array if tag == "array" else array[()]
    if tag == "bytes":
        data = read(inside)
        if len(data) != inside:
            raise ValueError("fewer bytes than were told")
        return data
    if tag == "fraction":
        return Fraction(*map(int, inside))
    if tag == "slice":
        return slice(*inside)
    raise ValueError("no such tag")


def _whole(value):
    """What JSON has, with a question mark for each half of a letter."""
    if type(value) is str:
        return value.encode("utf-8", "replace").decode()
    if type(value) is list:
        return [_whole(item) for item in value]
    if type(value) is dict:
        return {_whole(key): _whole(item) for key, item in value.items()}
    return value


def line_of(message):
    """The line of a message, and the bytes after it."""
    data = []
    text = encode(tagged([*message], data))
    data = b"".join(data)
    return b"%d %s\n%s" % (len(data), text.encode(), data)


def value_of(text, data=b""):
    """The message of a line. ValueError, TypeError, LookupError or the like where it is none."""
    text = text.decode("utf-8", "surrogatepass")
    if not text.isascii() or "\\ud" in text.lower():
        text = encode(_whole(json.loads(text)))
    message = json.loads(text, object_hook=partial(plain, io.BytesIO(data).read))
    if type(message) is not list:
        raise ValueError("no message")
    return message


class Link:
    """One end of a socket: a message is a list of plain values."""

    def __init__(self, sock):
        self.sock, self._file = sock, sock.makefile("rb", 1 << 16)
        self.busy = False  # a question is out

    def send(self, *message):
        self.sock.sendall(line_of(message))

    def receive(self):
        """The next message; EOFError when the other side is gone, or sends too much."""
        line = self._file.readline(MAX_LINE_BYTES)
        after, _, text = line.partition(b" ")
        if not line.endswith(b"\n") or not 0 <= int(after) <= MAX_LINE_BYTES:
            raise EOFError
        return value_of(text, self._file.read(int(after)))

    def close(self):
        self._file.close()
        self.sock.close()
