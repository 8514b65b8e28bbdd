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
}
NOT_LOADED = "Nothing could be graded: "


def sentence(claim) -> str:
    """The claim's one line: what went wrong, and the mistake that gives the same result."""
    text = claim["message"]
    if claim["hint"]:
        text += ("" if text.endswith(".") else ".") + f" Hint: {claim['hint']}."
    return text.strip()


def next_step(record) -> str:
    """The one thing to do next."""
    claims = record["claims"]
    broken = next((claim["broken"] for claim in claims if claim["broken"]), "")
    if broken:
        return NOT_LOADED + broken
    for wanted in (("protocol", "crashed", "memory", "timeout", "output"), ("failed",), ("todo",)):
        for claim in claims:
            if claim["outcome"] in wanted:
                return f"{claim['text'].rstrip('.')}: {sentence(claim)}"
    if record["score"] + record["not_run"] >= record["max_score"]:
        return "Nothing left to do in this lab."
    return "Run the lab's tests on your machine; they are the same ones."


def common_mistakes(records) -> list[tuple[str, str, int]]:
    """(lab, what, how many students), most common first: mistakes by name, then failed claims."""
    hints, claims = {}, {}
    for record in records:
        for claim in record["claims"]:
            if claim["hint"]:
                hints.setdefault((record["lab"], claim["hint"]), set()).add(record["student"])
            elif claim["outcome"] not in ("passed", "not_run", "todo", "waits", "unreadable"):
                claims.setdefault((record["lab"], claim["text"]), set()).add(record["student"])
    ranked = []
    for table in (hints, claims):
        rows = [(lab, what, len(students)) for (lab, what), students in table.items()]
        ranked += sorted(rows, key=lambda row: (-row[2], row[0], row[1]))
    return ranked
