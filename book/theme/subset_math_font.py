"""Make src/assets/lab-math.woff2 from STIX Two Math: the blocks that formulas use, tables whole.

pip install fonttools brotli
npm pack @fontsource/stix-two-math@5.3.0   (unpack it; the font is files/*latin-400-normal.woff2)
python book/theme/subset_math_font.py FONT.woff2

A browser stretches braces, roots and arrows only with the OpenType MATH table; it is kept.
"""

import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "src" / "assets" / "lab-math.woff2"
BLOCKS = (
    "U+20-7E,U+A0,U+B1,U+B7,U+D7,U+F7,U+131,U+237,U+302-304,U+391-3C9,U+2013-2014,U+2026,"
    "U+2032-2033,U+210E,U+211D,U+2190-2194,U+21D2,U+2200-220F,U+2211-221E,U+2223-222B,U+2248,"
    "U+2260-2265,U+22A4,U+22C5,U+22EF,U+2308-230B,U+23DE-23DF,U+1D434-1D467,U+1D6FC-1D71B"
)


def main() -> int:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit(__doc__)
    from fontTools import subset

    subset.main(
        [
            sys.argv[1],
            f"--unicodes={BLOCKS}",
            "--layout-features=*",
            "--flavor=woff2",
            "--no-hinting",
            f"--output-file={TARGET}",
        ]
    )
    print(f"{TARGET.name}: {TARGET.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
