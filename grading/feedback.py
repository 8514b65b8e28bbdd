"""What a record says to its student: one word and one sentence per claim, one next step."""

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
NOT_LOADED = "Nothing could be graded: "
QUIET = ("passed", "adjusted", "missing")


def sentence(claim) -> str:
    """The claim's one line: what went wrong, and the mistake that gives the same result."""
    text = claim["message"]
    if claim["hint"]:
        text += ("" if text.endswith(".") else ".") + f" Hint: {claim['hint']}."
    return text.strip()


def next_step(record) -> str:
    """The one thing to do next."""
    return "".join(next_step_parts(record))


def next_step_parts(record) -> tuple[str, str]:
    """The one thing to do next: (what it is about, what to do)."""
    claims = record["claims"]
    broken = next((claim["broken"] for claim in claims if claim["broken"]), "")
    if broken:
        return NOT_LOADED, broken
    for wanted in (("protocol", "crashed", "memory", "timeout", "output"), ("failed",), ("todo",)):
        for claim in claims:
            if claim["outcome"] in wanted:
                return f"{claim['text'].rstrip('.')}: ", sentence(claim)
    graded = sum(claim["earned"] for claim in claims if claim["outcome"] != "adjusted")
    if graded + record["not_run"] >= record["max_score"]:
        return "", "Nothing left to do in this lab."
    return "", "Run the lab's tests on your machine; they are the same ones."


WHEN = "your result is what you get when "


def common_mistakes(records) -> tuple[list, list]:
    """Two rankings of (lab, what, number of students): mistakes of the bank, claims not earned."""
    mistakes, claims = {}, {}
    for record in records:
        for claim in record["claims"]:
            if claim["broken"]:
                continue  # a file that does not load says nothing of its claims
            if claim["hint"]:
                what = claim["hint"].removeprefix(WHEN)
                mistakes.setdefault((record["lab"], what), set()).add(record["student"])
            if claim["outcome"] not in (*QUIET, "not_run", "todo", "waits", "unreadable"):
                claims.setdefault((record["lab"], claim["text"]), set()).add(record["student"])
    return _ranked(mistakes), _ranked(claims)


def _ranked(table):
    rows = [(lab, what, len(students)) for (lab, what), students in table.items()]
    return sorted(rows, key=lambda row: (-row[2], row[0], row[1]))


def handed_in(record) -> bool:
    """Whether there is a hand-in behind the record, be it unreadable."""
    return all(claim["outcome"] != "missing" for claim in record["claims"])
