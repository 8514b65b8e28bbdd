"""Run a tiny DeepSeek and a tiny Mixtral in a real vLLM, each in four ways, and print a page.

    python experts.py [--model deepseek] [--json FILE]
    python experts.py --recorded         the pages of recorded runs; nothing is started
    python experts.py --bill 100         your numbers for the book: of a step of 100 tokens

One rank; two with tensor parallelism, every expert sliced; two with the experts dealt out; two
whose attention runs data-parallel (attention-DP), each with requests of its own, and whose experts
are dealt out. CUDA GPUs are used
when the vLLM at hand is a CUDA build; else the CPU build runs both ranks on this machine. No
network, no port, no tokenizer: the models are made on the spot. What vLLM did (live) stands beside
what your functions of labs 02 and 05 say (yours), row by row; a function that is not written yet
leaves its column empty. Tasks 2, 3, 5 and 7 fill it.
"""

import argparse
import bisect
import itertools
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import ways
from given_experts import FLASH_ON_B200S, MACHINES, MODELS, busiest_of
from live import run
from live.yours import Row, Yours, ended, said, table, verdict

from labkit.loading import answered_by, find_labs, load_chosen, run_program

HERE = Path(__file__).resolve().parent
LEDGER = next(lab.path for lab in find_labs() if lab.prefix == "lab-02")
ROOM_BYTES = 5e9  # vLLM imported once and 14 ranks that are forks of it: 3.3e9 measured
NAMES = {"one": "one rank", "tp": "sliced", "ep": "dealt out", "dp": "attention-DP"}


def page(config, runs, ledger, experts):
    """What the four ways did to one model: (lines of text, whether all of it agrees).

    runs: {way: {"reports", "logs"}}, one of each per rank. ledger, experts: the learner's labs 02
    and 05. What is not written yet does not disagree.
    """
    reports = {way: ranks["reports"] for way, ranks in runs.items()}
    yours = Yours(experts, ledger)
    tables = {
        "experts that a rank holds": list(_placed(config, reports, yours)),
        "bytes of weights": list(_weights(config, reports, yours)),
        "tokens of cache": list(_cache(config, reports, yours)),
        "collectives of a step, each rank": list(_collectives(config, reports, yours)),
        "dispatch and combine of a step, both ranks": list(_traffic(config, reports["dp"], yours)),
        "dummy steps": list(_dummies(reports["dp"], yours)),
    }
    alone = ways.tokens_of(reports["one"])
    same = all(ways.tokens_of(ranks) == alone for ranks in reports.values())
    logs = logs_agree(runs, ledger)
    rows = [row for rows in tables.values() for row in rows]
    ends, agree = verdict(rows, yours, "every byte, token of cache and collective as you say")
    first, second = (num_tokens for _, num_tokens in ways.REQUESTS)
    lines = _title(config, reports["dp"][0])
    for title, rows in tables.items():
        lines += table(title, rows)
    lines += [
        "",
        f"{said(same)}  token ids equal in all four ways: {first} of one request, {second} of the "
        "other",
        f"{said(logs)}  the start-up logs, read by lab 02, say the same of experts and cache",
        *ends,
    ]
    return lines, same and agree and logs


def logs_agree(runs, ledger):
    """Whether rank 0's log, the only one that speaks of these, says what the rank holds."""
    for way, ranks in runs.items():
        rank, log = ranks["reports"][0], ledger.read_startup_log(ranks["logs"][0])
        (said,) = log["ranks"]
        (held,) = set(map(len, rank["experts"].values()))
        dealt = ways.ranks_of(way)[2]
        told = [said.get(name) for name in ("ep_rank", "ep_size", "experts_local")]
        if told != ([0, len(ranks["reports"]), held] if dealt else [None] * 3):
            return False
        if log["kv_tokens"] != [rank["kv_cache"]["tokens_reported"]]:
            return False
    return True


def _title(config, rank):
    sparse = ways.sparse_layers(config)
    if "kv_lora_rank" in config:
        cached = f"a latent of {config['kv_lora_rank']} + {config['qk_rope_head_dim']}"
    else:
        cached = f"{config['num_key_value_heads']} KV heads of {config['head_dim']}"
    versions = rank["versions"]
    return [
        f"tiny {config['model_type']}: {config['num_hidden_layers']} layers, {sparse} of them with "
        f"{ways.number_of_experts(config)} experts, {config['num_experts_per_tok']} a token; "
        f"{cached}; float32, seed 0",
        f"vLLM {versions['vllm']}, torch {versions['torch']} on {rank['platform']} "
        f"({rank['device']}), {rank['backend']}",
    ]


def _where(way, rank=None):
    return NAMES[way] if rank is None else f"{NAMES[way]}, rank {rank}"


def _range(experts):
    return f"{experts[0]}-{experts[-1]}" if experts else "none"


def _placed(config, reports, yours):
    """Which experts each rank holds, where they are dealt out."""
    count = ways.number_of_experts(config)
    for way in ("ep", "dp"):
        for rank in reports[way]:
            (held,) = set(map(tuple, rank["experts"].values()))
            placement = yours.ask("place_in_order", count, len(reports[way]))
            mine = None
            if placement is not None:
                mine = _range([e for e in range(count) if placement[e] == rank["rank"]])
            yield Row(_where(way, rank["rank"]), _range(held), mine, "place_in_order")


def _weights(config, reports, yours):
    for way, ranks in reports.items():
        for rank in ranks:
            live = sum(parameter["bytes"] for parameter in rank["parameters"].values())
            asked = (config, way, rank["rank"], *reversed(yours.labs))
            expected = yours.ask(ways.parameters_bytes, *asked)
            where = _where(way, rank["rank"] if len(ranks) > 1 else None)
            yield Row(where, live, expected, "place_in_order, or lab 02's rank_shape")


def _cache(config, reports, yours):
    """What one rank says, and with attention-DP, where ranks cache other tokens, their sum."""
    for way, ranks in reports.items():
        _, dp_size, _ = ways.ranks_of(way)
        cache, version = ranks[0]["kv_cache"], ranks[0]["versions"]["vllm"]
        asked = (config, way, cache["block_size"], version, *reversed(yours.labs))
        expected = yours.ask(ways.cache_tokens, *asked)
        reported = [rank["kv_cache"]["tokens_reported"] for rank in ranks]
        live = next((tokens for tokens in reported if tokens != expected), reported[0])
        where = _where(way) + (f", each of {dp_size} ranks" if dp_size > 1 else "")
        yield Row(where, live, expected, "cache_bytes_per_token, or lab 02's kv_capacity")


def _collectives(config, reports, yours):
    """What a step sends where attention is tensor parallel; dealing out changes none of it."""
    model = {name: config[name] for name in ("hidden_size", "vocab_size")}
    model["num_layers"] = config["num_hidden_layers"]
    for way, (title, step) in itertools.product(("tp", "ep"), (("prefill", 0), ("decode", 1))):
        (tokens,) = ways.tokens_of_step(way, step)
        bill = (model, len(reports[way]), tokens, len(ways.REQUESTS))
        for operation in ("all_reduce", "all_gather"):
            made = [tuple(rank["steps"][step].get(operation, (0, 0))) for rank in reports[way]]
            keys = (operation + "s", operation + "_bytes")
            expected = [yours.ask("collectives_per_step", *bill, key=key) for key in keys]
            pair = None if None in expected else tuple(expected)
            live = next((one for one in made if one != pair), made[0])
            what = f"{_where(way)}, {title} of {tokens}: {operation}s"
            yield Row(what, _times(live), pair and _times(pair), "lab 02's collectives_per_step")


def _times(pair):
    return f"{pair[0]} of {pair[1] // max(1, pair[0]):,} B"


def _traffic(config, ranks, yours):
    """What data-parallel ranks exchange for their experts, in all sparse layers of a step."""
    for step in (0, 1, len(ranks[0]["steps"]) - 1):
        # A ring: of a collective's payload each of p ranks sends (p - 1) / p.
        payloads = [sum(size for _, size in rank["steps"][step].values()) for rank in ranks]
        sent = [payload * (len(ranks) - 1) for payload in payloads]
        gathered, needed = _foretold(config, ranks, step, yours)
        live = next((one for one in sent if one != gathered), sent[0])
        tokens = " + ".join(map(str, ways.tokens_of_step("dp", step)))
        exchanged = "" if needed is None else f" (by all-to-all: {needed:,})"
        yield Row(f"{tokens} tokens, bytes{exchanged}", live, gathered, "traffic_bytes")


def _foretold(config, ranks, step, yours):
    """The learner's (bytes when everything is gathered, bytes of what is chosen), or two None."""
    count = ways.number_of_experts(config)
    placed = yours.ask("place_in_order", count, len(ranks))
    # Without it traffic_bytes is asked all the same, which says whether that one is written.
    placement = np.zeros(count, int) if placed is None else placed
    layers, answers = ways.sparse_layers(config), []
    for layer in range(layers):
        chosen = [np.array(rank["ids"][step * layers + layer]) for rank in ranks]
        answers.append(yours.ask("traffic_bytes", chosen, placement, config["hidden_size"], 4))
    if placed is None or None in answers:
        return None, None
    return tuple(map(sum, zip(*answers, strict=True)))


def _dummies(ranks, yours):
    lengths = [num_tokens for _, num_tokens in ways.REQUESTS]
    answer = yours.ask("steps_of_lockstep", lengths, 1)
    for number, rank in enumerate(ranks):
        expected = answer and f"{answer[1][number]} of {answer[0]}"
        live = f"{rank['dummy_steps']} of {len(rank['steps'])}"
        yield Row(f"rank {number}, {lengths[number]} tokens to make", live, expected,
                  "steps_of_lockstep")  # fmt: skip


def bill(tokens, experts):
    """The lines of --bill: what tasks 5 and 8 say of the two clusters of the book's chapters."""
    with_dp, with_tp = (experts.requests_that_fit(*FLASH_ON_B200S, dp) for dp in (True, False))
    yield f"DeepSeek-V4-Flash on 8 x B200: {with_dp / with_tp:.2f} times TP's requests fit"
    uneven, shape = busiest_of(256, 8), (MODELS["DeepSeek-R1"], MACHINES["8 x H200"])
    yield f"\nDeepSeek-R1 on 8 x H200, {tokens:,} tokens in the step, 2,000 of context each"
    for name, ep_size, dp, busiest in (
        ("TP", 1, False, 1.0),
        ("experts dealt out", 8, False, uneven),
        ("attention-DP", 8, True, uneven),
        ("attention-DP, equal loads", 8, True, 1.0),
    ):
        step_s = experts.moe_step_s(tokens, 2000, ep_size, dp, busiest, *shape)
        yield f"  {name:28}{step_s * 1e3:6.2f} ms, busiest = {busiest:.2f}"
    first, even = (overtakes(experts, busiest, *shape) for busiest in (uneven, 1.0))
    yield f"attention-DP is shorter from {first:,} tokens on, with equal loads from {even:,}"


def overtakes(experts, busiest, *shape):
    """From how many tokens on attention-DP's step is shorter than TP's, found by halving."""

    def is_shorter(tokens):
        plans = (8, True, busiest), (1, False, 1.0)
        dp_s, tp_s = (experts.moe_step_s(tokens, 2000, *plan, *shape) for plan in plans)
        return dp_s < tp_s

    return bisect.bisect_left(range(100_000), True, key=is_shorter)


def captured(model):
    """{way: {"reports", "logs"}} of the recorded runs of one model (record.py)."""
    found = {}
    for way in ways.WAYS:
        folder = HERE / "captures" / f"{model}-{way}"
        reports = json.loads((folder / "report.json").read_text())["ranks"]
        logs = [(folder / f"rank-{n}.log").read_text() for n in range(len(reports))]
        found[way] = {"reports": reports, "logs": logs}
    return found


def measure(models):
    """{model: {way: {"reports", "logs"}}}: all at once where there is room."""
    runs, found = list(itertools.product(models, ways.WAYS)), {}
    for together in [runs] if run.room_for(ROOM_BYTES) else [[one] for one in runs]:
        with tempfile.TemporaryDirectory(prefix="experts-") as folder:
            found |= ways.start(together, folder)
    return {model: {way: found[model, way] for way in ways.WAYS} for model in models}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=ways.MODELS, help="only this one (default: both)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write what was measured")
    parser.add_argument("--recorded", action="store_true", help="show recorded runs")
    parser.add_argument("--bill", type=int, metavar="TOKENS", help="start nothing: your numbers")
    options = parser.parse_args(arguments)
    if options.bill is not None and options.bill < 0:
        parser.error(f"--bill {options.bill}: give 0 tokens or more")
    began, agrees = time.monotonic(), True
    print(answered_by(LEDGER, HERE), flush=True)
    ledger, experts = load_chosen(LEDGER), load_chosen(HERE)
    if options.bill is not None:
        for line in bill(options.bill, experts):
            print(line, flush=True)
        return 0
    models = [options.model] if options.model else list(ways.MODELS)
    try:
        recorded = options.recorded and {model: captured(model) for model in models}
        measured = recorded or measure(models)
    except run.LiveError as error:
        sys.exit(f"experts: {error} (`python experts.py --recorded` needs no vLLM)")
    for model, runs in measured.items():
        lines, right = page(ways.MODELS[model](), runs, ledger, experts)
        print("\n".join(["", *lines]))
        agrees = agrees and right
    print()
    return ended(options, began, measured, agrees)


if __name__ == "__main__":
    run_program(main)
