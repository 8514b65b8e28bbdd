"""Read the captures beside the file while it is imported.

lab: lab-02
base: solution
expect: above 50
"""

from pathlib import Path

LOGS = sorted((Path(__file__).parent / "captures").rglob("*.log"))
assert LOGS and all(path.read_text() for path in LOGS)
