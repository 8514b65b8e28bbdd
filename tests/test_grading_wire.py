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
HASH_MODULUS = 2**61 - 1  # sys.hash_info.modulus: a number and this much more have one hash
HASHED_LIKE_1 = 1 + HASH_MODULUS * 10**400  # and compared with a float, too large

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
        1 << 20_000,
        {i * HASH_MODULUS: 0 for i in range(wire.MAX_COLLISIONS + 2)},
        [0] * (wire.MAX_VALUES + 1),
        np.zeros(wire.MAX_FRAME_BYTES // 8 + 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values_are_refused_by_name(value):
    with pytest.raises(wire.Unsendable):
        wire.encode(value)


def written(text, octets=b""):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<I", len(data)) + data + octets


def test_nesting_is_bounded_on_both_sides():
    deep = []
    for _ in range(wire.MAX_DEPTH):
        deep = [deep]
    with pytest.raises(wire.Unsendable, match="nested"):
        wire.encode(deep)
    assert same(wire.decode(wire.encode(deep[0])), deep[0])
    for depth in (wire.MAX_DEPTH + 1, 500, 1_000_000):
        with pytest.raises(wire.BadFrame):
            wire.decode(written("[" * depth + "]" * depth))


def test_values_are_bounded_before_they_are_read():
    """What takes few bytes and much memory is not even parsed."""
    for item, most in (("0", 1), ('{"array":["bool",0]}', wire.ARRAY_VALUES)):
        data = written("[" + ",".join([item] * (wire.MAX_VALUES // most + 1)) + "]")
        with pytest.raises(wire.BadFrame, match="too many values"):
            wire.decode(data)


def test_a_dict_takes_as_long_as_its_keys():
    """Many keys are welcome, some collisions too; what takes the square of its bytes is refused."""
    for welcome in (dict.fromkeys(range(10_000)), {-1: 0, -2: 0, "-1": 0}):
        assert same(wire.decode(wire.encode(welcome)), welcome)
    for key in (
        lambda i: str(i * HASH_MODULUS),
        lambda i: f'{{"fraction":[{1 + i * HASH_MODULUS},2]}}',
        lambda i: '{"tuple":[' * 20 + str(i * HASH_MODULUS) + "]}" * 20,
    ):
        keys = ",".join(map(key, range(5_000)))
        with pytest.raises(wire.BadFrame, match="no such value"):
            wire.decode(written(f'{{"dict":[[{keys}],[{",".join("0" * 5_000)}]]}}'))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        written("")[:-1],
        written(""),
        written("1")[:-1],
        written("1", b"x"),
        written("1 "),
        written("\ufeff1"),
        written("1,2"),
        written("nan"),
        written("01"),
        written("-0"),
        written("1.00"),
        written("1e999"),
        written("1" * 5000),
        written("1." + "1" * 1_000_000),
        written(b'"\xff\xfe"'),
        written('"\\ud800"'),
        written('"\\u0041"'),
        written("{}"),
        written('{"tuple":[],"tuple":[]}'),
        written('{"tuple":"ab"}'),
        written('{"tuple":{"array":["bool",1]}}', b"\1"),
        written('{"object":[]}'),
        written('{"dict":[[[]],[1]]}'),  # a key that cannot be one
        written('{"dict":[[1,1],[2,3]]}'),  # the same key twice
        written('{"dict":[[1,2],[3]]}'),  # a key without a value
        written('{"dict":["ab","cd"]}'),
        written(f'{{"dict":[[{{"scalar":["float16"]}},{HASHED_LIKE_1}],[0,0]]}}', b"\0\x3c"),
        written("[" + ",".join(["[" * 30 + "]" * 30] * 200_000) + "]"),  # few bytes, many lists
        written('{"fraction":[0,0]}'),
        written('{"fraction":[2,4]}'),
        written('{"fraction":[1,-2]}'),
        written('{"fraction":[1,2.0]}'),
        written('{"fraction":["1e999999999"]}'),
        written('{"slice":[null,null]}'),
        written('{"slice":[null,null,true]}'),
        written('{"slice":["a","b","c"]}'),
        written('{"bytes":2}', b"x"),
        written('{"bytes":true}', b"x"),
        written('{"bytes":-1}', b"x"),
        written('{"array":["bool",1]}', b"\2"),
        written('{"array":["object",1]}', bytes(8)),
        written('{"array":[["float64"],1]}', bytes(8)),
        written('{"array":["float64",2]}', bytes(8)),
        written('{"array":["float64",1.0]}', bytes(8)),
        written('{"array":["float64",true]}', bytes(8)),
        written('{"array":["float64",-1,-1]}', bytes(8)),
        written('{"array":["float64",0,-1]}'),
        written(f'{{"array":["float64",0,{2**62}]}}'),
        written(f'{{"array":["float64",{10**300},{10**300}]}}', bytes(8)),
        written(f'{{"array":["float64"{",0" * 70}]}}'),
        written(f'{{"array":["float64"{f",{10**4000}" * 3000}]}}'),
        written('{"array":["float64","' + "x" * 1_000_000 + '",1000000]}'),
        written('{"scalar":["float64",1]}', bytes(8)),
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
