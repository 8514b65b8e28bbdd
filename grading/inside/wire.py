"""Plain values as bytes, both ways, between the judge and a sandbox. There is no pickle here.

A frame is a 4-byte little-endian length and one value. A value is a tag byte and its content; the
types are an allow-list and `decode` builds exactly those types, never a subclass. Every size is
checked against what has arrived before anything is allocated. It is Python and not a library's C,
because the judge, which reads what hostile code wrote, stands outside the walls.
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

MAX_TEXT = 2000  # of an exception's message

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


class Unsendable(TypeError):
    """The value is not one of the plain types; str() says which type it is."""


class NotPlain(Unsendable):
    """It may be a plain one of a class of its own, such as a NamedTuple, not merely too large."""


class BadFrame(ValueError):
    """The bytes are not a frame this module would have written."""


def encode(value) -> bytes:
    """The bytes of `value`.

    Raises Unsendable for any type outside the allow-list, subclasses included.
    """
    parts: list = []
    _encode(value, parts, 0)
    data = b"".join(parts)
    if len(data) > MAX_FRAME_BYTES:
        raise _too_large(len(data))
    return data


def _too_large(size):
    return Unsendable(f"a value of {size} bytes; the limit is {MAX_FRAME_BYTES}")


def _encode(value, parts, depth):
    write = _WRITERS.get(type(value))
    if write is not None:
        write(value, parts, depth)
    elif isinstance(value, np.generic) and value.dtype in _CODES:
        if type(value) is not value.dtype.type:
            raise _unsendable(value)
        parts.append(b"g" + bytes([_CODES[value.dtype]]) + value.tobytes())
    else:
        raise _unsendable(value)


def _unsendable(value):
    kind = type(value)
    return NotPlain(f"a {kind.__module__}.{kind.__qualname__}".replace("builtins.", ""))


def _write_int(value, parts, depth):
    if -(1 << 63) <= value < 1 << 63:
        parts.append(b"i" + _INT64.pack(value))
        return
    size = value.bit_length() // 8 + 1
    if size > MAX_INT_BYTES:
        raise Unsendable(f"an int of {size} bytes; the limit is {MAX_INT_BYTES}")
    parts.append(b"I" + _SIZE.pack(size) + value.to_bytes(size, "little", signed=True))


def _write_str(value, parts, depth):
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise Unsendable("a str with lone surrogates, which is not text") from None
    parts.append(b"s" + _SIZE.pack(len(data)) + data)


def _write_items(value, parts, depth):
    if depth >= MAX_DEPTH:
        raise Unsendable(f"values nested more than {MAX_DEPTH} deep")
    if len(value) + len(parts) > MAX_VALUES:
        raise Unsendable(f"more than {MAX_VALUES} values")
    parts.append((b"l" if type(value) is list else b"t") + _SIZE.pack(len(value)))
    for item in value:
        _encode(item, parts, depth + 1)


def _write_dict(value, parts, depth):
    if depth >= MAX_DEPTH:
        raise Unsendable(f"values nested more than {MAX_DEPTH} deep")
    if len(value) > MAX_DICT_ENTRIES:
        raise Unsendable(f"a dict of {len(value)} entries; the limit is {MAX_DICT_ENTRIES}")
    parts.append(b"d" + _SIZE.pack(len(value)))
    for key, item in value.items():
        _encode(key, parts, depth + 1)
        _encode(item, parts, depth + 1)


def _write_fraction(value, parts, depth):
    parts.append(b"q")
    _write_int(value.numerator, parts, depth)
    _write_int(value.denominator, parts, depth)


def _write_array(value, parts, depth):
    if value.nbytes > MAX_FRAME_BYTES:  # a broadcast view is small until it is written out
        raise _too_large(value.nbytes)
    code = _CODES.get(value.dtype)
    if code is None:
        raise NotPlain(f"a numpy array of dtype {value.dtype}")
    shape = struct.pack(f"<{value.ndim}Q", *value.shape)
    parts += (b"a", _ARRAY.pack(code, value.ndim), shape, value.tobytes())


def _write_slice(value, parts, depth):
    parts.append(b"S")
    for bound in (value.start, value.stop, value.step):
        if not isinstance(bound, (int, np.integer, type(None))):
            raise Unsendable("a slice whose bounds are no ints")
        _encode(bound if bound is None else int(bound), parts, depth + 1)


_WRITERS = {
    type(None): lambda value, parts, depth: parts.append(b"N"),
    bool: lambda value, parts, depth: parts.append(b"T" if value else b"F"),
    int: _write_int,
    float: lambda value, parts, depth: parts.append(b"f" + _FLOAT64.pack(value)),
    str: _write_str,
    bytes: lambda value, parts, depth: parts.extend((b"b" + _SIZE.pack(len(value)), value)),
    list: _write_items,
    tuple: _write_items,
    dict: _write_dict,
    Fraction: _write_fraction,
    np.ndarray: _write_array,
    slice: _write_slice,
}


def decode(data):
    """The value in `data`, all of it. BadFrame for anything `encode` would not have written."""
    if len(data) > MAX_FRAME_BYTES:
        raise BadFrame("too long")
    reader = _Reader(memoryview(data))
    try:
        value = reader.value(0)
    except (struct.error, IndexError, UnicodeDecodeError, TypeError, OverflowError) as error:
        raise BadFrame(type(error).__name__) from None
    if reader.at != len(data):
        raise BadFrame("trailing bytes")
    return value


class _Reader:
    """One pass over the bytes. struct.error, IndexError and the like mean "cut short"."""

    __slots__ = ("data", "at", "values")

    def __init__(self, data):
        self.data, self.at, self.values = data, 0, 0

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
        count = self.size()
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

    def items(self, depth):
        value, inner = self.value, depth + 1
        return [value(inner) for _ in range(self.count())]

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

    def slice(self, depth):
        bounds = [self.value(depth + 1) for _ in range(3)]
        if any(type(bound) not in (int, type(None)) for bound in bounds):
            raise BadFrame("not a slice")
        return slice(*bounds)

    def dtype(self, code):
        if code >= len(_DTYPES):
            raise BadFrame("unknown dtype")
        return _DTYPES[code]

    def array(self, depth):
        self.values += ARRAY_VALUES
        code, ndim = _ARRAY.unpack_from(self.data, self.at)
        if ndim > 32:
            raise BadFrame("too many axes")
        shape = struct.unpack_from(f"<{ndim}Q", self.data, self.at + 2)
        self.at += 2 + 8 * ndim
        if math.prod(max(size, 1) for size in shape) > MAX_FRAME_BYTES:
            raise BadFrame("array too large")
        dtype = self.dtype(code)
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


_READERS: list = [None] * 256
for _tag, _read in {
    "N": lambda reader, depth: None,
    "T": lambda reader, depth: True,
    "F": lambda reader, depth: False,
    "i": _Reader.integer,
    "I": _Reader.long_integer,
    "f": _Reader.double,
    "s": lambda reader, depth: str(reader.take(reader.size()), "utf-8"),
    "b": lambda reader, depth: bytes(reader.take(reader.size())),
    "l": _Reader.items,
    "t": lambda reader, depth: tuple(reader.items(depth)),
    "d": _Reader.mapping,
    "q": _Reader.fraction,
    "a": _Reader.array,
    "g": _Reader.scalar,
    "S": _Reader.slice,
}.items():
    _READERS[ord(_tag)] = _read


def frame(value) -> bytes:
    """`value` with its length in front, ready for a socket."""
    data = encode(value)
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
        self.sock, self.data, self.frame = sock, bytearray(), b""

    def next(self):
        """The next value; EOFError when the other side is gone."""
        data = self.data
        while len(data) < 4 or len(data) < 4 + frame_size(data[:4]):
            chunk = self.sock.recv(1 << 16)
            if not chunk:
                raise EOFError
            data += chunk
        end = 4 + frame_size(data[:4])
        self.frame = bytes(data[4:end])
        del data[:end]
        return decode(self.frame)
