"""Where a recorded run comes from: complete on any machine, with the files' own hashes."""

import hashlib
import json
import re

from labkit.provenance import processor, provenance, write_provenance


def test_a_record_says_what_a_reader_needs(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    record = write_provenance("python measure.py", tmp_path, ["run.json"], seed=7)
    assert json.loads((tmp_path / "provenance.json").read_text()) == record
    assert record["command"] == "python measure.py" and record["seed"] == 7
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", record["date"])
    assert record["versions"].keys() == {"python", "numpy"}
    assert record["hardware"]["processor"] and record["hardware"]["cpus"] >= 1
    assert record["sha256"] == {"run.json": hashlib.sha256(b"{}").hexdigest()}


def test_a_package_that_is_not_installed_is_left_out(tmp_path):
    assert provenance("c", tmp_path, [], ("no-such-package",))["versions"].keys() == {"python"}


def test_a_processor_without_a_model_name_is_no_error(tmp_path):
    """arm64 Linux lists processors without one; a recording must not be lost to that."""
    arm = tmp_path / "cpuinfo"
    arm.write_text("processor\t: 0\nBogoMIPS\t: 243.75\nCPU part\t: 0xd4f\n")
    assert processor(arm) and processor(tmp_path / "missing")
    arm.write_text("processor\t: 0\nmodel name\t: Fast CPU: 2 GHz\n")
    assert processor(arm) == "Fast CPU: 2 GHz"
