"""Columns, bytes and seconds as every program of the course prints them."""


def columns(rows, align, gap=2):
    """Lines of text: each column as wide as its widest cell and the next one `gap` spaces on.

    rows: lists of values, printed by str(), as long as align or shorter; one that holds a single
    value is a line of its own and widens nothing. align: a letter for each column, "l" or "r".
    """
    rows = [[str(cell) for cell in row] for row in rows]
    sizes = [[len(row[n]) for row in rows if n < len(row) > 1] for n in range(len(align))]
    widths = [max(column, default=0) for column in sizes]
    sides = [str.rjust if side == "r" else str.ljust for side in align]
    aligned = [[put(*cell) for put, *cell in zip(sides, row, widths, strict=False)] for row in rows]
    return [(" " * gap).join(cells).rstrip() for cells in aligned]


def bytes_text(count):
    """1536 -> '1.5 KiB', 800 -> '800 B'; three significant digits."""
    for size, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= size:
            value = count / size
            return f"{value:.3g} {unit}" if value < 999.5 else f"{value:.0f} {unit}"
    return f"{count:g} B"


def seconds_text(seconds):
    """0.0000164 -> '16.4 us', 0.0021 -> '2.1 ms', 12 -> '12 s'; three significant digits."""
    for size, unit in ((1, "s"), (1e-3, "ms")):
        if seconds >= 0.9995 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
