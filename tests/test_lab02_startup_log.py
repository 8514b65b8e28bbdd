"""The start-up log reader of lab 02: every wording of vLLM 0.4 to 0.33, in lines as it wrote them.
Sentences are rendered from the releases' own format strings."""

import json
import re
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labkit.loading import find_labs, load_module

LAB = next(lab for lab in find_labs() if lab.prefix == "lab-02")
solution = load_module(LAB.file("solution"))
startup_log = load_module(LAB.path / "given" / "startup_log.py")
read = solution.read_startup_log

V0, V1 = "INFO 05-25 00:00:33 model_runner.py:175] ", "INFO 06-11 10:00:00 [gpu_runner.py:16] "
CONFIG = "model='meta-llama/Meta-Llama-3-8B', dtype=torch.bfloat16, max_seq_len=8192, "
CONFIG += "tensor_parallel_size=2, pipeline_parallel_size=1, quantization=None, kv_cache_dtype=auto"
OLD, NEW = "Loading model weights took 7.4829 GB", "Model loading took 7.4829 GiB and 13.1 seconds"
PROFILE = (
    "model weights take 7.48GiB; non_torch_memory takes 0.20GiB; PyTorch activation peak memory "
    "takes 1.19GiB; the rest of the memory reserved for KV Cache is 11.30GiB."
)
MEMORY = (
    "Memory profiling results: duration=71.88 seconds, total_gpu_memory=79.15GiB, "
    "peak_torch_memory=34.32GiB, kv_cache_size=34.96GiB, gpu_memory_utilization=0.90."
)
JOINT = "KV cache size: 185,136 tokens, Maximum concurrency for 8,192 tokens per request: 22.60x"
RANK_LINE = "rank {r} in world size 2 is assigned as DP rank 0, PP rank 0, TP rank {r}"
WORLD_LINE = "world_size=2 rank={r} local_rank={r} distributed_init_method=file:///x backend=gloo"
BOTH = [(0, 7.4829), (1, 7.4829)]


def started(version, engine="LLM engine", who=None, config=CONFIG):
    line = V1 if who else V0
    return said(who, f"Initializing a {engine} (v{version}) with config: {config}", header=line)


def said(who, *sentences, header=V1):
    """Lines of one speaker; None: a driver, which writes no prefix."""
    return [(f"({who}) " if who else "") + header + sentence for sentence in sentences]


def v0(worker, *sentences):
    return said(None, *sentences, header=V0) + said(worker, *sentences, header=V0)


TABLE = {  # the lines, and facts of them; weights and cache memory by rank
    "0.4.2": (
        started("0.4.2")
        + v0("RayWorkerWrapper pid=79502", "vLLM is using nccl==2.19.3", OLD)
        + said(None, "# GPU blocks: 12344, # CPU blocks: 4096", header=V0),
        {"version": "0.4.2", "tp_size": 2, "gpu_blocks": 12344, "cpu_blocks": 4096}
        | {"dtype": "bfloat16", "quantization": None, "weights_gib": BOTH},
    ),
    "0.6.4 (V0)": (
        started("0.6.4.post1")
        + v0("VllmWorkerProcess pid=3230", OLD, MEMORY)
        + said(None, "# GPU blocks: 34958, # CPU blocks: 4096", header=V0)
        + said(None, "Maximum concurrency for 8192 tokens per request: 68.28x", header=V0),
        {"version": "0.6.4.post1", "weights_gib": BOTH, "kv_memory_gib": [(0, 34.96), (1, 34.96)]}
        | {"gpu_blocks": 34958, "max_concurrency": 68.28, "tokens_per_request": 8192},
    ),
    "0.6.4 (V1)": (
        started("0.6.4")
        + said(None, "Loading model weights took 14.9595 GB", "# GPU blocks: 27899", header=V0),
        {"weights_gib": [(0, 14.9595)], "gpu_blocks": 27899, "cpu_blocks": None},
    ),
    "0.7.3 (V0)": (
        started("0.7.3", "V0 LLM engine")
        + v0("VllmWorkerProcess pid=9", OLD, PROFILE)
        + said(None, "# cuda blocks: 11571, # CPU blocks: 4096", header=V0),
        {"engine": "V0", "version": "0.7.3", "weights_gib": BOTH, "gpu_blocks": 11571}
        | {"kv_memory_gib": [(0, 11.3), (1, 11.3)]},
    ),
    "0.8.1": (
        started("0.8.1", "V1 LLM engine")
        + said("VllmWorker rank=1 pid=8", RANK_LINE.format(r=1), NEW.replace("GiB", "GB"))
        + said("VllmWorker rank=0 pid=7", NEW.replace("GiB", "GB"))
        + said(None, "GPU KV cache size: 185,136 tokens", "GPU KV cache size: 185,120 tokens")
        + said(None, "Maximum concurrency for 8,192 tokens per request: 22.60x"),
        {"engine": "V1", "weights_gib": BOTH, "kv_tokens": [185136, 185120]}
        | {"tokens_per_request": 8192, "max_concurrency": 22.6},
    ),
    "0.10.1": (
        started("0.10.1", "V1 LLM engine", "EngineCore_0 pid=5")
        + said("VllmWorker TP0 pid=7", NEW)
        + said("VllmWorker TP1 pid=8", NEW)
        + said("EngineCore_0 pid=5", "GPU KV cache size: 185,136 tokens"),
        {"version": "0.10.1", "weights_gib": BOTH, "kv_tokens": [185136]},
    ),
    "0.18.0": (
        started("0.18.0", "V1 LLM engine", "EngineCore_DP0 pid=5")
        + said("Worker pid=7) (Worker_TP0 pid=7", NEW, "Available KV cache memory: 11.3 GiB")
        + said("Worker pid=8) (Worker_TP1 pid=8", NEW, "Available KV cache memory: 11.3 GiB"),
        {"weights_gib": BOTH, "kv_memory_gib": [(0, 11.3), (1, 11.3)]},
    ),
    "0.20.0, pipeline": (
        started(
            "0.20.0", "V1 LLM engine", "EngineCore pid=5", CONFIG.replace("el_size=1", "el_size=2")
        )
        + said("Worker_PP0_TP0 pid=7", "Model loading took 3.75 GiB memory and 13.1 seconds")
        + said("Worker_PP1_TP1 pid=10", "Model loading took 3.75 GiB memory and 13.1 seconds"),
        {"pp_size": 2, "weights_gib": [(0, 3.75), (3, 3.75)]},
    ),
    "0.28.0": (
        started("0.28.0", "V1 LLM engine", "EngineCore pid=5")
        + said("Worker_TP0 pid=7", "Model loading took 7.48 GiB memory and 13.1 seconds")
        + said("EngineCore pid=5", "GPU " + JOINT),
        {"weights_gib": [(0, 7.48)], "kv_tokens": [185136], "max_concurrency": 22.6}
        | {"tokens_per_request": 8192},
    ),
    "0.32.0, CPU": (
        started("0.32.0", "V1 LLM engine", "EngineCore pid=5")
        + said("Worker pid=7", WORLD_LINE.format(r=0))
        + said("Worker pid=8", WORLD_LINE.format(r=1))
        + said("Worker_TP0 pid=7", "Explicitly set (1.0/9.46) GiB for KV cache on node 0.")
        + said("Worker_TP1 pid=8", "Explicitly set (1.0/9.46) GiB for KV cache on node 0.")
        + said("EngineCore pid=5", "CPU " + JOINT),
        {"world_size": 2, "weights_gib": [], "kv_memory_gib": [(0, 1.0), (1, 1.0)]}
        | {"kv_tokens": [185136]},
    ),
    "0.32.0, experts on two engines": (
        [
            line
            for d in (0, 1)
            for line in started("0.32.0", "V1 LLM engine", f"EngineCore_DP{d} pid={5 + d}")
            + said(
                f"EngineCore_DP{d} pid={5 + d}",
                f"rank {d} in world size 2 is assigned as DP rank {d}, PP rank 0, PCP rank 0, "
                f"TP rank 0, ETP rank 0, EP rank {d}, EPLB rank N/A",
                f"[EP Rank {d}/2] Expert parallelism is enabled. Expert placement strategy: "
                f"linear. Local/global number of experts: {4 + d}/9. Experts local to global ...",
                "Creating v1 connector with name: ExampleConnector and engine_id: 7",
                "External Cache Hit!",
                f"Inject KV cache of {32 + d} tokens to the paged memory",
            )
        ],
        {"starts": 1, "world_size": 2, "ep_rank": [(0, 0), (1, 1)], "ep_size": [(0, 2), (1, 2)]}
        | {"experts_local": [(0, 4), (1, 5)], "experts_global": [(0, 9), (1, 9)]}
        | {"kv_connector": "ExampleConnector", "kv_tokens_injected": [32, 33]}
        | {"external_cache_hits": ["External Cache Hit"] * 2},
    ),
}


def found_in(text):
    """The log's facts, those of its workers as [(rank, value)]."""
    log = read(text)
    return log | {
        name: [(worker["rank"], worker[name]) for worker in log["ranks"] if name in worker]
        for name in startup_log.OF_A_WORKER
    }


WAYS = {
    "as written": "\n".join,
    "CRLF": "\r\n".join,
    "colours": lambda lines: "\n".join(
        re.sub(r"\((.*?)\)", "\x1b[1;36m(\\1)\x1b[0;0m", line, count=1).replace(
            "INFO", "\x1b[32mINFO\x1b[0m"
        )
        for line in lines
    ),
    "colours without their escape": lambda lines: "\n".join(
        line.replace(")", ")[0;0m", 1) if line.startswith("(") else "[0m" + line for line in lines
    ),
    "colours in a syslog": lambda lines: "\n".join(
        "[INFO ] W-210-model-stdout: "
        + re.sub(r"\((.*?)\)", "#033[36m(\\1)#033[0;0m", line, count=1)
        for line in lines
    ),
    "colours in JSON": lambda lines: "\n".join(
        json.dumps({"log": "\x1b[36m" + line + "\x1b[0m\n", "stream": "stdout"}) for line in lines
    ),
    "docker compose": lambda lines: "\n".join("vllm-1  | " + line for line in lines),
    "kubectl, with timestamps": lambda lines: "\n".join(
        f"[pod/vllm-0/server] 2026-01-02T03:04:05.{i:06}Z {line}" for i, line in enumerate(lines)
    ),
    "a quotation": lambda lines: "\n\n".join("   # > " + line for line in lines),
    "no times": lambda lines: re.sub(r"\d\d-\d\d \d\d:\d\d:\d\d ", "", "\n".join(lines)),
    "milliseconds": lambda lines: "\n".join(lines).replace(":00 ", ":00.123 "),
    "progress bars between": lambda lines: "\n".join(
        f"{line}\nLoading safetensors checkpoint shards:  50% Completed | 2/4 [00:17<00:19]\r"
        for line in lines
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("version", TABLE)
def test_every_wording_in_every_way_it_travels_line_by_line(version, way):
    lines, expected = TABLE[version]
    found = found_in(WAYS[way](lines))
    assert {name: found[name] for name in expected} == expected


def test_every_line_missing_takes_only_its_own_facts_away():
    for lines, expected in TABLE.values():
        for i in range(len(lines)):
            found = found_in("\n".join(lines[:i] + lines[i + 1 :]))
            for name, value in expected.items():
                if isinstance(value, list):
                    values = [v[1] if isinstance(v, tuple) else v for v in value]
                    left = [v[1] if isinstance(v, tuple) else v for v in found[name]]
                    assert all(v in values or v == 7.48 for v in left)  # 7.48: of the profile
                elif name != "starts":
                    assert found[name] in (value, None)


def test_two_prefixes_on_one_line_and_a_sentence_cut_off_by_another():
    log = read(
        "(VllmWorkerProcess pid=31) (VllmWorkerProcess pid=32) " + V0 + OLD + "\n" + V0 + OLD + "\n"
        "(VllmWorkerProcess pid=33) "
        + V0
        + "Loading model weights took "
        + V0
        + "# GPU blocks: 7\n"
        "7.4829 GB\n"
    )
    speakers = [worker["who"] for worker in log["ranks"]]
    assert speakers == ["driver", "VllmWorkerProcess pid=32"]  # 33 never finished its sentence
    assert log["gpu_blocks"] == 7


def test_a_lone_worker_of_many_is_given_no_rank():
    who = "RayWorkerWrapper pid=7, ip=10.0.0.2"
    (worker,) = read(f"({who}) {V0}{OLD} [repeated 14x across cluster] (Ray ...)")["ranks"]
    assert (worker["who"], worker["rank"]) == (who, None)


def test_weights_are_found_in_the_memory_profile_alone():
    for lines, expected in [
        (said("x pid=2", PROFILE), (7.48, 2)),
        (said("x pid=2", OLD, PROFILE), (7.4829, 4)),
    ]:
        (worker,) = read("\n".join(lines))["ranks"]
        assert (worker["weights_gib"], worker["weights_decimals"]) == expected


def test_a_second_start_replaces_the_first():
    first, second = TABLE["0.7.3 (V0)"][0], TABLE["0.8.1"][0]
    log = read("\n".join(first + second))
    assert log["starts"] == 2 and log["version"] == "0.8.1" and log["gpu_blocks"] is None
    actors = [started("0.6.4", who=f"LLMRayActor pid={pid}")[0] for pid in (11, 22)]
    assert read("\n".join(actors))["starts"] == 1  # side by side


def test_the_sizes_asked_for_do_not_overrule_the_engines_own():
    (asked,) = said(None, "args: Namespace(tensor_parallel_size=8, dtype='auto')")
    lines = TABLE["0.4.2"][0]
    assert read("\n".join([asked, *lines]))["tp_size"] == 2
    assert read("\n".join([*lines, asked]))["tp_size"] == 2
    assert read(asked)["tp_size"] == 8


GLOBAL = "rank {r} in world size 4 is assigned as DP rank {d}, PP rank 0, TP rank 0, EP rank {r}"


@pytest.mark.parametrize(
    ("lines", "ranks"),
    [
        (
            [line for r in (0, 1) for line in said(f"Worker pid={r}", GLOBAL.format(r=r, d=r))]
            + [line for r in (0, 1) for line in said(f"Worker_DP{r}_EP{r} pid={r}", NEW)],
            {"Worker_DP0_EP0 pid=0": 0, "Worker_DP1_EP1 pid=1": 1},
        ),
        (
            said("Worker pid=3", WORLD_LINE.format(r=0), GLOBAL.format(r=2, d=1))  # 0 of its engine
            + said("Worker_DP1_TP0_EP2 pid=3", NEW),
            {"Worker_DP1_TP0_EP2 pid=3": 2},
        ),
        (
            said("EngineCore_DP2 pid=5", GLOBAL.format(r=2, d=2), NEW)
            + said("EngineCore_DP1 pid=4", NEW)
            + said("EngineCore_DP0 pid=9", NEW),
            {"EngineCore_DP0 pid=9": 0, "EngineCore_DP2 pid=5": 2, "EngineCore_DP1 pid=4": None},
        ),
        (said("RayWorkerProc pid=2) (Worker_DP2_TP0 pid=2", NEW), {"Worker_DP2_TP0 pid=2": None}),
        (
            [
                *said("RayWorkerWrapper pid=9, ip=10.0.0.1", RANK_LINE.format(r=0)),
                *said("RayWorkerWrapper pid=9, ip=10.0.0.2", RANK_LINE.format(r=1), NEW),
            ],
            {"RayWorkerWrapper pid=9, ip=10.0.0.2": 1},  # the same pid on two hosts
        ),
        (said("EngineCore_3 pid=4", NEW), {"EngineCore_3 pid=4": None}),
        (said("EngineCore pid=4", NEW), {"EngineCore pid=4": 0}),
    ],
)
def test_ranks_are_those_stated_for_a_process_and_none_invented(lines, ranks):
    assert {w["who"]: w["rank"] for w in read("\n".join(lines))["ranks"]} == ranks


def test_ranks_of_torchrun_without_prefixes_are_kept_apart():
    lines = said(None, RANK_LINE.format(r=0), RANK_LINE.format(r=1), NEW, NEW.replace("7.4", "7.5"))
    assert found_in("\n".join(lines))["weights_gib"] == [(None, 7.4829), (None, 7.5829)]


def test_a_draft_model_does_not_replace_the_model():
    lines = said(None, OLD, "Loading model weights took 4.4062 GB", header=V0)
    assert found_in("\n".join(lines))["weights_gib"] == [(0, 7.4829)]
    log = read(
        "non-default args: {'speculative_config': {'model': 'draft', 'max_model_len': 5}, "
        "'tensor_parallel_size': 2}"
    )
    assert (log["model"], log["max_model_len"], log["tp_size"]) == (None, None, 2)
    asked = "args: Namespace(hf_overrides={'dtype': 'half', 'a': {'block_size': 8}}, swap_space=2)"
    log = read(asked)
    assert (log["dtype"], log["block_size"], log["swap_space_gib"]) == (None, None, 2.0)


def test_a_prompt_that_quotes_a_log_changes_nothing():
    real = "\n".join(TABLE["0.4.2"][0])
    request = "INFO 05-25 00:10:00 [logger.py:39] Received request cmpl-1: prompt: 'my log says "
    request += "# GPU blocks: 27899, (x pid=3) Loading model weights took 9.9 GB', params: None"
    assert read(f"{real}\n{request}\n") == read(real)


SENTENCES = [
    (OLD, {"weights_gib": 7.4829, "weights_decimals": 4}),
    (
        "Model loading took 15.26 GiB memory and 23.1 s",
        {"weights_gib": 15.26, "weights_decimals": 2},
    ),
    ("Model loading took 15.0 GiB memory", {"weights_gib": 15.0, "weights_decimals": 2}),  # round()
    (
        "Loading model weights took in total 15.05 GiB of device memory (15.05 GiB/30.15 GiB used)",
        {"weights_gib": 15.05, "weights_decimals": 2},  # a Gaudi
    ),
    ("Actual usage is 7.48 GiB for weight, 1.2 GiB for peak", {"profiled_weights_gib": 7.48}),
    ("# cuda blocks: 13618, # CPU blocks: 2048", {"gpu_blocks": 13618, "cpu_blocks": 2048}),
    ("# GPU blocks: 27899", {"gpu_blocks": 27899}),
    ("CPU KV cache size: 1,234,567 tokens,", {"kv_tokens": 1_234_567}),
    (
        "Maximum concurrency for 131,072 tokens per request: 1.50x",
        {"tokens_per_request": 131_072, "max_concurrency": 1.5},
    ),
    ("Available KV cache memory: -1.07 GiB", {"kv_memory_gib": -1.07}),
    (PROFILE, {"kv_memory_gib": 11.3, "profiled_weights_gib": 7.48}),
    (MEMORY, {"kv_memory_gib": 34.96}),
    (
        "Initial free memory 31.16 GiB, reserved 4.25 GiB memory for KV Cache as specified by",
        {"kv_memory_gib": 4.25},
    ),
    ("vLLM API server version 0.5.4", {"version": "0.5.4"}),
    ("█ version 0.18.0", {"version": "0.18.0"}),
    ("Using max model len 16384", {"max_model_len": 16384}),
    (GLOBAL.format(r=3, d=1), {"rank": 3, "world_size": 4}),
    *(
        (nothing, {})
        for nothing in (
            "Loading model weights took 244.61 MB",
            "Loading model weights took a while",
            "Loading weights took 11.60 seconds",
            "Model loading took 15.",
            "Model loading took 15.2",
            "# GPU blocks: 12.",
            "# GPU blocks: , # CPU blocks: ",
            "GPU KV cache size: unknown",
            "GPU KV cache usage: 0.0%, CPU KV cache usage: 0.0%",
            "Maximum concurrency for tokens per request: x",
            "the GPU has 80 GiB and tensor_parallel_size=4 was considered",
            "",
        )
    ),
]


@pytest.mark.parametrize(("sentence", "facts"), SENTENCES)
def test_each_sentence_gives_its_numbers_and_no_other(sentence, facts):
    assert startup_log.facts(sentence) == startup_log.facts(said("x pid=2", sentence)[0]) == facts


def test_captures_are_read_back():
    logs = sorted((LAB.path / "captures").glob("*/*.log"))
    logs = [path for path in logs if path.parent.name != "pools"]  # tests/test_lab02_pools.py
    assert logs
    for path in logs:
        report, log = json.loads((path.parent / "report.json").read_text()), read(path.read_text())
        assert log["version"] == "0.32.0" and log["engine"] == "V1"
        assert (log["tp_size"], log["pp_size"]) == (report["tp_size"], report["pp_size"])
        on_gpu = report["ranks"][0].get("platform") == "cuda"  # a CPU does not say it
        assert any("weights_gib" in worker for worker in log["ranks"]) == on_gpu
        ranks = [worker["rank"] for worker in log["ranks"]]
        if path.stem == "engine":
            assert ranks == [0, 1] and log["kv_tokens"] == [report["tokens_reported"]]
        else:
            number = int(path.stem.removeprefix("rank-"))
            tokens = report["ranks"][number]["kv_cache"]["tokens_reported"]
            assert ranks == [number]
            assert log["kv_tokens"] == ([] if number else [tokens])  # rank 0 says it once


def test_the_summary_says_what_was_found_and_what_was_not():
    lines, _ = TABLE["0.28.0"]
    found, missing = startup_log.summary(read("\n".join(lines))).split("; ")
    assert "weights" in found and "memory of the cache" in missing
    found, missing = startup_log.summary(read("hello")).split("; ")
    assert found.endswith(": nothing") and "weights" in missing


PIECES = [
    *(line for lines, _ in TABLE.values() for line in lines),
    *(sentence for sentence, _ in SENTENCES),
    *("\x1b[0m", "(", "(Worker", "_TP", " pid=", "rank=", "GiB", "9" * 30, "\n", "\r", "\\u001b["),
]
text_of_pieces = st.lists(
    st.one_of(
        st.sampled_from(PIECES),
        st.text(max_size=30),
        st.text(string.printable, max_size=30),
        st.sampled_from(PIECES).flatmap(
            lambda piece: st.integers(0, len(piece)).map(lambda i: piece[:i])  # cut off
        ),
    ),
    max_size=12,
).map("".join)
MODEL = solution.model_shape(json.loads((LAB.path / "configs" / "llama-3-8b.json").read_text()))


@settings(max_examples=200, deadline=None)
@given(text_of_pieces)
@example("Loading model weights took " + "9" * 500 + ".1 GB")
@example(
    "tensor_parallel_size=999999, pipeline_parallel_size=999999\n" + said("Worker pid=1", OLD)[0]
)
def test_no_text_makes_the_reader_fail_or_invent(text):
    log = read(text)
    digits = text.replace(",", "")
    for name, value in [item for facts in (log, *log["ranks"]) for item in facts.items()]:
        assert type(value) in (int, float, str, list, type(None))
        if type(value) is int and name not in ("weights_decimals", "starts", "rank"):
            assert str(value) in digits or "0" in digits
    assert all(
        w["who"] in (None, "driver") or w["who"] in startup_log.COLOUR.sub("", text)
        for w in log["ranks"]
    )
    solution.reconcile(log, MODEL, 2)


def test_long_logs_are_read_in_one_pass():
    lines = TABLE["0.28.0"][0] + [V1 + "Avg prompt throughput: 0.1 tokens/s"] * 40
    log = read("\n".join(lines * 200))  # some 1 MB; a quadratic reader would take minutes
    assert log["starts"] == 200
