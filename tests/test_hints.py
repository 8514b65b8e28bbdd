"""The last hint of a function, the formula, is code, and it is run: against the function's checks.

A block that ends in `return` is pasted as the function's whole body, before which refusals may
stand; of a block that does not, every line stands in the solution, which its checks run.
"""

import contextlib
import io
import re
import textwrap

import pytest

from labkit.claims import claims_in
from labkit.loading import choose_lab, find_labs
from labkit.mistakes import Mistake, load_bank
from labkit.mistakes.__main__ import Bench
from labkit.tasks import BLOCK, hints_of, owner_of, tasks_of

LABS = find_labs()
# whose formulas are not code yet; a lab joins by leaving this line
TO_COME = ()
READY = [lab for lab in LABS if lab.prefix not in TO_COME]


def formula_of(lab, function):
    """The code of the last hint."""
    code = re.findall(r"^```python\n(.*?)^```$", hints_of(lab)[function][-1], re.M | re.S)
    assert len(code) == 1, f"{lab.prefix}: the last hint of {function} needs one block of Python"
    return code[0].rstrip()


def ends_in_return(code):
    return any(line.startswith("return ") for line in code.splitlines())


def solutions_of(lab):
    """{function: what the learner writes of it, its helpers included}."""
    text, found, owner = lab.file("solution").read_text(encoding="utf-8"), {}, ""
    for block in BLOCK.finditer(text):
        owner = owner_of(block) or owner
        found[owner] = found.get(owner, "") + block["body"]
    return found


def pasted(lab, function, code, namespace):
    """The function with this body; what the solution refuses, it refuses as well."""
    text = lab.file("solution").read_text(encoding="utf-8")
    block = next(block for block in BLOCK.finditer(text) if owner_of(block) == function)
    begin = re.search(rf"^(?:@\w+\n)*def {function}\(", text, re.M).start()
    refusals = re.match(r"(?:\s*if [^\n]+\n\s+raise [^\n]+)*", block["body"])[0]
    body = text[begin : block.start()] + refusals + "\n" + textwrap.indent(code, "    ")
    exec(compile(body, f"hint of {function}", "exec"), namespace, made := {})
    return made[function]


@pytest.mark.parametrize("lab", READY, ids=lambda lab: lab.prefix)
def test_every_task_has_a_formula_and_each_is_right(lab):
    bank, checks, solutions = load_bank(lab), claims_in(lab), solutions_of(lab)
    assert set(hints_of(lab)) == set(tasks_of(lab))
    pastes = []
    for function in tasks_of(lab):
        code = formula_of(lab, function)
        if not ends_in_return(code):
            lines = {line.partition("  #")[0].strip() for line in solutions[function].splitlines()}
            missing = [line for line in code.splitlines() if line.strip() not in lines]
            assert not missing, f"{lab.prefix} {function}: not in the solution: {missing}"
            continue
        own = tuple(c.name for c in checks if c.name.startswith(f"test_{function}__"))
        body = pasted(lab, function, code, vars(bank.solution))
        pastes.append(Mistake(f"{function}__formula", function, "", own, body))
    bench = Bench(bank, lab, pastes)
    options = ["-q", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header"]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([str(lab.file("test_lab")), *options], plugins=[bench])
    assert len(bench.verdicts) == len(pastes) > 0
    wrong = [v.mistake.name for v in bench.verdicts if v.failed or v.crashed]
    assert not wrong, f"{lab.prefix}: these formulas fail their checks: {wrong}"


def test_a_formula_that_fails_its_check_is_found(monkeypatch):
    lab = choose_lab("lab-04", LABS)
    hints = hints_of(lab) | {"latency_s": ["", "", "```python\nreturn model_s + p * hop_s\n```"]}
    monkeypatch.setitem(globals(), "hints_of", lambda lab: hints)
    with pytest.raises(AssertionError, match="latency_s__formula"):
        test_every_task_has_a_formula_and_each_is_right(lab)
