"""Published measurements held against the planner: hits, misses and the known misses by name.

A row is {"id", "kind", "setting", "value", "unit", "source"}; facts.jsonl holds the shipped ones.
Settings are as their sources wrote them, so this file is mostly about reading words: a model's and
a GPU's name, a layout, a workload. A row that does not say what it would have to is left out, with
the reason; known_misses.json names those that are excluded or known to miss, and why.
"""

import json
import math
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from planner import hardware, labs, memory, models, timing
from planner.memory import Plan
from planner.timing import Load

HERE = Path(__file__).resolve().parent.parent
SHIPPED = HERE / "facts.jsonl"
GIB = 2**30


@dataclass
class Fact:
    """One row with what the planner says: interval = (best, typical, worst) or a single answer."""

    row: dict
    what: str  # "fits", "longest context", "KV capacity", "throughput", "TPOT", ...
    measured: float = 0.0
    predicted: float = 0.0
    low: float | None = None
    high: float | None = None
    left_out: str | None = None
    group: tuple | None = None  # rows that differ in the plan alone
    gpus: int = 1
    box: tuple | None = None

    @property
    def factor(self):
        if not self.predicted or not self.measured:
            return math.inf if self.predicted != self.measured else 1.0
        return max(self.predicted / self.measured, self.measured / self.predicted)

    @property
    def inside(self):
        return self.low is not None and self.low <= self.measured <= self.high


class LeftOut(Exception):
    """Why a row cannot be held against the planner; str() is the reason."""


def load_rows(path=SHIPPED):
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file of facts") from None
    try:
        return [json.loads(line) for line in lines if line.strip()]
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: a line is not JSON ({error.msg})") from None


# --- reading words ------------------------------------------------------------------------------

_MODELS = [  # first hit wins; patterns on the name in lower case
    (r"distill-qwen-7b", "qwen2.5-7b"),
    (r"distill-llama-70b", "llama-3.1-70b"),
    (r"distill-llama-8b", "llama-3.1-8b"),
    (r"distill-qwen-32b|qwen2(\.5)?-32b", "qwen2.5-32b"),
    (r"^1b-model", "llama-3.2-1b"),
    (r"llama-?\s?3\.2-1b", "llama-3.2-1b"),
    (r"llama-?\s?3(\.1)?-8b|llama-3-8b", "llama-3.1-8b"),
    (r"llama-?\s?3(\.[13])?-70b|llama3\.?[13]?-?70b", "llama-3.1-70b"),
    (r"llama-?\s?3\.1-405b", "llama-3.1-405b"),
    (r"llama[- ]?2[- ]70b|stablebeluga2", "llama-2-70b"),
    (r"llama[- ]?2[- ]7b", "llama-2-7b"),
    (r"llama[- ]?(2[- ])?13b", "llama-2-13b"),
    (r"wizardlm-33b", "wizardlm-33b"),
    (r"mistral-7b", "mistral-7b"),
    (r"mistral-nemo", "mistral-nemo"),
    (r"mistral-large", "mistral-large"),
    (r"mixtral-8x7b", "mixtral-8x7b"),
    (r"mixtral-8x22b", "mixtral-8x22b"),
    (r"qwen1\.5-72b", "qwen1.5-72b"),
    (r"qwen2(\.5)?-(vl-)?72b", "qwen2.5-72b"),
    (r"qwen2(\.5)?-7b", "qwen2.5-7b"),
    (r"qwen3-(vl-)?30b", "qwen3-30b-a3b"),
    (r"qwen3-(vl-)?235b", "qwen3-235b-a22b"),
    (r"qwen3-coder-480b", "qwen3-coder-480b"),
    (r"qwen3-32b", "qwen3-32b"),
    (r"qwen3-8b", "qwen3-8b"),
    (r"qwen3-14b", "qwen3-14b"),
    (r"qwen3\.5-397b", "qwen3.5-397b"),
    (r"qwen3\.6-27b", "qwen3.6-27b"),
    (r"minimax-m2", "minimax-m2.5"),
    (r"deepseek-(r1|v3)(?!\.)(?!-distill)", "deepseek-v3"),
    (r"kimi-k2-think", "kimi-k2-thinking"),
    (r"kimi-k2", "kimi-k2"),
    (r"gpt-oss-120b", "gpt-oss-120b"),
    (r"gpt-oss-20b", "gpt-oss-20b"),
    (r"glm-4\.5", "glm-4.5"),
    (r"phi-?4", "phi-4"),
    (r"gemma-3-27b", "gemma-3-27b"),
    (r"gemma-2-27b", "gemma-2-27b"),
]
_QUANT = [
    (r"awq|gptq|int4|4\.\d*bpw|w4a16", "int4"),
    (r"nvfp4|fp4(?!\w)", "nvfp4"),
    (r"mxfp4", "mxfp4"),
    (r"fp8|w8a8", "fp8"),
    (r"bf16|fp16|float16", "bf16"),
]
_GPUS = [
    (r"rtx (pro )?6000( pro)?( blackwell)?", "rtx-pro-6000"),
    (r"gb200", "gb200"),
    (r"gh200", "gh200"),
    (r"gb10|dgx spark|spark", "gb10"),
    (r"b300", "b300"),
    (r"b200", "b200"),
    (r"h200", "h200"),
    (r"h800", "h800"),
    (r"h20(?!0)", "h20"),
    (r"h100|8x 80gb", "h100"),
    (r"a100.?40", "a100-40gb"),
    (r"a100", "a100"),
    (r"l40s", "l40s"),
    (r"l40", "l40"),
    (r"\bl4\b", "l4"),
    (r"a10g", "a10g"),
    (r"a6000", "a6000"),
    (r"v100", "v100"),
    (r"3090 ?ti", "rtx-3090ti"),
    (r"3090", "rtx-3090"),
    (r"4090", "rtx-4090"),
]


def _first(patterns, text):
    return next((name for pattern, name in patterns if re.search(pattern, text)), None)


@cache
def _model(words, precision):
    name = _first(_MODELS, re.sub(r"[ _]", "-", words.lower()))
    if name is None:
        raise LeftOut(f"model {words!r} is not shipped")
    said = _first(_QUANT, f"{words} {precision or ''}".lower())
    own = models.read(name).quantisation.name
    quant = said if said and not own.startswith(said) and own[:3] != said[:3] else None
    if own == "mxfp4" and said in (None, "bf16", "nvfp4"):
        quant = None
    return models.read(name, quant)


@cache
def _box(words, engine, nodes=1, link=None, network="400 GbE"):
    gpu = _first(_GPUS, words.lower())
    if gpu is None:
        raise LeftOut(f"GPU {words!r} is not in gpus.json")
    return hardware.box(gpu, nodes, link=link, network=network, engine=engine)


def model_named(setting):
    return _model(setting["model"], setting.get("precision"))


def box_named(setting):
    return _box(setting["gpu"], "vllm-0.5")


def _engine(words):
    words = (words or "vllm").lower()
    if "tensorrt" in words or "trtllm" in words:
        return "trtllm"
    if "sglang" in words:
        return "sglang"
    if version := re.search(r"vllm v?0\.(\d+)", words):
        return "vllm" if int(version[1]) >= 8 else "vllm-0.5"
    return "vllm"


def _plan(setting):
    layout = str(setting.get("layout", "")).lower()
    tp, pp = setting.get("tp", 1), setting.get("pp", 1)
    if found := re.search(r"tp ?(\d+)", layout):
        tp = int(found[1])
    if found := re.search(r"pp ?(\d+)", layout):
        pp = int(found[1])
    replicas = int(found[1]) if (found := re.search(r"(\d+) replicas", layout)) else 1
    if str(setting.get("gpu", "")).lower().startswith("8 gpus"):
        tp = setting.get("tp", 8)
    return Plan(replicas, tp, pp)


# --- one kind of row after the other --------------------------------------------------------------


def judge(row, calibration=None):
    """The Fact of a row. Its `left_out` says why when it cannot be held against the planner."""
    excluded = known().get(row["id"], {})
    fact = Fact(row, row["kind"])
    try:
        if excluded.get("excluded"):
            raise LeftOut(excluded["excluded"])
        if row["kind"] not in KINDS:
            raise LeftOut(NO_PLAN.get(row["kind"], f"kind {row['kind']} is not about placement"))
        KINDS[row["kind"]](fact, row["setting"], calibration or {})
    except LeftOut as why:
        fact.left_out = str(why)
    except KeyError as missing:
        fact.left_out = f"the row states no {missing}"
    except ValueError as refused:
        fact.left_out = f"refused: {refused}"
    return fact


@cache
def known():
    return hardware.read_json(HERE / "known_misses.json")


def _interval(fact, box, value_of):
    """Fill in predicted, low and high from value_of(fixed box) at the three moods."""
    found = [value_of(box.at(mood)) for mood in (0.0, 0.5, 1.0)]
    fact.predicted, fact.low, fact.high = found[1], min(found), max(found)


def _calibrated(fact, setting, box, calibration):
    fact.box = (box.gpu, box.engine, setting.get("load"))
    return calibration.get(fact.box, box)


def _throughput(fact, s, calibration):
    fact.what = "throughput"
    fact.measured = fact.row["value"]
    model = _model(s["model"], s.get("precision"))
    engine = _engine(s.get("engine") or fact.row["source"])
    box, plan = _box(s["gpu"], engine), _plan(s)
    box = _calibrated(fact, s, box, calibration)
    fact.gpus = plan.num_gpus
    if "isl_osl" in s:
        prompt, output = (int(n) for n in s["isl_osl"].split(","))
        load = Load(
            prompt, output, 4096, utilization=0.9, max_seqs=2048, kv_bytes=_kv_bytes(engine, model)
        )
        _interval(fact, box, lambda fixed: _saturated(model, plan, fixed, load))
    elif "prompts" in str(s.get("load", "")):
        requests = int(re.search(r"\d+", s["load"])[0])
        load = Load(*SHAREGPT, requests, utilization=0.9, batched_tokens=4096)
        _interval(fact, box, lambda fixed: _burst(model, plan, fixed, load))
    else:
        raise LeftOut("the row states no workload")
    words = (s["model"], s.get("precision"), s["gpu"], s.get("isl_osl"), s.get("load"), engine)
    fact.group = words


def _kv_bytes(engine, model):
    """TensorRT-LLM's published runs keep the cache of an FP8 or FP4 model in FP8."""
    return 1 if engine == "trtllm" and model.quantisation.compute_bits < 16 else 2


SHAREGPT = (215, 198)  # mean tokens of vLLM's benchmark_serving.py on ShareGPT V3: its README


def _saturated(model, plan, fixed, load):
    places = timing.slots(model, plan, fixed, load)
    if not places:
        return 0.0
    load = replace(load, concurrency=places * plan.replicas)
    return timing.served(model, plan, fixed, load)["tokens_per_s"]


def _burst(model, plan, fixed, load):
    """Output tokens/s of requests that come all at once; answers' lengths fall off exponentially.

    The engine runs as many as fit; the last answers run nearly alone.
    """
    places = timing.slots(model, plan, fixed, load)
    if not places:
        return 0.0
    running, left, seconds = 0.0, float(load.concurrency), 0.0
    prefill = timing.prefill_s(model, plan, fixed, load, max(1, load.batched_tokens // load.prompt))
    stride = load.output / 10
    ending = 1 - math.exp(-stride / load.output)
    while left + running > 0.5:
        coming = min(left, places - running)
        running, left = running + coming, left - coming
        context = load.prompt + load.output / 2
        step = timing.decode_terms(model, plan, fixed, max(1, running), context, load)["total"]
        seconds += coming * prefill + stride * step
        running *= 1 - ending
    return load.concurrency * load.output / seconds


def _tpot(fact, s, calibration):
    fact.what = "TPOT"
    fact.measured = fact.row["value"] / 1e3
    precision = s.get("precision")
    model = _model(s["model"], precision if isinstance(precision, str) else None)
    engine = _engine(s.get("engine"))
    box = _calibrated(fact, s, _box(s["gpu"], engine, nodes=2), calibration)
    plan = _plan(s)
    fact.gpus = plan.num_gpus
    load = Load(s["isl"], s["osl"], s["batch"], utilization=0.9, kv_bytes=_kv_bytes(engine, model))

    def in_step(fixed):
        """A benchmark's clients start together and answers are equally long: they stay in step, so
        half of the prompts that a round takes in come before a sequence's own first token."""
        found = _served(model, plan, fixed, load)
        return (found["tpot_s"] + found["terms"]["total"]) / 2

    _interval(fact, box, in_step)


def _served(model, plan, fixed, load):
    found = timing.served(model, plan, fixed, load)
    if found is None:
        raise LeftOut("the planner says that not one sequence fits")
    return found


def _cross_node(fact, s, calibration):
    fact.what, fact.measured = "across nodes", fact.row["value"]
    if "concurrency" not in s:
        raise LeftOut("the row states no concurrency")
    if "Spark" not in fact.row["source"]:
        raise LeftOut("the row states no GPU")
    model, plan = _model(s["model"], None), _plan(s)
    box = _box("dgx spark", "vllm-eager", nodes=2, link="200 GbE", network="200 GbE")
    load = Load(512, 128, s["concurrency"], utilization=0.9)
    fact.gpus, fact.group = plan.num_gpus, ("across", s["model"], s["concurrency"])

    def rate(fixed):
        clients = -(-load.concurrency // plan.replicas)
        step = timing.decode_terms(model, plan, fixed, clients, 576, load)["total"]
        return load.concurrency / step

    _interval(fact, box, rate)


def _latency(fact, s, calibration):
    fact.what = "one stream"
    if fact.row["unit"] == "ms/token":
        fact.measured = fact.row["value"] / 1e3
    elif fact.row["unit"] == "tok/s":
        fact.measured = 1 / fact.row["value"]
    else:
        raise LeftOut(f"unit {fact.row['unit']!r}")
    model, plan, box = _model(s["model"], None), _plan(s), _box(s["gpu"], "vllm")
    fact.group = ("latency", s["model"], s["gpu"])
    load = Load(128, 128, 1, utilization=0.9)
    _interval(fact, box, lambda f: timing.decode_terms(model, plan, f, 1, 192, load)["total"])


def _fits(fact, s, calibration):
    fact.what, fact.measured = "fits", fact.row["value"]
    if "not stated" in s["model"]:
        raise LeftOut("the row states no dtype")
    model, plan = _model(s["model"], s.get("precision")), _plan(s)
    legal = labs_faults(model, plan)
    if "transformers" in s["model"] and model.num_kv_heads % plan.tp_size:
        legal = ["num_kv_heads"]  # transformers' own tensor parallelism does not hold a head twice
    if "8 GPUs" == s["gpu"] or legal:
        fact.predicted = float(not legal)
        return
    if "vl-" in s["model"].lower():
        raise LeftOut("an encoder for images: its weights and its profiling are not modelled")
    box = _box(s["gpu"], "vllm")
    plan = plan if "tp" in s or "layout" in s else Plan(1, s.get("gpus", 1))
    length = min(s.get("max_model_len", model.max_positions), model.max_positions)
    load = Load(
        max(1, length - 1),
        1,
        1,
        batched_tokens=min(8192, length),
        max_seqs=256,
        utilization=s.get("gpu_memory_utilization", 0.9),
        max_model_len=length,
    )
    found = memory.verdicts(model, plan, box.at(0.5), load)
    fact.predicted = float(found["weights_load"] and found["longest_context"] >= min(length, 2048))


def labs_faults(model, plan):
    return labs.capstone().split_faults(model.legal(), plan.tp_size, plan.pp_size)


def _max_context(fact, s, calibration):
    """vLLM 0.5.4 started with ever longer max_model_len until one start failed."""
    fact.what, fact.measured = "longest context", fact.row["value"]
    model, plan, box = _model(s["model"], None), _plan(s), _box(s["gpu"], "vllm-0.5")

    def longest(fixed):
        if labs_faults(model, plan):
            return 0.0
        best = 0
        for kib in (2, 4, 8, 16, 32, 64, 128):
            tokens = kib * 1024
            if tokens > model.max_positions:
                break
            # no chunked prefill up to 32 Ki tokens, 512 at a time beyond: vllm 0.5.4 arg_utils.py
            chunk = tokens if tokens <= 32768 else 512
            load = Load(
                tokens - 1,
                1,
                1,
                utilization=0.9,
                batched_tokens=chunk,
                max_seqs=256,
                max_model_len=tokens,
            )
            if not memory.verdicts(model, plan, fixed, load)["full_context_fits"]:
                break
            best = kib
        return float(best)

    _interval(fact, box, longest)


def _kv_capacity(fact, s, calibration):
    fact.what, fact.measured = "KV capacity", fact.row["value"]
    unit = fact.row["unit"]
    model = _model(s["model"], None)
    layers = model.kv_layers(range(model.num_layers), 2)
    kept = labs.capstone().sequence_kv_bytes
    if "kv_GiB" in s and "GiB" in unit:
        fact.predicted = kept(layers, s["max_model_len"], s.get("tp", 1)) / GIB
        return
    if given := s.get("kv_GiB", s.get("kv_available_GiB")):
        fact.predicted = given * GIB / (kept(layers, 1024, s.get("tp", 1)) / 1024) * s.get("dcp", 1)
        return
    plan, box = _plan(s), _box(s["gpu"], "vllm")
    if "weights" in unit:
        found = memory.ranks(model, plan)[0].held_bytes / GIB
        fact.predicted = found
        return
    length = s.get("max_model_len", model.max_positions)
    load = Load(
        length - 1,
        1,
        1,
        utilization=s.get("util", 0.9),
        max_model_len=length,
        batched_tokens=8192 if length > 32768 else length,
        max_seqs=256,
    )

    def tokens(fixed):
        found = memory.verdicts(model, plan, fixed, load)
        per_token = memory.sequence_bytes(found, plan, 16) / 16
        # decode context parallelism deals a sequence's tokens out to the ranks of a TP group
        return max(0.0, found["kv_bytes"] // (16 * per_token) * 16) * s.get("dcp", 1)

    _interval(fact, box, tokens)


NO_PLAN = {
    "nccl_all_reduce_multinode": "one message over a network that the row does not name",
    "tp_prefill": "the row states no prompt length",
}
KINDS = {
    "tp_throughput": _throughput,
    "pp_throughput": _throughput,
    "tp_vs_pp": _throughput,
    "serving_tpot": _tpot,
    "tp_cross_node": _cross_node,
    "tp_latency": _latency,
    "fits": _fits,
    "max_context": _max_context,
    "kv_capacity": _kv_capacity,
}


# --- what it comes to -----------------------------------------------------------------------------

DECISIONS = ("throughput", "across nodes")


def judge_all(rows):
    """(facts, facts calibrated by one row of each box): the second without the calibrating rows."""
    plain = [judge(row) for row in rows]
    boxes, rest = {}, []
    for fact in plain:
        if fact.left_out or not fact.predicted or fact.box is None or fact.box in boxes:
            continue
        boxes[fact.box] = _calibrate(fact)
        rest.append(fact.row["id"])
    calibrated = [judge(row, boxes) for row in rows if row["id"] not in rest]
    return plain, [fact for fact in calibrated if fact.box]


def _calibrate(fact):
    """The box of a row, with constants at which its row comes out as measured."""
    box = _box(fact.row["setting"]["gpu"], fact.box[1])
    rate = fact.what != "TPOT"

    def time_of(changed):
        found = judge(fact.row, {fact.box: changed}).predicted
        return 1 / max(found, 1e-9) if rate else found

    measured = 1 / fact.measured if rate else fact.measured
    return hardware.calibrated(box, time_of, measured)


@dataclass
class Decision:
    """Plans of one model and box that were measured side by side, judged per GPU or in all."""

    group: tuple
    facts: list
    per_gpu: bool

    def rates(self, name):
        return {f.row["id"]: getattr(f, name) / (f.gpus if self.per_gpu else 1) for f in self.facts}

    def regret(self, of=None):
        predicted = self.rates("predicted") if of is None else of
        return labs.capstone().regret(predicted, self.rates("measured"))

    def chosen(self):
        """The row whose plan is predicted to be the best."""
        predicted = self.rates("predicted")
        return max(predicted, key=predicted.get)

    def regret_of_rule(self, sign):
        """Of always taking the smallest (sign -1) or the largest plan that runs."""
        return self.regret({f.row["id"]: sign * f.gpus for f in self.facts})


def decisions(facts, per_gpu=True):
    groups = {}
    for fact in facts:
        if not fact.left_out and fact.group and fact.what in (*DECISIONS, "one stream"):
            groups.setdefault(fact.group, []).append(fact)
    # one stream is judged by its rate
    made = [Decision(group, _rates(members), per_gpu) for group, members in groups.items()]
    return [d for d in made if len({f.gpus for f in d.facts}) > 1 or _layouts(d.facts) > 1]


def _rates(facts):
    if facts[0].what != "one stream":
        return facts
    return [replace_rates(fact) for fact in facts]


def replace_rates(fact):
    return replace(fact, measured=1 / fact.measured, predicted=1 / fact.predicted)


def _layouts(facts):
    return len({str(fact.row["setting"].get("layout")) for fact in facts})


def within(facts, what, factor):
    """(how many facts of a kind lie within a factor of what was measured, how many there are)."""
    of_kind = [fact for fact in facts if fact.what == what and not fact.left_out]
    return sum(fact.factor <= factor + 1e-9 for fact in of_kind), len(of_kind)


def inside(facts):
    """(how many measured values lie inside their printed interval, how many have one)."""
    timed = [f for f in facts if f.low is not None and f.what not in ("fits", "longest context")]
    return sum(fact.inside for fact in timed), len(timed)
