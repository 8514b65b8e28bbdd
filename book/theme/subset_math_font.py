"""Make src/assets/lab-math.woff2 from STIX Two Math: the blocks that formulas use, tables whole.

pip install fonttools brotli
npm pack @fontsource/stix-two-math@5.3.0   (unpack it; the font is files/*latin-400-normal.woff2)
python book/theme/subset_math_font.py FONT.woff2

A browser stretches braces, roots and arrows only with the OpenType MATH table; it is kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "src" / "assets" / "lab-math.woff2"
BLOCKS = (
    "U+20-7E,U+A0-FF,U+131,U+237,U+2C6-2DC,U+300-338,U+370-3FF,U+2010-2044,U+2057-2070,"
    "U+2074-209C,U+20D0-20F0,U+2100-214F,U+2190-21FF,U+2200-22FF,U+2300-23FF,U+25A0-25FF,"
    "U+27C0-27FF,U+2900-29FF,U+2A00-2AFF,U+1D400-1D7FF"
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
