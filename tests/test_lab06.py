"""Lab 06's program and recordings, and that what is slow is never called hung."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labkit.loading import ROOT, choose_lab, find_labs, load_chosen, load_module
from tests.conftest import python

LAB = choose_lab("lab-06", find_labs())
CAPSTONE = choose_lab("capstone", find_labs())
INCIDENTS = CAPSTONE.path / "incidents" / "recordings"


@pytest.fixture(scope="module")
def solution():
    return load_module(LAB.file("solution"))


@pytest.fixture(scope="module")
def capstone():
    return load_module(CAPSTONE.file("solution"))


@pytest.fixture(scope="module")
def simulate():
    return load_module(LAB.path / "simulate.py")


def clinic(*words, **environment):
    return python(LAB.path / "clinic.py", *words, **environment)


def test_a_thousand_simulated_runs_are_diagnosed_right(solution, simulate):
    for number in range(1000):
        cause = simulate.CAUSES[number % len(simulate.CAUSES)]
        evidence, truth = simulate.draw(random.Random(number), cause)
        found = solution.diagnose_hang(evidence)
        assert found["cause"] == truth["cause"], (number, cause)
        assert truth["where"] in (None, found["where"]), (number, cause)


sys.path.append(str(CAPSTONE.path))
from incidents import __main__ as incidents  # noqa: E402
from incidents import cases as incident_cases  # noqa: E402
from incidents import hung  # noqa: E402

SLOW = [path for path in sorted(INCIDENTS.glob("incident-*.json"))]
SLOW = [path for path in SLOW if json.loads(path.read_text()).get("ranks", [{}])[0].get("steps")]


@pytest.mark.parametrize("path", SLOW, ids=lambda path: path.stem)
def test_what_the_capstone_calls_slow_is_not_called_hung(solution, path):
    """Its recordings, looked at twice: in the middle, and at the end."""
    recorded = json.loads(path.read_text())
    before_us = [step["end_us"] for step in recorded["ranks"][0]["steps"]]
    length_s = sum(before_us) / 1e6  # steps follow each other; each counts from its own moment
    evidence = {
        "groups": {},
        "looks_s": [length_s / 2, length_s],
        "ranks": [as_evidence(rank, before_us) for rank in recorded["ranks"]],
    }
    assert not solution.is_hung(evidence)


def as_evidence(rank, before_us):
    """A capstone's rank as one of lab 06's; where nothing is exchanged a step is an event."""
    collectives, began_us = [], 0
    for step, length_us in zip(rank["steps"], before_us, strict=True):
        for _, _, entered_us, left_us in step["collectives"] or [[0, 0, 1, length_us]]:
            times = (began_us + entered_us) / 1e6, (began_us + left_us) / 1e6
            collectives.append(dict(zip(("entered_s", "left_s"), times, strict=True)))
        began_us += length_us
    return {"exit": None, "collectives": collectives, "cpu_s": [0, 0]}


def steps_of(evidence):
    """(what the capstone says of a hang, whether it knows that the run did not end)."""
    incident = hung.as_incident(evidence)
    return incident, hung.unended(incident)


HANGS = sorted(LAB.path.glob("recordings/[0-9]*.json"))


@pytest.mark.parametrize("path", HANGS, ids=lambda path: path.stem)
def test_a_recording_is_small_and_whole(path):
    """Each collective's group has members, each rank two looks; no path of the machine is in it."""
    text = path.read_text()
    evidence = json.loads(text)
    assert len(text) < 50_000 and str(Path.home()) not in text and str(ROOT) not in text
    for rank in evidence["ranks"]:
        assert {one["group"] for one in rank["collectives"]} <= set(evidence["groups"])
        assert len(rank["states"]) == len(rank["stacks"]) == len(rank["cpu_s"]) == 2


@pytest.mark.parametrize("path", HANGS, ids=lambda path: path.stem)
def test_what_hangs_is_not_called_slow_by_the_capstone(path, capsys):
    """A recording that has no end is told so, and the learner's diagnose is not asked."""
    incident, inside = steps_of(json.loads(path.read_text()))
    assert set(inside) == set(range(len(incident["ranks"])))
    incidents.say(None, incident, None)
    said = capsys.readouterr().out
    assert "did not end" in said
    assert not [cause for _, cause, *_ in incident_cases.CASES.values() if cause in said]


def test_nor_are_simulated_hangs_and_a_run_that_was_let_end_is_asked_about(simulate):
    for number in range(300):
        cause = simulate.CAUSES[number % len(simulate.CAUSES)]
        evidence, truth = simulate.draw(random.Random(number), cause)
        incident, inside = steps_of(evidence)
        assert set(inside) >= set(truth["graph"]) and inside, (number, cause)
        for rank in incident["ranks"]:
            rank["steps"] = [step for step in rank["steps"] if step["end_us"] is not None] or [
                {"end_us": 1, "collectives": []}
            ]
        assert not hung.unended(incident), (number, cause)


ALL_SLOW = sorted(INCIDENTS.glob("incident-*.json"))


@pytest.mark.parametrize("path", ALL_SLOW, ids=lambda path: path.stem)
def test_what_is_slow_has_an_end_until_its_last_step_loses_it(path, capstone, capsys):
    """The same recordings, whole: diagnosed. Cut off within a step: told that they did not end."""
    number, repeat = int(path.stem.split("-")[1]), int(path.stem.split("-")[2])
    evidence = incidents.load(number, repeat)
    incidents.say(capstone, evidence, incidents.answers()[number])
    assert "did not end" not in capsys.readouterr().out
    chance = random.Random(path.stem)
    for rank in chance.sample(range(len(evidence["ranks"])), 1) if path in SLOW else ():
        steps = evidence["ranks"][rank]["steps"]
        del steps[chance.randrange(1, len(steps)) :]
        steps[-1] = steps[-1] | {"end_us": None}
        assert set(hung.unended(evidence)) == {rank}


def test_so_are_five_hundred_stills(solution, simulate):
    """Several things wrong at once: what the truth says of them, function by function."""
    for number in range(500):
        evidence, truth = simulate.still(random.Random(number))
        assert solution.wait_graph(evidence) == truth["graph"], number
        assert solution.last_agreed(evidence) == truth["agreed"], number
        assert solution.disagreement(evidence) == truth["disagree"], number
        assert solution.is_hung(evidence) == truth["hung"], number


def test_each_recording_can_be_looked_at_and_is_not_given_away():
    numbers = {int(path.name[:2]) for path in HANGS}
    for number in numbers:
        done = clinic("show", str(number))
        assert done.returncode == 0, done.stderr
        assert "rank 0" in done.stdout and "Your guess" in done.stdout
        assert "--fault" not in done.stdout
    told = {n: " ".join(clinic("show", n).stdout.split()) for n in ("2", "4")}
    assert "Traceback (most recent call last):" in told["2"]  # what decides is not cut off
    assert "Received data size doesn't match expected size" in told["4"]
    unknown = clinic("show", str(max(numbers) + 1))
    assert unknown.returncode == 2 and "wrong-address" not in unknown.stderr


def test_read_runs_the_learners_functions_and_says_so():
    done = clinic("read", "5")
    assert done.stdout.splitlines()[0].startswith("by your starter.py of lab 06")
    reference = clinic("read", "5", LAB_IMPL="solution")
    assert reference.stdout.count("right: so it was done") == 2
    assert "who_is_missing {1: 'behind'}" in reference.stdout
    assert done.returncode == 0 and done.stdout.count("not written yet") == 8 + 2


def test_an_unknown_case_is_one_sentence_that_lists_the_known():
    done = clinic("record", "nonsense")
    assert done.returncode == 2
    assert "no case nonsense; there are healthy, " in done.stderr


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_replay_that_is_interrupted_leaves_no_process(ending):
    command = [sys.executable, str(LAB.path / "clinic.py"), "replay", "idle-rank"]
    environment = os.environ | {"LAB_IMPL": "solution"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not (started := ranks_of(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert started
    process.send_signal(ending)
    process.wait(timeout=20)
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in started) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [pid for pid in started if alive(pid)]


def ranks_of(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in children.read_text().split()] if children.exists() else []


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end between open and read
        return False


def moments(case, number, until_s, mark):
    """Drawn: a recording is killed before its processes are there, while they run, at a look."""
    chance = random.Random(case)
    drawn = [chance.uniform(0, until_s) for _ in range(number)]
    return [pytest.param(case, s, id=f"{case}-{s:.1f}", marks=mark) for s in drawn]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="not run here: namespaces need root")
@pytest.mark.parametrize(
    ("case", "after_s"),
    [
        *moments("wrong-address", 4, 12, pytest.mark.torch),
        *moments("vllm-idle", 2, 45, pytest.mark.vllm),
    ],
)
def test_a_recording_that_is_killed_leaves_nothing(case, after_s, tmp_path):
    """No process (and so no port) of it, no namespace, no shared memory; after kill -9 of it."""
    before = names_on_the_machine()
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    code = f"import record; record.record({case!r}, 1.0)"
    recording = subprocess.Popen([sys.executable, "-c", code], cwd=LAB.path, env=environment)
    time.sleep(after_s)
    assert recording.poll() is None
    recording.kill()
    recording.wait()
    deadline = time.monotonic() + 30  # of a busy machine
    while (left := started_with(str(tmp_path))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    assert not names_on_the_machine() - before


def names_on_the_machine():
    """Of network namespaces, and of the shared memory of vLLM's workers."""
    places = Path("/run/netns").glob("lab*"), Path("/dev/shm").glob("vllm_dist_*")
    return {path for place in places for path in place}


def started_with(word):
    """The processes in whose environment or command line the word stands, as on their first day."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            told = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            if word.encode() in told and alive(int(process.name)):
                state = (process / "stat").read_text().rpartition(")")[2].split()[:2]
                found.append((process.name, state, (process / "cmdline").read_text()[:300]))
    return found


@pytest.mark.torch
def test_the_links_of_this_machine_work():
    done = clinic("links", LAB_IMPL="solution")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("links that do not work: none") == 2


def test_the_switch_loads_either_implementation(monkeypatch):
    monkeypatch.setenv("LAB_IMPL", "starter")
    with pytest.raises(NotImplementedError, match="lab-06 · is_hung is yours to write"):
        load_chosen(LAB.path).is_hung({})
