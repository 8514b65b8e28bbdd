"""Run a tiny Llama in a real vLLM at tensor_parallel_size 1 and 2, and print one page about it.

    python two_way.py [--tp 2] [--kv-heads 4] [--json FILE]

Two CUDA GPUs are used when the vLLM at hand is a CUDA build and sees them; else the CPU build runs
both ranks on this machine. No network, no port, no tokenizer: the model is made on the spot. What
vLLM did is held against the functions of solution.py, or of starter.py with LAB_IMPL=starter.
"""

import argparse
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

from labkit.loading import load_chosen, run_program


def page(one, many, lab):
    """What tp_size=1 and tp_size=N did to the model: (lines of text, whether all of it agrees).

    one, many: of `measure`. lab: the module with the learner's part A.
    """
    model, whole, ranks = lab.model_shape(many["config"]), one["reports"][0], many["reports"]
    reports = [(1, whole), *((len(ranks), rank) for rank in ranks)]
    told = [  # (line, whether it agrees)
        *_bytes(lab, model, reports),
        *_cache(lab, model, reports),
        *_collectives(lab, model, ranks),
    ]
    same = all(rank[key] == whole[key] for rank in ranks for key in ("tokens", "tokens_together"))
    ledger = all(agrees for _, agrees in told)
    lines = [
        *_title(model, ranks),
        *_parameters(lab, whole, ranks),
        *(line for line, _ in told),
        "",
        f"{_said(same)}  token ids equal, {NUM_TOKENS} greedy tokens, one prompt and two together",
        f"{_said(ledger)}  every byte, block and collective as the ledger has it",
        *_times(whole, ranks),
    ]
    return lines, same and ledger


def _said(agrees):
    return "  yes" if agrees else "  NO "


def _title(model, ranks):
    first, versions = ranks[0], ranks[0]["versions"]
    return [
        f"tiny Llama, {model['num_layers']} layers, hidden {model['hidden_size']}, "
        f"{model['num_heads']} heads, {model['num_kv_heads']} KV heads, float32, seed 0",
        f"vLLM {versions['vllm']}, torch {versions['torch']}, {len(ranks)} ranks on "
        f"{first['platform']} ({first['device']}), {first['backend']}",
    ]


def _parameters(lab, whole, ranks):
    lines = ["", "parameters, layer 0 and the ends        tp_size=1      each rank     treatment"]
    for name, parameter in whole["parameters"].items():
        if ".layers." in name and ".layers.0." not in name:
            continue
        shapes = [rank["parameters"][name]["shape"] for rank in ranks]
        how = lab.treatment(parameter["shape"], shapes)
        short = name.removeprefix("model.").removesuffix(".weight")
        lines.append(f"  {short:38}{parameter['shape']!s:15}{shapes[0]!s:14}{how}")
    return lines


def _where(tp_size, report):
    return f"  tp_size={tp_size} rank {report['rank']:<11}"


def _bytes(lab, model, reports):
    yield "\nbytes of parameters          live        ledger    residual", True
    for tp_size, report in reports:
        expected = lab.rank_weights(model, tp_size)["parameters_bytes"]
        live = sum(parameter["bytes"] for parameter in report["parameters"].values())
        residual = live - expected
        yield f"{_where(tp_size, report)}{live:11,}{expected:14,}{residual:12,}", not residual


def _cache(lab, model, reports):
    yield f"\nKV cache, {KV_MEMORY_BYTES:,} bytes per rank", True
    yield "                      KV heads  bytes/token     blocks  x tokens   vLLM reports", True
    for tp_size, report in reports:
        cache, version = report["kv_cache"], report["versions"]["vllm"]
        per_token = lab.kv_bytes_per_token(model, tp_size)
        planned = lab.kv_capacity(
            KV_MEMORY_BYTES, per_token, cache["block_size"], MAX_MODEL_LEN, version
        )
        heads = lab.kv_heads_per_rank(model["num_kv_heads"], tp_size)
        expected = heads, planned["blocks"], planned["tokens"]
        line = (
            f"{_where(tp_size, report)}{cache['kv_heads']:6}{per_token:13,}{cache['blocks']:11,}"
            f"{cache['block_size']:10,}{cache['tokens_reported']:8,} tokens"
        )
        yield line, (cache["kv_heads"], cache["blocks"], cache["tokens_reported"]) == expected
    taken = f"a request of up to {MAX_MODEL_LEN} tokens takes a whole block"
    yield f"  ({taken}; vLLM counts the tokens of full requests)", True


def _collectives(lab, model, ranks):
    yield "\ncollectives of one engine step, per rank       count      bytes   the bill says", True
    layers, hidden = model["num_layers"], model["hidden_size"]
    for title, step, tokens in [("prefill", 0, len(PROMPTS[0])), ("decode", 1, 1)]:
        bill = lab.collectives_per_step(model, len(ranks), tokens, 1)
        made = [totals(rank["steps"][step]) for rank in ranks]
        for operation, why in [
            ("all_reduce", f"2 x {layers} layers + 1 embedding, each {tokens} x {hidden} x 4"),
            ("all_gather", f"logits, 1 x {lab.padded_vocab(model['vocab_size'])} x 4"),
        ]:
            count, total = made[0].get(operation, (0, 0))
            expected = [bill[operation + "s"], bill[operation + "_bytes"]]
            agrees = all(list(rank.get(operation, (0, 0))) == expected for rank in made)
            what = f"{title} of {tokens} token{'s' if tokens > 1 else ''}, {operation}"
            yield f"  {what:42}{count:9}{total:11,}   {why}", agrees


def _times(whole, ranks):
    lines, alone = [""], whole["times"]
    slowest = {key: max(rank["times"][key] for rank in ranks) for key in alone}
    for title, key, scale, unit in [
        ("first token after the start of python", "first_token_s", 1, "s"),
        ("  of it, importing vLLM", "imported_s", 1, "s"),
        ("first token of a request, once warm", "warm_first_token_s", 1000, "ms"),
    ]:
        lines.append(
            f"{title:42}{alone[key] * scale:6.1f} {unit} at tp_size=1"
            f"{slowest[key] * scale:9.1f} {unit} at tp_size={len(ranks)}"
        )
    return lines


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tp", type=int, default=2, metavar="N", help="ranks (default 2)")
    parser.add_argument("--kv-heads", type=int, default=4, metavar="N", help="default 4; 1: copied")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write what was measured")
    options = parser.parse_args(arguments)
    began, lab = time.monotonic(), load_chosen(Path(__file__).parent)
    try:
        lab.check_split(
            lab.model_shape(tiny_llama(num_key_value_heads=options.kv_heads)), options.tp
        )
        one, many = measure(1, options.tp, kv_heads=options.kv_heads)
        lines, agrees = page(one, many, lab)
    except (LiveError, ValueError) as error:
        sys.exit(f"two-way: {error}")
    print("\n".join(lines))
    print(f"whole run {time.monotonic() - began:.1f} s")
    if options.json:
        measured = {"tp1": one, f"tp{options.tp}": many}
        options.json.write_text(json.dumps(measured, indent=1) + "\n")
    return 0 if agrees else 1


if __name__ == "__main__":
    run_program(main)
