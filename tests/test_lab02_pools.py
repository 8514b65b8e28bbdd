"""Two pools: the page about a recorded run, and a live one."""

import pytest

from labkit.loading import choose_lab, find_labs, load_module

LAB = choose_lab("lab-02", find_labs())
CAPTURE = LAB.path / "captures" / "pools"
pools = load_module(LAB.path / "pools.py")


@pytest.fixture(scope="module")
def solution():
    return load_module(LAB.file("solution"))


@pytest.fixture
def recorded():
    return pools.recorded(), pools.log_of_the_second(CAPTURE)


def test_the_recorded_run_agrees_with_the_ledger(recorded, solution):
    lines, agrees = pools.page(*recorded, solution)
    assert agrees, "\n".join(lines)
    report, _ = recorded
    model = report["model_config"]
    heads = 2 * model["num_key_value_heads"] * model["head_dim"]  # keys and values
    for file in report["files"]:
        assert file["shape"] == [report["decode"]["cached_tokens"], 4, heads // 4]
        assert file["bytes"] == 4 * file["shape"][0] * heads
    assert len(report["files"]) == model["num_hidden_layers"]


def test_the_recorded_page_needs_no_vllm(capsys):
    assert pools.main(["--recorded"]) == 0
    assert "whole run recorded earlier" in capsys.readouterr().out


def test_a_wrong_function_is_named_and_its_number_shown(recorded, solution, monkeypatch):
    right = solution.kv_bytes_per_token
    monkeypatch.setattr(solution, "kv_bytes_per_token", lambda *given: right(*given) // 2)
    lines, agrees = pools.page(*recorded, solution)
    assert not agrees
    assert any("NO   as many bytes as kv_bytes_per_token says: yours 786,432" in x for x in lines)


def test_other_tokens_and_another_log_are_noticed(recorded, solution):
    report, log = recorded
    other = report | {"decode": report["decode"] | {"tokens": [1] * 12}}
    assert not pools.page(other, log, solution)[1]
    assert not pools.page(report, log.replace("KV cache of 384", "KV cache of 256"), solution)[1]


@pytest.mark.parametrize("num_prompt", ["100", "5000"])
def test_a_prompt_that_shows_nothing_is_refused(num_prompt, capsys):
    with pytest.raises(SystemExit):
        pools.main(["--prompt", num_prompt])
    assert f"--prompt {num_prompt}: from 130" in capsys.readouterr().err


@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_request_is_the_same_in_one_engine_and_in_two(tmp_path, solution):
    measured = pools.measure(300, tmp_path)
    lines, agrees = pools.page(measured, pools.log_of_the_second(tmp_path), solution)
    assert agrees, "\n".join(lines)
    assert measured["decode"]["cached_tokens"] == 256


@pytest.mark.parametrize("prompt, output, two", [(2000, 200, True), (300, 500, False)])
def test_place_says_whether_its_plan_pays_in_two_pools(prompt, output, two, capsys):
    place = load_module(LAB.path.parent / "capstone" / "place.py")
    words = f"--model llama-3.1-8b --gpu h100 --gpus 8 --concurrency 256 --prompt {prompt}"
    place.main([*words.split(), "--output", str(output), "--pools"])
    told = capsys.readouterr().out
    assert "One pool or two, of " in told
    assert ("  Two: " in told) == two
