"""Plain values as bytes, both ways, between the judge and a sandbox. There is no pickle here.

A frame is a 4-byte little-endian length and one value. A value is a tag byte and its content; the
types are an allow-list and `decode` builds exactly those types, never a subclass. Every size is
checked against what has arrived before anything is allocated.

A handle stands for an array that stays with the judge: the sandbox holds only its number.
"""

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

# what the two sides of a call agree on
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
ARRAY_METHODS = tuple(
    "all any astype clip copy cumsum diagonal dot flatten max mean min prod ravel repeat reshape "
    "round squeeze std sum swapaxes take transpose var".split()
)
PRODUCTS = tuple("dot inner tensordot einsum outer".split())
GIVES_ONE_ARRAY = tuple(
    "where concatenate stack transpose swapaxes reshape repeat sum prod mean std var max min amax "
    "amin all any clip copy squeeze expand_dims moveaxis rollaxis ravel take zeros_like ones_like "
    "full_like empty_like triu tril flip flipud fliplr roll rot90 diagonal broadcast_to "
    "atleast_3d".split()
)
GIVES_SOMETHING_ELSE = tuple(
    "split array_split hsplit vsplit dsplit hstack vstack column_stack cumsum round argmax argmin "
    "take_along_axis atleast_1d atleast_2d matrix_transpose nan_to_num".split()
)
WRITES_TO_ITS_FIRST = tuple("copyto putmask place put fill_diagonal put_along_axis".split())
# how many of their positional arguments are no options, such as a dtype or a shape
LIKE = {"zeros_like": 1, "ones_like": 1, "empty_like": 1, "full_like": 2}
MAX_TEXT = 2000  # of an exception's message
MAX_NOTES = 256  # in one message
FIRST_PROMISE = 1 << 31  # numbers from here on are results of the same message's notes

DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "float16 float32 float64 complex64 complex128"
).split()
_CODES = {np.dtype(name): code for code, name in enumerate(DTYPES)}
_DTYPES = [np.dtype(name) for name in DTYPES]

_SIZE = struct.Struct("<I")
_INT64 = struct.Struct("<q")
_FLOAT64 = struct.Struct("<d")
_ARRAY = struct.Struct("<BB")
_SLICE = struct.Struct("<Bqqq")


class Handle:
    """Number `id` of an array that stays on the other side."""

    __slots__ = ("id",)

    def __init__(self, id):
        self.id = id


class Unsendable(TypeError):
    """The value is not one of the plain types; str() says which type it is."""


class BadFrame(ValueError):
    """The bytes are not a frame this module would have written."""


def encode(value, handle_of=None) -> bytes:
    """The bytes of `value`. `handle_of(value)` gives the number of an array that must stay here.

    Raises Unsendable for any type outside the allow-list, subclasses included.
    """
    parts: list = []
    _encode(value, parts, 0, handle_of)
    data = b"".join(parts)
    if len(data) > MAX_FRAME_BYTES:
        raise _too_large(len(data))
    return data


def _too_large(size):
    return Unsendable(f"a value of {size} bytes; the limit is {MAX_FRAME_BYTES}")


def _encode(value, parts, depth, handle_of):
    write = _WRITERS.get(type(value))
    if write is not None:
        write(value, parts, depth, handle_of)
    elif handle_of is not None and (number := handle_of(value)) is not None:
        if issubclass(type(value), np.ndarray):  # its shape goes along, so that nobody has to ask
            parts.append(b"H" + _SIZE.pack(number) + _dtype_and_shape(value))
        else:
            parts.append(b"h" + _SIZE.pack(number))
    elif isinstance(value, np.generic) and value.dtype in _CODES:
        if type(value) is not value.dtype.type:
            raise _unsendable(value)
        parts.append(b"g" + bytes([_CODES[value.dtype]]) + value.tobytes())
    else:
        raise _unsendable(value)


def _unsendable(value):
    kind = type(value)
    return Unsendable(f"a {kind.__module__}.{kind.__qualname__}".replace("builtins.", ""))


def _write_int(value, parts, depth, handle_of):
    if -(1 << 63) <= value < 1 << 63:
        parts.append(b"i" + _INT64.pack(value))
        return
    size = value.bit_length() // 8 + 1
    if size > MAX_INT_BYTES:
        raise Unsendable(f"an int of {size} bytes; the limit is {MAX_INT_BYTES}")
    parts.append(b"I" + _SIZE.pack(size) + value.to_bytes(size, "little", signed=True))


def _write_str(value, parts, depth, handle_of):
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise Unsendable("a str with lone surrogates, which is not text") from None
    parts.append(b"s" + _SIZE.pack(len(data)) + data)


def _write_items(value, parts, depth, handle_of):
    if depth >= MAX_DEPTH:
        raise Unsendable(f"values nested more than {MAX_DEPTH} deep")
    if len(value) + len(parts) > MAX_VALUES:
        raise Unsendable(f"more than {MAX_VALUES} values")
    parts.append((b"l" if type(value) is list else b"t") + _SIZE.pack(len(value)))
    for item in value:
        _encode(item, parts, depth + 1, handle_of)


def _write_dict(value, parts, depth, handle_of):
    if depth >= MAX_DEPTH:
        raise Unsendable(f"values nested more than {MAX_DEPTH} deep")
    if len(value) > MAX_DICT_ENTRIES:
        raise Unsendable(f"a dict of {len(value)} entries; the limit is {MAX_DICT_ENTRIES}")
    parts.append(b"d" + _SIZE.pack(len(value)))
    for key, item in value.items():
        _encode(key, parts, depth + 1, handle_of)
        _encode(item, parts, depth + 1, handle_of)


def _write_fraction(value, parts, depth, handle_of):
    parts.append(b"q")
    _write_int(value.numerator, parts, depth, None)
    _write_int(value.denominator, parts, depth, None)


def _write_array(value, parts, depth, handle_of):
    if handle_of is not None and (number := handle_of(value)) is not None:
        parts.append(b"H" + _SIZE.pack(number) + _dtype_and_shape(value))
    else:
        if value.nbytes > MAX_FRAME_BYTES:  # a broadcast view is small until it is written out
            raise _too_large(value.nbytes)
        parts.append(b"a" + _dtype_and_shape(value))
        parts.append(value.tobytes())


def _dtype_and_shape(array):
    code = _CODES.get(array.dtype)
    if code is None:
        raise Unsendable(f"a numpy array of dtype {array.dtype}")
    return _ARRAY.pack(code, array.ndim) + struct.pack(f"<{array.ndim}Q", *array.shape)


def _write_slice(value, parts, depth, handle_of):
    bounds = (value.start, value.stop, value.step)
    for bound in bounds:
        if bound is not None and (type(bound) is not int or not -(1 << 63) <= bound < 1 << 63):
            raise Unsendable("a slice whose bounds are no ints")
    given = sum(1 << n for n, bound in enumerate(bounds) if bound is not None)
    parts.append(b"S" + _SLICE.pack(given, *(bound or 0 for bound in bounds)))


_WRITERS = {
    type(None): lambda value, parts, depth, handle_of: parts.append(b"N"),
    bool: lambda value, parts, depth, handle_of: parts.append(b"T" if value else b"F"),
    int: _write_int,
    float: lambda value, parts, depth, handle_of: parts.append(b"f" + _FLOAT64.pack(value)),
    str: _write_str,
    bytes: lambda value, parts, depth, handle_of: parts.extend(
        (b"b" + _SIZE.pack(len(value)), value)
    ),
    list: _write_items,
    tuple: _write_items,
    dict: _write_dict,
    Fraction: _write_fraction,
    np.ndarray: _write_array,
    Handle: lambda value, parts, depth, handle_of: parts.append(b"h" + _SIZE.pack(value.id)),
    slice: _write_slice,
    type(Ellipsis): lambda value, parts, depth, handle_of: parts.append(b"E"),
}


def decode(data, array_of=None):
    """The value in `data`, all of it. BadFrame for anything `encode` would not have written.

    Handles, and the slices that index them, are accepted only with `array_of(number)`; it also
    receives (dtype name, shape) from the side that holds the array.
    """
    if len(data) > MAX_FRAME_BYTES:
        raise BadFrame("too long")
    reader = _Reader(memoryview(data), array_of)
    try:
        value = reader.value(0)
    except (struct.error, IndexError, UnicodeDecodeError, TypeError, OverflowError) as error:
        raise BadFrame(type(error).__name__) from None
    if reader.at != len(data):
        raise BadFrame("trailing bytes")
    return value


class _Reader:
    """One pass over the bytes. struct.error, IndexError and the like mean "cut short"."""

    __slots__ = ("data", "at", "array_of", "values")

    def __init__(self, data, array_of):
        self.data, self.at, self.array_of, self.values = data, 0, array_of, 0

    def take(self, size):
        start, end = self.at, self.at + size
        if end > len(self.data):
            raise BadFrame("cut short")
        self.at = end
        return self.data[start:end]

    def size(self):
        (size,) = _SIZE.unpack_from(self.data, self.at)
        self.at += 4
        return size

    def count(self):
        """A number of items, each of which takes at least one of the bytes that are left."""
        (count,) = _SIZE.unpack_from(self.data, self.at)
        self.at += 4
        if count > len(self.data) - self.at:
            raise BadFrame("more items than bytes")
        return count

    def value(self, depth):
        self.values += 1
        if self.values > MAX_VALUES or depth > MAX_DEPTH:
            raise BadFrame("too many values" if depth <= MAX_DEPTH else "too deep")
        at = self.at
        self.at = at + 1
        read = _READERS[self.data[at]]
        if read is None:
            raise BadFrame("unknown tag")
        return read(self, depth)

    def none(self, depth):
        return None

    def true(self, depth):
        return True

    def false(self, depth):
        return False

    def integer(self, depth):
        (value,) = _INT64.unpack_from(self.data, self.at)
        self.at += 8
        return value

    def long_integer(self, depth):
        size = self.size()
        if size > MAX_INT_BYTES:
            raise BadFrame("int too long")
        value = int.from_bytes(self.take(size), "little", signed=True)
        if -(1 << 63) <= value < 1 << 63:
            raise BadFrame("short int written long")
        return value

    def double(self, depth):
        (value,) = _FLOAT64.unpack_from(self.data, self.at)
        self.at += 8
        return value

    def text(self, depth):
        return str(self.take(self.size()), "utf-8")

    def octets(self, depth):
        return bytes(self.take(self.size()))

    def items(self, depth):
        value, inner = self.value, depth + 1
        return [value(inner) for _ in range(self.count())]

    def fixed_items(self, depth):
        return tuple(self.items(depth))

    def mapping(self, depth):
        count = self.count()
        if count > MAX_DICT_ENTRIES:
            raise BadFrame("dict too large")
        result = {}
        for _ in range(count):
            key = self.value(depth + 1)
            result[key] = self.value(depth + 1)
        if len(result) != count:
            raise BadFrame("duplicate keys")
        return result

    def fraction(self, depth):
        numerator, denominator = self.value(depth + 1), self.value(depth + 1)
        if type(numerator) is not int or type(denominator) is not int or denominator < 1:
            raise BadFrame("not a fraction")
        return Fraction(numerator, denominator)

    def dtype(self, code):
        if code >= len(_DTYPES):
            raise BadFrame("unknown dtype")
        return _DTYPES[code]

    def dtype_and_shape(self):
        code, ndim = _ARRAY.unpack_from(self.data, self.at)
        if ndim > 32:
            raise BadFrame("too many axes")
        shape = struct.unpack_from(f"<{ndim}Q", self.data, self.at + 2)
        self.at += 2 + 8 * ndim
        if math.prod(max(size, 1) for size in shape) > MAX_FRAME_BYTES:
            raise BadFrame("array too large")
        return self.dtype(code), shape

    def array(self, depth):
        self.values += ARRAY_VALUES
        dtype, shape = self.dtype_and_shape()
        data = self.take(math.prod(shape) * dtype.itemsize)
        return self._numbers(data, dtype).reshape(shape)

    def scalar(self, depth):
        dtype = self.dtype(self.take(1)[0])
        return self._numbers(self.take(dtype.itemsize), dtype)[0]

    def _numbers(self, data, dtype):
        octets = np.frombuffer(data, dtype=np.uint8).copy()
        if dtype.kind == "b" and octets.size and octets.max() > 1:
            raise BadFrame("a bool that is neither 0 nor 1")
        return octets.view(dtype)

    def handle(self, depth):
        if self.array_of is None:
            raise BadFrame("a handle where none is accepted")
        return self.array_of(self.size())

    def described_handle(self, depth):
        if self.array_of is None:
            raise BadFrame("a handle where none is accepted")
        number = self.size()
        dtype, shape = self.dtype_and_shape()
        return self.array_of(number, dtype.name, shape)

    def slice(self, depth):
        if self.array_of is None:
            raise BadFrame("a slice where none is accepted")
        given, *bounds = _SLICE.unpack_from(self.data, self.at)
        self.at += _SLICE.size
        return slice(*[bound if given >> n & 1 else None for n, bound in enumerate(bounds)])

    def ellipsis(self, depth):
        if self.array_of is None:
            raise BadFrame("an ellipsis where none is accepted")
        return Ellipsis


_READERS: list = [None] * 256
for _tag, _read in {
    "N": _Reader.none,
    "T": _Reader.true,
    "F": _Reader.false,
    "i": _Reader.integer,
    "I": _Reader.long_integer,
    "f": _Reader.double,
    "s": _Reader.text,
    "b": _Reader.octets,
    "l": _Reader.items,
    "t": _Reader.fixed_items,
    "d": _Reader.mapping,
    "q": _Reader.fraction,
    "a": _Reader.array,
    "g": _Reader.scalar,
    "h": _Reader.handle,
    "H": _Reader.described_handle,
    "S": _Reader.slice,
    "E": _Reader.ellipsis,
}.items():
    _READERS[ord(_tag)] = _read


def frame(value, handle_of=None) -> bytes:
    """`value` with its length in front, ready for a socket."""
    data = encode(value, handle_of)
    return _SIZE.pack(len(data)) + data


def frame_size(header) -> int:
    """The length a 4-byte header announces; BadFrame if no frame may be that long."""
    size = _SIZE.unpack(header)[0]
    if size > MAX_FRAME_BYTES:
        raise BadFrame("frame too long")
    return size


class Receiver:
    """The values that arrive on a blocking socket, one after the other."""

    def __init__(self, sock):
        self.sock, self.data = sock, bytearray()

    def next(self, array_of=None):
        """The next value; EOFError when the other side is gone."""
        data = self.data
        while len(data) < 4 or len(data) < 4 + frame_size(data[:4]):
            chunk = self.sock.recv(1 << 16)
            if not chunk:
                raise EOFError
            data += chunk
        end = 4 + frame_size(data[:4])
        value = decode(data[4:end], array_of)
        del data[:end]
        return value
