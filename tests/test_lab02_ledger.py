"""The ledger of lab 02: verdicts on logs, given parts of the solution, and the command line."""

import json
import re
import shutil

import pytest

from labkit.loading import find_labs, load_module
from labkit.tasks import hints_of, tasks_of
from tests.conftest import python

LAB = next(lab for lab in find_labs() if lab.prefix == "lab-02")
solution = load_module(LAB.file("solution"))
GIB = solution.GIB


def model(name):
    return solution.model_shape(json.loads((LAB.path / "configs" / f"{name}.json").read_text()))


def v0_log(weights, *, gpu_blocks=None, cpu_blocks=None, kv_gib=None):
    """A V0 log of one rank per entry of `weights` (GiB)."""
    lines = []
    for rank, gib in enumerate(weights):
        prefix = f"(VllmWorkerProcess pid={30 + rank}) " if rank else ""
        header = f"{prefix}INFO 10-08 07:17:03 model_runner.py:692] "
        lines.append(f"{header}Loading model weights took {gib:.4f} GB")
        if kv_gib:
            lines.append(f"{header}model weights take 7GiB; the rest of the memory reserved for KV "
                         f"Cache is {kv_gib:.2f}GiB.")  # fmt: skip
    if gpu_blocks:
        lines.append(
            "INFO 10-08 07:17:04 executor_base.py:111] # cuda blocks: "
            f"{gpu_blocks}, # CPU blocks: {cpu_blocks}"
        )
    return solution.read_startup_log("\n".join(lines))


def verdict(log, name, tp_size, pp_size=1):
    found = solution.reconcile(log, model(name), tp_size, pp_size)
    return found["verdict"], found["findings"]


def test_a_faithful_log_is_consistent():
    log = v0_log([7.4829, 7.4829], gpu_blocks=11571, cpu_blocks=4096, kv_gib=11.3)
    assert verdict(log, "llama-3-8b", 2) == ("consistent", [])


@pytest.mark.parametrize(
    ("weights", "sizes", "found"),
    [
        ([7.4829] * 4, (2, 2), ("wrong split", ["pipeline not applied"])),
        ([14.9595] * 2, (2,), ("wrong split", ["tensor parallel not applied"])),
        # 2 % more on one rank explains itself as buffers, were it not for its peers.
        ([7.4829, 7.4829, 7.63, 7.4829], (2,), ("wrong split", ["heavier rank"])),
        ([11.1, 11.1], (2,), ("unexplained", ["weights unexplained"])),  # which is not called wrong
    ],
)
def test_weights_tell_what_was_not_applied(weights, sizes, found):
    assert verdict(v0_log(weights), "llama-3-8b", *sizes) == found


def test_a_cache_that_was_not_sharded():
    # 11.30 GiB at 131,072 bytes per token (all KV heads) are 5,785 blocks, not 11,571.
    log = v0_log([7.4829] * 2, gpu_blocks=5785, cpu_blocks=2048, kv_gib=11.3)
    assert verdict(log, "llama-3-8b", 2) == ("wrong split", ["kv not sharded"])


def test_cpu_blocks_alone_convict_nobody():
    # V0: floor(swap space / bytes of a block on one rank). Mixtral-8x7B at tp_size=4: 8,192.
    log = solution.read_startup_log("# GPU blocks: 20000, # CPU blocks: 8192")
    assert verdict(log, "mixtral-8x7b", 4) == ("consistent", [])
    log = solution.read_startup_log("# GPU blocks: 20000, # CPU blocks: 2048")
    assert verdict(log, "mixtral-8x7b", 4) == ("consistent", [])
    (line,) = solution.reconcile(log, model("mixtral-8x7b"), 4)["lines"]
    assert line["status"] == "close" and "all KV heads" in line["cause"]
    assert "a swap space of 1 GiB" in line["cause"]


@pytest.mark.parametrize(
    "args",
    [
        "args: Namespace(tensor_parallel_size=2, block_size=16, swap_space=2)",
        "args: Namespace(tensor_parallel_size=2, block_size=32, swap_space=4.0)",
        "non-default args: {'tensor_parallel_size': 2, 'swap_space': 2.0}",
    ],
)
def test_the_swap_space_and_block_size_asked_for_explain_cpu_blocks(args):
    text = f"INFO 10-08 07:17:00 api_server.py:1] {args}\n"
    text += "INFO 10-08 07:17:03 model_runner.py:692] Loading model weights took 7.4829 GB\n"
    text += "INFO 10-08 07:17:04 x.py:5] # GPU blocks: 12344, # CPU blocks: 2048\n"
    found = solution.reconcile(solution.read_startup_log(text), model("llama-3-8b"), 2)
    assert found["verdict"] == "consistent"
    assert {line["status"] for line in found["lines"]} == {"exact"}


def test_the_block_size_follows_from_the_concurrency():
    # 5,785 blocks of 32 tokens fill 11.30 GiB at 65,536 bytes per token; 16 would look unsharded.
    log = v0_log([7.4829] * 2, gpu_blocks=5785, cpu_blocks=2048, kv_gib=11.3)
    log |= {"max_concurrency": 22.6, "tokens_per_request": 8192}
    assert verdict(log, "llama-3-8b", 2) == ("consistent", [])


@pytest.mark.parametrize(
    ("weights", "cause"),
    [  # the whole of one GPU, 14.9888, halved; the ledger without its rope table; and less
        (7.4944, "an even share"),
        (7.4810, "the rope table is missing"),
        (7.4790, "the parameters alone"),
        (7.4000, "a tensor of the ledger is missing"),
    ],
)
def test_weights_below_the_ledger_are_no_buffers(weights, cause):
    found = solution.reconcile(v0_log([weights] * 2), model("llama-3.1-8b"), 2)
    assert (found["verdict"], found["findings"]) == ("unexplained", ["weights missing"])
    assert all(cause in line["cause"] for line in found["lines"][:2])


def test_published_opt_leaves_a_named_remainder():
    quoted = json.loads((LAB.path / "captures/quoted-logs/quoted.json").read_text())
    for case in quoted["not_explained"]:
        text = f"Model loading took {case['weights_gib']:.2f} GiB memory and 3.1 seconds"
        found = solution.reconcile(
            solution.read_startup_log(text), model(case["config"]), case["tp_size"]
        )
        (line,) = found["lines"]
        assert found["verdict"] == "consistent" and line["status"] == "close"
        assert "nobody itemised" in line["cause"]
        assert 5 / 1024 < line["residual"] < 35 / 1024  # 29.8 and 10.6 MiB, printed to 10 MiB


def test_a_quantized_log_is_not_held_against_bf16():
    text = "Initializing an LLM engine (v0.6.1) with config: tensor_parallel_size=1, "
    text += "quantization=awq, kv_cache_dtype=auto\nLoading model weights took 5.3 GB"
    found = solution.reconcile(solution.read_startup_log(text), model("llama-3-8b"), 1)
    assert found["findings"] == ["quantized"] and found["verdict"] == "consistent"


def test_nothing_to_check_is_not_a_pass():
    assert verdict(solution.read_startup_log("hello"), "llama-3-8b", 2)[0] == "nothing to check"


def test_every_config_has_a_source_and_a_legal_split():
    paths = sorted((LAB.path / "configs").glob("*.json"))
    assert len(paths) >= 8
    architectures = set()
    for path in paths:
        config = json.loads(path.read_text())
        assert config["_source"]
        shape = solution.model_shape(config)
        architectures.add(shape["architecture"])
        for tp_size in (1, 2, 4, 8):
            solution.check_split(shape, tp_size)
            solution.rank_weights(shape, tp_size)
    assert {"LlamaForCausalLM", "MistralForCausalLM", "OPTForCausalLM"} <= architectures
    assert {"Qwen2ForCausalLM", "Qwen3ForCausalLM", "MixtralForCausalLM"} <= architectures


@pytest.mark.parametrize(
    ("name", "parameters"),
    [  # as published with each model
        ("llama-2-7b", 6_738_415_616),
        ("llama-3-8b", 8_030_261_248),
        ("mistral-7b", 7_241_732_096),
        ("mixtral-8x7b", 46_702_792_704),
        ("qwen3-32b", 32_762_123_264),
        ("qwen2.5-72b", 72_706_203_648),
        ("opt-1.3b", 1_315_758_080),
    ],
)
def test_parameters_of_whole_models(name, parameters):
    shape = model(name)
    counted = sum(solution.math.prod(entry["shape"]) for entry in solution.parameters(shape))
    assert counted == parameters


LLAMA = json.loads((LAB.path / "configs" / "llama-3-8b.json").read_text())


def test_opt_350m_has_no_final_norm():
    shape = solution.model_shape(
        json.loads((LAB.path / "configs" / "opt-1.3b.json").read_text())
        | {"hidden_size": 1024, "ffn_dim": 4096, "num_attention_heads": 16}
        | {"word_embed_proj_dim": 512, "do_layer_norm_before": False}
    )
    counted = sum(solution.math.prod(entry["shape"]) for entry in solution.parameters(shape))
    assert counted == 331_196_416  # as published


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_yarn_lengthens_the_rope_table_under_either_key(key):
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
    config = json.loads((LAB.path / "configs" / "qwen2.5-72b.json").read_text()) | {key: yarn}
    assert solution.model_shape(config)["rope_positions"] == 131_072


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM"),
        ({}, "it knows LlamaForCausalLM"),
        ({"architectures": ["LlamaForCausalLM"], "hidden_size": 8}, "num_attention_heads"),
        (LLAMA | {"hidden_size": None}, "hidden_size=None is not a positive whole number"),
        (LLAMA | {"intermediate_size": "x"}, "intermediate_size='x'"),
        (LLAMA | {"num_attention_heads": 0}, "num_attention_heads=0"),
        (LLAMA | {"rope_scaling": "x"}, "rope_scaling='x' is not a dict"),
        (LLAMA | {"rope_scaling": {"type": "linear", "factor": None}}, "a number as its factor"),
    ],
)
def test_an_unknown_model_is_named(config, words):
    with pytest.raises(ValueError, match=words):
        solution.model_shape(config)


def test_remainder_layers_go_before_the_last_stage():
    assert solution.stage_layers(32, 4) == [8, 8, 8, 8]
    assert solution.stage_layers(5, 2) == [3, 2]
    assert solution.stage_layers(10, 4) == [2, 3, 3, 2]
    with pytest.raises(ValueError, match="pp_size=6"):
        solution.stage_layers(5, 6)


@pytest.mark.parametrize("sizes", [(100, 0, 1, 1), (100, 1, 0, 1), (100, 1, 1, 0), (-1, 1, 1, 1)])
def test_sizes_of_a_capacity_must_be_positive(sizes):
    with pytest.raises(ValueError, match="positive"):
        solution.kv_capacity(*sizes)


def ledger(*words, text=None):
    return python(LAB.path / "startup_ledger.py", *words, text=text)


LOG = (
    "INFO 10-08 07:17:03 model_runner.py:692] Loading model weights took 7.4829 GB\n"
    "(VllmWorkerProcess pid=3) INFO 10-08 07:17:03 model_runner.py:692] Loading model weights took "
    "7.4829 GB\n"
)


def test_command_prints_the_ledger_and_the_verdict(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text(LOG)
    run = ledger(str(path), "--config", "llama-3-8b", "--tp", "2")
    assert run.returncode == 0 and run.stderr == ""
    assert "7.4829" in run.stdout and run.stdout.rstrip().endswith("verdict: consistent")


def test_command_takes_the_config_of_a_capture_and_says_what_its_log_leaves_open():
    one = LAB.path / "captures/tp2-replicated-kv"
    run = ledger(str(one / "rank-0.log"), "--config", str(one / "report.json"))
    assert run.returncode == 0 and " 1,024" in run.stdout and "taken as 16" in run.stdout
    assert "consistent, what is coarse left aside: nothing else" in run.stdout
    gpu = LAB.path / "captures/tp1-gpu-8b/rank-0.log"
    run = ledger(str(gpu), "--config", "llama-3.1-8b")
    assert re.search(r"15\.0000 +\+11\.49 +MiB +close", run.stdout)


def test_command_fails_on_a_wrong_split():
    run = ledger("-", "--config", "llama-3-8b", "--tp", "2", "--pp", "2", text=LOG)
    assert run.returncode == 1 and "pipeline not applied" in run.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-", "--config", "gpt-5"], "one of llama-2-7b"),
        (["absent.log", "--config", "llama-3-8b"], "absent.log"),
        (["-", "--config", "llama-3-8b", "--tp", "3"], "num_kv_heads=8"),
        (["-", "--config", __file__], "cannot be read as JSON"),
    ],
)
def test_command_explains_a_wrong_call_in_one_line(words, said):
    run = ledger(*words, text="")
    assert run.returncode == 1 and run.stdout == "" and said in run.stderr
    assert run.stderr.count("\n") == 1 and "Traceback" not in run.stderr


def test_every_task_has_three_hints():
    assert set(hints_of(LAB)) == set(tasks_of(LAB)) and all(
        len(h) == 3 for h in hints_of(LAB).values()
    )


def test_the_cache_lines_of_a_published_log_agree_with_each_other():
    quoted = json.loads((LAB.path / "captures/quoted-logs/quoted.json").read_text())
    for case in quoted["cache"]:
        tokens = case["gpu_blocks"] * 16
        assert abs(tokens / case["tokens_per_request"] - case["max_concurrency"]) <= 0.005
        per_token = solution.kv_bytes_per_token(model(case["config"]), case["tp_size"])
        printed = 0.005 * GIB / per_token + 16  # two decimals, and a block not filled
        assert abs(case["kv_memory_gib"] * GIB / per_token - tokens) <= printed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def padded_vocab(:", "starter.py line 1"),
        ("import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
        (None, "starter.py is missing"),
    ],
)
def test_a_starter_that_cannot_be_imported_is_one_sentence(tmp_path, text, said):
    shutil.copy(LAB.path / "startup_ledger.py", tmp_path)
    for name in ("given", "configs"):
        (tmp_path / name).symlink_to(LAB.path / name)
    if text is not None:
        (tmp_path / "starter.py").write_text(text)
    words = ("startup_ledger.py", "-", "--config", "llama-3-8b")
    run = python(*words, cwd=tmp_path, text="", LAB_IMPL="starter")
    assert run.returncode == 2 and run.stdout == "" and said in run.stderr
    assert run.stderr.count("\n") == 1 and "Traceback" not in run.stderr


def test_hints_are_asked_for_by_function_and_level():
    run = python("-m", "pytest", "lab-02", "--hint", "treatment=2")
    assert run.returncode == 0 and run.stdout.startswith("treatment, sketch: Name the dimensions")


def test_the_padded_vocabulary_is_the_next_multiple():
    for size in [1, 63, 64, 65, 500, 512, 513, 50257, 152064]:
        expected = next(rows for rows in range(size, size + 64) if rows % 64 == 0)
        assert solution.padded_vocab(size) == expected


def test_kv_heads_are_dealt_out_and_never_cut():
    for kv_heads in range(1, 17):
        for tp_size in range(1, 33):
            places = max(kv_heads, tp_size)
            each = [place * kv_heads // places for place in range(places)]
            if places % min(kv_heads, tp_size) == 0:
                held = len(set(each[: places // tp_size]))
                assert solution.kv_heads_per_rank(kv_heads, tp_size) == held
            else:
                with pytest.raises(ValueError):
                    solution.kv_heads_per_rank(kv_heads, tp_size)
    for sizes in ((8, 0), (0, 2), (8, -2)):
        with pytest.raises(ValueError):
            solution.kv_heads_per_rank(*sizes)


def test_a_split_that_cannot_be_made_is_named_size_by_size():
    shape = model("llama-3-8b")
    for heads, kv_heads, width, tp_size, wrong in (
        (7, 7, 160, 2, {"num_heads", "num_kv_heads"}),
        (6, 3, 160, 2, {"num_kv_heads"}),
        (12, 4, 1023, 2, {"intermediate_size"}),
        (12, 1, 160, 4, set()),
        (12, 4, 160, 5, {"num_heads", "num_kv_heads"}),
    ):
        sizes = dict(num_heads=heads, num_kv_heads=kv_heads, intermediate_size=width)
        if not wrong:
            assert solution.check_split(shape | sizes, tp_size) is None
            continue
        with pytest.raises(ValueError, match=f"tp_size={tp_size}") as refused:
            solution.check_split(shape | sizes, tp_size)
        assert set(re.findall(r"(\w+)=\d+", str(refused.value))) == wrong | {"tp_size"}
    for tp_size in (0, -4):
        with pytest.raises(ValueError, match=f"tp_size={tp_size}"):
            solution.check_split(shape, tp_size)
