"""The start-up log reader of lab 02: every format of vLLM 0.2.7 to 0.33, and whatever happens to a
log on its way. Sentences are rendered from the releases' own format strings."""

import json
import re
import string

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from labkit.loading import find_labs, load_module

LAB = next(lab for lab in find_labs() if lab.prefix == "lab-02")
solution = load_module(LAB.file("solution"))
startup_log = load_module(LAB.path / "given" / "startup_log.py")
read = solution.read_startup_log

V1_ENGINE = "INFO 06-11 10:00:00 [core.py:91] Initializing a V1 LLM engine"
CONFIG = "model='meta-llama/Meta-Llama-3-8B', dtype=torch.bfloat16, max_seq_len=8192, "
CONFIG += "tensor_parallel_size=2, pipeline_parallel_size=1, quantization=None, kv_cache_dtype=auto"

V0_HEADER = "INFO 05-25 00:00:33 model_runner.py:175] "
V1_HEADER = "INFO 06-11 10:00:00 [gpu_model_runner.py:1600] "


def v0(worker, *sentences, both=True):
    """Lines of V0: rank 0 has no prefix."""
    lines = []
    for sentence in sentences:
        lines.append(V0_HEADER + sentence)
        if both:
            lines.append(f"({worker}) {V0_HEADER}{sentence}")
    return lines


def v1(workers, *sentences):
    return [f"({worker}) {V1_HEADER}{sentence}" for sentence in sentences for worker in workers]


def driver(*sentences, header=V0_HEADER):
    return [header + sentence for sentence in sentences]


RANK_LINE = "rank {r} in world size 2 is assigned as DP rank 0, PP rank 0, TP rank {r}"
PROFILE = (
    "model weights take 7.48GiB; non_torch_memory takes 0.20GiB; PyTorch activation peak memory "
    "takes 1.19GiB; the rest of the memory reserved for KV Cache is 11.30GiB."
)

TABLE = {
    "0.2.7": (
        [
            *driver(f"Initializing an LLM engine with config: {CONFIG}"),
            *driver("# GPU blocks: 11573, # CPU blocks: 4096"),
        ],
        {"tp_size": 2, "gpu_blocks": 11573, "cpu_blocks": 4096, "weights": []},
    ),
    "0.3.3": (
        [
            *driver(f"Initializing an LLM engine with config: {CONFIG}"),
            "(RayWorkerVllm pid=41) INFO 03-10 00:00:00 custom_all_reduce.py:202] Registering 2275 "
            "cuda graph addresses",
            *driver("# GPU blocks: 11573, # CPU blocks: 4096"),
        ],
        {"tp_size": 2, "gpu_blocks": 11573, "cpu_blocks": 4096, "weights": []},
    ),
    "0.4.2": (
        [
            *driver(f"Initializing an LLM engine (v0.4.2) with config: {CONFIG}"),
            *v0("RayWorkerWrapper pid=79502", "vLLM is using nccl==2.19.3"),
            *v0("RayWorkerWrapper pid=79502", "Loading model weights took 7.4829 GB"),
            *driver("# GPU blocks: 12344, # CPU blocks: 4096"),
        ],
        {
            "version": "0.4.2",
            "tp_size": 2,
            "gpu_blocks": 12344,
            "cpu_blocks": 4096,
            "weights": [(0, 7.4829), (1, 7.4829)],
        },
    ),
    "0.6.4 (V0)": (
        [
            *driver(f"Initializing an LLM engine (v0.6.4.post1) with config: {CONFIG}"),
            *v0("VllmWorkerProcess pid=3230", "Loading model weights took 7.4829 GB"),
            *v0(
                "VllmWorkerProcess pid=3230",
                "Memory profiling results: duration=71.88 seconds, total_gpu_memory=79.15GiB, "
                "peak_torch_memory=34.32GiB, kv_cache_size=34.96GiB, gpu_memory_utilization=0.90.",
            ),
            *driver("# GPU blocks: 34958, # CPU blocks: 4096"),
            *driver("Maximum concurrency for 8192 tokens per request: 68.28x"),
        ],
        {
            "version": "0.6.4.post1",
            "weights": [(0, 7.4829), (1, 7.4829)],
            "kv_memory": [34.96, 34.96],
            "gpu_blocks": 34958,
            "max_concurrency": 68.28,
            "tokens_per_request": 8192,
        },
    ),
    "0.6.4 (V1)": (
        [
            *driver(f"Initializing an LLM engine (v0.6.4) with config: {CONFIG}"),
            *driver("Loading model weights took 14.9595 GB", "# GPU blocks: 27899"),
        ],
        {"weights": [(0, 14.9595)], "gpu_blocks": 27899, "cpu_blocks": None},
    ),
    "0.7.3 (V0)": (
        [
            *driver(f"Initializing a V0 LLM engine (v0.7.3) with config: {CONFIG}"),
            *v0("VllmWorkerProcess pid=9", "Loading model weights took 7.4829 GB", PROFILE),
            *driver("# cuda blocks: 11571, # CPU blocks: 4096"),
            *driver("Maximum concurrency for 8192 tokens per request: 22.60x"),
        ],
        {
            "engine": "V0",
            "version": "0.7.3",
            "weights": [(0, 7.4829), (1, 7.4829)],
            "kv_memory": [11.3, 11.3],
            "gpu_blocks": 11571,
        },
    ),
    "0.8.1": (
        [
            *driver(f"Initializing a V1 LLM engine (v0.8.1) with config: {CONFIG}"),
            *v1(["VllmWorker rank=1 pid=8"], RANK_LINE.format(r=1)),
            *v1(
                ["VllmWorker rank=0 pid=7", "VllmWorker rank=1 pid=8"],
                "Model loading took 7.4829 GB and 13.051931 seconds",
            ),
            *driver("GPU KV cache size: 185,136 tokens", "GPU KV cache size: 185,120 tokens"),
            *driver("Maximum concurrency for 8,192 tokens per request: 22.60x"),
        ],
        {
            "engine": "V1",
            "weights": [(0, 7.4829), (1, 7.4829)],
            "kv_tokens": [185136, 185120],
            "tokens_per_request": 8192,
        },
    ),
    "0.9.2": (
        [
            *driver(f"Initializing a V1 LLM engine (v0.9.2) with config: {CONFIG}"),
            *v1(
                ["VllmWorker rank=1 pid=8", "VllmWorker rank=0 pid=7"],
                "Model loading took 7.4829 GiB and 13.051931 seconds",
                "Available KV cache memory: 11.30 GiB",
            ),
            *driver("GPU KV cache size: 185,136 tokens", "GPU KV cache size: 185,136 tokens"),
        ],
        {
            "weights": [(0, 7.4829), (1, 7.4829)],
            "kv_memory": [11.3, 11.3],
            "kv_tokens": [185136, 185136],
        },
    ),
    "0.10.1": (
        [
            f"(EngineCore_0 pid=5) {V1_ENGINE} (v0.10.1) with config: " + CONFIG,
            *v1(
                ["VllmWorker TP0 pid=7", "VllmWorker TP1 pid=8"],
                "Model loading took 7.4829 GiB and 13.1 seconds",
            ),
            *v1(["EngineCore_0 pid=5"], "GPU KV cache size: 185,136 tokens"),
        ],
        {"version": "0.10.1", "weights": [(0, 7.4829), (1, 7.4829)], "kv_tokens": [185136]},
    ),
    "0.11.2": (
        [
            f"(EngineCore_DP0 pid=5) {V1_ENGINE} (v0.11.2) with config: " + CONFIG,
            *v1(["Worker_TP0 pid=7"], "Model loading took 7.4829 GiB memory and 13.1 seconds"),
            *v1(["Worker_TP0 pid=7"], "Available KV cache memory: 11.3 GiB"),
            *v1(["EngineCore_DP0 pid=5"], "GPU KV cache size: 185,136 tokens"),
        ],
        {"weights": [(0, 7.4829)], "kv_memory": [11.3], "kv_tokens": [185136]},
    ),
    "0.18.0": (
        [
            f"(EngineCore_DP0 pid=5) {V1_ENGINE} (v0.18.0) with config: " + CONFIG,
            f"(Worker pid=7) (Worker_TP0 pid=7) {V1_HEADER}Model loading took 7.48 GiB memory and "
            "13.1 seconds",
            f"(Worker pid=8) (Worker_TP1 pid=8) {V1_HEADER}Model loading took 7.48 GiB and 13.1 "
            "seconds",
        ],
        {"weights": [(0, 7.48), (1, 7.48)]},
    ),
    "0.20.0, pipeline": (
        [
            f"(EngineCore pid=5) {V1_ENGINE} (v0.20.0) with config: "
            + CONFIG.replace("pipeline_parallel_size=1", "pipeline_parallel_size=2"),
            *v1(
                ["Worker_PP0_TP0 pid=7", "Worker_PP1_TP1 pid=10"],
                "Model loading took 3.75 GiB memory and 13.1 seconds",
            ),
        ],
        {"pp_size": 2, "weights": [(0, 3.75), (3, 3.75)]},
    ),
    "0.28.0": (
        [
            f"(EngineCore pid=5) {V1_ENGINE} (v0.28.0) with config: " + CONFIG,
            *v1(
                ["Worker_TP0 pid=7", "Worker_TP1 pid=8"],
                "Model loading took 7.48 GiB memory and 13.1 seconds",
            ),
            *v1(
                ["EngineCore pid=5"],
                "GPU KV cache size: 185,136 tokens, Maximum concurrency for 8,192 tokens per "
                "request: 22.60x",
            ),
        ],
        {
            "weights": [(0, 7.48), (1, 7.48)],
            "kv_tokens": [185136],
            "tokens_per_request": 8192,
            "max_concurrency": 22.6,
        },
    ),
    "0.32.0, CPU": (
        [
            f"(EngineCore pid=5) {V1_ENGINE} (v0.32.0) with config: " + CONFIG,
            f"(Worker pid=7) {V1_HEADER}world_size=2 rank=0 local_rank=0 "
            "distributed_init_method=file:///x backend=gloo",
            f"(Worker pid=8) {V1_HEADER}world_size=2 rank=1 local_rank=1 "
            "distributed_init_method=file:///x backend=gloo",
            *v1(
                ["Worker_TP0 pid=7", "Worker_TP1 pid=8"],
                "Explicitly set (1.0/9.46) GiB for KV cache on node 0.",
            ),
            *v1(
                ["EngineCore pid=5"],
                "CPU KV cache size: 524,288 tokens, Maximum concurrency for 256 tokens per "
                "request: 2048.00x",
            ),
        ],
        {
            "world_size": 2,
            "weights": [],
            "kv_memory": [1.0, 1.0],
            "kv_tokens": [524288],
            "max_concurrency": 2048.0,
        },
    ),
}


def fields(log):
    """The log's facts in the shape of TABLE's expectations."""
    found = dict(log)
    for name, key in [("weights", "weights_gib"), ("kv_memory", "kv_memory_gib")]:
        said = [(worker["rank"], worker[key]) for worker in log["ranks"] if key in worker]
        found[name] = said if name == "weights" else [value for _, value in said]
    return found


def check(text, expected):
    found = fields(read(text))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("row", TABLE)
def test_every_generation(row):
    lines, expected = TABLE[row]
    check("\n".join(lines), expected)


WAYS = {
    "CRLF": lambda lines: "\r\n".join(lines),
    "one flattened line": lambda lines: " ".join(lines),
    "colours": lambda lines: "\n".join(
        line.replace("(", "\x1b[1;36m(", 1)
        .replace(")", ")\x1b[0;0m", 1)
        .replace("INFO", "\x1b[32mINFO\x1b[0m")
        for line in lines
    ),
    "colours without their escape": lambda lines: "\n".join(
        line.replace(")", ")[0;0m", 1) if line.startswith("(") else "[0m" + line for line in lines
    ),
    "colours in a syslog": lambda lines: "\n".join(
        "[INFO ] PyProcess - W-210-model-stdout: "
        + line.replace("(", "#033[1;36m(", 1).replace(")", ")#033[0;0m", 1)
        for line in lines
    ),
    "colours in JSON": lambda lines: "\n".join(
        json.dumps({"log": "\x1b[36m" + line + "\x1b[0m\n", "stream": "stdout"}) for line in lines
    ),
    "docker compose": lambda lines: "\n".join("vllm-1  | " + line for line in lines),
    "kubectl, with timestamps": lambda lines: "\n".join(
        f"[pod/vllm-0/server] 2026-01-02T03:04:05.{i:06}Z {line}" for i, line in enumerate(lines)
    ),
    "TorchServe": lambda lines: "\n".join(
        "2024-10-07T22:54:54,595 [INFO ] W-9000-model_1.0-stdout MODEL_LOG - " + line
        for line in lines
    ),
    "a comment or a quotation": lambda lines: "\n".join("# > " + line for line in lines),
    "indented": lambda lines: "\n\n".join("    " + line for line in lines),
    "no times": lambda lines: "\n".join(
        re.sub(r"\d\d-\d\d \d\d:\d\d:\d\d ", "", line) for line in lines
    ),
    "milliseconds": lambda lines: "\n".join(lines).replace(":00 ", ":00.123 "),
    "wrapped by a terminal": lambda lines: "\n".join(
        line.replace(" took ", "\ntook ").replace(" tokens per", "\ntokens per") for line in lines
    ),
    "progress bars between": lambda lines: "\n".join(
        f"{line}\nLoading safetensors checkpoint shards:  50% Completed | 2/4 [00:17<00:19]\r"
        for line in lines
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("row", TABLE)
def test_every_generation_after_every_way_it_travelled(row, way):
    lines, expected = TABLE[row]
    check(WAYS[way](lines), expected)


def test_every_line_missing_takes_only_its_own_facts_away():
    for lines, expected in TABLE.values():
        for i in range(len(lines)):
            found = fields(read("\n".join(lines[:i] + lines[i + 1 :])))
            for name, value in expected.items():
                if isinstance(value, list):
                    values = [v[1] if isinstance(v, tuple) else v for v in value]
                    left = [v[1] if isinstance(v, tuple) else v for v in found[name]]
                    assert all(any(abs(v - w) <= 0.005 for w in values) for v in left)
                else:
                    assert found[name] in (value, None)


def test_half_lines_of_two_ranks_are_not_mixed():
    text = (
        "(VllmWorkerProcess pid=31) (VllmWorkerProcess pid=32) INFO 10-08 07:17:03 "
        "model_runner.py:692] Loading model weights took 7.4829 GB\n"
        "INFO 10-08 07:17:03 model_runner.py:692] Loading model weights took 7.4829 GB\n"
        "(VllmWorkerProcess pid=33) INFO 10-08 07:17:03 model_runner.py:692] Loading model "
        "weights took INFO 10-08 07:17:03 distributed_gpu_executor.py:58] # GPU blocks: 12344, "
        "# CPU blocks: 4096\n7.4829 GB\n"
    )
    log = read(text)
    speakers = [worker["who"] for worker in log["ranks"]]
    assert speakers == ["driver", "VllmWorkerProcess pid=32"]  # 33 never finished its sentence
    assert (log["gpu_blocks"], log["cpu_blocks"]) == (12344, 4096)


def test_what_ray_swallowed_is_counted_not_invented():
    line = "(RayWorkerWrapper pid=7, ip=10.0.0.2) INFO 05-25 00:00:36 model_runner.py:175] Loading "
    line += "model weights took 7.4829 GB [repeated 14x across cluster] (Ray deduplicates logs)"
    (worker,) = read(line)["ranks"]
    assert worker["repeated"] == 14 and worker["rank"] is None
    assert worker["who"] == "RayWorkerWrapper pid=7, ip=10.0.0.2"


def test_no_room_for_the_cache_is_read_as_said():
    assert read("Available KV cache memory: -1.07 GiB")["ranks"][0]["kv_memory_gib"] == -1.07
    assert read("memory reserved for KV Cache is -0.69GiB.")["ranks"] == []  # who, what: cut off


def test_weights_are_found_in_the_memory_profile_alone():
    line = "(VllmWorkerProcess pid=240) INFO 02-14 08:23:15 worker.py:266] "
    (worker,) = read(line + PROFILE)["ranks"]
    assert (worker["weights_gib"], worker["weights_decimals"]) == (7.48, 2)
    both = line + "Loading model weights took 7.4829 GB\n" + line + PROFILE
    (worker,) = read(both)["ranks"]
    assert (worker["weights_gib"], worker["weights_decimals"]) == (7.4829, 4)


OTHERS = [
    ("vLLM API server version 0.5.4", {"version": "0.5.4"}),
    ("█ version 0.18.0", {"version": "0.18.0"}),
    ("Using max model len 16384", {"max_model_len": 16384}),
    (
        "Actual usage is 7.48 GiB for weight, 1.23 GiB for peak activation, 0.45 GiB for non-torch "
        "memory, and 2.1 GiB for CUDAGraph memory.",
        {"profiled_weights_gib": 7.48},
    ),
    *(
        (
            f"rank 3 in world size 8 is assigned as DP rank 0, PP rank 1{pcp}, TP rank 1{more}",
            {"rank": 3, "world_size": 8, "dp_rank": 0, "pp_rank": 1, "tp_rank": 1},
        )
        for pcp, more in [
            ("", ""),
            ("", ", EP rank 1"),
            (", PCP rank 0", ", EP rank 1, EPLB rank N/A"),
            (", PCP rank 0", ", ETP rank 1, EP rank N/A, EPLB rank N/A"),
        ]
    ),
]


@pytest.mark.parametrize(("sentence", "facts"), OTHERS)
def test_other_sentences_and_who_said_them(sentence, facts):
    (said,) = startup_log.sentences(f"(Worker_TP1 pid=8) {V1_HEADER}{sentence}")
    assert startup_log.read_sentence(said["text"]) == facts
    assert said["who"] == "Worker_TP1 pid=8"


def test_ranks_are_named_by_their_own_rank_line():
    text = "\n".join(
        f"(RayWorkerWrapper pid={70 + r}) {V1_HEADER}{RANK_LINE.format(r=r)}, EP rank {r}\n"
        f"(RayWorkerWrapper pid={70 + r}) {V1_HEADER}Model loading took 7.{r} GiB and 9.1 seconds"
        for r in (1, 0)
    )
    assert fields(read(text))["weights"] == [(0, 7.0), (1, 7.1)]


def test_a_second_start_replaces_the_first():
    first, second = TABLE["0.7.3 (V0)"][0], TABLE["0.8.1"][0]
    log = read("\n".join(first + second))
    assert log["starts"] == 2 and log["version"] == "0.8.1" and log["gpu_blocks"] is None


def test_engines_of_data_parallel_ranks_are_not_restarts():
    text = "\n".join(
        f"(EngineCore_DP{d} pid={d}) {V1_ENGINE} (v0.11.0) with config: "
        f"{CONFIG}, data_parallel_size=2"
        for d in (0, 1)
    )
    log = read(text)
    assert log["starts"] == 1


def test_the_sizes_asked_for_do_not_overrule_the_engines_own():
    asked = (
        "INFO 01-01 00:00:00 api_server.py:1] args: Namespace(tensor_parallel_size=8, dtype='auto')"
    )
    lines = TABLE["0.4.2"][0]
    assert read("\n".join([asked, *lines]))["tp_size"] == 2
    assert read("\n".join([*lines, asked]))["tp_size"] == 2
    assert read(asked)["tp_size"] == 8


STATED = "is assigned as DP rank {d}, PP rank 0, PCP rank 0, TP rank 0, EP rank {d}, EPLB rank N/A"
LOADED = f"{V1_HEADER}Model loading took 3.5 GiB memory and 1.0 seconds"


@pytest.mark.parametrize(
    ("lines", "ranks"),
    [
        (
            [
                f"(Worker pid=5922) {V1_HEADER}rank 0 in world size 2 {STATED.format(d=0)}",
                f"(Worker pid=5923) {V1_HEADER}rank 1 in world size 2 {STATED.format(d=1)}",
                f"(Worker_DP0_EP0 pid=5922) {LOADED}",
                f"(Worker_DP1_EP1 pid=5923) {LOADED}",
            ],
            {"Worker_DP0_EP0 pid=5922": 0, "Worker_DP1_EP1 pid=5923": 1},
        ),
        (
            [
                f"(Worker pid=3) {V1_HEADER}world_size=2 rank=0 local_rank=0 x",  # of its engine
                f"(Worker pid=3) {V1_HEADER}rank 2 in world size 4 {STATED.format(d=1)}",
                f"(Worker_DP1_TP0_EP2 pid=3) {LOADED}",
            ],
            {"Worker_DP1_TP0_EP2 pid=3": 2},
        ),
        (
            [
                f"(EngineCore_DP2 pid=7085) {V1_HEADER}rank 2 in world size 4 {STATED.format(d=2)}",
                f"(EngineCore_DP2 pid=7085) {LOADED}",
                f"(EngineCore_DP1 pid=7074) {LOADED}",
                f"(EngineCore_DP0 pid=7081) {LOADED}",
            ],
            {
                "EngineCore_DP0 pid=7081": 0,
                "EngineCore_DP2 pid=7085": 2,
                "EngineCore_DP1 pid=7074": None,
            },
        ),
        (
            [f"(RayWorkerProc pid=22, ip=192.168.10.216) (Worker_DP2_TP0_EP4 pid=22) {LOADED}"],
            {"Worker_DP2_TP0_EP4 pid=22": None},
        ),
        (
            [
                f"(RayWorkerWrapper pid=9, ip=10.0.0.{d + 1}) {V1_HEADER}rank {d} in world size 2 "
                + STATED.format(d=d)
                for d in (0, 1)
            ]
            + [f"(RayWorkerWrapper pid=9, ip=10.0.0.2) {LOADED}"],
            {"RayWorkerWrapper pid=9, ip=10.0.0.2": 1},  # the same pid on two hosts
        ),
        ([f"(EngineCore_3 pid=4) {LOADED}"], {"EngineCore_3 pid=4": None}),
    ],
)
def test_ranks_are_those_stated_for_a_process_and_none_invented(lines, ranks):
    assert {w["who"]: w["rank"] for w in read("\n".join(lines))["ranks"]} == ranks


def test_a_draft_model_does_not_replace_the_model():
    log = read(
        "\n".join(driver(*(f"Loading model weights took {n} GB" for n in (13.4966, 4.4062))))
    )
    assert fields(log)["weights"] == [(0, 13.4966)]


def test_ranks_of_torchrun_without_prefixes_are_kept_apart():
    lines = [V1_HEADER + RANK_LINE.format(r=r) for r in (0, 1)]
    lines += [f"{V1_HEADER}Model loading took 7.{n} GiB and 1.0 seconds" for n in (1, 2)]
    assert fields(read("\n".join(lines)))["weights"] == [(None, 7.1), (None, 7.2)]


def test_a_tag_between_prefix_and_header_leaves_the_speaker():
    line = "(EngineCore_DP0 pid=181642) [Stage-0] INFO 02-02 18:25:03 [gpu_worker.py:358] "
    (worker,) = read(line + "Available KV cache memory: 100.43 GiB")["ranks"]
    assert (worker["who"], worker["kv_memory_gib"]) == ("EngineCore_DP0 pid=181642", 100.43)


def test_a_prompt_that_quotes_a_log_changes_nothing():
    real = "\n".join(TABLE["0.4.2"][0])
    request = "INFO 05-25 00:10:00 [logger.py:39] Received request cmpl-1: prompt: 'my log says "
    request += "# GPU blocks: 27899, (x pid=3) Loading model weights took 9.9 GB', params: None"
    assert read(f"{real}\n{request}\n") == read(real)


def test_a_cache_of_a_size_asked_for():
    line = "(EngineCore pid=316) INFO 08-21 18:37:44 [gpu_worker.py:492] Initial free memory 31.16 "
    line += (
        "GiB, reserved 4.25 GiB memory for KV Cache as specified by kv_cache_memory_bytes config"
    )
    (worker,) = read(line)["ranks"]
    said = (worker["who"], worker["rank"], worker["kv_memory_gib"])
    assert said == ("EngineCore pid=316", 0, 4.25)


def test_weights_of_a_gaudi():
    (worker,) = read(
        "INFO 02-04 12:35:22 hpu_model_runner.py:712] Pre-loading model weights on hpu:0 took "
        "15.06 GiB of device memory (15.06 GiB/30.15 GiB used)\n"
        "INFO 02-04 12:35:23 hpu_model_runner.py:794] Loading model weights took in total "
        "15.05 GiB of device memory (15.05 GiB/30.15 GiB used) and 1.134 GiB of host memory\n"
    )["ranks"]
    said = [worker[name] for name in ("who", "rank", "weights_gib", "weights_decimals")]
    assert said == ["driver", 0, 15.05, 2]


def test_actors_side_by_side_are_not_restarts():
    lines = []
    for pid in (11, 22):
        lines.append(f"(LLMRayActor pid={pid}) {V0_HEADER}Initializing an LLM engine (v0.6.4)")
        lines.append(f"(LLMRayActor pid={pid}) {V0_HEADER}Loading model weights took 3.{pid} GB")
    log = read("\n".join(lines))
    assert log["starts"] == 1 and fields(log)["weights"] == [(None, 3.11), (None, 3.22)]


def test_settings_of_a_nested_dict_are_not_the_engines():
    log = read(
        "non-default args: {'speculative_config': {'model': 'draft', 'max_model_len': 5}, "
        "'tensor_parallel_size': 2}"
    )
    assert (log["model"], log["max_model_len"], log["tp_size"]) == (None, None, 2)
    asked = "args: Namespace(hf_overrides={'dtype': 'half', 'a': {'block_size': 8}}, swap_space=2)"
    log = read(asked)
    assert (log["dtype"], log["block_size"], log["swap_space_gib"]) == (None, None, 2.0)


SENTENCES = [
    ("Loading model weights took 7.4829 GB", {"weights_gib": 7.4829, "weights_decimals": 4}),
    (
        "Loading model weights took 8.4050 GB and 81.775431 seconds",
        {"weights_gib": 8.405, "weights_decimals": 4},
    ),
    (
        "Model loading took 11.9642 GiB and 13.051931 seconds",
        {"weights_gib": 11.9642, "weights_decimals": 4},
    ),
    (
        "Model loading took 15.26 GiB memory and 23.107530 seconds",
        {"weights_gib": 15.26, "weights_decimals": 2},
    ),
    ("# GPU blocks: 12344, # CPU blocks: 4096", {"gpu_blocks": 12344, "cpu_blocks": 4096}),
    ("# cuda blocks: 13618, # CPU blocks: 2048", {"gpu_blocks": 13618, "cpu_blocks": 2048}),
    ("# GPU blocks: 27899", {"gpu_blocks": 27899}),
    ("GPU KV cache size: 67,296 tokens", {"kv_tokens": 67_296}),
    ("CPU KV cache size: 2,048 tokens,", {"kv_tokens": 2048}),
    ("GPU KV cache size: 1,234,567 tokens", {"kv_tokens": 1_234_567}),
    (
        "Maximum concurrency for 2048 tokens per request: 106.39x",
        {"tokens_per_request": 2048, "max_concurrency": 106.39},
    ),
    (
        "Maximum concurrency for 131,072 tokens per request: 1.50x",
        {"tokens_per_request": 131_072, "max_concurrency": 1.5},
    ),
    ("Available KV cache memory: 8.22 GiB", {"kv_memory_gib": 8.22}),
    ("Available KV cache memory: -1.07 GiB", {"kv_memory_gib": -1.07}),
    (
        "model weights take 7.17GiB; non_torch_memory takes 0.01GiB; PyTorch activation peak "
        "memory takes 1.83GiB; the rest of the memory reserved for KV Cache is 26.60GiB.",
        {"kv_memory_gib": 26.6, "profiled_weights_gib": 7.17},
    ),
    (
        "Memory profiling results: duration=71.88 seconds, total_gpu_memory=79.15GiB, "
        "kv_cache_size=34.96GiB, gpu_memory_utilization=0.90.",
        {"kv_memory_gib": 34.96},
    ),
    ("Loading model weights took 244.61 MB", {}),
    ("# GPU blocks: 12.", {}),
    ("Model loading took 15.", {}),
    ("Loading model weights took", {}),
    ("GPU KV cache size: unknown", {}),
    ("", {}),
]


@pytest.mark.parametrize(("sentence", "facts"), SENTENCES)
def test_each_sentence_gives_its_numbers_and_no_other(sentence, facts):
    assert startup_log.read_sentence(sentence) == facts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Loading model weights took a while",
        "Loading model weights took 15.",
        "Model loading took 15.2",
        "GPU KV cache size: tokens",
        "# GPU blocks: , # CPU blocks: ",
        "Maximum concurrency for tokens per request: x",
        "GPU KV cache usage: 0.0%, CPU KV cache usage: 0.0%",
        "the GPU has 80 GiB and tensor_parallel_size=4 was considered",
        "Loading weights took 11.60 seconds",
    ],
)
def test_nothing_is_invented(text):
    log = read(text)
    known = [name for name, value in log.items() if value not in (None, [], 0)]
    assert known == []


def test_captures_are_read_back():
    for folder in sorted((LAB.path / "captures").iterdir()):
        for path in folder.glob("*.log"):
            report = json.loads((folder / "report.json").read_text())
            if "config" not in report:
                continue  # part C's
            log = read(path.read_text())
            assert log["version"] == "0.32.0" and log["engine"] == "V1"
            assert (log["tp_size"], log["pp_size"]) == (report["tp_size"], report["pp_size"])
            ranks = [worker["rank"] for worker in log["ranks"]]
            if path.stem == "engine":
                assert ranks == [0, 1] and log["kv_tokens"] == [report["tokens_reported"]]
            else:
                number = int(path.stem.removeprefix("rank-"))
                assert ranks == [number]
                tokens = report["ranks"][number]["kv_cache"]["tokens_reported"]
                assert log["kv_tokens"] == ([] if number else [tokens])  # rank 0 says it once


@pytest.mark.parametrize("name", ["tp2", "pp2"])
def test_captures_are_cpu_logs_and_print_no_weights(name):
    logs = sorted((LAB.path / "captures" / name).glob("*.log"))
    assert logs and not any("weights_gib" in w for p in logs for w in read(p.read_text())["ranks"])


# --- any text at all --------------------------------------------------------------------------

PIECES = [
    *(line for lines, _ in TABLE.values() for line in lines),
    *startup_log._SENTENCES.replace("\\s+", " ").split("|"),
    *("\x1b[0m", "(", "(Worker", "_TP", " pid=", "rank=", "GiB", "9" * 30, "\n", "\r", "\\u001b["),
    *("INFO 05-25 00:00:33 x.py:1] ", "[repeated 14x across cluster]", "٣", "1,2,3", "NaN", "-"),
]
text_of_pieces = st.lists(
    st.one_of(
        st.sampled_from(PIECES),
        st.text(max_size=30),
        st.text(string.printable, max_size=30),
        st.sampled_from(PIECES).flatmap(
            lambda p: st.integers(0, len(p)).map(lambda i, p=p: p[:i])  # cut off
        ),
    ),
    max_size=12,
).map("".join)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(text_of_pieces)
@example("Loading model weights took " + "9" * 5000 + ".1 GB")
@example("rank 1 in world size " + "1" * 400)
@example(
    "Initializing an LLM engine with config: tensor_parallel_size=999999, "
    "pipeline_parallel_size=999999\n(Worker pid=1) Loading model weights took 7.4829 GB"
)
@example("(" * 5000 + "Worker" * 5000)
def test_no_text_makes_the_reader_fail_or_invent(text):
    log = read(text)
    digits = text.replace(",", "")
    of_ranks = [(name, value) for worker in log["ranks"] for name, value in worker.items()]
    for name, value in [*log.items(), *of_ranks]:
        assert type(value) in (int, float, str, list, type(None))
        if type(value) is int and name not in ("weights_decimals", "starts", "repeated", "rank"):
            assert str(value) in digits or "0" in digits
    for worker in log["ranks"]:
        assert worker["who"] in (None, "driver") or worker["who"] in text_flat(text)
    solution.reconcile(log, MODEL, 2)


MODEL = solution.model_shape(json.loads((LAB.path / "configs" / "llama-3-8b.json").read_text()))


def text_flat(text):
    return " ".join(startup_log._COLOUR.sub("", text).split())


def test_long_logs_are_read_in_one_pass():
    lines = (
        TABLE["0.9.2"][0] + ["INFO 06-11 10:00:00 [metrics.py:1] Avg prompt throughput: 0.1"] * 40
    )
    log = read("\n".join(lines * 400))  # some 2 MB; a quadratic reader would take minutes
    assert log["starts"] == 400
