"""Amounts as chapters and figures write them: labkit's, with spaces that do not break."""

from labkit.table import bytes_text, seconds_text

KIB, MIB, GIB = 1024, 1024**2, 1024**3


def human_bytes(count: float) -> str:
    """1536 -> '1.5 KiB'."""
    return bytes_text(float(count)).replace(" B", " bytes").replace(" ", "\u00a0")


def microseconds(seconds: float) -> str:
    """0.0000164 -> '16.4 µs', 0.0021 -> '2.1 ms'."""
    return seconds_text(seconds).replace("us", "µs").replace(" ", "\u00a0")
