"""The capstone's recordings are whole, small and say nothing of the cause; faults leave nothing."""

import hashlib
import json
import os
import subprocess
import sys

import pytest

from labkit.loading import find_labs

CAPSTONE = next(lab for lab in find_labs() if lab.name == "capstone")
FOLDER = CAPSTONE.path / "incidents" / "recordings"
CAPTURES = sorted(FOLDER.glob("incident-*.json"))
sys.path.append(str(CAPSTONE.path))
from incidents import __main__ as program  # noqa: E402
from incidents import cases, faults, tp  # noqa: E402


def test_every_recording_is_signed_as_it_stands():
    signed = {}
    for group, entry in json.loads((FOLDER / "provenance.json").read_text()).items():
        assert entry["command"].startswith(f"python -m incidents record {group}")
        signed |= entry["sha256"]
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in CAPTURES}
    assert found and signed == found


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_recording_is_small_and_names_no_cause(path):
    text = path.read_text()
    assert len(text) <= 200_000
    causes = {cause for _, cause, *_ in cases.CASES.values()} - {"healthy"}
    assert not [word for word in (*causes, str(CAPSTONE.path.parents[2])) if word in text]


def test_numbers_of_cases_are_their_own_and_lead_to_a_healthy_run():
    numbers = [number for number, *_ in cases.CASES.values()]
    assert len(set(numbers)) == len(numbers)
    causes = {number: cause for number, cause, *_ in cases.CASES.values()}
    assert {causes[healthy] for *_, healthy in cases.CASES.values()} == {"healthy"}
    assert sorted(name for names in cases.GROUPS.values() for name in names) == sorted(cases.CASES)


def test_what_others_used_is_what_no_rank_did():
    watched = {"ranks": [[0.5, 0.9], [0.7, 1.0]], "cores": [[0.9, 0.9], [0.9, 0.95]]}
    assert tp.used_by_others({"processor": watched}) == pytest.approx([0.3, 0.0])
    assert tp.used_by_others({"plan": {}}) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="not run here: quotas need root")
def test_a_quota_slows_its_process_and_leaves_nothing():
    spin = [sys.executable, "-c", "while True: pass"]
    before = set(faults.CGROUPS.rglob("incident-*"))
    process = subprocess.Popen(spin)
    try:
        with faults.quota(0, 0.2)([process.pid], None):
            groups = set(faults.CGROUPS.rglob("incident-*")) - before
            (group,) = {path for path in groups if path.is_dir()}
            assert str(process.pid) in (group / "cgroup.procs").read_text().split()
        assert not group.exists()
    finally:
        process.kill()
        process.wait()


def test_neighbours_end_with_the_fault():
    with faults.neighbours(0)([], None):
        found = subprocess.run(["pgrep", "-P", str(os.getpid()), "-f", "while True"], check=False)
        assert found.returncode == 0
    assert subprocess.run(["pgrep", "-P", str(os.getpid()), "-f", "while True"]).returncode == 1


def incidents(capsys, monkeypatch, *words, implementation="solution"):
    monkeypatch.setattr(sys, "argv", ["incidents", *words])
    monkeypatch.delenv("LAB_IMPL", raising=False)
    if implementation:
        monkeypatch.setenv("LAB_IMPL", implementation)
    status = 0
    try:
        program.main()
    except SystemExit as stop:
        status = stop.code
    said = capsys.readouterr()
    return status, said.out, said.err


def test_a_recording_is_diagnosed_by_number_and_by_name(capsys, monkeypatch):
    status, out, _ = incidents(capsys, monkeypatch, "read", "11")
    assert status == 0 and out.count("cause  slow-link") == out.count("right: so it was done") == 2
    assert incidents(capsys, monkeypatch, "read", "slow-link")[1] == out


def test_a_wrong_diagnosis_is_told_so(capsys, monkeypatch):
    lab = program.load_and_say(CAPSTONE.path, default="solution")
    wrong = {"cause": "slow-rank", "where": 1, "cost": 0.5, "numbers": {}}
    monkeypatch.setattr(lab, "diagnose", lambda evidence: wrong)
    program.say(lab, program.load(11), program.answers()[11])
    assert "  it was something else\n" in capsys.readouterr().out


@pytest.mark.parametrize("number", sorted(program.answers()))
def test_what_is_shown_of_a_recording_fits_a_terminal_and_names_no_cause(
    number, capsys, monkeypatch
):
    status, out, _ = incidents(capsys, monkeypatch, "show", str(number), implementation="")
    assert status == 0 and f"read {number}" in out and "guess" in out
    assert max(map(len, out.splitlines())) <= 80 and len(out.splitlines()) <= 40
    for cause in {cause for _, cause, *_ in cases.CASES.values()}:
        assert cause == "healthy" or cause not in out
    assert "healthy" in out  # beside a healthy day


def test_what_is_shown_of_a_step_is_what_was_done(capsys, monkeypatch):
    """The neighbour's rank computes all the time, and the other one waits half of it."""
    rows = incidents(capsys, monkeypatch, "show", "busy-neighbour")[1].splitlines()
    first, second = (next(r for r in rows if r.startswith(f"rank {n} ")) for n in (0, 1))
    assert first.count(".") > 20 > second.count(".") and second.count("#") > first.count("#")


def test_nothing_is_started_for_a_diagnosis_that_is_not_written(capsys, monkeypatch):
    monkeypatch.setattr(program, "make", None)
    asked = ("replay", "slow-link")
    status, out, err = incidents(capsys, monkeypatch, *asked, implementation="starter")
    assert out.startswith("by your starter.py of the capstone") and out.count("\n") == 1
    assert status == 2 and err.count("\n") == 1 and "is yours to write" in err


def test_the_reference_s_diagnosis_is_never_shown_unasked(capsys, monkeypatch):
    _, out, _ = incidents(capsys, monkeypatch, "read", "11", implementation="")
    assert out.startswith("by your starter.py") and "cause" not in out


def test_the_list_gives_no_answer_away(capsys, monkeypatch):
    lines = incidents(capsys, monkeypatch, "list")[1].splitlines()
    assert [int(line.split()[4]) for line in lines] == sorted(program.answers())
    assert all(line.startswith("python -m incidents show ") for line in lines)


def test_what_cannot_be_replayed_says_so(capsys, monkeypatch):
    for name in cases.GROUPS["training"]:
        status, _, err = incidents(capsys, monkeypatch, "replay", name)
        assert status == 2 and err.count("\n") == 1


@pytest.mark.parametrize("number", sorted(program.answers()))
def test_read_shows_what_each_written_function_says(number, capsys, monkeypatch):
    _, out, _ = incidents(capsys, monkeypatch, "read", str(number))
    assert out.count("right: so it was done") == program.repeats(number)
    _, out, _ = incidents(capsys, monkeypatch, "read", str(number), implementation="starter")
    assert out.count("diagnose            not written yet") == program.repeats(number)
