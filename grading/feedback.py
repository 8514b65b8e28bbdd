"""What a record says to its student: one word and one sentence per claim, one next step."""

from collections import Counter

from grading.limits import INCIDENTS

LABELS = {
    "passed": "passed",
    "failed": "failed",
    "todo": "to do",
    "waits": "waits",
    "not_run": "not run here",
    "timeout": "out of time",
    "memory": "out of memory",
    "output": "printed too much",
    "crashed": "ended itself",
    "protocol": "broke the protocol",
    "unreadable": "not readable",
    "missing": "not handed in",
    "adjusted": "adjusted",
}


def sentence(claim) -> str:
    """The claim's one line: what went wrong, and the mistake that gives the same result."""
    text = claim["message"]
    if claim["hint"]:
        text += ("" if text.endswith(".") else ".") + f" Hint: {claim['hint']}."
    return text.strip()


def score(record) -> str:
    """The points, and what an instructor or student should know beside them."""
    not_run = f", {record['not_run']} could not be run here" if record["not_run"] else ""
    late = f"; {record['late']}" if record.get("late") else ""
    return f"{record['score']} of {record['max_score']} points{not_run}{late}"


def next_step(record) -> str:
    """The one thing to do next."""
    return "".join(next_step_parts(record))


def next_step_parts(record) -> tuple[str, str]:
    """The one thing to do next: (what it is about, what to do)."""
    claims = record["claims"]
    broken = next((claim["broken"] for claim in claims if claim["broken"]), "")
    if broken:
        return "Nothing could be graded: ", broken
    for wanted in (INCIDENTS, ("failed",), ("todo",)):
        for claim in claims:
            if claim["outcome"] in wanted:
                return f"{claim['text'].rstrip('.')}: ", sentence(claim)
    graded = sum(claim["earned"] for claim in claims if claim["outcome"] != "adjusted")
    if graded + record["not_run"] >= record["max_score"]:
        return "", "Nothing left to do in this lab."
    return "", "Run the lab's tests on your machine; they are the same ones."


def common_mistakes(records) -> tuple[list, list]:
    """Two rankings of (lab, what, number of students): mistakes of the bank, claims not earned."""
    mistakes, claims = set(), set()
    for record in records:
        for claim in record["claims"]:
            if claim["broken"]:
                continue  # a file that does not load says nothing of its claims
            if claim["hint"]:
                what = claim["hint"].removeprefix("your result is what you get when ")
                mistakes.add((record["lab"], what, record["student"]))
            if claim["outcome"] in (*INCIDENTS, "failed"):
                claims.add((record["lab"], claim["text"], record["student"]))
    return _ranked(mistakes), _ranked(claims)


def _ranked(found):
    counts = Counter((lab, what) for lab, what, _ in found)
    rows = [(lab, what, count) for (lab, what), count in counts.items()]
    return sorted(rows, key=lambda row: (-row[2], row[0], row[1]))


def handed_in(record) -> bool:
    """Whether there is a hand-in behind the record, be it unreadable."""
    return all(claim["outcome"] != "missing" for claim in record["claims"])


def counts(record) -> bool:
    """Whether there is a score to show: of a hand-in, or what the instructor adjusted."""
    return handed_in(record) or any(claim["outcome"] == "adjusted" for claim in record["claims"])
