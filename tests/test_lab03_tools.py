"""Lab 03's programs: the share table, the calibration errors, the figure, the measurement."""

import json
import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest

from labkit.loading import ROOT, choose_lab, find_labs, load_module
from labkit.starters import derive
from tests.conftest import as_recorded, python

LAB = choose_lab("lab-03", find_labs())
sys.path.append(str(LAB.path))  # as when a program is run in the folder

import calibration_table  # noqa: E402
import loglog  # noqa: E402
import measure  # noqa: E402
import measure_step  # noqa: E402
import share_table  # noqa: E402

bill = load_module(LAB.file("solution"))
ROWS = share_table.read_measurements()


def run(*command, **environment):
    return python("-B", *command, cwd=LAB.path, **{"PYTHONPATH": str(ROOT)} | environment)


# --- the facts -----------------------------------------------------------------------------------


def test_every_measurement_names_its_source():
    assert len(ROWS) > 100
    assert len({row["id"] for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert set(row) - {"note"} == {"id", "kind", "setting", "value", "unit", "source"}, row
        assert row["value"] > 0 and len(row["source"]) > 10, row


def test_the_links_are_ranges_and_every_gpu_has_one():
    for name, link in bill.LINKS.items():
        for column in ("c_s", "a_s", "busbw_bytes_per_s"):
            low, high = link[column]
            assert 0 < low <= high, (name, column)
    assert {gpu["link"] for gpu in bill.GPUS.values()} <= set(bill.LINKS)


@pytest.mark.parametrize("protocols", ["STRAIGHT_LINE", "NCCL_PROTOCOLS"])
@pytest.mark.parametrize(
    "gpu, link", [("A100", "NVLink 3"), ("H100", "NVLink 4"), ("L40S", "PCIe 4")]
)
def test_the_fitted_constants_lie_in_the_link_s_ranges(gpu, link, protocols):
    data = calibration_table.all_reduces(ROWS)
    for constants in calibration_table.fit(bill, data[gpu], getattr(bill, protocols)).values():
        for value, column in zip(constants, ("c_s", "a_s", "busbw_bytes_per_s"), strict=True):
            low, high = bill.LINKS[link][column]
            assert 0.95 * low <= value <= 1.05 * high, (column, value)


# --- the share table -----------------------------------------------------------------------------

WEIGHTS = {"8B": 16.06e9 - 1.050673e9, "70B": 141.1e9 - 2.101346e9}  # without the embedding
LAYERS = {"8B": 32, "70B": 80}
PRINTED = {"A100": 2.039e12, "H100": 3.35e12, "B200": 7.67e12, "L40S": 0.864e12}


def by_hand(model, gpu, ranks, seconds):
    """Percent of a step at 0.93 of the printed bandwidth, written out once more."""
    step = WEIGHTS[model] / ranks / 0.93 / PRINTED[gpu]
    return 100 / (1 + step / (2 * LAYERS[model] * seconds))


def test_the_shares_follow_from_the_published_latencies():
    published = {
        (row["setting"]["gpu"].split()[1][:4], row["setting"]["gpus"]): row["value"] * 1e-6
        for row in ROWS
        if row["kind"] == "nccl_all_reduce" and row["setting"]["bytes"] == 8192
    }
    for label, cells in share_table.table(bill, ROWS):
        model, gpu, kernel = label.split(maxsplit=2)
        for ranks, (value, seconds, predicted) in zip((2, 4, 8), cells[:3], strict=True):
            assert value == pytest.approx(by_hand(model, gpu, ranks, seconds)), label
            if kernel == "NCCL" and gpu != "B200":
                assert not predicted and seconds == pytest.approx(published[gpu, ranks])
            assert predicted == (gpu == "B200" or kernel != "NCCL" and ranks == 4), label


def test_the_ethernet_shares_are_latency():
    lines, latency = share_table.ethernet_table(bill)
    assert len(lines) == 6 and latency > 0.9
    for label, value, seconds in lines:
        model, gpu = label.split()
        payload = {"8B": 8192, "70B": 16384}[model]
        assert seconds == pytest.approx(76.5e-6 + payload / 1.155e9)
        assert value == pytest.approx(by_hand(model, gpu, 2, seconds)), label


def test_the_comforting_denominator_hides_three_quarters_of_the_loss():
    table = dict(share_table.table(bill, ROWS))
    (_, _, (honest, _, _), (comforting, _, _)) = table["8B H100 NCCL"]
    assert honest > 55 and comforting < 18


def test_the_share_table_prints_every_part():
    result = run("share_table.py")
    assert result.returncode == 0, result.stderr
    for line in ("8B H100 NCCL", "70B A100", "Llama 2 70B Q40 TP8", "A100, 10 GbE", "4096 tokens"):
        assert f"\n{line}" in result.stdout, line


@pytest.mark.parametrize("program", ["share_table.py", "calibration_table.py"])
def test_an_unwritten_function_is_one_sentence(program, tmp_path):
    result = run_copy(program, tmp_path, derive(LAB))
    assert result.returncode == 2 and "is yours to write" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("program", ["share_table.py", "calibration_table.py"])
def test_a_syntax_error_is_one_line(program, tmp_path):
    result = run_copy(program, tmp_path, "import math\ndef step_messages(:\n")
    assert result.returncode == 2
    assert result.stderr.startswith(f"{program}: starter.py line 2: ")
    assert len(result.stderr.splitlines()) == 1


def test_a_name_that_lab_impl_does_not_know_is_one_line():
    result = run("share_table.py", LAB_IMPL="starters")
    assert result.returncode == 2
    sentence = "LAB_IMPL='starters': it is 'solution' (the default) or 'starter'"
    assert result.stderr == f"share_table.py: {sentence}\n"


def run_copy(program, folder, starter):
    """The program in a copy of the lab's folder with another starter.py."""
    for path in LAB.path.iterdir():
        if path.suffix in (".py", ".jsonl", ".json"):
            (folder / path.name).write_bytes(path.read_bytes())
    (folder / "starter.py").write_text(starter, encoding="utf-8")
    return run(str(folder / program), LAB_IMPL="starter", PYTHONPATH=str(ROOT))


# --- the calibration -----------------------------------------------------------------------------


def test_held_out_errors_are_within_the_limits():
    data = calibration_table.all_reduces(ROWS)
    groups = [
        calibration_table.held_out_errors(bill, rows, bill.NCCL_PROTOCOLS) for rows in data.values()
    ]
    assert [sum(len(group[name]) for group in groups) for name in calibration_table.CLASSES] == [
        15,
        6,
        6,
    ]
    small, middle, large = calibration_table.medians(groups)
    assert small <= 10 and middle <= 20 and large <= 10
    straight = [
        calibration_table.held_out_errors(bill, rows, bill.STRAIGHT_LINE) for rows in data.values()
    ]
    assert calibration_table.medians(straight)[1] > 20, "without the switch the middle is worse"


def test_the_protocols_chosen_without_a_gpu_still_predict_it():
    results = calibration_table.leave_one_out(bill, calibration_table.all_reduces(ROWS))
    assert [gpu for gpu, _, _ in results] == ["A100", "H100", "L40S"]
    for gpu, _, errors in results:
        assert (
            calibration_table.medians([errors])[1] <= 30
            and calibration_table.medians([errors])[2] <= 10
        ), gpu


def test_a_box_that_chose_no_constant_is_predicted():
    rows = calibration_table.other_box(bill, ROWS, calibration_table.all_reduces(ROWS))
    assert len(rows) == 6
    assert median(abs(predicted / seconds - 1) for _, seconds, predicted in rows) < 0.1


def test_the_calibration_table_prints_every_part():
    result = run("calibration_table.py")
    assert result.returncode == 0, result.stderr
    for line in ("protocol switch, all", "H100 (4, 0.5, 10)", "512 MiB", "L40S  8 ranks"):
        assert f"\n{line}" in result.stdout, line


def test_the_figure_is_current():
    today = calibration_table.figure(bill, calibration_table.all_reduces(ROWS), "H100")
    assert today == (LAB.path / "h100-nccl.svg").read_text(), (
        "run `python calibration_table.py --svg h100-nccl.svg` in the lab's folder"
    )


# --- the picture ---------------------------------------------------------------------------------


def drawn(crossover, count=1):
    """The picture of a model that is two straight lines, at these rank counts."""
    straight = SimpleNamespace(
        predict_all_reduce_s=lambda ranks, size, *_: 1e-5 + size / 1e10,
        ring_all_reduce_s=lambda ranks, size, *_: 2e-5 + size / 1e10,
        crossover_bytes=lambda *_: crossover,
    )
    table = {p: {1024: 1e-5, 2**20: 3e-5 * (p - 1), 2**26: 1e-2} for p in range(2, 2 + count)}
    return loglog.picture(straight, "a < b & c", table, dict.fromkeys(table, (1, 1, 1)), ())


def test_the_picture_is_xml_and_every_point_is_on_the_paper():
    text = drawn(2**18, 3)
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    width, height = map(float, root.get("viewBox").split()[2:])
    circles = [e for e in root.iter(f"{space}circle") if "edge" in e.get("class")]
    squares = [e for e in root.iter(f"{space}rect") if "edge" in e.get("class")]
    assert len(circles) == len(squares) == 3 + 2  # and a hole in those that were given to the fit
    for mark in circles + squares:
        px, py = float(mark.get("cx") or mark.get("x")), float(mark.get("cy") or mark.get("y"))
        assert 0 < px < width and 0 < py < height
    for line in root.iter(f"{space}polyline"):
        numbers = [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", line.get("points"))]
        assert all(0 <= number <= width for number in numbers)
    texts = [element.text for element in root.iter(f"{space}text")]
    assert {"a < b & c", "2 ranks", "latency-bound", "1 KiB", "10 µs"} <= set(texts)


def test_a_crossover_outside_the_picture_is_left_out():
    assert "latency-bound" not in drawn(2**40)


# --- the measurement -----------------------------------------------------------------------------


def ring_table(bill, constants, sizes, ranks):
    return {p: {size: bill.ring_all_reduce_s(p, size, *constants) for size in sizes} for p in ranks}


def test_two_rank_counts_give_c_and_a():
    truth = (20e-6, 5e-6, 2e9)
    table = ring_table(bill, truth, (1024, 2**20, 2**26), (2, 4))
    found, remark = measure.fit(bill, table, bill.STRAIGHT_LINE)
    assert remark == ""
    assert all(found[p] == pytest.approx(truth) for p in (2, 4))


def test_one_rank_count_puts_its_latency_in_c_and_says_so():
    table = ring_table(bill, (20e-6, 5e-6, 2e9), (1024, 2**26), (4,))
    found, remark = measure.fit(bill, table, bill.STRAIGHT_LINE)
    assert "cannot tell c from a" in remark
    assert found[4] == pytest.approx((50e-6, 0.0, 2e9), rel=0.02)


def test_latency_that_is_not_linear_in_the_hops_is_reported():
    table = ring_table(bill, (0.0, 10e-6, 2e9), (1024, 2**26), (2, 4))
    table[4][1024] *= 8  # four processes take turns on two processors
    found, remark = measure.fit(bill, table, bill.STRAIGHT_LINE)
    assert "fitted alone" in remark
    assert found[4][0] == table[4][1024] and found[2][0] == table[2][1024]


def test_the_report_scores_only_what_the_fit_has_not_seen():
    table = ring_table(bill, (20e-6, 5e-6, 2e9), (1024, 8192, 2**26), (2, 4))
    found, _ = measure.fit(bill, table, bill.STRAIGHT_LINE)
    text = measure.report(bill, table, found, bill.STRAIGHT_LINE)
    assert text.count("given") == 4
    assert "median |error|, payloads up to 64 KiB: 0%" in text
    assert "above 4 MiB" not in text


def test_a_size_that_lies_off_the_line_is_named():
    """One size is slow in all its batches, or in most of them, or in none."""
    sizes = [1024 * 4**step for step in range(9)]
    table = ring_table(bill, (20e-6, 5e-6, 2e9), sizes, (2, 4))
    found, _ = measure.fit(bill, table, bill.STRAIGHT_LINE)
    for slow, says in (([1.5, 1.53, 1.6], "33%"), ([1.2, 1.6, 1.9], ""), ([1.0, 1.02, 1.1], "")):
        runs = {p: [(n, [s, 1.02 * s, 1.1 * s]) for n, s in table[p].items()] for p in table}
        runs[4][3] = (sizes[3], [factor * table[4][sizes[3]] for factor in slow])
        sentence = measure.off_the_line(bill, runs, found, bill.STRAIGHT_LINE)
        assert sentence.startswith(f"64 KiB on 4 ranks is off the line by {says}" if says else "")
        assert bool(sentence) == bool(says)
        assert not says or "own repeats differ by 2%" in sentence


def test_a_bad_given_point_shows_at_its_neighbours():
    """The line meets it, so others are off."""
    sizes = [1024 * 4**step for step in range(9)]
    table = ring_table(bill, (20e-6, 5e-6, 2e9), sizes, (2, 4))
    for ranks in table:
        table[ranks][1024] *= 1.5
    found, _ = measure.fit(bill, table, bill.STRAIGHT_LINE)
    runs = {p: [(n, [s, 1.02 * s, 1.1 * s]) for n, s in table[p].items()] for p in table}
    sentence = measure.off_the_line(bill, runs, found, bill.STRAIGHT_LINE)
    assert re.match(r"4 KiB on \d ranks is off the line by 48%", sentence), sentence


def test_without_torch_the_measurement_says_what_to_install(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('blocked')")
    result = run("measure.py", PYTHONPATH=os.pathsep.join((str(tmp_path), str(ROOT))))
    assert result.returncode == 1 and "make torch" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.torch
def test_gloo_over_two_processes_leaves_times_and_no_process():
    found = measure.measure(2, "gloo", sizes=[1024, 65536], deadline_s=50)
    assert [size for size, _ in found] == [1024, 65536]
    assert all(len(times) == measure.BATCHES and min(times) > 0 for _, times in found)


@pytest.mark.torch
def test_a_process_that_fails_is_reported_and_the_others_ended():
    with pytest.raises(RuntimeError, match="no such backend over 2 processes:\nrank 0: ended with"):
        measure.measure(2, "no such backend", sizes=[1024], deadline_s=50)


def test_one_rank_is_refused_in_one_sentence():
    result = run("measure.py", "--ranks", "1")
    assert result.returncode == 1 and "2 or more" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.torch
def test_nccl_without_gpus_is_refused_in_one_sentence():
    result = run("measure.py", "--backend", "nccl", CUDA_VISIBLE_DEVICES="")
    assert result.returncode == 1 and "needs 2 GPUs or more" in result.stderr
    assert len(result.stderr.splitlines()) == 1


CAPTURES = sorted((LAB.path / "captures").glob("*/provenance.json"))


def test_there_is_a_recorded_run():
    assert CAPTURES


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.parent.name)
def test_a_recorded_run_is_as_it_was_recorded(path):
    assert {"command", "date", "git_commit", "versions", "hardware"} <= set(
        as_recorded(path.parent)
    )
    content = json.loads((path.parent / "measurements.json").read_text())
    if "fit" not in content:  # of measure_step.py
        return
    ranks = {row["ranks"] for row in content["rows"]}
    assert ranks == {int(p) for p in content["fit"]} and len(ranks) >= 2
    for row in content["rows"]:
        assert 0 < row["fastest_s"] <= row["median_s"] <= row["slowest_s"]


def test_expert_parallel_bytes_are_those_that_deepep_counts():
    """Its bytes over DeepEP's published times make DeepEP's published GB/s."""
    assert bill.expert_parallel_bytes(128, 8, 7168) == (7569408, 14680064)
    sizes = dict(
        zip(("dispatch", "combine"), bill.expert_parallel_bytes(128, 8, 7168), strict=True)
    )
    published = {
        (row["setting"]["op"], row["setting"]["ep"]): row["value"]
        for row in ROWS
        if row["kind"] == "moe_low_latency_bw"
    }
    times = [row for row in ROWS if row["kind"] == "moe_all_to_all"]
    assert len(times) == len(published) == 12
    for row in times:
        operation, ranks = row["setting"]["op"], row["setting"]["ep"]
        rate = sizes[operation] / (row["value"] * 1e-6) / 1e9
        # Published in whole GB/s, cut rather than rounded: 39.8 stands there as 39, which is 2.1%.
        assert abs(rate / published[operation, ranks] - 1) < 0.022


def test_least_squares_and_busbw_at_are_numpy_s():
    """The fit in the standard library: lstsq where nothing is below zero, and interp of logs."""
    given = load_module(LAB.path / "given_cost.py")
    draw = np.random.default_rng(1)
    for count in (3, 4, 20):
        for _ in range(20):
            truth = draw.uniform(0.1, 9, 3) * [1e-6, 1e-6, 1e-12]
            rows = draw.uniform(1, 9, (count, 3)) / truth
            rows /= (rows @ truth)[:, None] * draw.uniform(0.99, 1.01, (count, 1))
            expected = np.linalg.lstsq(rows * truth, np.ones(count))[0] * truth
            if expected.min() > 0:
                assert np.allclose(given.least_squares(rows.tolist()), expected, rtol=1e-8, atol=0)
    flat = [
        [1.0, 2.0, 3.0],
        [2.0, 4.0, 6.0],
        [1.0, 2.0, 3.5],
    ]  # two say the same
    assert np.all(np.isfinite(given.least_squares(flat)))
    measured = {8: 457e9, 2: 325e9, 4: 400e9}
    for ranks in (1, 2, 3, 4, 5, 7, 8, 64):
        logs = np.interp(np.log(ranks), np.log([2, 4, 8]), np.log([325e9, 400e9, 457e9]))
        assert np.isclose(given.busbw_at(ranks, measured), np.exp(logs), rtol=1e-12)


@pytest.mark.parametrize("lab", ["lab-03", "lab-04"])
def test_where_no_number_is_an_array_numpy_is_not_needed(lab):
    """What the labs in the browser rest on: there is no numpy there."""
    without = "import sys; sys.modules['numpy'] = None; import pytest; "
    options = f"['-q', '-p', 'no:cacheprovider', '-p', 'no:xdist', {lab!r}]"
    done = python("-c", f"{without}sys.exit(pytest.main({options}))", timeout=120)
    assert done.returncode == 0 and "100/100 points" in done.stdout, done.stdout + done.stderr


# --- a rank's part of a step ---------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.parametrize("model", ["8B", "70B"])
def test_a_rank_reads_its_part_of_what_the_share_table_reads(model):
    import torch

    whole, *_ = share_table.MODELS[model]
    for tp_size in (1, 2, 4, 8):
        shape = measure_step.SHAPES[model]
        rank = measure_step.Rank(shape, tp_size, 3, 100, "meta", torch.bfloat16)
        assert rank.weight_bytes * tp_size == pytest.approx(whole, rel=1e-3)
        layers, head = shape["layers"], shape["hidden"] // shape["heads"]
        assert rank.cache_bytes == 3 * 100 * layers * 2 * shape["kv_heads"] * head * 2 / tp_size


@pytest.mark.torch
def test_a_step_is_timed_beside_the_floor(tmp_path):
    words = ("--model", "small", "--tp", "8", "--batch", "2", "--context", "5", "--out", tmp_path)
    done = run("measure_step.py", *map(str, words))
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "measurements.json").read_text())
    (row,) = found["rows"]
    floor_s = max(row["weight_bytes"] / found["memory_bytes_per_s"],
                  row["weight_bytes"] / 4 * 2 * 2 / found["product_flops_per_s"])  # fmt: skip
    floor_s += row["cache_bytes"] / found["memory_bytes_per_s"]
    assert f"{row['step_s'] / floor_s:.2f} x" in done.stdout


@pytest.mark.parametrize("name", ["h200-8b", "h200-70b", "h200-8b-long"])
def test_a_recorded_step_is_above_what_the_memory_allows(name):
    for row in json.loads((LAB.path / "captures" / name / "measurements.json").read_text())["rows"]:
        read = row["weight_bytes"] + row["cache_bytes"]
        assert read / 4.8e12 < row["step_s"] <= row["launched_s"] * 1.01  # printed: 4,800 GB/s
        assert row["products_s"] < row["step_s"]
