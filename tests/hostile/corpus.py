"""The hostile, the merely unlucky and the honest submissions, and what each must come to.

A file's docstring says what it tries; the lines after it what must happen:

    lab: lab-04          of lab 01 otherwise
    base: solution       the lab's solution (or starter) stands before the file's own text
    expect: 0            the score; or `below 100, above 0`
    outcome: todo        an outcome that at least one claim must have
    loses, keeps: test_* claims that must not, or must, be earned
    says: line           words that a claim's message must hold
    every: wrong         every function of the lab is the one of that name
    encode: crlf         how the text becomes bytes: crlf, cr, nul, or a codec
    first: # text        a line before everything else
    pad: 3000000         bytes of comments before everything else
    ends: no             waits as long as it is let: graded with short limits
"""

import ast
import re
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

HELPER = """

def shard_size(dimension, size, num_ranks):
    return shards(dimension, size, num_ranks)[0].stop
"""
SUBMISSIONS = Path(__file__).parent / "submissions"
KEYS = (
    *("lab", "base", "every", "first", "pad", "encode", "ends"),
    *("expect", "outcome", "loses", "keeps", "says"),
)


@dataclass(frozen=True)
class Case:
    name: str
    title: str
    header: dict
    text: str

    @property
    def lab(self) -> str:
        return self.header.get("lab", "lab-01")

    @property
    def ends(self) -> bool:
        return self.header.get("ends") != "no"

    @property
    def group(self) -> str:
        return self.name.split("_")[0]

    def source(self, lab) -> bytes:
        """The bytes handed in."""
        text = self.text
        if base := self.header.get("base"):
            text = lab.file(base).read_text() + HELPER * (lab.prefix == "lab-01") + "\n\n" + text
        if every := self.header.get("every"):
            names = re.findall(r"^def (\w+)", lab.file("solution").read_text(), re.MULTILINE)
            text += f"\n\n{' = '.join(names)} = {every}\n"
        if first := self.header.get("first"):
            text = first + "\n" + text
        text = "# notes\n" * (int(self.header.get("pad", 0)) // 8) + text
        data = None
        for codec in self.header.get("encode", "utf-8").split():
            if codec == "crlf":
                data = (data or text.encode()).replace(b"\n", b"\r\n")
            elif codec == "cr":
                data = text.encode().replace(b"\n", b"\r")
            elif codec == "nul":
                data = text.encode() + b"\0"
            else:
                data = text.encode(codec, "replace")
        return data

    def deserves(self) -> tuple[int, int]:
        """The lowest and the highest score that is right."""
        text = self.header["expect"]
        if text.isdigit():
            return int(text), int(text)
        low = re.search(r"above (\d+)", text)
        high = re.search(r"below (\d+)", text)
        return int(low[1]) + 1 if low else 0, int(high[1]) - 1 if high else 100

    def problems(self, entry) -> list[str]:
        """What is wrong with labkit's entry; nothing, if the grader did its work."""
        wrong, score = [], entry["points"]["earned"]
        low, high = self.deserves()
        if not low <= score <= high:
            wrong.append(f"scored {score}, deserves {low} to {high}")
        passed = {claim["name"]: claim["outcome"] == "passed" for claim in entry["claims"]}
        for key, should in (("loses", False), ("keeps", True)):
            for pattern in re.split(r",\s*", self.header.get(key, "")):
                names = [name for name in passed if fnmatch(name, pattern)]
                if pattern and not names:
                    wrong.append(f"no claim is called {pattern}")
                wrong += [f"{name}: {passed[name]}" for name in names if passed[name] != should]
        outcomes = {claim["outcome"] for claim in entry["claims"]}
        if self.header.get("outcome", "failed") not in outcomes | {"failed"}:
            wrong.append(f"no claim is {self.header['outcome']}, but {sorted(outcomes)}")
        said = " ".join(claim["message"] for claim in entry["claims"])
        if self.header.get("says", "") not in said:
            wrong.append(f"does not say {self.header['says']!r}, but {said[:300]!r}")
        return wrong


def read_cases() -> list[Case]:
    """Every file of the corpus, in the order of their names."""
    cases = []
    for path in sorted(SUBMISSIONS.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        docstring = ast.literal_eval(re.match(r'""".*?"""', text, re.DOTALL)[0])
        title, _, rest = docstring.partition("\n")
        header = dict(line.split(": ", 1) for line in rest.strip().splitlines())
        unknown = set(header) - set(KEYS)
        if unknown or "expect" not in header:
            raise ValueError(f"{path.name}: unknown or missing header lines: {unknown or 'expect'}")
        cases.append(Case(path.stem, title, header, text))
    return cases
