"""The capstone's recordings are whole, small and say nothing of the cause; faults leave nothing."""

import hashlib
import json
import os
import re
import subprocess
import sys

import pytest

from labkit.loading import find_labs, load_module

CAPSTONE = next(lab for lab in find_labs() if lab.name == "capstone")
FOLDER = CAPSTONE.path / "incidents" / "recordings"
CAPTURES = sorted(FOLDER.glob("incident-*.json"))
sys.path.append(str(CAPSTONE.path))
from evidence import recordings  # noqa: E402
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
    assert status == 0 and out.count("cause     slow-link") == 2
    assert incidents(capsys, monkeypatch, "read", "slow-link")[1] == out


def test_nothing_is_started_for_a_diagnosis_that_is_not_written(capsys, monkeypatch):
    monkeypatch.setattr(program, "make", None)
    asked = ("replay", "slow-link")
    status, out, err = incidents(capsys, monkeypatch, *asked, implementation="starter")
    assert (status, out) == (2, "") and err.count("\n") == 1 and "diagnose is yours" in err


def test_the_list_says_what_cannot_be_replayed(capsys, monkeypatch):
    names = incidents(capsys, monkeypatch, "list")[1].splitlines()
    assert len(names) == len(cases.CASES)
    for name in (name.split()[0] for name in names if "recorded only" in name):
        status, _, err = incidents(capsys, monkeypatch, "replay", name)
        assert status == 2 and err.count("\n") == 1


README = (CAPSTONE.path / "README.md").read_text(encoding="utf-8")


def test_the_readme_says_which_recording_holds_what():
    said = {}
    for numbers, keys in re.findall(r"(?m)^\| ([\d ]+) \|.*\| (`.+`) \|$", README):
        said |= dict.fromkeys(map(int, numbers.split()), set(re.findall(r"`(\w+)`", keys)))
    found = {n: set(recordings.load(n)) - {"plan", "healthy"} for n in recordings.answers()}
    assert said == found


def test_the_readme_prints_what_the_recordings_show():
    diagnose = load_module(CAPSTONE.file("solution")).diagnose
    seen = [
        (answer["cause"], diagnose(recordings.load(number, repeat))["numbers"])
        for number, answer in recordings.answers().items()
        for repeat in range(recordings.repeats(number))
    ]
    for _, numbers in seen:
        if "waited" in numbers:
            numbers["lost"] = numbers["waited"] - numbers["usually_waited"]
    table = README[README.index("| compared |") :].partition("\n\n")[0].splitlines()[2:]
    measures = {
        "compute_ratio": {"slow-rank", "busy-neighbour"},
        "foreign": {"busy-neighbour", "disturbed"},
        "transfer_ratio": {"slow-link"},
        "tail_ratio": {"unsteady-link"},
        "busy_ratio": {"slow-stage"},
        "lost": {"no-overlap"},
    }
    for row, (name, causes) in zip(table, measures.items(), strict=True):
        others = [n[name] for cause, n in seen if name in n and cause not in causes]
        faulty = [n[name] for cause, n in seen if name in n and cause in causes]
        assert row.endswith(f"| {max(others):.2f} | {min(faulty):.2f} |"), row
    lines = [round(n["latency_us"]) for cause, n in seen if cause == "slow-link"]
    assert f"{lines[0]} and {lines[1]} us" in README
