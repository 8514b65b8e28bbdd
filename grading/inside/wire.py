"""Plain values as JSON, both ways, between the judge and a sandbox. There is no pickle here.

A frame is a 4-byte little-endian length and one value: the length of a JSON text, the text, and the
bytes of its arrays, one after the other. What JSON has stands for itself; all else is an object of
one entry, named by its tag. The types are an allow-list, and `decode` builds exactly those types,
never a subclass. The judge, which reads what hostile code wrote, bounds a text before it is parsed,
and believes it only if `encode` writes the same bytes of what was read.
"""

import json
import math
import struct
from fractions import Fraction

import numpy as np

MAX_FRAME_BYTES = 16 << 20
MAX_VALUES = 400_000  # in one frame
ARRAY_VALUES = 40  # that an array counts as, however few its elements: it is as large in memory
MAX_DEPTH = 32
MAX_COLLISIONS = 4  # of a dict's keys: what has one hash is compared, each with each

MAX_TEXT = 20_000  # of an exception's message

DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "float16 float32 float64 complex64 complex128"
).split()
_DTYPES = {name: np.dtype(name) for name in DTYPES}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_SCALARS = {np.dtype(name).type for name in (*DTYPES, "q", "Q")}  # long long
_OF_JSON = frozenset((type(None), bool, int, float, str))

_LENGTH = struct.Struct("<I")
_text_of = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


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
    octets: list = []
    tagged = _tagged(value, default, octets, MAX_DEPTH)
    try:
        text = _text_of(tagged).encode()
    except UnicodeEncodeError:
        raise Unsendable("a str with lone surrogates, which is not text") from None
    except ValueError:
        raise Unsendable("an int of more digits than Python prints") from None
    if _values_in(text) > MAX_VALUES:
        raise Unsendable(f"more than {MAX_VALUES} values")
    data = b"".join([_LENGTH.pack(len(text)), text, *octets])
    if len(data) > MAX_FRAME_BYTES:
        raise _too_large(len(data))
    return data


def _tagged(value, default, octets, depth):
    """What JSON has, for `value`; the bytes of its arrays are appended to `octets`."""
    kind = type(value)
    if kind in _OF_JSON:
        return value
    if depth == 0:
        raise Unsendable(f"values nested more than {MAX_DEPTH} deep")
    if kind is list or kind is tuple:
        if not _OF_JSON.issuperset(map(type, value)):
            value = [_tagged(item, default, octets, depth - 1) for item in value]
        return value if kind is list else {"tuple": value}
    if kind is dict:
        if _collide(value):
            raise Unsendable("a dict with many keys of the same hash")
        entries = [*value], [*value.values()]
        return {"dict": [_tagged(half, default, octets, depth - 1) for half in entries]}
    if kind in _SCALARS or (kind is np.ndarray and value.dtype in _NAMES):
        if value.nbytes > MAX_FRAME_BYTES:  # a broadcast view is small until it is written out
            raise _too_large(value.nbytes)
        octets.append(value.tobytes())
        return {"array" if kind is np.ndarray else "scalar": [_NAMES[value.dtype], *value.shape]}
    if kind is bytes:
        octets.append(value)
        return {"bytes": len(value)}
    if kind is Fraction:
        return {"fraction": [int(value.numerator), int(value.denominator)]}  # numpy's whole ones
    if kind is slice:
        bounds = value.start, value.stop, value.step
        if not all(isinstance(bound, (int, np.integer, type(None))) for bound in bounds):
            raise Unsendable("a slice whose bounds are no ints")
        return {"slice": [bound if bound is None else int(bound) for bound in bounds]}
    if default and (plain := default(value)) is not value:
        return _tagged(plain, default, octets, depth)
    if kind is np.ndarray:
        raise Unsendable(f"a numpy array of dtype {value.dtype}")
    raise Unsendable(f"a {kind.__module__}.{kind.__qualname__}".replace(" builtins.", " "))


def _too_large(size):
    return Unsendable(f"a value of {size} bytes; the limit is {MAX_FRAME_BYTES}")


def _values_in(text):
    """As many as stand in the text, or more: a comma or a bracket may be part of a string."""
    return 1 + text.count(b",") + text.count(b"[") + ARRAY_VALUES * text.count(b'"array"')


def _collide(keys):
    """Whether building a dict of these could take the square of its length."""
    return len(keys) - len(set(map(hash, keys))) > MAX_COLLISIONS


# --- from bytes ---------------------------------------------------------------------------------


def decode(data: bytes):
    """The value in `data`, all of it. BadFrame for anything `encode` would not have written."""
    value = read(data)
    try:
        if encode(value) == data:
            return value
    except Unsendable as problem:
        raise BadFrame(str(problem)) from None
    raise BadFrame("not as it would have been written")


def read(data: bytes):
    """The same value, of a frame that `encode` has written: the judge's, in the sandbox."""
    try:
        (size,) = _LENGTH.unpack_from(data)
        text, octets = data[_LENGTH.size : _LENGTH.size + size], data[_LENGTH.size + size :]
        if _values_in(text) > MAX_VALUES:
            raise BadFrame("too many values")
        decoder = _decoder(octets) if octets else _WITHOUT_ARRAYS
        return decoder.decode(text.decode())
    except BadFrame:
        raise
    except (struct.error, LookupError, ValueError, TypeError, ArithmeticError) as error:
        raise BadFrame(type(error).__name__) from None
    except RecursionError:
        raise BadFrame("too deep") from None


class _Arrays:
    """The bytes behind a text: taken in its order, as JSON's parser comes to their objects."""

    def __init__(self, octets):
        self.octets, self.at = octets, 0

    def built(self, pairs):
        match pairs:
            case [("tuple", list(items))]:
                return tuple(items)
            case [("dict", [list(keys), list(values)])] if not _collide(keys):
                return dict(zip(keys, values, strict=True))
            case [("array", [str(name), *shape])] if len(shape) <= MAX_DEPTH:
                return self.array(name, shape)
            case [("scalar", [str(name)])]:
                return self.array(name, [])[()]
            case [("bytes", int(size))]:
                return self.take(size)
            case [("fraction", [int(numerator), int(denominator)])]:
                return Fraction(numerator, denominator)
            case [("slice", [start, stop, step])]:
                return slice(start, stop, step)
        raise BadFrame("no such value")

    def take(self, size):
        start = self.at
        if not 0 <= size <= len(self.octets) - start:
            raise BadFrame("cut short")
        self.at += size
        return self.octets[start : self.at]

    def array(self, name, shape):
        dtype = _DTYPES[name]
        if not all(type(size) is int for size in shape):
            raise BadFrame("not a shape")
        octets = np.frombuffer(self.take(math.prod(shape) * dtype.itemsize), np.uint8).copy()
        if name == "bool" and octets.size and octets.max() > 1:
            raise BadFrame("a bool that is neither 0 nor 1")
        return octets.view(dtype).reshape(shape)


def _decoder(octets):
    return json.JSONDecoder(object_pairs_hook=_Arrays(octets).built)


_WITHOUT_ARRAYS = _decoder(b"")  # for all frames that have none: it takes nothing, so keeps nothing
