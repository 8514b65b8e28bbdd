"""Published measurements held against the planner: hits, misses and the known misses by name.

A row is {"id", "kind", "setting", "value", "unit", "source"}; facts.jsonl holds the shipped ones.
Settings are as their sources wrote them: names.json says what their words mean. A row that does not
say what it would have to is left out, with the reason; known_misses.json names those that are
excluded or known to miss, and why.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from planner import hardware, labs, memory, models, overrides, plans, timing
from planner.memory import Plan
from planner.timing import Load

HERE = Path(__file__).resolve().parent.parent
SHIPPED = HERE / "facts.jsonl"
GIB = 2**30


@dataclass
class Fact:
    """One row with what the planner says: an interval (low, predicted, high), or a plain answer."""

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
    asked: tuple | None = None  # (model, plan, box, load), for other planners to be asked as well
    at: Callable | None = None  # mood -> what the planner says on such a box

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
    lines = overrides.read_text(path).splitlines()
    try:
        return [json.loads(line) for line in lines if line.strip()]
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: a line is not JSON ({error.msg})") from None


@cache
def known():
    return overrides.read_json(HERE / "known_misses.json")


# --- reading words ------------------------------------------------------------------------------


@cache
def _names(kind):
    return overrides.read_json(HERE / "names.json")[kind]


def _meant(kind, words):
    """What words mean by names.json, whose first pattern that they hold counts; or None."""
    found = (name for pattern, name in _names(kind).items() if re.search(pattern, words.lower()))
    return next(found, None)


@cache
def _model(words, precision=None):
    name = _meant("models", re.sub(r"[ _]", "-", words))
    if name is None:
        raise LeftOut(f"model {words!r} is not shipped")
    said = _meant("formats", f"{words} {precision or ''}")
    own = models.read(name).quantisation.name
    quant = said if said and own[:3] != said[:3] else None
    if own == "mxfp4" and said in (None, "bf16", "nvfp4"):
        quant = None
    return _shipped(name, quant)


_shipped = cache(models.read)


@cache
def _box(words, engine, nodes=1, link=None, network="400 GbE"):
    gpu = _meant("gpus", words)
    if gpu is None:
        raise LeftOut(f"GPU {words!r} is not in hardware.json")
    return hardware.box(gpu, nodes, link=link, network=network, engine=engine)


def _engine(words):
    return _meant("engines", words or "vllm")


def _plan(setting):
    layout = str(setting.get("layout", "")).lower()

    def size(pattern, default):
        found = re.search(pattern, layout)
        return int(found[1]) if found else default

    tp, pp = size(r"tp ?(\d+)", setting.get("tp", 1)), size(r"pp ?(\d+)", setting.get("pp", 1))
    if str(setting.get("gpu", "")).lower().startswith("8 gpus"):
        tp = setting.get("tp", 8)
    dealt_out = re.search(r"\bep\b|\bep ?\d|expert", layout)
    return Plan(size(r"(\d+) replicas", 1), tp, pp, tp if dealt_out else 1)


# --- one kind of row after the other --------------------------------------------------------------


def judge(row, calibration=None):
    """The Fact of a row. Its `left_out` says why when it cannot be held against the planner."""
    fact = Fact(row, row["kind"])
    try:
        if why := known().get(row["id"], {}).get("excluded"):
            raise LeftOut(why)
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


def _ask(fact, what, measured, *asked):
    fact.what, fact.measured, fact.asked, fact.gpus = what, measured, asked, asked[1].num_gpus


def _interval(fact, value_of):
    """Fill in predicted, low and high from value_of(model, plan, box, load) at the three moods."""
    model, plan, box, load = fact.asked
    fact.at = lambda mood: value_of(model, plan, box.at(mood), load)
    found = [fact.at(mood) for mood in plans.MOODS]
    fact.predicted, fact.low, fact.high = found[1], min(found), max(found)


def _calibrated(fact, setting, box, calibration):
    fact.box = (box.gpu, box.engine, setting.get("load"))
    return calibration.get(fact.box, box)


def _throughput(fact, s, calibration):
    model, plan = _model(s["model"], s.get("precision")), _plan(s)
    engine = _engine(s.get("engine") or fact.row["source"])
    box = _calibrated(fact, s, _box(s["gpu"], engine), calibration)
    if "isl_osl" in s:
        prompt, output = (int(n) for n in s["isl_osl"].split(","))
        kv = _kv_bytes(engine, model)
        load = Load(prompt, output, 4096, utilization=0.9, max_seqs=2048, kv_bytes=kv)
        rate = _saturated
    elif "prompts" in str(s.get("load", "")):
        requests = int(re.search(r"\d+", s["load"])[0])
        load = Load(*SHAREGPT, requests, utilization=0.9, batched_tokens=4096)
        rate = _burst
    else:
        raise LeftOut("the row states no workload")
    _ask(fact, "throughput", fact.row["value"], model, plan, box, load)
    _interval(fact, rate)
    fact.group = s["model"], s.get("precision"), s["gpu"], s.get("isl_osl"), s.get("load"), engine


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
    if "_c_" in fact.row["source"]:  # an id of aiconfigurator's silicon_refs.csv, with c left empty
        raise LeftOut("the source names no concurrency")
    if "nan" in s.get("engine", ""):
        raise LeftOut("the source names no version of its engine")
    precision = s.get("precision")
    model = _model(s["model"], precision if isinstance(precision, str) else None)
    engine, plan = _engine(s.get("engine")), _plan(s)
    box = _calibrated(fact, s, _box(s["gpu"], engine, nodes=2), calibration)
    kv = _kv_bytes(engine, model)
    load = Load(s["isl"], s["osl"], s["batch"], utilization=0.9, kv_bytes=kv)
    _ask(fact, "TPOT", fact.row["value"] / 1e3, model, plan, box, load)
    _interval(fact, _in_step)


def _in_step(model, plan, fixed, load):
    """Seconds a token of clients who start together, with answers of one length.

    They stay in step, so half of the prompts that a round takes in come before a sequence's own
    first token.
    """
    found = timing.served(model, plan, fixed, load)
    if found is None:
        raise LeftOut("the planner says that not one sequence fits")
    return (found["tpot_s"] + found["terms"]["total"]) / 2


def _cross_node(fact, s, calibration):
    if "concurrency" not in s:
        raise LeftOut("the row states no concurrency")
    if "Spark" not in fact.row["source"]:
        raise LeftOut("the row states no GPU")
    # as the page says: 1,024 tokens in, 128 out, --enforce-eager, --kv-cache-dtype fp8,
    # --mxfp4-layers moe,qkv,o,lm_head
    model, plan = _model(s["model"]), _plan(s)
    if model.quantisation.name == "mxfp4":
        model = _shipped(model.name, "mxfp4-all")
    box = _box("dgx spark", "vllm-eager", nodes=2, link="200 GbE", network="200 GbE")
    load = Load(1024, 128, s["concurrency"], kv_bytes=1, utilization=0.7)
    _ask(fact, "across nodes", fact.row["value"], model, plan, box, load)
    fact.group = "across", s["model"], s["concurrency"]
    _interval(fact, _decoding)


def _decoding(model, plan, fixed, load):
    """Output tokens/s of clients who are all halfway through their answers; no prompt comes in."""
    clients, context = -(-load.concurrency // plan.replicas), load.prompt + load.output // 2
    step = timing.decode_terms(model, plan, fixed, clients, context, load)["total"]
    return load.concurrency / step


def _latency(fact, s, calibration):
    """Tokens/s of a single client."""
    value, unit = fact.row["value"], fact.row["unit"]
    if unit not in ("ms/token", "tok/s"):
        raise LeftOut(f"unit {unit!r}")
    model, plan, box = _model(s["model"]), _plan(s), _box(s["gpu"], "vllm")
    load = Load(128, 128, 1, utilization=0.9)
    _ask(fact, "one stream", value if unit == "tok/s" else 1e3 / value, model, plan, box, load)
    fact.group = "latency", s["model"], s["gpu"]
    _interval(fact, _decoding)


def _fits(fact, s, calibration):
    if "not stated" in s["model"]:
        raise LeftOut("the row states no dtype")
    model, plan = _model(s["model"], s.get("precision")), _plan(s)
    legal = not plans.faults(model, plan)
    if "transformers" in s["model"] and model.num_kv_heads % plan.tp_size:
        legal = False  # transformers' own tensor parallelism does not hold a head twice
    unnamed = s["gpu"] == "8 GPUs" or not (legal or _meant("gpus", s["gpu"]))
    box = _box("h100" if unnamed else s["gpu"], "vllm")
    if not ("tp" in s or "layout" in s or unnamed):
        plan = Plan(1, s.get("gpus", 1))
    length = min(s.get("max_model_len", model.max_positions), model.max_positions)
    used = s.get("gpu_memory_utilization", 0.9)
    load = _whole_context(length, min(8192, length), used)
    _ask(fact, "fits", fact.row["value"], model, plan, box, load)
    if unnamed or not legal:
        fact.predicted = float(legal)
        return
    if "vl-" in s["model"].lower():
        raise LeftOut("an encoder for images: its weights and its profiling are not modelled")
    found = memory.verdicts(model, plan, box.at(hardware.TYPICAL), load)
    fact.predicted = float(found["weights_load"] and found["longest_context"] >= min(length, 2048))


def _whole_context(length, batched_tokens, utilization):
    """What vLLM profiles at its start for one sequence as long as max_model_len."""
    return Load(
        max(1, length - 1), 1, 1, utilization=utilization, batched_tokens=batched_tokens,
        max_seqs=256, max_model_len=length,
    )  # fmt: skip


CONTEXTS = (2, 4, 8, 16, 32, 64, 128)  # Ki tokens, as the source tried


def _max_context(fact, s, calibration):
    """vLLM 0.5.4 started with ever longer max_model_len until one start failed."""
    model, plan, box = _model(s["model"]), _plan(s), _box(s["gpu"], "vllm-0.5")
    _ask(fact, "longest context", fact.row["value"], model, plan, box, Load(utilization=0.9))

    def fits(fixed, tokens):
        # no chunked prefill up to 32 Ki tokens, 512 at a time beyond: vllm 0.5.4 arg_utils.py
        load = _whole_context(tokens, tokens if tokens <= 32768 else 512, 0.9)
        return memory.verdicts(model, plan, fixed, load)["full_context_fits"]

    legal = not plans.faults(model, plan)
    _interval(fact, lambda *asked: longest(model, lambda n: legal and fits(asked[2], n)))


def longest(model, fits):
    """The longest of CONTEXTS up to the first that does not fit; 0.0 for none."""
    best = 0
    for kib in CONTEXTS:
        if kib * 1024 > model.max_positions or not fits(kib * 1024):
            break
        best = kib
    return float(best)


def _kv_capacity(fact, s, calibration):
    fact.what, fact.measured = "KV capacity", fact.row["value"]
    unit = fact.row["unit"]
    model, plan = _model(s["model"]), _plan(s)
    layers = model.kv_layers(range(model.num_layers), 2)
    kept = labs.capstone().sequence_kv_bytes
    if "kv_GiB" in s and "GiB" in unit:
        fact.predicted = kept(layers, s["max_model_len"], plan.tp_size) / GIB
        return
    if given := s.get("kv_GiB", s.get("kv_available_GiB")):
        per_token = kept(layers, 1024, plan.tp_size) / 1024
        fact.predicted = given * GIB / per_token * s.get("dcp", 1)
        return
    box = _box(s["gpu"], "vllm")
    if "weights" in unit:
        fact.predicted = memory.ranks(model, plan)[0].held_bytes / GIB
        return
    length = s.get("max_model_len", model.max_positions)
    load = _whole_context(length, 8192 if length > 32768 else length, s.get("util", 0.9))
    _ask(fact, fact.what, fact.measured, model, plan, box, load)

    def tokens(model, plan, fixed, load):
        found = memory.verdicts(model, plan, fixed, load)
        per_token = memory.sequence_bytes(found, plan, 16) / 16
        # decode context parallelism deals a sequence's tokens out to the ranks of a TP group
        return max(0.0, found["kv_bytes"] // (16 * per_token) * 16) * s.get("dcp", 1)

    _interval(fact, tokens)


NO_PLAN = {
    "nccl_all_reduce_multinode": "one message over a network that the row does not name",
    "tp_prefill": "the row states no prompt length",
    "serving_ttft": "its clients start at once: the planner prices a steady state",
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

DECISIONS = ("throughput", "across nodes", "one stream")


def judge_all(rows):
    """(facts, facts calibrated by one row of each box): the second without the calibrating rows."""
    plain = [judge(row) for row in rows]
    boxes, used = {}, []
    for fact in plain:
        if fact.left_out or not fact.predicted or fact.box is None or fact.box in boxes:
            continue
        boxes[fact.box] = _calibrate(fact)
        used.append(fact.row["id"])
    calibrated = [judge(row, boxes) for row in rows if row["id"] not in used]
    return plain, [fact for fact in calibrated if fact.box]


def _calibrate(fact):
    """The box of a row, moved just so far that its row lies inside the interval."""
    rate = fact.what != "TPOT"

    def time_of(changed):
        found = judge(fact.row, {fact.box: changed}).predicted
        return 1 / max(found, 1e-9) if rate else found

    measured = 1 / fact.measured if rate else fact.measured
    return hardware.calibrated(_box(fact.row["setting"]["gpu"], fact.box[1]), time_of, measured)


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
        if not fact.left_out and fact.group and fact.what in DECISIONS:
            groups.setdefault(fact.group, []).append(fact)
    plans_of = {
        group: {(f.gpus, str(f.asked[1])) for f in found} for group, found in groups.items()
    }
    return [
        Decision(g, groups[g], per_gpu) for g, different in plans_of.items() if len(different) > 1
    ]


def within(facts, what, factor):
    """(how many facts of a kind lie within a factor of what was measured, how many there are)."""
    of_kind = [fact for fact in facts if fact.what == what and not fact.left_out]
    return sum(fact.factor <= factor + 1e-9 for fact in of_kind), len(of_kind)


def inside(facts):
    """(how many measured values lie inside their printed interval, how many have one)."""
    timed = [f for f in facts if f.low is not None and f.what not in ("fits", "longest context")]
    return sum(fact.inside for fact in timed), len(timed)
