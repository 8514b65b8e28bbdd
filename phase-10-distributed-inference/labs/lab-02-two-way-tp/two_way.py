"""Run a tiny Llama in a real vLLM at tensor_parallel_size 1 and 2, and print one page about it.

    python two_way.py [--tp 2] [--kv-heads 4] [--json FILE]
    python two_way.py --recorded         the page of a recorded run; nothing is started

Two CUDA GPUs are used when the vLLM at hand is a CUDA build and sees them; else the CPU build runs
both ranks on this machine. No network, no port, no tokenizer: the model is made on the spot. What
vLLM did (live) stands beside what your functions say (yours), row by row; a function that is not
written yet leaves its column empty.
"""

import argparse
import contextlib
import json
import sys
import time
from pathlib import Path

from live.model import tiny_llama
from live.run import (
    KV_MEMORY_BYTES,
    MAX_MODEL_LEN,
    NUM_TOKENS,
    PROMPTS,
    LiveError,
    measure,
    totals,
)
from live.yours import Row, Yours, ended, said, table, verdict

from labkit.loading import answered_by, load_chosen, run_program

HERE = Path(__file__).resolve().parent


def page(one, many, lab):
    """What tp_size=1 and tp_size=N did to the model: (lines of text, whether all of it agrees).

    one, many: of `measure`. lab: the module with the learner's part A. What is not written yet
    does not disagree.
    """
    model, whole, ranks = lab.model_shape(many["config"]), one["reports"][0], many["reports"]
    reports = [(1, whole), *((len(ranks), rank) for rank in ranks)]
    yours = Yours(lab)
    treated = list(_parameters(yours, whole, ranks))
    tables = {
        "bytes of parameters": list(_bytes(yours, model, reports)),
        f"KV cache, {KV_MEMORY_BYTES:,} bytes per rank": list(_cache(yours, model, reports)),
        "collectives of one engine step, per rank": list(_collectives(yours, model, ranks)),
    }
    same = all(rank[key] == whole[key] for rank in ranks for key in ("tokens", "tokens_together"))
    lines = [*_title(model, ranks), *treated]
    for title, rows in tables.items():
        lines += table(title, rows)
    ends, agree = verdict(
        [row for rows in tables.values() for row in rows],
        yours,
        "every byte, block and collective as your functions say",
    )
    tokens = f"token ids equal, {NUM_TOKENS} greedy tokens, one prompt and two"
    lines += ["", f"{said(same)}  {tokens}", *ends]
    return [*lines, *_times(whole, ranks)], same and agree


def _title(model, ranks):
    first, versions, kv = ranks[0], ranks[0]["versions"], model["num_kv_heads"]
    return [
        f"tiny Llama, {model['num_layers']} layers, hidden {model['hidden_size']}, "
        f"{model['num_heads']} heads, {kv} KV head{'s' * (kv > 1)}, float32, seed 0",
        f"vLLM {versions['vllm']}, torch {versions['torch']}, {len(ranks)} ranks on "
        f"{first['platform']} ({first['device']}), {first['backend']}",
    ]


def _parameters(yours, whole, ranks):
    yield "\nparameters, layer 0 and the ends        tp_size=1      each rank     treatment (yours)"
    for name, parameter in whole["parameters"].items():
        if ".layers." in name and ".layers.0." not in name:
            continue
        shapes = [rank["parameters"][name]["shape"] for rank in ranks]
        how = yours.ask("treatment", parameter["shape"], shapes) or "-"
        short = name.removeprefix("model.").removesuffix(".weight")
        yield f"  {short:38}{parameter['shape']!s:15}{shapes[0]!s:14}{how}"


def _where(tp_size, report):
    return f"tp_size={tp_size} rank {report['rank']}"


def _bytes(yours, model, reports):
    for tp_size, report in reports:
        live = sum(parameter["bytes"] for parameter in report["parameters"].values())
        expected = yours.ask("rank_weights", model, tp_size, key="parameters_bytes")
        yield Row(_where(tp_size, report), live, expected, "rank_weights")


def _cache(yours, model, reports):
    for tp_size, report in reports:
        cache, version = report["kv_cache"], report["versions"]["vllm"]
        per_token = cache["page_bytes_per_layer"] * cache["layers"] // cache["block_size"]
        of_live = (KV_MEMORY_BYTES, per_token, cache["block_size"], MAX_MODEL_LEN, version)
        where = _where(tp_size, report)
        for what, live, function, arguments, key in (
            ("KV heads", cache["kv_heads"], "kv_heads_per_rank",
             (model["num_kv_heads"], tp_size), None),
            ("bytes per token", per_token, "kv_bytes_per_token", (model, tp_size), None),
            (f"blocks of {cache['block_size']}", cache["blocks"], "kv_capacity", of_live, "blocks"),
            (f"log's tokens, {MAX_MODEL_LEN} a request", cache["tokens_reported"], "kv_capacity",
             of_live, "tokens"),
        ):  # fmt: skip
            expected = yours.ask(function, *arguments, key=key)
            yield Row(f"{where}  {what}", live, expected, function)


def _collectives(yours, model, ranks):
    for title, step, tokens in (("prefill", 0, len(PROMPTS[0])), ("decode", 1, 1)):
        steps = [rank["steps"][step] for rank in ranks]
        # a recorded run holds the totals
        made = [step if isinstance(step, dict) else totals(step) for step in steps]
        for operation in ("all_reduce", "all_gather"):
            lives = [list(rank.get(operation, (0, 0))) for rank in made]
            for index, key in enumerate((operation + "s", operation + "_bytes")):
                bill = (model, len(ranks), tokens, 1)
                expected = yours.ask("collectives_per_step", *bill, key=key)
                seen = [one[index] for one in lives]
                live = next((value for value in seen if value != expected), seen[0])
                what = f"{title} of {tokens} token{'s' * (tokens > 1)}, {key}"
                yield Row(what, live, expected, "collectives_per_step")


def _times(whole, ranks):
    lines, alone = [""], whole["times"]
    slowest = {key: max(rank["times"][key] for rank in ranks) for key in alone}
    for title, key in [
        ("first token after the start of python", "first_token_s"),
        ("  of it, importing vLLM", "imported_s"),
    ]:
        lines.append(
            f"{title:42}{alone[key]:6.1f} s at tp_size=1{slowest[key]:9.1f} s at "
            f"tp_size={len(ranks)}"
        )
    return lines


def recorded(name):
    """A capture in the shape of `measure`."""
    report = json.loads((HERE / "captures" / name / "report.json").read_text(encoding="utf-8"))
    return {"config": report["config"], "reports": report["ranks"]}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tp", type=int, default=2, metavar="N", help="ranks (default 2)")
    parser.add_argument("--kv-heads", type=int, default=4, metavar="N", help="default 4; 1: copied")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write what was measured")
    parser.add_argument("--recorded", action="store_true", help="show a recorded run")
    options = parser.parse_args(arguments)
    began, lab = time.monotonic(), load_chosen(HERE)
    try:
        if options.recorded and (options.tp, options.kv_heads) != (2, 4):
            raise ValueError("--recorded shows --tp 2 --kv-heads 4; other runs are in captures/")
        if options.recorded:
            one, many = recorded("tp1"), recorded("tp2")
        else:
            with contextlib.suppress(NotImplementedError):  # then vLLM refuses what cannot be split
                model = lab.model_shape(tiny_llama(num_key_value_heads=options.kv_heads))
                lab.check_split(model, options.tp)
            one, many = measure(1, options.tp, kv_heads=options.kv_heads)
        lines, agrees = page(one, many, lab)
    except (LiveError, ValueError) as error:
        sys.exit(f"two-way: {error}")
    print("\n".join([answered_by(HERE), *lines]))
    return ended(options, began, {"tp1": one, f"tp{options.tp}": many}, agrees)


if __name__ == "__main__":
    run_program(main)
