"""Amounts as chapters and figures write them."""

KIB, MIB, GIB = 1024, 1024**2, 1024**3


def human_bytes(count: float) -> str:
    """1536 -> '1.5 KiB'; three significant digits, no trailing zeros."""
    count = float(count)
    for size, unit in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= size:
            shown = f"{count / size:.3g}" if count / size < 999.5 else f"{count / size:.0f}"
            return f"{shown}\u00a0{unit}"
    return f"{count:g}\u00a0bytes"


def microseconds(seconds: float) -> str:
    """0.0000164 -> '16.4 µs', 0.0021 -> '2.1 ms'."""
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.3g}\u00a0ms"
    return f"{seconds * 1e6:.3g}\u00a0µs"
