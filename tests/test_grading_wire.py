"""The wire carries plain values unchanged, refuses everything else, and survives every byte."""

import random
import resource
import struct
import time
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from grading.inside import wire

FRAMES = 100_000

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.fractions()
    | st.slices(9)
)
dtypes = st.sampled_from([np.dtype(name) for name in wire.DTYPES])
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
keys = st.integers() | st.text(st.characters(exclude_categories=["Cs"])) | st.tuples(st.integers())
values = st.recursive(
    scalars | arrays,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)


def same(one, other):
    """Equal, types included, element by element."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and one.tobytes() == other.tobytes()
        )
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return one == other


@settings(max_examples=300, deadline=None)
@given(values)
def test_plain_values_arrive_as_they_were(value):
    assert same(wire.decode(wire.encode(value)), value)


def test_numpy_scalars_keep_their_type():
    for name in wire.DTYPES:
        value = np.zeros(1, name)[0]
        arrived = wire.decode(wire.encode(value))
        assert type(arrived) is type(value) and arrived == value


class Text(str):
    pass


class Listed(list):
    pass


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        Text("x"),
        Listed(),
        1j,
        lambda: 0,
        (x for x in ()),
        np.ma.masked_all(3),
        np.zeros(2).view(type("Sub", (np.ndarray,), {})),
        np.array([None]),
        np.zeros(2, "f4,i8"),
        np.array(["a"]),
        np.longdouble(1),
        "\ud800",
        1 << 5000,
        {i: 0 for i in range(wire.MAX_DICT_ENTRIES + 1)},
        [0] * (wire.MAX_VALUES + 1),
        np.zeros(wire.MAX_FRAME_BYTES // 8 + 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values_are_refused_by_name(value):
    with pytest.raises(wire.Unsendable):
        wire.encode(value)


def sized(tag, content):
    return tag + struct.pack("<I", len(content)) + content


def holding(tag, *values):
    return tag + struct.pack("<I", len(values)) + b"".join(map(wire.encode, values))


def test_nesting_is_bounded_on_both_sides():
    deep = []
    for _ in range(wire.MAX_DEPTH + 1):
        deep = [deep]
    with pytest.raises(wire.Unsendable, match="nested"):
        wire.encode(deep)
    with pytest.raises(wire.BadFrame):
        wire.decode(b"l\1\0\0\0" * 10_000 + wire.encode(None))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        sized(b"i", b"\0")[:-1],
        2 * sized(b"c", b"N"),
        sized(b"c", b"NT"),
        sized(b"c", b"?"),
        sized(b"i", b""),
        sized(b"i", b"\5\0"),  # a short int written long has two spellings
        sized(b"i", bytes(wire.MAX_INT_BYTES) + b"\1"),
        sized(b"f", bytes(7)),
        sized(b"s", b"\xff\xfe"),
        b"l\xff\xff\xff\xff" + sized(b"c", b"N"),
        holding(b"d", [], None),  # a key that cannot be one
        holding(b"d", None, None, None, None),  # the same key twice
        holding(b"d", 1, 2, 3),  # a key without a value
        holding(b"d", *range(2 * wire.MAX_DICT_ENTRIES + 2)),
        holding(b"q", 0, 0),
        holding(b"q", 1, 2.0),
        holding(b"q", 1),
        holding(b"S", None, None),
        holding(b"S", None, None, True),
        sized(b"a", b"\0\1" + struct.pack("<Q", 1) + b"\2"),  # a bool that is 2
        sized(b"a", b"\x0e\0"),  # a dtype that is none
        sized(b"a", b"\x0b\1" + struct.pack("<Q", 2**63)),
        sized(b"a", b"\x0b\2" + struct.pack("<2Q", 0, 2**62)),
        sized(b"a", b"\x0b\1" + struct.pack("<Q", 2) + bytes(8)),
        sized(b"a", b"\x0b\xff" + bytes(8 * 255)),
        sized(b"g", b"\xff\0"),
        sized(b"g", b"\x0b\1" + struct.pack("<Q", 1) + bytes(8)),  # an array
        b"\x80\x04\x95",  # the start of a pickle
    ],
)
def test_frames_that_nobody_would_write_are_refused(data):
    with pytest.raises(wire.BadFrame):
        wire.decode(data)


def test_a_header_announces_a_bounded_frame():
    arrived = bytearray(wire.frame("x") + wire.frame([1, 2])[:-1])
    assert wire.decode(wire.take_frame(arrived)) == "x"
    assert wire.take_frame(arrived) is None and len(arrived) > 4
    with pytest.raises(wire.BadFrame):
        wire.take_frame(bytearray(b"\xff\xff\xff\xff"))


def mutated(data, chance):
    """One of the ways in which bytes go wrong, or are made to."""
    data = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0 if data:
                data[min(at, len(data) - 1)] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randint(1, 8)]
            case 2:
                data[at:at] = chance.randbytes(chance.randint(1, 8))
            case 3:
                data[at : at + 8] = chance.choice(
                    [b"\xff" * 8, bytes(8), struct.pack("<Q", 2**32 - 1)]
                )
            case 4:
                data += data[:at]
    return bytes(data)


@pytest.mark.timeout(180)
def test_a_hundred_thousand_bad_frames_neither_crash_nor_grow():
    """Every frame is a value or BadFrame; memory stays, and no frame takes long."""
    chance = random.Random(20)
    seeds = [
        wire.encode(value)
        for value in (
            [1, "two", 3.0, None, True, b"six", (7, [8])],
            {"a": {"b": [Fraction(1, 3), 2**80]}, (1, 2): -1},
            ("value", np.arange(12.0).reshape(3, 4), None),
            [np.zeros((0, 3), bool), np.float32(2), np.arange(3, dtype="complex64")],
            ("collective", "all_gather", [np.ones(4)] * 3, -1),
        )
    ]
    accepted = refused = 0
    slowest = 0.0
    before = None
    for n in range(FRAMES):
        if n == FRAMES // 10:
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
        data = mutated(chance.choice(seeds), chance) if n % 3 else chance.randbytes(n % 97)
        started = time.perf_counter()
        try:
            wire.decode(data)
            accepted += 1
        except wire.BadFrame:
            refused += 1
        slowest = max(slowest, time.perf_counter() - started)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{accepted} accepted, {refused} refused, grown {grown} bytes, peak {peak_mib} MiB")
    assert accepted + refused == FRAMES and accepted and refused
    assert grown < 64 << 10
    assert slowest < 2.0
