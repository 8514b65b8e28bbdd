"""The last page of the course: what was built, once every lab is complete. `make labs` runs it.

    python finale.py SCORES      the file that `pytest --scores=SCORES` wrote

It prints nothing while something is still open that is no stretch task.
"""

import json
import shlex
import subprocess
import sys
from datetime import date
from pathlib import Path

from labkit.loading import find_labs
from labkit.scoreboard import complete_but_for_its_stretch
from labkit.starters import derive

HERE = Path(__file__).resolve().parent
QUESTION = (
    '--model qwen2.5-72b --gpu h100 --gpus 8 --nodes 2 --network "10 GbE" --prompt 2000 '
    "--output 500 --ttft 0.5 --tpot 0.03"
)


def code_lines(text):
    """Lines that are neither blank nor a comment."""
    lines = (line.strip() for line in text.splitlines())
    return sum(1 for line in lines if line and not line.startswith("#"))


def written(lab):
    """How many lines of a starter are its learner's."""
    stub, file = derive(lab), lab.file("starter")
    raised = 4 * stub.count("raise NotImplementedError(\n")
    return code_lines(file.read_text(encoding="utf-8")) - code_lines(stub) + raised


def page(entries, labs):
    """The lines of the last page; entries: of the scores, one for each of the labs."""
    earned, rest, total = (
        sum(entry["points"][key] for entry in entries) for key in ("earned", "not_run", "total")
    )
    lines = sum(written(lab) for lab in labs)
    claims = [claim for entry in entries for claim in entry["claims"]]
    functions = {claim["function"] for claim in claims if claim["outcome"] == "passed"}
    yield f"The course is complete, {date.today():%d %B %Y}: {earned} of {total} points."
    if rest:
        yield f"{rest} more need what this machine does not have; each check says what."
    if earned + rest < total:
        yield f"The stretch tasks are {total - earned - rest} more, for whoever wants them."
    wrote = f"{len(functions)} functions, {lines} lines"
    yield f"You wrote {wrote}. They have just planned a 72B model:"
    command = [
        sys.executable,
        str(HERE / "capstone" / "place.py"),
        *shlex.split(QUESTION),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        yield f"  (they did not: {(done.stderr or done.stdout).strip()[-200:]})"
        return
    plan = json.loads(done.stdout)
    yield f"  python place.py {QUESTION}"
    rivals = f"before {plan['runner_up']}, of {len(plan['plans'])} legal plans"
    yield f"  {plan['choice']}, {rivals}. Type"
    yield from (f"  [{line['where']}] {line['command']}" for line in plan["commands"])
    yield "Now place your own model, on your own machines: place.py --config PATH --box FILE."


def main(scores):
    entries = json.loads(Path(scores).read_text(encoding="utf-8"))["labs"]
    labs = {lab.name: lab for lab in find_labs()}
    done = [e for e in entries if complete_but_for_its_stretch(labs[e["lab"]], e)]
    if len(done) < len(labs):
        return
    print("", *page(entries, labs.values()), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
