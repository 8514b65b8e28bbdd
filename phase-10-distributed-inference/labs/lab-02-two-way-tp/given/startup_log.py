"""What a start-up log of vLLM 0.4 to 0.33 says, and which rank says it: line by line.

A line is `(who pid=7) INFO 06-11 10:00:00 [file.py:12] sentence`, with or without colours, and with
whatever a container put in front. A fact is a pattern that is looked for in a line. A log that a
terminal wrapped, or that was folded into one line, is not read; `summary` says what was found.
"""

import re

COLOUR = re.compile(r"(?:\x1b|\\u001b|#033)?\[\d{0,3}(?:;\d{1,3})*m")
HEADER = re.compile(r"\w\.py:\d+\] ")
WHO = re.compile(r"\(([^()]{0,80}\bpid=\d[^()]{0,60})\)")
START = re.compile(r"Initializing an? (?:V[01] )?LLM engine")
ASKED = re.compile(r"\bargs: Namespace\(|non-default args: \{?")

COUNT, DECIMAL, WORD = r"(\d[\d,]*)(?![\d.])", r"(-?\d{1,9}(?:\.\d+)?)", r"'?([\w.\-]+)"
OF_A_WORKER = {
    "weights_gib": rf"(?:Loading model weights|Model loading) took (?:in total )?{DECIMAL} ?Gi?B",
    "profiled_weights_gib": rf"(?:model weights take|Actual usage is) {DECIMAL} ?GiB",
    "kv_memory_gib": r"(?:Available KV cache memory: |reserved for KV Cache is |kv_cache_size="
    rf"|Explicitly set \(|free memory [\d.]+ GiB, reserved ){DECIMAL}(?:/[\d.]+\))? ?GiB",
    "ep_rank": r"\[EP Rank (\d+)/",
    "ep_size": r"\[EP Rank \d+/(\d+)\]",
    "experts_local": r"Local/global number of experts: (\d+)/",
    "experts_global": r"Local/global number of experts: \d+/(\d+)",
}
OF_THE_ENGINE = {
    "version": r"(?:LLM engine \(|API server version |█ +version )v?(\d[\w.+\-]*\w)",
    "engine": r"Initializing an? (V[01]) LLM engine",
    "gpu_blocks": rf"# (?!CPU)\w+ blocks: {COUNT}",
    "cpu_blocks": rf"# CPU blocks: {COUNT}",
    "tokens_per_request": rf"concurrency for {COUNT} tokens per request",
    "max_concurrency": rf"tokens per request: {DECIMAL}x",
    "max_model_len": r"Using max model len (\d+)",
    "world_size": r"\bworld_size=(\d+) rank=|\brank \d+ in world size (\d+) is",
    "kv_connector": r"Creating v1 connector with name: (\w+)",
}
SAID_SEVERAL_TIMES = {  # lists, in order
    "kv_tokens": rf"KV cache size: {COUNT} tokens",  # 0.8.0 to 0.11.0 print one per rank
    "kv_tokens_injected": r"Inject KV cache of (\d+) tokens",
    "external_cache_hits": r"(External Cache Hit)!",
}
OF_A_PROCESS = {
    "rank": r"\brank (\d+) in world size \d+ is assigned",  # among the ranks of all engines
    "rank_in_engine": r"\bworld_size=\d+ rank=(\d+) local_rank=",
}
SETTINGS = {  # only in the sentence with which an engine starts, and in the one with its arguments
    "model": r"\bmodel(?:=|': )'([^']+)'",
    "tp_size": r"\btensor_parallel_size(?:=|': )(\d+)",
    "pp_size": r"\bpipeline_parallel_size(?:=|': )(\d+)",
    "max_model_len": r"\bmax_(?:seq_len|model_len)(?:=|': )(\d+)",
    "dtype": rf"(?<!\w)dtype(?:=|': )'?(?:torch\.)?{WORD}",
    "kv_cache_dtype": rf"\bkv_cache_dtype(?:=|': ){WORD}",
    "block_size": r"\bblock_size(?:=|': )(\d+)",
    "swap_space_gib": rf"\bswap_space(?:=|': ){DECIMAL}",
    "quantization": rf"\bquantization(?:=|': )(?!None\b){WORD}",
}
ANYWHERE = OF_A_WORKER | OF_THE_ENGINE | SAID_SEVERAL_TIMES | OF_A_PROCESS
WORDS = "version engine model dtype kv_cache_dtype quantization kv_connector".split()
WORDS += ["external_cache_hits"]


def read(text):
    """What a log says, as a dict with the names above; what nobody said is None or an empty list.

    `ranks` holds one dict per worker that reported of itself: `who`, the global `rank` (None where
    nothing says it), and those facts of a worker that it said, with `weights_decimals`.
    `starts` is how many engines started in this text, one after another; the rest is the last one.
    """
    told, opened, starts = [], set(), 0
    for line in COLOUR.sub("", text).splitlines():
        prefix, *sentence = HEADER.split(line, maxsplit=1)
        who = (WHO.findall(prefix) or ["driver" if sentence else None])[-1]  # the innermost
        if START.search(line):
            engine = re.sub(r"^(EngineCore\w*) pid=\d+", r"\1", who or "")
            if not opened or engine in opened:  # engines side by side are no restart
                told, opened, starts = ([] if opened else told), set(), starts + 1
            opened.add(engine)
        if said := facts(line):
            first = ASKED.search(line)  # what an engine then starts with counts more
            told.insert(0 if first else len(told), (who, said))
    log = dict.fromkeys([*OF_THE_ENGINE, *SETTINGS]) | {"starts": starts}
    log |= {name: [said[name] for _, said in told if name in said] for name in SAID_SEVERAL_TIMES}
    for _, said in told:
        log |= {name: said[name] for name in said.keys() & (OF_THE_ENGINE | SETTINGS)}
    return log | {"ranks": workers(told, log["tp_size"], log["pp_size"])}


def facts(line):
    """The facts in one line, as a dict; a number that is cut off before its unit is not one.

    Up to 0.8.2 vLLM prints GB and means GiB.
    """
    if "Received request" in line:  # a prompt may quote anything, a log too
        return {}
    found = {name: re.search(pattern, line) for name, pattern in ANYWHERE.items()}
    if opening := START.search(line) or ASKED.search(line):
        settings, outer = line[opening.end() :], None
        while settings != outer:  # a draft model's settings, in a dict within, are not the engine's
            outer, settings = settings, re.sub(r"\{[^{}]*\}", "", settings)
        found |= {name: re.search(pattern, settings) for name, pattern in SETTINGS.items()}
    said = {name: next(filter(None, match.groups())) for name, match in found.items() if match}
    values = {name: word if name in WORDS else number(name, word) for name, word in said.items()}
    if "weights_gib" in said:
        # vLLM prints two decimals by round(), which leaves zeros out: its 15.0 is 15.00.
        values["weights_decimals"] = max(2, len(said["weights_gib"].partition(".")[2]))
    return values


def number(name, word):
    """Sizes and times as floats, counts as ints without their commas."""
    decimal = name.endswith("_gib") or name == "max_concurrency"
    return (float if decimal else int)(word.replace(",", ""))


def workers(told, tp_size, pp_size):
    """One dict for each process that reported of itself, by rank."""
    found = {}
    for line, (who, said) in enumerate(told):
        if OF_A_WORKER.keys() & said.keys():
            rank = rank_of(who, told, tp_size)
            nobody = rank is None and who in (None, "driver")  # never merged with another's
            worker = found.setdefault(line if nobody else who, {"who": who, "rank": rank})
            for name in said.keys() & {*OF_A_WORKER, "weights_decimals"}:
                worker.setdefault(name, said[name])  # the first: a later one is a draft model's
    for worker in found.values():  # V0 says it again, to two decimals, when it plans the cache
        if "weights_gib" not in worker and "profiled_weights_gib" in worker:
            worker |= {"weights_gib": worker["profiled_weights_gib"], "weights_decimals": 2}
    unnamed = [worker for worker in found.values() if worker["rank"] is None]
    if len(unnamed) == 1 and len(found) == (tp_size or 0) * (pp_size or 1):
        left = set(range(len(found))) - {worker["rank"] for worker in found.values()}
        if len(left) == 1 and unnamed[0]["who"]:
            unnamed[0]["rank"] = left.pop()
    return sorted(found.values(), key=lambda worker: (worker["rank"] is None, worker["rank"] or 0))


def rank_of(who, told, tp_size):
    """The global rank of a process: as its prefix or a line of its own says; None if none does."""
    if who is None:
        return None
    process = who.rpartition("pid=")[2]  # with its host, where that is printed
    own = [said for name, said in told if (name or "").rpartition("pid=")[2] == process]
    stated = {said["rank"] for said in own if "rank" in said}
    in_engine = {said["rank_in_engine"] for said in own if "rank_in_engine" in said}
    parts = {part: int(n) for part, n in re.findall(r"(DP|PP|TP)(\d+)", who)}
    if said := re.search(r"\brank=(\d+)", who):
        return int(said[1])
    if len(stated) == 1:
        return stated.pop()
    if stated or parts.get("DP"):  # torchrun's ranks without a prefix; engines of unknown sizes
        return None
    if in_engine:
        return in_engine.pop()
    if "TP" in parts or "PP" in parts:
        stage, within = parts.get("PP", 0), parts.get("TP", 0)
        return within if not stage else stage * tp_size + within if tp_size else None
    alone = not any(re.match(r"(Vllm|Ray)?Worker", name or "") for name, _ in told)
    first = who == "driver" or (alone and re.match(r"EngineCore(_0|_DP0)? ", who))
    return 0 if first else None


def summary(log):
    """A sentence: which of the facts that a ledger is held against a log says, and which not."""
    of_ranks = {name for worker in log["ranks"] for name in worker}
    said = {
        "version": log["version"],
        "split": log["tp_size"],
        "weights": "weights_gib" in of_ranks,
        "memory of the cache": "kv_memory_gib" in of_ranks,
        "size of the cache": log["kv_tokens"] or log["gpu_blocks"],
        "concurrency": log["max_concurrency"],
    }
    found, missing = (
        ", ".join(name for name, value in said.items() if bool(value) is wanted) or "nothing"
        for wanted in (True, False)
    )
    return f"read, line by line: {found}; not said, or not as vLLM prints it: {missing}"


def version_numbers(version):
    """(0, 6, 4) of "0.6.4.post1", "v0.6.4", "0.6.4.dev5+g12"; a missing part is 0."""
    found = re.findall(r"\d+", str(version).split("+")[0])[:3]
    return tuple(int(part) for part in [*found, "0", "0", "0"][:3])
