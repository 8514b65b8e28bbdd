"""What a user's own files may say instead of what is shipped; one sentence for what is wrong."""

import json
import math
from functools import partial
from pathlib import Path

# what must be in an object, and what may be
BOX = "gpu gpus_per_node link network links constants engine price_per_gpu_hour".split()
GPU = "reported_mib memory_gb_per_s dense_tflops link".split()
GPU_MAY = "name gpus_per_node host aliases notes source sources".split()
LINK, LINK_MAY = "c_us a_us busbw_gb_per_s".split(), "kernel_us kind printed source sources".split()
MEASURED = "c_s a_s busbw_bytes_per_s".split()
ROW_MAY, PLAN = "tokens_per_s tpot_s prompt output concurrency".split(), "replicas tp pp".split()
SHARES = "memory_share flops_share attention_share overlap_lost expert_skew lockstep uneven"
SHARES = [*SHARES.split(), "gather_share", "reserved_output"]


def read_text(path):
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None


def read_json(path):
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} line {error.lineno}: not a JSON file ({error.msg})") from None


def check(where, found, needed=(), may=()):
    """ValueError unless `found` is an object of these fields, each as KINDS says."""
    _has(where, found, needed, may)
    for name in (name for name in (*needed, *may) if name in found):
        _must(where, name, found[name], *KINDS.get(name, ("a number above 0", number)))


def check_constants(where, found, defaults):
    """ValueError unless each is a truth as its default, or an interval that runs as that does."""
    _has(where, found, (), defaults)
    for name, value in found.items():
        default = defaults[name]
        if isinstance(default, bool):
            _must(where, name, value, "true or false", lambda it: isinstance(it, bool))
            continue
        falls = isinstance(default, list) and default[0] > default[-1]
        limits = {"falls": falls, "zero": not falls, "most": 1 if name in SHARES else math.inf}
        words = f"a number{' up to 1' * (name in SHARES)} or [best, typical, worst], which "
        words += "falls" if falls else "rises"
        _must(where, name, value, words, partial(interval, **limits))


def _has(where, found, needed, may):
    if not isinstance(found, dict):
        raise ValueError(f"{where} must be an object")
    if missing := [name for name in needed if name not in found]:
        raise ValueError(f"{where} has no {', '.join(missing)}")
    if unknown := found.keys() - {*needed, *may}:
        raise ValueError(f"{where}: {min(unknown)!r} is none of {', '.join([*needed, *may])}")


def _must(where, name, value, words, fits):
    if not fits(value):
        raise ValueError(f"{where}: {name} must be {words}, not {json.dumps(value)}")


def number(value, zero=False, most=math.inf):
    """Whether it is a finite number above 0, or 0 where that may be."""
    real = type(value) in (int, float) and value < math.inf
    return real and (value > 0 or zero and value == 0) and value <= most


def interval(value, falls=False, **limits):
    """Whether it is a number, or three of them from the best to the worst."""
    ends = value if isinstance(value, list) and len(value) == 3 else [value]
    return all(number(end, **limits) for end in ends) and ends == sorted(ends, reverse=falls)


def _speeds(value):
    ranks = isinstance(value, dict) and value and all(key.isdecimal() for key in value)
    return ranks and all(interval(speed, falls=True) for speed in value.values())


def _tflops(value):
    known = isinstance(value, dict) and "16" in value and value.keys() <= {"16", "8", "4"}
    return known and all(map(number, value.values()))


def _kinds():
    """(names, what a field of these names must be in words, whether a value is that)."""
    text = 'an object of numbers above 0: "16", and "8" and "4" if it has them'
    later = "a number above 0 or [best, typical, worst], which rises"
    wholes = "gpus_per_node prompt output concurrency replicas tp pp"
    yield "gpu link network", "a name or an object", lambda it: isinstance(it, str | dict)
    yield "links constants plan", "an object", lambda it: isinstance(it, dict)
    yield "engine name", "a text", lambda it: isinstance(it, str)
    yield wholes, "a whole number, 1 or more", lambda it: type(it) is int and it > 0
    yield "c_us a_us", later, interval
    yield "kernel_us", "null, or as c_us", lambda it: it is None or interval(it)
    yield "busbw_gb_per_s", '{"ranks": [best, typical, worst]}, which falls', _speeds
    yield "dense_tflops", text, _tflops
    yield "c_s a_s", "a number, 0 or more", lambda it: number(it, zero=True)
    yield "aliases notes source sources kind printed", "anything", lambda it: True


KINDS = {name: (words, fits) for names, words, fits in _kinds() for name in names.split()}
