"""labkit.table: columns line up, and amounts keep three digits."""

import random

import pytest

from labkit.table import bytes_text, columns, seconds_text


def test_columns_line_up_and_a_single_value_widens_nothing():
    draw = random.Random(5)
    for _ in range(50):
        align = "".join(draw.choice("lr") for _ in range(draw.randint(2, 5)))
        rows = [["x" * draw.randint(1, 9) for _ in align] for _ in range(draw.randint(1, 6))]
        lines = columns([["a heading that is longer than all"], *rows], align)
        assert lines[0] == "a heading that is longer than all"
        for number, side in enumerate(align):
            width = max(len(row[number]) for row in rows)
            start = sum(max(len(row[n]) for row in rows) + 2 for n in range(number))
            for row, line in zip(rows, lines[1:], strict=True):
                at = start + (width - len(row[number])) * (side == "r")
                assert line[at : at + len(row[number])] == row[number]


@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "1 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1023 * 1024, "1023 KiB"), (3e9, "2.79 GiB")],
)
def test_bytes(count, text):
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.64e-5, "16.4 us"),
        (0.00099996, "1 ms"),
        (0.41, "410 ms"),
        (12, "12 s"),
        (7.5e-7, "0.75 us"),
    ],
)
def test_seconds(seconds, text):
    assert seconds_text(seconds) == text
