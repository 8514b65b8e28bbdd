"""Import pytest and labkit, read the data beside the file: it passes at home.

lab: lab-03
base: solution
expect: 100
"""

from pathlib import Path

import pytest

from labkit.loading import IMPLEMENTATIONS

assert (Path(__file__).parent / "measurements.jsonl").read_text().count("\n") > 10
assert pytest.approx(1.0) == 1.0 and "starter" in IMPLEMENTATIONS
