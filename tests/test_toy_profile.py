"""Lab 02's profile: what it measures and writes, and what its recorded runs say."""

import hashlib
import json
import math
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

LAB = next((Path(__file__).resolve().parent.parent).glob("phase-10*/labs/lab-02-*"))
sys.path.insert(0, str(LAB))

from tensor_parallel_toy import schedule, stream_machine  # noqa: E402
from tensor_parallel_toy.measure import figures, rows, trace  # noqa: E402

CAPTURES = sorted((LAB / "captures").glob("toy-*"))
FILES = {"profile.json", "timeline.json", "curves.svg", "timeline.svg", "trace.json"}
TINY = (
    "--hidden-size 64 --num-layers 2 --ffn-size 96 --seq-len 32 --batch-size 2 --num-heads 4 "
    "--num-kv-heads 2 --vocab-size 32 --steps 2"
)


def run_profile(folder, *options):
    command = [sys.executable, "-m", "tensor_parallel_toy", "profile", *TINY.split(), *options]
    return subprocess.run(
        [*command, "--out", str(folder)], cwd=LAB, capture_output=True, text=True, timeout=110
    )


def profile(folder, *options):
    ran = run_profile(folder, *options)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def check_folder(folder):
    """Files and hashes, valid SVG and trace, coinciding losses; returns the profile."""
    provenance = json.loads((folder / "provenance.json").read_text())
    assert {path.name for path in folder.iterdir()} == FILES | {"provenance.json"}
    assert set(provenance["sha256"]) == FILES
    for name, digest in provenance["sha256"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name
    for name in ("curves.svg", "timeline.svg"):
        assert ElementTree.parse(folder / name).getroot().tag.endswith("svg")
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert {event["cat"] for event in spans} == {"GEMM", "wait", "in flight"}
    assert all(event["dur"] >= 0 and event["ts"] >= -1e5 for event in spans)
    result = json.loads((folder / "profile.json").read_text())
    assert result["losses_coincide"]
    modes = result["modes"]
    ranks = result["ranks"]
    for name, mode in modes.items():
        if name == "compute only":
            continue
        assert mode["loss"][-1] < mode["loss"][0]
        assert all(norm > 0 and math.isfinite(norm) for norm in mode["gradient_norm"])
        if name in ("plain", "sequential", "overlap"):
            assert [size * ranks for size in mode["saved_bytes"]] == (
                [modes["no TP"]["saved_bytes"][0]] * ranks
            )
    return result


def message_bytes(config, ranks):
    """What one rank sends in a step over point-to-point links: ten shards per layer and peer."""
    shard = config["seq_len"] // ranks * config["batch_size"] * config["hidden_size"] * 4
    return config["num_layers"] * 10 * (ranks - 1) * shard


def check_kept_input(result):
    """Kept instead of gathered again: two of ten shards less per layer, and so much more memory."""
    config, ranks = result["config"], result["ranks"]
    shard = config["seq_len"] // ranks * config["batch_size"] * config["hidden_size"] * 4
    again, kept = [result["modes"][name] for name in ("overlap", "overlap, input kept")]
    gathers = 2 * config["num_layers"] * (ranks - 1)
    for rank in range(ranks):
        assert again["sent_bytes"][rank] - kept["sent_bytes"][rank] == gathers * shard
        assert kept["saved_bytes"][rank] - again["saved_bytes"][rank] == gathers * shard


@pytest.mark.torch
@pytest.mark.timeout(120)
def test_profile_trains_all_modes_alike_and_writes_everything(tmp_path):
    printed = profile(tmp_path / "out")
    result = check_folder(tmp_path / "out")
    assert set(result["modes"]) == {
        *("no TP", "no TP, all cores", "plain", "sequential", "overlap"),
        *("overlap, input kept", "DTensor", "DTensor, patient", "compute only"),
    }
    for name in result["modes"]:
        assert name in printed or name == "compute only"
    sent = message_bytes(result["config"], 2)
    for name in ("sequential", "overlap"):
        assert result["modes"][name]["sent_bytes"] == [sent, sent]
    check_kept_input(result)
    for rank in result["remainder"]:
        assert rank["compute only"] + sum(rank["parts"].values()) == pytest.approx(rank["overlap"])
        assert sum(rank["of which"].values()) == pytest.approx(rank["overlap"])
    assert "= overlap" in printed
    assert len(result["operations"]) == 8
    for entry in result["operations"]:
        assert entry["reason"] in printed
        assert entry["plan"][0] in ("overlap", "sequential")


@pytest.mark.torch
@pytest.mark.timeout(120)
def test_a_simulated_link_says_so_and_slows_the_messages_down(tmp_path):
    printed = profile(tmp_path / "out", "--link", "simulated:20mbit")
    result = check_folder(tmp_path / "out")
    assert result["link"] == "simulated 0.02 Gbit/s"
    assert "without plain and DTensor" in printed
    assert set(result["modes"]) & {"plain", "DTensor", "DTensor, patient"} == set()
    sent = result["modes"]["sequential"]["sent_bytes"][0]
    # a lower limit only: the link cannot be faster than it says, the machine may be slower
    assert result["modes"]["sequential"]["median_step_s"] >= sent * 8 / 20e6


@pytest.mark.torch
@pytest.mark.timeout(120)
@pytest.mark.skipif(sys.platform != "linux", reason="--link shm is Linux's")
def test_shared_memory_is_profiled_beside_dtensors_wire(tmp_path):
    printed = profile(tmp_path / "out", "--link", "shm")
    result = check_folder(tmp_path / "out")
    assert result["link"] == "shm"
    check_kept_input(result)
    sent = message_bytes(result["config"], 2)
    for name in ("sequential", "overlap", "overlap, gloo"):
        assert result["modes"][name]["sent_bytes"] == [sent, sent]
    assert "overlap, gloo / DTensor" in printed


@pytest.mark.torch
def test_one_rank_is_told_that_there_is_nothing_to_profile(tmp_path):
    ran = run_profile(tmp_path / "out", "--ranks", "1")
    assert ran.returncode == 1
    words = "rank 0: one rank has nobody to talk to: profile with 2 ranks or more"
    assert ran.stderr.strip() == words
    assert not (tmp_path / "out").exists()


@pytest.mark.torch
def test_overlap_is_chosen_only_where_it_pays():
    from tensor_parallel_toy.measure.plan import decide

    names = ("gemm alone", "comm alone", "sequential", "overlap, 1 piece", "overlap, 2 pieces")
    for times, plan, words in (
        ((40, 40, 80, 60, 50), ["overlap", 2], "38% less"),
        ((40, 40, 80, 50, 60), ["overlap", 1], "1 piece"),
        ((40, 10, 50, 49, 52), ["sequential", 1], "save only 2%"),
        ((40, 10, 50, 55, 60), ["sequential", 1], "cost 10% more"),
        ((40, 1, 41, 41, 41), ["sequential", 1], "little to hide"),
        ((1, 40, 41, 40, 40), ["sequential", 1], "too short"),
    ):
        choice = decide(dict(zip(names, times, strict=True)))
        assert choice["plan"] == plan
        assert words in choice["reason"]
    assert decide(dict(zip(names, (40, 40, 80, 60, 50), strict=True)))["hidden"] == 0.75


def record(spans, messages):
    return {"spans": spans, "messages": messages}


def test_a_message_is_in_flight_from_its_send_to_its_arrival():
    records = [
        record([("GEMM", "y[0]", 0.0, 2.0)], [["sent", "x[0]", 1, 8, 0.5]]),
        record([("wait", "x[0]", 0.0, 3.0)], [["arrived", "x[0]", 0, 8, 3.0]]),
    ]
    assert trace.in_flight(records) == [[], [("x[0] from 0", 0.5, 3.0)]]
    events = trace.perfetto({"overlap": records})["traceEvents"]
    flight = next(event for event in events if event.get("cat") == "in flight")
    assert (flight["ts"], flight["dur"]) == (0.5e6, 2.5e6)
    drawing, said = figures.timeline({"overlap": trace.with_flights(records)}, title="link a<b")
    drawn = drawing.standalone(said)
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert "rank 1 arriving" in drawn and said == "overlap: 3000 ms, blocked 3000 ms of it"


def test_modes_lie_below_each_other_in_one_trace_and_begin_together():
    def rank(start):
        spans = [("GEMM", "y[0]", start, start + 1.0), ("wait", "x[1]", start + 1.0, start + 3.0)]
        messages = [["sent", f"x[{k}]", 0, k, start] for k in range(2)]
        return record(spans, messages + [["arrived", f"x[{k}]", 0, k, start + 2] for k in range(2)])

    runs = {mode: [rank(start)] for mode, start in (("sequential", 5.0), ("overlap", 50.0))}
    events = trace.perfetto(runs)["traceEvents"]
    lanes = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    rows = {e["tid"]: e["args"]["sort_index"] for e in events if e["name"] == "thread_sort_index"}
    spans = [e for e in events if e["ph"] == "X"]
    for mode in runs:
        mine = [e for e in spans if lanes[e["tid"]].startswith(mode)]
        assert min(e["ts"] for e in mine) == 0
        # two messages in flight together: a lane each, or Perfetto would draw one inside the other
        assert len({e["tid"] for e in mine if e["cat"] == "in flight"}) == 2
    assert sorted(lanes, key=rows.get) == sorted(lanes, key=lanes.get)


def test_axes_are_marked_at_round_numbers():
    for least, step in ((1, 1), (1.1, 2), (3, 5), (7, 10), (0.03, 0.05), (180, 200)):
        assert figures.round_step(least) == pytest.approx(step)


@pytest.mark.torch
def test_alone_schedules_keep_their_part_only():
    from tensor_parallel_toy.measure import plan

    ops = schedule.column_backward(2, 0)
    assert {op[0] for op in plan.computation(ops)} == {"gemm"}
    assert "gemm" not in {op[0] for op in plan.communication(ops)}
    kept = [op for op in ops if op not in schedule.MARKS]
    assert sorted(map(str, schedule.sequential(ops))) == sorted(map(str, kept))
    assert stream_machine.PROBLEMS.keys() >= {"column_backward"}


@pytest.mark.parametrize("folder", CAPTURES, ids=lambda folder: folder.name)
def test_recorded_runs_are_whole_and_say_what_we_say(folder):
    """Whole; losses and saved bytes as claimed; on a link that waits overlap beats sequential,
    by less where ranks share a core."""
    result = check_folder(folder)
    ranks, modes = result["ranks"], result["modes"]
    assert modes["overlap"]["sent_bytes"] == [message_bytes(result["config"], ranks)] * ranks
    step = {name: mode["median_step_s"] for name, mode in modes.items()}
    crowded = ranks > json.loads((folder / "provenance.json").read_text())["hardware"]["cpus"]
    if folder.name.endswith("gbit"):  # loopback is a copy by the same cores: nothing to hide in
        assert step["overlap"] < (0.95 if crowded else 0.8) * step["sequential"]
        assert result["hidden_in_step"] > (0.1 if crowded else 0.25)
    assert step["overlap"] < min(step["DTensor, patient"], step["DTensor"])
    if not folder.name.endswith("shm"):  # in shared memory next to nothing is there to be hidden
        assert result["hidden"] > 0 or crowded  # they wait for processors, too
        assert modes["overlap"]["exposed_s"] < modes["sequential"]["exposed_s"]


def test_the_readme_tells_what_was_recorded():
    """Its tables are those that measure/rows.py makes of the captures, and none lacks its place."""
    readme = (LAB / "README.md").read_text()
    assert rows.filled(readme) == readme
    for marker in rows.tables():
        assert f"<!-- {marker} -->" in readme and f"<!-- /{marker} -->" in readme
    for folder in CAPTURES:
        assert f"| {rows.title(folder.name)} |" in readme


def test_tables_of_the_readme_give_the_captures_numbers():
    """One invented profile, each number of it somewhere else in the tables."""
    names = ("no TP", "no TP, all cores", "plain", "sequential", "overlap", "overlap, input kept")
    names += ("overlap, gloo", "DTensor", "DTensor, patient")
    modes = {
        name: {
            "median_step_s": 0.1 * (k + 1),
            "exposed_s": 0.01 * k,
            "saved_bytes": [2**20 * k, 2**20 * 10 * k],
            "peak_bytes": [2**20 * 100 * k],
            "sent_bytes": [2**20 * 1000 * k],
        }
        for k, name in enumerate(names)
    }
    ranks = [{"compute only": 0.4, "parts": {"blocked": 0.02, "rest": -0.01}, "overlap": 0.41}]
    profile = {"modes": modes, "chosen": "1 piece", "bound_s": 0.25, "remainder": ranks}
    profile |= {"hidden": 0.5, "hidden_in_step": -0.5}
    main, kept = rows.main_row("toy-2-ranks-shm", profile), rows.kept_row("toy-x", profile)
    assert main[:7] == ["2 ranks shm", "100", "200", "300", "400", "500", "1 piece"]
    assert main[7:11] == ["800 / 900", "0.62 / 0.56", "250", "30 / 40"]
    assert main[11:] == ["0.50 / -0.50", "40.0 / 70.0", "400 / 700"]
    assert kept == ["x", "500 / 600", "4000 / 5000", "40.0 / 50.0", "0.62 / 0.75"]
    wire = rows.wire_row("toy-x", profile)
    assert wire == ["x", "500", "700", "0.62 / 0.56", "0.88 / 0.78", "2.00"]
    assert rows.remainder_rows("toy-x", profile) == [
        ["compute only", "400.0"],
        ["+ blocked", "20.0"],
        ["+ rest", "-10.0"],
        ["= overlap", "410.0"],
    ]


def test_the_promised_recordings_are_there():
    assert {folder.name for folder in CAPTURES} >= {
        f"toy-{ranks}-ranks-{link}" for ranks in (2, 4) for link in ("loopback", "1gbit", "shm")
    }
