"""Read a start-up log of vLLM 0.2.7 to 0.33: what it says, and who says it.

What vLLM says at start-up changed some twenty times in these releases, and a log that reaches you
has been through worker prefixes, colours, containers and terminals. So the reader does not parse
lines. It searches the whole text for known sentences and credits each to the process whose prefix
opened its line.
"""

import re
from bisect import bisect_right

_COLOUR = re.compile(
    r"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|#033|\\e|\^\[)\[[0-9;]{0,12}[mK]|\[\d{1,3}(?:;\d{1,3}){0,4}m",
    re.ASCII,
)
_PREFIX = (
    r"\((?:(?P<name>[A-Za-z_][\w:.\-]{0,80})\s+(?:(?P<kind>rank=|TP)(?P<number>\d{1,6})\s+)?)?"
    r"pid=(?P<pid>\d{0,10})(?:,\s*ip=(?P<ip>[\w.:]{1,45}))?\)"
)
_HEADER = (
    r"(?:INFO|DEBUG|WARNING|ERROR|CRITICAL)\s+(?:(?:\d{4}-)?\d\d-\d\d\s+\d\d:\d\d:\d\d"
    r"(?:\.\d{1,6})?\s+)?\[?[\w./<>\-]{1,120}:\d{1,6}\]"
)
_SENTENCES = (
    r"Loading\s+model\s+weights\s+took|Model\s+loading\s+took|Starting\s+to\s+load\s+model"
    r"|(?<!,\s)\#\s*\w{1,20}\s+blocks:|\b[A-Z]{2,8}(?:\s\+\shost)?\s+KV\s+cache\s+size:"
    r"|Maximum\s+concurrency\s+for|Available\s+KV\s+cache\s+memory:|Explicitly\s+set\s+\("
    r"|Initial\s+free\s+memory\b"
    r"|Memory\s+profiling\s+results:|model\s+weights\s+take\b|Actual\s+usage\s+is\b"
    r"|the\s+current\s+vLLM\s+instance\s+can\s+use"
    r"|Initializing\s+an?\s+(?:V[01]\s+)?LLM\s+engine|vLLM\s+API\s+server\s+version|█\s+version"
    r"|args:\s+Namespace\(|non-default\s+args:|\brank\s+\d{1,6}\s+in\s+world\s+size"
    r"|\bworld_size=\d{1,6}\s+rank=|vLLM\s+is\s+using\s+nccl==|Custom\s+allreduce\s+is\s+disabled"
    r"|Using\s+\[[^\]\n]{0,200}\]\s+all-reduce\s+backends|Registering\s+\d{1,9}\s+cuda\s+graph"
    r"|Defaulting\s+to\s+use\s+\w{1,20}\s+for\s+distributed|init\s+engine\s+\(profile"
    r"|Loaded\s+weight\s+\S{1,200}\s+with\s+shape|Using\s+max\s+model\s+len"
)
_TOKEN = re.compile(
    f"(?P<prefix>{_PREFIX})|(?P<header>{_HEADER})|(?P<sentence>{_SENTENCES})|(?P<newline>\n)",
    re.ASCII,
)
# A prompt may quote anything, this log included.
_REQUEST = re.compile(r"\bReceived request [^\n]*")
_TAG = re.compile(r"\[[\w .:\-]{1,40}\]")  # "(EngineCore_DP0 pid=7) [Stage-0] INFO ..."
_REPEATED = re.compile(r"\[repeated (\d{1,9})x across cluster\]", re.ASCII)
_LONGEST_SENTENCE = 20_000  # an engine's configuration is one sentence of some 5,000 characters

# What a sentence states: patterns whose groups have the names of facts.
_COUNT, _DECIMAL = r"\d[\d,]{0,19}(?![\d.])", r"\d{1,9}(?:\.\d{1,9})?"
_FACTS = [
    # "in total": a Gaudi
    r"(?:Loading model weights|Model loading) took (?:in total )?"
    rf"(?P<weights_gib>{_DECIMAL}) ?Gi?B",
    rf"^(?:model weights take|Actual usage is) (?P<profiled_weights_gib>{_DECIMAL}) ?GiB",
    rf"# ?\w+ blocks: (?P<gpu_blocks>{_COUNT})(?:,? # CPU blocks: (?P<cpu_blocks>{_COUNT}))?",
    rf"KV cache size: (?P<kv_tokens>{_COUNT}) tokens",
    rf"concurrency for (?P<tokens_per_request>{_COUNT}) tokens per request: "
    rf"(?P<max_concurrency>{_DECIMAL})x",
    r"(?:Available KV cache memory: |for KV Cache is |kv_cache_size=)"
    rf"(?P<kv_memory_gib>-?{_DECIMAL}) ?GiB",
    rf"^(?:Explicitly set \(|Initial free memory [\d.]{{1,20}} GiB, reserved )"
    rf"(?P<kv_memory_gib>{_DECIMAL})"
    r"(?:/[\d.]{1,20}\) ?GiB for KV cache| GiB memory for KV Cache)",
    r"^Using max model len (?P<max_model_len>\d{1,9})(?!\d)",
    r"^Initializing an? (?P<engine>V[01]) LLM engine",
    r"^(?:Initializing|vLLM API|█)[^(]{0,60}(?:\(v|version )v?"
    r"(?P<version>\d(?:[\w.+\-]{0,60}[\w+\-])?)",
    r"^world_size=(?P<world_size>\d{1,6}) rank=(?P<rank>\d{1,6}) local_rank=",
    r"^rank (?P<rank>\d{1,6}) in world size (?P<world_size>\d{1,6}) is assigned as",
    *(
        rf"^rank \d{{1,6}} in world size \d{{1,6}} is assigned as .*?\b{word.upper()} rank "
        rf"(?P<{word}_rank>\d{{1,6}})"
        for word in ("dp", "pp", "tp")
    ),
]
_SETTINGS = {  # in the engine's own words; one that is not printed stays unknown
    "model": r"\bmodel(?:=|': )'([^']{1,300})'",
    "tp_size": r"\btensor_parallel_size(?:=|': )(\d{1,6})",
    "pp_size": r"\bpipeline_parallel_size(?:=|': )(\d{1,6})",
    "max_model_len": r"\bmax_(?:seq_len|model_len)(?:=|': )(\d{1,9})",
    "dtype": r"(?<!\w)dtype(?:=|': )'?(?:torch\.)?(\w{1,20})",
    "kv_cache_dtype": r"\bkv_cache_dtype(?:=|': )'?(\w{1,20})",
    "block_size": r"\bblock_size(?:=|': )(\d{1,6})",
    "swap_space_gib": r"\bswap_space(?:=|': )(\d{1,6}(?:\.\d{1,9})?)",
    "quantization": r"\bquantization(?:=|': )'?(?!None(?![\w.\-]))([\w.\-]{1,40})",
}
_WORDS = "model dtype kv_cache_dtype quantization engine version".split()
_OF_A_RANK = "weights_gib weights_decimals kv_memory_gib profiled_weights_gib".split()
_OF_THE_ENGINE = (
    "version engine model dtype quantization kv_cache_dtype tp_size pp_size world_size "
    "max_model_len block_size swap_space_gib gpu_blocks cpu_blocks max_concurrency "
    "tokens_per_request"
).split()


def read(text):
    """What a log says, as a dict, from any str; what nobody said is None or absent.

      `ranks`   one dict per worker that reported for itself: `who`, `rank`, `tp_rank`, `pp_rank`,
                `dp_rank`, `weights_gib`, `weights_decimals`, `kv_memory_gib`, `repeated`;
      `kv_tokens`  every "KV cache size", in order: 0.8.0 to 0.11.0 print one per rank;
      `starts`  how many engines started in this text, one after another; the rest is the last one;
      version, engine, model, dtype, quantization, kv_cache_dtype, tp_size, pp_size, world_size,
      max_model_len, block_size, swap_space_gib, gpu_blocks, cpu_blocks, max_concurrency,
      tokens_per_request.
    `rank` is the global rank, known when a prefix, a rank line or the convention of the executor
    says it (V0 and single-GPU engines print rank 0 without a prefix); otherwise None.
    """
    told, start, starts = _told(text)
    last = max((s for _, facts, s in told if _is_report(facts)), default=start)
    latest = [(said, facts) for said, facts, s in told if s == last]
    rank_of = _known_ranks(latest)
    log = _engine_facts(latest) | {"starts": starts}
    log["kv_tokens"] = [facts["kv_tokens"] for _, facts in latest if "kv_tokens" in facts]
    world_size = (log["tp_size"] or 0) * (log["pp_size"] or 1)
    return log | {"ranks": _by_rank(_workers(latest, rank_of), world_size)}


def version_numbers(version):
    """(0, 6, 4) of "0.6.4.post1", "v0.6.4", "0.6.4.dev5+g12"; a missing part is 0."""
    found = re.findall(r"\d+", str(version).split("+")[0])[:3]
    return tuple(int(part) for part in [*found, "0", "0", "0"][:3])


# From text to sentences, each with its speaker


def sentences(text):
    """The known sentences of a log in order, each with its speaker.

    Returns a list of dicts: `text` (white space collapsed; it starts at the known words and ends
    before the next speaker or sentence), `who` (the prefix without brackets; "driver" for a log
    line without one; None when nobody can be named), `pid`, `tp_rank`, `pp_rank`, `dp_rank`,
    `rank` (only as the prefix states it) and `repeated` (how many identical lines Ray suppressed).
    """
    text = _COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    text = _REQUEST.sub("", text)
    tokens = list(_TOKEN.finditer(text))
    ends = [*(token.start() for token in tokens if not token["newline"]), len(text)]
    found, nobody = [], {"who": None}
    speaker, prefix_end = nobody, -1
    for token in tokens:
        if token["newline"]:
            speaker = nobody
        elif token["prefix"]:
            speaker, prefix_end = _speaker(token), token.end()
        elif token["header"]:
            between = text[prefix_end : token.start()] if prefix_end >= 0 else "no prefix"
            if speaker is nobody or _TAG.sub("", between[:200]).strip():
                speaker = {"who": "driver"}
            prefix_end = -1
        else:
            start = token.start()
            end = min(ends[bisect_right(ends, start)], start + _LONGEST_SENTENCE)
            words = " ".join(text[start:end].split())
            repeated = _REPEATED.search(words)
            told = {"text": words, "repeated": int(repeated[1]) if repeated else 0}
            blank = dict.fromkeys(("pid", "rank", "tp_rank", "pp_rank", "dp_rank"))
            found.append({**told, **blank, **speaker})
    return found


def _speaker(token):
    name, pid = token["name"], token["pid"]
    who = " ".join(token["prefix"][1:-1].split())
    speaker = {"who": who, "pid": int(pid) if pid else None}
    for part, number in re.findall(r"_(DP|PP|TP)(\d{1,6})(?![^_\W])", name or "", re.ASCII):
        speaker[part.lower() + "_rank"] = int(number)
    if token["kind"] == "rank=":
        speaker["rank"] = int(token["number"])
    elif token["kind"] == "TP":
        speaker["tp_rank"] = int(token["number"])
    return speaker


# From a sentence to facts


def read_sentence(sentence):
    """The facts in one sentence of a start-up log, as a dict; {} when it states none.

    Integers are ints (without their commas), sizes and times floats. Up to 0.8.2 vLLM prints GB and
    means GiB. A number cut off before its unit, or an integer right before a point ("# GPU blocks:
    12."), is not a number that was said.
    """
    facts = {}
    for pattern in _FACTS:
        if said := re.search(pattern, sentence, re.ASCII):
            facts |= said.groupdict()
    if re.match(r"Initializing|args:|non-default|vLLM API|█ version", sentence):
        printed = _outside_inner_braces(sentence)
        found = {name: re.search(at, printed, re.ASCII) for name, at in _SETTINGS.items()}
        facts |= {name: said[1] for name, said in found.items() if said}
    values = {name: _value(name, said) for name, said in facts.items() if said}
    if "weights_gib" in facts:
        values["weights_decimals"] = len(facts["weights_gib"].partition(".")[2])
    return values


def _value(name, said):
    if name in _WORDS:
        return said
    if name.endswith("_gib") or name == "max_concurrency":
        return float(said)
    return int(said.replace(",", ""))


def _outside_inner_braces(sentence):
    """Without what a nested dict holds: a draft model's settings are not the engine's."""
    depth, kept = -1 if re.match(r"non-default args: \{", sentence) else 0, []
    for character in sentence:
        depth -= character == "}" and depth > 0
        if depth <= 0:
            kept.append(character)
        depth += character == "{"
    return "".join(kept)


# From facts to engines and ranks


def _told(text):
    """[(sentence, facts, start)] of every sentence with facts; the last start; how many there are.

    A new start is an "Initializing" of an engine that has already said so.
    """
    told, start, opened = [], 0, set()
    for said in sentences(text):
        if said["text"].startswith("Initializing"):
            who = said["who"] or ""
            if who.startswith("EngineCore"):  # restarts under another pid; actors run side by side
                who = re.sub(r"\s*\bpid=\d*", "", who)
            start, opened = (start + 1, {who}) if who in opened else (start, opened | {who})
        if facts := read_sentence(said["text"]):
            told.append((said, facts, start))
    return told, start, start + bool(opened)


def _is_report(facts):
    return any(name in facts for name in ("weights_gib", "gpu_blocks", "kv_tokens"))


def _engine_facts(latest):
    """What is true of the whole engine; its own start sentence counts more than what was asked."""
    log = dict.fromkeys(_OF_THE_ENGINE)
    for said, facts in latest:
        asked = not said["text"].startswith("Initializing")
        for name in _OF_THE_ENGINE:
            if name in facts and not (asked and log[name] is not None and name in _SETTINGS):
                log[name] = facts[name]
    return log


def _workers(latest, rank_of):
    """One dict for each process that reported its own weights or memory."""
    workers = {}
    for said, facts in latest:
        own = {name: facts[name] for name in _OF_A_RANK if name in facts}
        if not own:
            continue
        rank = rank_of(said)
        key = (said["who"], rank)
        if rank is None and said["who"] in (None, "driver"):
            key = len(workers)  # nobody can tell whose it is: never merged with another's
        names = ("who", "tp_rank", "pp_rank", "dp_rank")
        new = {name: said[name] for name in names} | {"rank": rank, "repeated": 0}
        worker = workers.setdefault(key, new)
        if "weights_gib" not in worker or "weights_gib" not in own:  # a later one: a draft model's
            worker |= own
        worker["repeated"] = max(worker["repeated"], said["repeated"])
    for worker in workers.values():  # V0 says it again, to two decimals, when it plans the cache
        if "weights_gib" not in worker and "profiled_weights_gib" in worker:
            worker |= {"weights_gib": worker["profiled_weights_gib"], "weights_decimals": 2}
    return list(workers.values())


def _by_rank(workers, world_size):
    """Sorted by rank; when all ranks but one are named, the one worker left is the one left."""
    unnamed = [worker for worker in workers if worker["rank"] is None]
    if len(unnamed) == 1 and len(workers) == world_size and not unnamed[0]["repeated"]:
        missing = set(range(world_size)) - {worker["rank"] for worker in workers}
        if len(missing) == 1 and unnamed[0]["who"]:
            unnamed[0]["rank"] = missing.pop()
    return sorted(workers, key=lambda worker: (worker["rank"] is None, worker["rank"] or 0))


def _known_ranks(told):
    """A function said -> global rank or None, from everything this start says about ranks."""
    sizes = [facts["tp_size"] for _, facts in told if "tp_size" in facts]
    tp_size = sizes[-1] if sizes else None
    assigned, local, unprefixed = {}, {}, set()  # of a process: {address: rank}, by pid
    for said, facts in told:
        if "rank" in facts and said["pid"] is not None:
            among = assigned if "tp_rank" in facts else local
            among.setdefault(said["pid"], {})[_address(said)] = facts["rank"]
        elif "rank" in facts:
            unprefixed.add(facts["rank"])
    has_workers = any(re.match(r"(Vllm|Ray)?Worker", said["who"] or "") for said, _ in told)

    def rank_of(said):
        if said["rank"] is not None:
            return said["rank"]
        if (rank := _stated(said, assigned)) is not None:
            return rank
        if said["dp_rank"]:  # where an engine's ranks begin depends on sizes of all engines
            return None
        if (rank := _stated(said, local)) is not None:
            return rank
        if said["tp_rank"] is not None or said["pp_rank"] is not None:
            if not said["pp_rank"]:
                return said["tp_rank"] or 0
            return said["pp_rank"] * tp_size + (said["tp_rank"] or 0) if tp_size else None
        if said["who"] == "driver":  # torchrun: every rank writes without a prefix
            return 0 if len(unprefixed) < 2 else None
        if re.match(r"EngineCore(_0|_DP0)?\b", said["who"] or "", re.ASCII) and not has_workers:
            return 0
        return None

    return rank_of


def _stated(said, ranks_by_pid):
    """The rank that a rank line gave this process; two hosts may have a process of the same pid."""
    ranks = ranks_by_pid.get(said["pid"], {})
    address = _address(said)
    fitting = {rank for at, rank in ranks.items() if address is None or at in (address, None)}
    return fitting.pop() if len(fitting) == 1 else None


def _address(said):
    found = re.search(r"\bip=([\w.:]{1,45})", said["who"] or "", re.ASCII)
    return found[1] if found else None
