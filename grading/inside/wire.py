"""Plain values as bytes, both ways, between the judge and a sandbox. There is no pickle here.

A frame is a 4-byte little-endian length and one value. A value is a tag, a 4-byte size and its
content: so many bytes, or so many values. The types are an allow-list, and `decode` builds exactly
those types, never a subclass. Every size is checked against what has arrived before anything is
allocated. It is Python and not a library's C, because the judge, which reads what hostile code
wrote, stands outside the walls.
"""

import itertools
import math
import struct
from fractions import Fraction

import numpy as np

MAX_FRAME_BYTES = 16 << 20
MAX_VALUES = 400_000  # in one frame
ARRAY_VALUES = 40  # that an array counts as, however few its elements: it is as large in memory
MAX_DEPTH = 32
MAX_INT_BYTES = 512  # 1,233 digits, fewer than Python refuses to print
MAX_DICT_ENTRIES = 1024  # keys that collide cost the square of this

MAX_TEXT = 2000  # of an exception's message

DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "float16 float32 float64 complex64 complex128"
).split()
_DTYPES = [np.dtype(name) for name in DTYPES]
_CODES = {dtype: code for code, dtype in enumerate(_DTYPES)}
_SCALARS = [dtype.type for dtype in (*_DTYPES, np.dtype("q"), np.dtype("Q"))]  # long long
_CONSTANTS = {None: b"N", False: b"F", True: b"T"}
_NAMED = {name: value for value, name in _CONSTANTS.items()}

_LENGTH = struct.Struct("<I")
_HEAD = struct.Struct("<cI")
_FLOAT64 = struct.Struct("<d")
_ARRAY = struct.Struct("<BB")


class Unsendable(TypeError):
    """The value is not one of the plain types; str() says which type it is."""


class BadFrame(ValueError):
    """The bytes are not a frame this module would have written."""


def frame(value, default=None) -> bytes:
    """`value` with its length in front, ready for a socket."""
    data = encode(value, default)
    return _LENGTH.pack(len(data)) + data


def take_frame(data: bytearray) -> bytes | None:
    """The first frame's value, taken out of what has arrived; None while it is not all there."""
    if len(data) < _LENGTH.size:
        return None
    end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    if end > _LENGTH.size + MAX_FRAME_BYTES:
        raise BadFrame("frame too long")
    if len(data) < end:
        return None
    content = bytes(data[_LENGTH.size : end])
    del data[:end]
    return content


# --- to bytes -----------------------------------------------------------------------------------


def encode(value, default=None) -> bytes:
    """The bytes of `value`.

    Raises Unsendable for any type outside the allow-list, subclasses included, unless `default`
    makes one of the list of it, as in json.dumps.
    """
    parts: list = []
    _encode(value, default, parts, 0)
    data = b"".join(parts)
    if len(data) > MAX_FRAME_BYTES:
        raise _too_large(len(data))
    return data


def _encode(value, default, parts, depth):
    kind = type(value)
    form = _FORM_OF.get(kind)
    if form is None or (kind is np.ndarray and value.dtype not in _CODES):
        value = default(value) if default else value
        kind = type(value)
        form = _FORM_OF.get(kind)
        if kind is np.ndarray and value.dtype not in _CODES:
            raise Unsendable(f"a numpy array of dtype {value.dtype}")
        if form is None:
            name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
            raise Unsendable(f"a {name}")
    tag, content_of = form
    content = content_of(value)
    if tag not in _CONTAINERS:
        parts.append(_HEAD.pack(tag, len(content)) + content)
        return
    if depth >= MAX_DEPTH:
        raise Unsendable(f"values nested more than {MAX_DEPTH} deep")
    if len(content) + len(parts) > MAX_VALUES:
        raise Unsendable(f"more than {MAX_VALUES} values")
    parts.append(_HEAD.pack(tag, len(content)))
    for item in content:
        _encode(item, default, parts, depth + 1)


def _too_large(size):
    return Unsendable(f"a value of {size} bytes; the limit is {MAX_FRAME_BYTES}")


def _of_int(value):
    size = value.bit_length() // 8 + 1
    if size > MAX_INT_BYTES:
        raise Unsendable(f"an int of {size} bytes; the limit is {MAX_INT_BYTES}")
    return value.to_bytes(size, "little", signed=True)


def _of_str(value):
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise Unsendable("a str with lone surrogates, which is not text") from None


def _of_array(value):
    if value.nbytes > MAX_FRAME_BYTES:  # a broadcast view is small until it is written out
        raise _too_large(value.nbytes)
    head = _ARRAY.pack(_CODES[value.dtype], value.ndim)
    return head + struct.pack(f"<{value.ndim}Q", *value.shape) + value.tobytes()


def _of_dict(value):
    if len(value) > MAX_DICT_ENTRIES:
        raise Unsendable(f"a dict of {len(value)} entries; the limit is {MAX_DICT_ENTRIES}")
    return [*itertools.chain.from_iterable(value.items())]


def _of_slice(value):
    bounds = value.start, value.stop, value.step
    if not all(isinstance(bound, (int, np.integer, type(None))) for bound in bounds):
        raise Unsendable("a slice whose bounds are no ints")
    return [bound if bound is None else int(bound) for bound in bounds]


# --- from bytes ---------------------------------------------------------------------------------


def decode(data: bytes):
    """The value in `data`, all of it. BadFrame for anything `encode` would not have written."""
    if len(data) > MAX_FRAME_BYTES:
        raise BadFrame("too long")
    reader = _Reader(data)
    try:
        value = reader.value(0)
    except BadFrame:
        raise
    except (struct.error, LookupError, ValueError, TypeError) as error:
        raise BadFrame(type(error).__name__) from None
    if reader.at != len(data):
        raise BadFrame("trailing bytes")
    return value


class _Reader:
    """One pass over the bytes."""

    __slots__ = ("data", "at", "values")

    def __init__(self, data):
        self.data, self.at, self.values = data, 0, 0

    def value(self, depth):
        tag, size = _HEAD.unpack_from(self.data, self.at)
        start = self.at = self.at + _HEAD.size
        if size > len(self.data) - start:  # the items of a container take bytes, too
            raise BadFrame("cut short")
        self.values += size if tag in _CONTAINERS else ARRAY_VALUES if tag == b"a" else 0
        if self.values > MAX_VALUES:
            raise BadFrame("too many values")
        if tag not in _CONTAINERS:
            self.at += size
            return _BUILT[tag](self.data[start : self.at])
        if depth >= MAX_DEPTH:
            raise BadFrame("too deep")
        return _BUILT[tag]([self.value(depth + 1) for _ in range(size)])


def _to_int(data):
    value = int.from_bytes(data, "little", signed=True)
    if len(data) > MAX_INT_BYTES or len(data) != value.bit_length() // 8 + 1:
        raise BadFrame("an int of another length")
    return value


def _to_array(data):
    code, ndim = _ARRAY.unpack_from(data)
    shape = struct.unpack_from(f"<{ndim}Q", data, _ARRAY.size)
    if math.prod(max(size, 1) for size in shape) > MAX_FRAME_BYTES:
        raise BadFrame("array too large")
    dtype = _DTYPES[code]
    octets = np.frombuffer(data, np.uint8, offset=_ARRAY.size + 8 * ndim).copy()
    if dtype.kind == "b" and octets.size and octets.max() > 1:
        raise BadFrame("a bool that is neither 0 nor 1")
    return octets.view(dtype).reshape(shape)


def _to_scalar(data):
    array = _to_array(data)
    if array.ndim:
        raise BadFrame("not a scalar")
    return array[()]


def _to_dict(items):
    if len(items) > 2 * MAX_DICT_ENTRIES:
        raise BadFrame("dict too large")
    built = dict(zip(items[::2], items[1::2], strict=True))
    if 2 * len(built) != len(items):
        raise BadFrame("duplicate keys")
    return built


def _to_fraction(items):
    numerator, denominator = items
    if type(numerator) is not int or type(denominator) is not int or denominator < 1:
        raise BadFrame("not a fraction")
    return Fraction(numerator, denominator)


def _to_slice(items):
    start, stop, step = items
    if any(type(bound) not in (int, type(None)) for bound in items):
        raise BadFrame("not a slice")
    return slice(start, stop, step)


_FORMS = {  # tag: whose it is, what stands after it, and what is made of that
    b"c": ((type(None), bool), _CONSTANTS.__getitem__, _NAMED.__getitem__),
    b"i": ((int,), _of_int, _to_int),
    b"f": ((float,), _FLOAT64.pack, lambda data: _FLOAT64.unpack(data)[0]),
    b"s": ((str,), _of_str, bytes.decode),
    b"b": ((bytes,), bytes, bytes),
    b"a": ((np.ndarray,), _of_array, _to_array),
    b"g": (_SCALARS, _of_array, _to_scalar),
    b"l": ((list,), list, list),
    b"t": ((tuple,), tuple, tuple),
    b"d": ((dict,), _of_dict, _to_dict),
    b"q": ((Fraction,), lambda value: (value.numerator, value.denominator), _to_fraction),
    b"S": ((slice,), _of_slice, _to_slice),
}
_CONTAINERS = frozenset((b"l", b"t", b"d", b"q", b"S"))
_FORM_OF = {kind: (tag, form[1]) for tag, form in _FORMS.items() for kind in form[0]}
_BUILT = {tag: built for tag, (_, _, built) in _FORMS.items()}
