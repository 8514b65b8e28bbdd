"""What the files of one's own may say: tables of fields, and one sentence for what is wrong."""

import json
import math
from functools import partial
from pathlib import Path


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


def check(where, found, fields, needed=(), others=False):
    """ValueError unless `found` is an object of these fields; it may hold others if `others`."""
    if not isinstance(found, dict):
        raise ValueError(f"{where} must be an object")
    if missing := [name for name in needed if name not in found]:
        raise ValueError(f"{where} has no {', '.join(missing)}")
    if not others and (unknown := found.keys() - fields):
        raise ValueError(f"{where}: {min(unknown)!r} is none of {', '.join(fields)}")
    for name, (words, fits) in fields.items():
        if name in found and not fits(found[name]):
            raise ValueError(f"{where}: {name} must be {words}, not {json.dumps(found[name])}")


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


# field -> (what it must be, in words; whether a value is that)
ANY = "", lambda value: True
OBJECT = "an object", lambda value: isinstance(value, dict)
TEXT = "a text", lambda value: isinstance(value, str)
NAMED = "a name or an object", lambda value: isinstance(value, str | dict)
NUMBER = "a number above 0", number
WHOLE = "a whole number, 1 or more", lambda value: type(value) is int and value > 0
LATER = "a number above 0 or [best, typical, worst], which rises", interval
SPEEDS = '{"ranks": [best, typical, worst]}, which falls', _speeds
TFLOPS = 'an object of numbers above 0: "16", and "8" and "4" if it has them', _tflops

BOX = {"gpu": NAMED, "gpus_per_node": WHOLE, "link": NAMED, "network": NAMED, "links": OBJECT}
BOX |= {"constants": OBJECT, "engine": TEXT, "price_per_gpu_hour": NUMBER}
GPU_NEEDS = {"reported_mib": NUMBER, "memory_gb_per_s": NUMBER}
GPU_NEEDS |= {"dense_tflops": TFLOPS, "link": NAMED}
GPU = GPU_NEEDS | {"name": TEXT, "gpus_per_node": WHOLE, "host": NUMBER}
GPU |= dict.fromkeys(("aliases", "notes", "source"), ANY)  # a row of gpus.json, copied
LINK_NEEDS = {"c_us": LATER, "a_us": LATER, "busbw_gb_per_s": SPEEDS}
LINK = LINK_NEEDS | {"kernel_us": ("null, or as c_us", lambda us: us is None or interval(us))}
LINK |= dict.fromkeys(("kind", "source"), ANY)
ZERO = "a number, 0 or more", partial(number, zero=True)
MEASURED = {"c_s": ZERO, "a_s": ZERO, "busbw_bytes_per_s": NUMBER}
SHARES = ("memory_share", "flops_share", "attention_share", "overlap_lost", "expert_skew")
SHARES += ("lockstep", "uneven", "reserved_output")


def constant(name, default):
    """(name, field) of a constant: its own value may go where the default's goes."""
    if isinstance(default, bool):
        return name, ("true or false", lambda value: isinstance(value, bool))
    falls = isinstance(default, list) and default[0] > default[-1]
    limits = {"falls": falls, "zero": not falls, "most": 1 if name in SHARES else math.inf}
    words = f"a number{' up to 1' * (name in SHARES)} or [best, typical, worst], which "
    return name, (words + ("falls" if falls else "rises"), partial(interval, **limits))
