"""The wire carries plain values unchanged, builds nothing else, and survives every line."""

import io
import json
import random
import re
import resource
import socket
import time
import tracemalloc
from collections import OrderedDict, deque, namedtuple
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from grading.proxy import WRONG
from grading.within import wire

LINES = 20_000
HASH_MODULUS = 2**61 - 1  # sys.hash_info.modulus: a number and this much more have one hash

text = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats(allow_nan=False)
scalars |= text | st.binary() | st.fractions() | st.slices(9)
dtypes = st.sampled_from([np.dtype(name) for name in wire.DTYPES])
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
keys = st.integers() | text | st.tuples(st.integers())
values = st.recursive(
    scalars | arrays,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)


class Sent:
    """A socket that has received these bytes and, after them, the end."""

    def __init__(self, data):
        self.makefile = lambda *_: io.BytesIO(data)


def received(data):
    return wire.Link(Sent(data)).receive()


def carried(value):
    (value,) = received(wire.line_of([value]))
    return value


def same(one, other):
    """Equal, types included, element by element."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        alike = one.dtype == other.dtype and one.shape == other.shape
        return alike and one.tobytes() == other.tobytes()
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return one == other


@settings(max_examples=200, deadline=None)
@given(values)
def test_plain_values_arrive_as_they_were(value):
    assert same(carried(value), value)


HALVES = ["\ud800", ["a\udfff", 1], {"key": "\ud83d"}, {"\udc00": 1}, {1: ("\udbff",)}]


@pytest.mark.parametrize("value", HALVES, ids=ascii)
def test_half_a_letter_becomes_a_question_mark_wherever_it_stands(value):
    assert repr(carried(value)) == re.sub(r"\\ud[89a-f]..", "?", repr(value))
    assert wire.value_of(b'[{"dict": [["key", "\xed\xa0\x80"]]}]') == [{"key": "?"}]


def test_numpy_scalars_keep_their_type():
    for name in wire.DTYPES:
        value = np.zeros(1, name)[0]
        assert type(carried(value)) is type(value) and carried(value) == value


class Text(str):
    __str__ = __eq__ = __hash__ = None


class Number(float):
    def __eq__(self, other):
        return True


class Array(np.ndarray):
    def __eq__(self, other):
        return True


Pair = namedtuple("Pair", "one two")


@pytest.mark.parametrize(
    ("value", "as_what"),
    [
        (Text("x"), "x"),
        (Number(2.5), 2.5),
        (Pair(1, Number(2)), (1, 2.0)),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (deque([1, 2]), [1, 2]),
        (range(3), [0, 1, 2]),
        (np.array([Fraction(1, 2)]), [Fraction(1, 2)]),
        (np.zeros(2).view(Array), np.zeros(2)),
        (np.arange(3, dtype=">i4"), np.arange(3, dtype="i4")),
        (np.longdouble(1.5), 1.5),
    ],
)
def test_a_class_of_ones_own_arrives_as_the_plain_value_that_it_is(value, as_what):
    assert same(carried(value), as_what)


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, 1j, lambda: 0, (x for x in ()), np.ma.masked_all(3), np.array([None, {1}])]
    + [np.broadcast_to(np.zeros(1), (1 << 30,))],
    ids=lambda value: type(value).__name__,
)
def test_other_values_are_refused_by_name(value):
    with pytest.raises(wire.Unsendable):
        wire.line_of([value])


def tag(name, *inside):
    return json.dumps({name: inside})


@pytest.mark.parametrize(
    "line",
    ["", "x", "[1", "{}", "01", '{"object": []}', '{"tuple": [], "list": []}', '{"tuple": 3}']
    + ['{"dict": [[1]]}', '{"dict": [[[], 1]]}', '{"dict": "ab"}', "[" * 100_000]
    + [tag("array", "object", 1), tag("array", "float64", 2), tag("array", "bool", [1])]
    + [tag("array", ["float64"], 1), tag("array", "float64", -1, -1), tag("array")]
    + [tag("array", "float64", 0, 2**62, 2**62, 2**62), tag("array", "int8", 1.5)]
    + [tag("array", "int8", 2**70), json.dumps({"bytes": "8"})]
    + [json.dumps({"bytes": count}) for count in (9, -1, None)]
    + [tag("array", "int8", 10**8, [0]), tag("array", "int8", *[10**4000] * 800)]
    + [tag("array", "int8", *[1] * 65)]
    + [tag("fraction", 1, 0), tag("fraction", "1e999999999", 1), tag("slice"), "1" * 5000]
    + [tag("dict", *([HASH_MODULUS * n, 0] for n in range(5000)))],
    ids=lambda line: line[:40],
)
def test_lines_that_nobody_would_write_are_refused(line):
    with pytest.raises(WRONG):
        wire.value_of(line.encode(), bytes(8))


def test_arrays_take_no_bytes_that_were_not_sent():
    message, data = [np.arange(3.0), b"four", np.arange(2)], bytes(range(44))
    text = wire.line_of(message).partition(b"\n")[0].partition(b" ")[2]
    floats, four, ints = wire.value_of(text, data)
    assert floats.tobytes() + four + ints.tobytes() == data
    for short in range(len(data)):
        with pytest.raises(WRONG):
            wire.value_of(text, data[:short])


def test_a_line_that_does_not_end_is_read_no_further_than_its_limit(monkeypatch):
    monkeypatch.setattr(wire, "MAX_LINE_BYTES", 1000)
    for line in (b"0 [" + b"1," * 2000, b"1001 [1]\n" + bytes(2000)):
        ours, theirs = socket.socketpair()
        link = wire.Link(ours)
        theirs.sendall(line)
        with pytest.raises(EOFError):
            link.receive()
        link.close()
        theirs.close()


def mutated(data, chance):
    """One of the ways in which bytes go wrong, or are made to."""
    data = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0 if data:
                data[min(at, len(data) - 1)] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randint(1, 8)]
            case 2:
                data[at:at] = chance.choice([b"9" * 8, b'"', b"[[", b"{", b"null", b"-"])
            case 3:
                data += data[:at]
    return bytes(data)


@pytest.mark.timeout(180)
def test_bad_lines_neither_crash_nor_grow():
    """Every line is a plain value or one of the errors that are expected; memory stays."""
    chance = random.Random(20)
    seeds = [
        wire.line_of(value)
        for value in (
            [1, "two", 3.0, None, True, b"six", (7, [8])],
            [{"a": {"b": [Fraction(1, 3), 2**80]}, (1, 2): -1}],
            ["value", np.arange(12.0).reshape(3, 4), None],
            [np.zeros((0, 3), bool), np.float32(2), np.arange(3, dtype="complex64")],
        )
    ]
    accepted = refused = 0
    slowest, before = 0.0, None
    for n in range(LINES):
        if n == LINES // 10:
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
        data = mutated(chance.choice(seeds), chance)
        started = time.process_time()
        try:
            received(data)
            accepted += 1
        except WRONG:
            refused += 1
        slowest = max(slowest, time.process_time() - started)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{accepted} accepted, {refused} refused, grown {grown} bytes, peak {peak_mib} MiB")
    assert accepted and refused and grown < 64 << 10 and slowest < 2
