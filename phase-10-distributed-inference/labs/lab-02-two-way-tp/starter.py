# lab-02 starter: write where NotImplementedError stands. [b3e22796a7cd]
"""Lab 02: watch two ranks split a real model, and read the split back from their logs.

Part A  the ledger of a start-up: weights, KV cache and blocks of each rank, by arithmetic, held
        against what workers and logs report. Plain Python, no engine.
Part B  the same numbers predicted for a live vLLM at tensor_parallel_size=2.
Part C  tensor and sequence parallelism written in Torch (tensor_parallel_toy/).

Shapes are [out, in], as in `y = x @ W.T`. Bytes are bytes, GiB are 2**30 bytes.
"""

import math
import re

# --- Part A: the ledger of a start-up ---------------------------------------------------------

GIB = 2**30
MIB = 2**20
VOCAB_PADDING = 64  # vllm model_executor/layers/vocab_parallel_embedding.py

# What the architectures add to, or leave out of, a Llama. Key: config.json "architectures"[0].
ARCHITECTURES = {
    "LlamaForCausalLM": {},
    "MistralForCausalLM": {},
    "Qwen2ForCausalLM": {"qkv_bias": True},
    "Qwen3ForCausalLM": {"qk_norm": True},
    "MixtralForCausalLM": {"experts": "num_local_experts"},
    "Qwen3MoeForCausalLM": {"qk_norm": True, "experts": "num_experts"},
    "OPTForCausalLM": {"opt": True},
}
DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "half": 2, "float": 4}


def model_shape(config):
    """The numbers of a Hugging Face config.json that decide how a model splits. (Given.)

    config: the parsed JSON. Returns a dict; widths in elements, `dtype_bytes` per weight element.
    ValueError for an architecture this lab does not know, or a field that is missing.
    """
    name = (config.get("architectures") or [config.get("model_type")])[0]
    if name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise ValueError(f"architecture {name!r} is not one this lab knows; it knows {known}")
    traits = ARCHITECTURES[name]
    opt = traits.get("opt", False)
    experts = traits.get("experts")
    sizes = "hidden_size num_attention_heads num_hidden_layers vocab_size max_position_embeddings"
    optional = "num_key_value_heads head_dim word_embed_proj_dim"
    for field in [*sizes.split(), "ffn_dim" if opt else "intermediate_size", *optional.split()]:
        value = config.get(field, 1)  # one that is missing is named below
        if not (isinstance(value, int) and value > 0 or value is None and field in optional):
            text = f"{field}={value!r} is not a positive whole number"
            raise ValueError(f"config.json of {name}: {text}")
    try:
        hidden, heads = config["hidden_size"], config["num_attention_heads"]
        moe = config.get("moe_intermediate_size") if experts else None
        ffn = moe or config["ffn_dim" if opt else "intermediate_size"]
        dtype = str(config.get("torch_dtype") or config.get("dtype") or "bfloat16")
        bias = bool(config.get("enable_bias", True) if opt else config.get("attention_bias"))
        return {
            "architecture": name,
            "num_layers": config["num_hidden_layers"],
            "hidden_size": hidden,
            "intermediate_size": ffn,
            "num_heads": heads,
            "num_kv_heads": config.get("num_key_value_heads") or heads,
            "head_dim": config.get("head_dim") or hidden // heads,
            "vocab_size": config["vocab_size"],
            "embedding_width": config.get("word_embed_proj_dim") or hidden,
            "max_positions": config["max_position_embeddings"],
            "rope_positions": 0 if opt else _rope_positions(config),
            "num_experts": config[experts] if experts else 0,
            "qkv_bias": bias or traits.get("qkv_bias", False),
            "row_bias": bias,
            "mlp_bias": bool(bias if opt else config.get("mlp_bias")),
            "qk_norm": traits.get("qk_norm", False),
            "tied": bool(config.get("tie_word_embeddings", opt)),
            "opt": opt,
            "final_norm": not config.get("_remove_final_layer_norm", False)
            and not (opt and config.get("do_layer_norm_before") is False),  # OPT-350m
            "norm_bias": opt,
            "dtype_bytes": DTYPE_BYTES[dtype.removeprefix("torch.")],
        }
    except KeyError as missing:
        raise ValueError(f"config.json of {name} has no usable {missing}") from None


def _rope_positions(config):
    """Rows of the cos/sin table; YaRN, linear and dynamic scaling lengthen it by their factor."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}  # newer: the latter
    if not isinstance(scaling, dict) or not isinstance(scaling.get("factor", 1), int | float):
        raise ValueError(f"rope_scaling={scaling!r} is not a dict with a number as its factor")
    kind = scaling.get("rope_type", scaling.get("type"))
    rows = config["max_position_embeddings"]
    if kind == "yarn":
        rows = scaling.get("original_max_position_embeddings") or rows
    longer = kind in ("yarn", "linear", "dynamic")
    return int(rows * scaling.get("factor", 1)) if longer else rows


def parameters(model):
    """Every parameter of the whole model, fused as vLLM stores it. (Given.)

    A list of dicts: `name`, `shape` before any padding or split, `split`, `where`.
    split: "vocab" (rows, after padding), "heads" (rows of the fused q, k, v), "rows" (the output
    dimension), "columns" (the input dimension), "whole" (every rank keeps all of it).
    where: a layer's number, "first" or "last" pipeline stage, or "both" for a tied embedding.
    """
    hidden, ffn = model["hidden_size"], model["intermediate_size"]
    heads, kv_heads, head_dim = model["num_heads"], model["num_kv_heads"], model["head_dim"]
    root = "model.decoder" if model["opt"] else "model"
    found = []

    def add(name, shape, split, where, bias=False):
        weight = {"name": name + ".weight", "shape": list(shape), "split": split, "where": where}
        found.append(weight)
        if bias:  # a bias follows the rows; that of a "columns" layer is added once, after the sum
            kept = "whole" if split == "columns" else split
            rows = {"name": name + ".bias", "shape": shape[:1], "split": kept, "where": where}
            found.append(rows)

    vocab = [model["vocab_size"], model["embedding_width"]]
    add(f"{root}.embed_tokens", vocab, "vocab", "both" if model["tied"] else "first")
    if model["opt"]:
        positions = [model["max_positions"] + 2, hidden]  # two rows of offset, as OPT was trained
        add(f"{root}.embed_positions", positions, "whole", "first")
        if model["embedding_width"] != hidden:
            add(f"{root}.project_in", [hidden, vocab[1]], "whole", "first")
            add(f"{root}.project_out", [vocab[1], hidden], "whole", "last")
    out, up, down, norms = (
        ("self_attn.out_proj", "fc1", "fc2", ("self_attn_layer_norm", "final_layer_norm"))
        if model["opt"]
        else (
            *("self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj"),
            ("input_layernorm", "post_attention_layernorm"),
        )
    )
    for layer in range(model["num_layers"]):
        at = f"{root}.layers.{layer}."
        qkv = [(heads + 2 * kv_heads) * head_dim, hidden]
        add(at + "self_attn.qkv_proj", qkv, "heads", layer, model["qkv_bias"])
        add(at + out, [hidden, heads * head_dim], "columns", layer, model["row_bias"])
        if model["qk_norm"]:
            add(at + "self_attn.q_norm", [head_dim], "whole", layer)
            add(at + "self_attn.k_norm", [head_dim], "whole", layer)
        if model["num_experts"]:
            experts = model["num_experts"]
            add(at + "mlp.gate", [experts, hidden], "whole", layer)
            add(at + "mlp.experts.w13", [experts, 2 * ffn, hidden], "rows", layer)
            add(at + "mlp.experts.w2", [experts, hidden, ffn], "columns", layer)
        else:
            gate_and_up = ffn if model["opt"] else 2 * ffn
            add(at + up, [gate_and_up, hidden], "rows", layer, model["mlp_bias"])
            add(at + down, [hidden, ffn], "columns", layer, model["mlp_bias"])
        for norm in norms:
            add(at + norm, [hidden], "whole", layer, model["norm_bias"])
    if model["final_norm"]:
        name = f"{root}.final_layer_norm" if model["opt"] else "model.norm"
        add(name, [hidden], "whole", "last", model["norm_bias"])
    if not model["tied"]:
        add("lm_head", vocab, "vocab", "last")
    return found


def stage_layers(num_layers, pp_size):
    """How many layers each pipeline stage holds, as a list. (Given.)

    A remainder goes to the stages before the last one, from the back (vLLM distributed/utils.py,
    get_pp_indices). ValueError when there are more stages than layers.
    """
    if not 1 <= pp_size <= num_layers:
        raise ValueError(f"pp_size={pp_size}: a model of {num_layers} layers has 1 to {num_layers}")
    counts = [num_layers // pp_size] * pp_size
    for stage in range(2, num_layers % pp_size + 2):
        counts[-stage] += 1
    return counts


def on_stage(parameter, model, pp_size, pp_rank):
    """Whether a parameter of `parameters(model)` lives on pipeline stage `pp_rank`. (Given.)"""
    where = parameter["where"]
    first, last = pp_rank == 0, pp_rank == pp_size - 1
    if isinstance(where, str):
        return {"first": first, "last": last, "both": first or last}[where]
    start = sum(stage_layers(model["num_layers"], pp_size)[:pp_rank])
    return start <= where < start + stage_layers(model["num_layers"], pp_size)[pp_rank]


def padded_vocab(vocab_size):
    """The rows an embedding or output matrix really has: the next multiple of VOCAB_PADDING."""
    raise NotImplementedError(
        "lab-02 · padded_vocab is yours to write (about 1 line). "
        "Chapter: README.md, task 1"
    )


def kv_heads_per_rank(num_kv_heads, tp_size):
    """KV heads that one rank holds; with more ranks than KV heads each is held more than once.

    ValueError when neither number divides the other: no even split exists.
    """
    raise NotImplementedError(
        "lab-02 · kv_heads_per_rank is yours to write (about 3 lines). "
        "Chapter: README.md, task 1"
    )


def rank_shape(parameter, model, tp_size):
    """The shape one tensor-parallel rank stores, for an entry of `parameters(model)`.

    The split dimension of a matrix [out, in] is `out` for rows and `in` for columns; expert weights
    are [experts, out, in]. "heads" is the fused [(heads + 2 kv_heads) head_dim, ...] of q, k and v.
    Returns a new list; the parameter keeps its own. ValueError, naming the parameter, when tp_size
    does not divide the dimension.
    Upstream: vLLM model_executor/layers/linear.py, the classes named ...ParallelLinear.
    """
    raise NotImplementedError(
        "lab-02 · rank_shape is yours to write (about 13 lines). "
        "Chapter: README.md, task 2"
    )


def allocated_bytes(num_bytes):
    """What torch's CUDA caching allocator charges for one tensor of `num_bytes`. (Given.)

    Requests round up to 512 bytes. From 10 MiB on, the segment comes in steps of 2 MiB, and a tail
    of at most 1 MiB is not given to anybody else (c10/cuda/CUDACachingAllocator.cpp,
    kMinLargeAlloc, kRoundLarge, should_split). The CPU build has no such rounding.
    Tensors of 1 to 10 MiB are not covered: they share segments of 20 MiB, whose unused tail is
    charged too. Small models have many: a published OPT-125m says 244.61 MiB, this says 239.2.
    """
    rounded = -(-num_bytes // 512) * 512
    segment = -(-rounded // (2 * MIB)) * 2 * MIB
    return segment if rounded >= 10 * MIB and segment - rounded <= MIB else rounded


def rank_weights(model, tp_size, pp_size=1, pp_rank=0):
    """The bytes one rank's weights take, term by term.

    Returns a dict of ints: `parameters_bytes`; `rope_table_bytes`, the cos/sin table
    [rope_positions, head_dim] that every rank keeps whole (0 rows for OPT);
    `allocator_rounding_bytes`, what `allocated_bytes` adds over all these tensors on a GPU;
    `total_bytes`, their sum. A tied embedding is one tensor.
    """
    raise NotImplementedError(
        "lab-02 · rank_weights is yours to write (about 13 lines). "
        "Chapter: README.md, task 3"
    )


def kv_bytes_per_token(model, tp_size, pp_size=1, pp_rank=0, kv_dtype_bytes=None):
    """Bytes of KV cache that one token takes on one rank: keys and values of the stage's layers.

    kv_dtype_bytes: bytes per element when the cache has a type of its own (fp8: 1).
    """
    raise NotImplementedError(
        "lab-02 · kv_bytes_per_token is yours to write (about 3 lines). "
        "Chapter: README.md, task 4"
    )


def kv_capacity(kv_memory_bytes, bytes_per_token, block_size, max_model_len, version="0.32.0"):
    """What an engine reports for `kv_memory_bytes` of cache on its fullest rank.

    kv_memory_bytes and bytes_per_token: of one rank. block_size, max_model_len: tokens.
    Returns {"blocks", "tokens", "max_concurrency"}. A request takes whole blocks, none of them
    shared with another (prefix caching is not counted), so:
    before 0.9.1        tokens = blocks x block_size, concurrency = tokens / max_model_len;
    0.9.1 to 0.20.0     the same tokens, concurrency = blocks / (whole blocks of one request);
    from 0.20.1         that concurrency, and tokens = int(concurrency x max_model_len).
    version: "major.minor[.patch...]". ValueError when a size is not positive; kv_memory_bytes may
    also be 0.
    """
    raise NotImplementedError(
        "lab-02 · kv_capacity is yours to write (about 13 lines). "
        "Chapter: README.md, task 5"
    )


def version_numbers(version):
    """(0, 6, 4) of "0.6.4.post1", "v0.6.4", "0.6.4.dev5+g12"; a missing part is 0. (Given.)"""
    found = re.findall(r"\d+", str(version).split("+")[0])[:3]
    return tuple(int(part) for part in [*found, "0", "0", "0"][:3])


# Reading a log. What vLLM says at start-up changed some twenty times between 0.2.7 and 0.33, and
# what reaches you has been through worker prefixes, colours, containers and terminals. So no line
# is trusted: known sentences are looked for anywhere, and whoever opened the line is their speaker.

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
_REQUEST = re.compile(
    r"\bReceived request [^\n]*"
)  # a prompt may quote anything, this log included
_TAG = re.compile(r"\[[\w .:\-]{1,40}\]")  # "(EngineCore_DP0 pid=7) [Stage-0] INFO ..."
_REPEATED = re.compile(r"\[repeated (\d{1,9})x across cluster\]", re.ASCII)
_LONGEST_SENTENCE = 20_000  # an engine's configuration is one sentence of some 5,000 characters


def sentences(text):
    """The known sentences of a log in order, each with its speaker. (Given.)

    Returns a list of dicts: `text` (white space collapsed; it starts at the known words and ends
    before the next speaker or sentence), `who` (the prefix without brackets; "driver" for a log
    line without one; None when nobody can be named), `pid`, `tp_rank`, `pp_rank`, `dp_rank`,
    `rank` (only as the prefix states it) and `repeated` (how often Ray swallowed a like line).
    """
    text = _COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    text = _REQUEST.sub("", text)
    tokens = list(_TOKEN.finditer(text))
    ends, end = [], len(text)  # where what a token begins must end: at the next one, lines apart
    for token in reversed(tokens):
        ends.append(end)
        end = end if token["newline"] else token.start()
    found, nobody = [], {"who": None}
    speaker, prefix_end = nobody, -1
    for token, end in zip(tokens, reversed(ends), strict=True):
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
            end = min(end, token.start() + _LONGEST_SENTENCE)
            words = " ".join(text[token.start() : end].split())
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


def read_sentence(sentence):
    """The numbers in one sentence of a start-up log, as a dict; {} when it has none of these.

    "Loading model weights took 7.4829 GB", "Model loading took 15.26 GiB memory and 23.1 seconds"
        -> weights_gib, weights_decimals (digits printed after the point), load_s (if said).
        Up to 0.8.2 vLLM prints GB and means GiB.
    "# GPU blocks: 27899, # CPU blocks: 4096", "# cuda blocks: ...", "# GPU blocks: 27899"
        -> gpu_blocks, and cpu_blocks if said
    "GPU KV cache size: 67,296 tokens", "CPU KV cache size: ..."  -> kv_tokens
    "Maximum concurrency for 4,096 tokens per request: 16.43x"  -> tokens_per_request,
        max_concurrency
    "Available KV cache memory: 8.22 GiB", "... reserved for KV Cache is 8.69GiB.",
    "... kv_cache_size=34.96GiB, ..."  -> kv_memory_gib; it may be negative
    Integers are ints (without their commas), the rest floats. A number cut off before its unit, or
    an integer right before a point ("# GPU blocks: 12."), is not a number that was said.
    """
    raise NotImplementedError(
        "lab-02 · read_sentence is yours to write (about 21 lines). "
        "Chapter: README.md, task 6"
    )

_SETTINGS = {  # in the engine's own words; a value it did not print stays unknown
    "model": r"\bmodel(?:=|': )'([^']{1,300})'",
    "tp_size": r"\btensor_parallel_size(?:=|': )(\d{1,6})",
    "pp_size": r"\bpipeline_parallel_size(?:=|': )(\d{1,6})",
    "dp_size": r"\bdata_parallel_size(?:=|': )(\d{1,6})",
    "max_model_len": r"\bmax_(?:seq_len|model_len)(?:=|': )(\d{1,9})",
    "dtype": r"(?<!\w)dtype(?:=|': )'?(?:torch\.)?(\w{1,20})",
    "kv_cache_dtype": r"\bkv_cache_dtype(?:=|': )'?(\w{1,20})",
    "block_size": r"\bblock_size(?:=|': )(\d{1,6})",
    "swap_space_gib": r"\bswap_space(?:=|': )(\d{1,6}(?:\.\d{1,9})?)",
    "quantization": r"\bquantization(?:=|': )'?([\w.\-]{1,40})",
}
_OTHER = {
    "nccl_version": r"vLLM is using nccl==([\d.]{1,20}\d)",
    "loading_model": r"Starting to load model (\S{1,300}?)(?:\.\.\.)?(?:\s|$)",
    "all_reduce_backends": r"Using \[([^\]]{0,200})\] all-reduce backends",
    "custom_all_reduce_off": r"Custom allreduce is disabled because ([^.]{1,200})",
    "cuda_graph_addresses": r"Registering (\d{1,9}) cuda graph",
    "distributed_backend": r"Defaulting to use (\w{1,20}) for distributed",
    "ready_s": r"init engine \(profile[^)]{0,80}\) took (\d{1,9}(?:\.\d{1,9})?) s",
    "max_model_len": r"Using max model len (\d{1,9})(?!\d)",
    "profiled_weights_gib": r"(?:model weights take|Actual usage is) (\d{1,9}(?:\.\d{1,9})?) ?GiB",
    "gpu_memory_gib": r"the current vLLM instance can use total_gpu_memory \((\d{1,9}\.\d{1,9})GiB",
    "kv_memory_gib": r"(?:Explicitly set \(|Initial free memory [\d.]{1,20} GiB, reserved )"
    r"(\d{1,9}(?:\.\d{1,9})?)(?:/[\d.]{1,20}\) ?GiB for KV cache| GiB memory for KV Cache)",
}
_SIZES = ("tp_size", "pp_size", "dp_size", "max_model_len", "block_size")
_RANK_WORDS = {"DP": "dp_rank", "PP": "pp_rank", "TP": "tp_rank"}
_FLOATS = ("ready_s", "kv_memory_gib", "profiled_weights_gib", "gpu_memory_gib", "swap_space_gib")


def _outside_inner_braces(sentence):
    """Without what a nested dict holds: a draft model's settings are not the engine's."""
    depth, kept = -1 if re.match(r"non-default args: \{", sentence) else 0, []
    for character in sentence:
        depth -= character == "}" and depth > 0
        if depth <= 0:
            kept.append(character)
        depth += character == "{"
    return "".join(kept)


def _read_setting_sentence(sentence):
    """What the other known sentences say: versions, sizes, ranks, loaded weights, back ends."""
    facts = {}
    if re.match(r"Initializing|args:|non-default|vLLM API|█ version", sentence):
        if said := re.match(r"Initializing an? (V[01]) LLM engine", sentence):
            facts["engine"] = said[1]
        if said := re.match(r"[^(]{0,60}(?:\(v|version )v?(\d[\w.+\-]{0,60})", sentence, re.ASCII):
            facts["version"] = said[1].rstrip(".")
        settings = _outside_inner_braces(sentence)
        for name, pattern in _SETTINGS.items():
            if said := re.search(pattern, settings, re.ASCII):
                number = int if name in _SIZES else float if name in _FLOATS else str
                facts[name] = number(said[1])
        if facts.get("quantization") == "None":
            del facts["quantization"]
    for name, pattern in _OTHER.items():
        if said := re.match(pattern, sentence, re.ASCII):
            numeric = name in ("cuda_graph_addresses", "max_model_len")
            value = int(said[1]) if numeric else said[1]
            facts[name] = float(value) if name in _FLOATS else value
    if said := re.match(  # of a Gaudi
        r"Loading model weights took in total (\d{1,9}\.(\d{1,9})) GiB of device",
        sentence,
        re.ASCII,
    ):
        facts |= {"weights_gib": float(said[1]), "weights_decimals": len(said[2])}
    if said := re.match(r"rank (\d{1,6}) in world size (\d{1,6}) is assigned as", sentence):
        facts |= {"rank": int(said[1]), "world_size": int(said[2])}
        for word, number in re.findall(r"\b(DP|PP|TP) rank (\d{1,6})", sentence, re.ASCII):
            facts[_RANK_WORDS[word]] = int(number)
    if said := re.match(r"world_size=(\d{1,6}) rank=(\d{1,6}) local_rank=", sentence, re.ASCII):
        facts |= {"rank": int(said[2]), "world_size": int(said[1])}
    if said := re.match(
        r"Loaded weight (\S{1,200}) with shape torch\.Size\(\[([\d, ]{0,60})\]\)", sentence
    ):
        facts["loaded_weight"] = said[1]
        facts["loaded_shape"] = [int(n) for n in re.findall(r"\d{1,12}", said[2])]
    return facts


_OF_A_RANK = (
    "weights_gib weights_decimals load_s kv_memory_gib profiled_weights_gib gpu_memory_gib".split()
)
_OF_THE_ENGINE = (
    "version engine model dtype quantization kv_cache_dtype tp_size pp_size dp_size world_size "
    "max_model_len block_size swap_space_gib nccl_version distributed_backend gpu_blocks "
    "cpu_blocks max_concurrency tokens_per_request ready_s"
).split()


def read_startup_log(text):
    """What a start-up log of vLLM 0.2.7 to 0.33 says, and who says it. (Given; calls yours.)

    text: any str. Never raises on one, and never fills in what nobody said: that is None or absent.
    Returns a dict:
      `claims`  every fact in order: {"what", "value", "who", "rank", "start", "repeated"};
      `ranks`   one dict per worker that reported for itself: `who`, `rank`, `tp_rank`, `pp_rank`,
                `dp_rank`, `weights_gib`, `weights_decimals`, `load_s`, `kv_memory_gib`,
                `gpu_memory_gib`, `repeated`;
      `kv_tokens`  every "KV cache size", in order: 0.8.0 to 0.11.0 print one per rank;
      `starts`  how many engines started in this text, one after another; the rest is the last one;
      version, engine, model, dtype, quantization, kv_cache_dtype, tp_size, pp_size, dp_size,
      world_size, max_model_len, block_size, swap_space_gib, nccl_version, distributed_backend,
      gpu_blocks, cpu_blocks, max_concurrency, tokens_per_request, ready_s.
    `rank` is the global rank, known when a prefix, a rank line or the convention of the executor
    says it (V0 and single-GPU engines print rank 0 without a prefix); otherwise None.
    """
    told, start, opened = [], 0, set()
    for said in sentences(text):
        facts = read_sentence(said["text"]) | _read_setting_sentence(said["text"])
        if said["text"].startswith("Initializing"):
            who = said["who"] or ""
            if who.startswith("EngineCore"):  # restarts under another pid; actors run side by side
                who = re.sub(r"\s*\bpid=\d*", "", who)
            start, opened = (start + 1, {who}) if who in opened else (start, opened | {who})
        if facts:
            told.append((said, facts, start))
    last = max((s for _, facts, s in told if _is_report(facts)), default=start)
    ranks_of = _known_ranks([(said, facts) for said, facts, s in told if s == last])
    log = dict.fromkeys(_OF_THE_ENGINE) | {"starts": start + bool(opened), "kv_tokens": []}
    workers, log["claims"] = {}, []
    for said, facts, s in told:
        rank = ranks_of(said) if s == last else said["rank"]
        for what, value in facts.items():
            of_rank = rank if what in _OF_A_RANK else said["rank"]
            where = {"who": said["who"], "rank": of_rank, "start": s, "repeated": said["repeated"]}
            log["claims"].append({"what": what, "value": value} | where)
        if s != last:
            continue
        for name in _OF_THE_ENGINE:
            asked = not said["text"].startswith("Initializing")  # the engine's own word counts more
            if name in facts and not (asked and log[name] is not None and name in _SETTINGS):
                log[name] = facts[name]
        if "kv_tokens" in facts:
            log["kv_tokens"].append(facts["kv_tokens"])
        if any(name in facts for name in _OF_A_RANK):
            key = (said["who"], rank)
            if rank is None and said["who"] in (None, "driver"):
                key = len(workers)  # nobody can tell whose it is: never merged with another's
            worker = workers.setdefault(key, _worker(said, rank))
            if "weights_gib" not in worker or "weights_gib" not in facts:  # later: a draft model's
                worker |= {name: facts[name] for name in _OF_A_RANK if name in facts}
            worker["repeated"] = max(worker["repeated"], said["repeated"])
    for worker in workers.values():  # V0 says it again, to two decimals, when it plans the cache
        if "weights_gib" not in worker and "profiled_weights_gib" in worker:
            worker |= {"weights_gib": worker["profiled_weights_gib"], "weights_decimals": 2}
    log["ranks"] = _by_rank(list(workers.values()), (log["tp_size"] or 0) * (log["pp_size"] or 1))
    return log


def _by_rank(workers, world_size):
    """Sorted by rank; when all ranks but one are named, the one worker left is the one left."""
    unnamed = [worker for worker in workers if worker["rank"] is None]
    if len(unnamed) == 1 and len(workers) == world_size and not unnamed[0]["repeated"]:
        missing = set(range(world_size)) - {worker["rank"] for worker in workers}
        if len(missing) == 1 and unnamed[0]["who"]:
            unnamed[0]["rank"] = missing.pop()
    return sorted(workers, key=lambda worker: (worker["rank"] is None, worker["rank"] or 0))


def _is_report(facts):
    return any(name in facts for name in ("weights_gib", "gpu_blocks", "kv_tokens"))


def _worker(said, rank):
    names = ("who", "tp_rank", "pp_rank", "dp_rank")
    return {name: said[name] for name in names} | {"rank": rank, "repeated": 0}


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
    workers = any(re.match(r"(Vllm|Ray)?Worker", said["who"] or "") for said, _ in told)

    def stated(said, among):
        ranks = among.get(said["pid"], {})
        address = _address(said)
        fitting = {r for at, r in ranks.items() if address is None or at in (address, None)}
        return fitting.pop() if len(fitting) == 1 else None

    def rank_of(said):
        if said["rank"] is not None:
            return said["rank"]
        if (rank := stated(said, assigned)) is not None:
            return rank
        if said["dp_rank"]:  # where an engine's ranks begin depends on sizes of all engines
            return None
        if (rank := stated(said, local)) is not None:
            return rank
        if said["tp_rank"] is not None or said["pp_rank"] is not None:
            if not said["pp_rank"]:
                return said["tp_rank"] or 0
            return said["pp_rank"] * tp_size + (said["tp_rank"] or 0) if tp_size else None
        if said["who"] == "driver":  # torchrun: every rank writes without a prefix
            return 0 if len(unprefixed) < 2 else None
        if re.match(r"EngineCore(_0|_DP0)?\b", said["who"] or "", re.ASCII) and not workers:
            return 0
        return None

    return rank_of


def _address(said):
    found = re.search(r"\bip=([\w.:]{1,45})", said["who"] or "", re.ASCII)
    return found[1] if found else None


def which_split(model, weights_gib, tp_size, pp_size=1):
    """Which way of splitting explains the weights one rank reports.

    Candidates: the split asked for, pipeline only, tensor parallel only, none at all (tp_size and
    pp_size each as asked, or 1), with every stage of each. The one whose `rank_weights` total comes
    nearest wins, the one asked for when two tie, provided it is within 5 %: splits differ by much
    more, buffers by less.
    Returns {"tp_size", "pp_size", "pp_rank", "residual_bytes"} (an int, reported minus expected),
    or None.
    """
    raise NotImplementedError(
        "lab-02 · which_split is yours to write (about 10 lines). "
        "Chapter: README.md, task 7"
    )


_EXACT_MIB = 0.25  # what the arithmetic of rank_weights leaves open on published logs
_SWAP_GIB = 4  # V0 default of --swap-space, per rank
_V0_BLOCK = 16


def reconcile(log, model, tp_size, pp_size=1, block_size=None):
    """Hold a log against the ledger: one line per claim, and a verdict. (Given; calls yours.)

    log: of `read_startup_log`. Returns {"lines", "verdict", "findings"}.
    A line: `claim`, `rank`, `expected`, `reported`, `residual`, `unit`, `status`, `cause`; status
    is "exact" (within what the log prints), "close" (within 5 %), or "off".
    verdict: "consistent", "wrong split", "unexplained" or "nothing to check"; findings: words from
    "pipeline not applied", "tensor parallel not applied", "different split", "heavier rank",
    "kv not sharded", "kv unexplained", "weights unexplained", "quantized".
    """
    lines, findings = [], []
    model = model | {"dtype_bytes": DTYPE_BYTES.get(log["dtype"], model["dtype_bytes"])}
    weights = [worker for worker in log["ranks"] if "weights_gib" in worker]
    for name, asked in [("tp_size", tp_size), ("pp_size", pp_size)]:
        if log[name] is not None:
            same = log[name] == asked
            cause = "" if same else f"the engine was started with {name}={log[name]}"
            lines.append(_line(name, None, asked, log[name], "", same, cause))
            findings += [] if same else ["different split"]
    for worker in [] if log["quantization"] else weights:
        lines.append(_weights_line(worker, model, tp_size, pp_size, log, findings))
    if log["quantization"]:
        cause = f"quantized ({log['quantization']}): the ledger counts {model['dtype_bytes']} bytes"
        lines.append(_line("weights", None, None, None, "GiB", True, cause + " per weight"))
        findings.append("quantized")
    lines += _peer_lines(weights, tp_size, pp_size, findings)
    lines += _kv_lines(log, model, tp_size, pp_size, block_size, findings)
    findings = list(dict.fromkeys(findings))
    wrong = {"pipeline not applied", "tensor parallel not applied", "different split"}
    wrong |= {"heavier rank", "kv not sharded"}
    verdict = "consistent"
    if wrong & set(findings):
        verdict = "wrong split"
    elif {"weights unexplained", "kv unexplained"} & set(findings):
        verdict = "unexplained"
    elif not any(line["reported"] is not None for line in lines):
        verdict = "nothing to check"
    return {"lines": lines, "verdict": verdict, "findings": findings}


def _line(claim, rank, expected, reported, unit, exact, cause="", close=False):
    comparable = None not in (expected, reported)
    residual = reported - expected if comparable else None
    status = "exact" if exact else "close" if close else "off"
    line = {"claim": claim, "rank": rank, "expected": expected, "reported": reported}
    return line | {"residual": residual, "unit": unit, "status": status, "cause": cause}


def _weights_line(worker, model, tp_size, pp_size, log, findings):
    reported, rank = worker["weights_gib"], worker["rank"]
    stages = range(pp_size)
    if rank is not None and rank < tp_size * pp_size:
        stages = [rank // tp_size]
    totals = [rank_weights(model, tp_size, pp_size, stage)["total_bytes"] / GIB for stage in stages]
    expected = min(totals, key=lambda total: abs(total - reported))
    printed = 0.5 * 10 ** -worker["weights_decimals"] + _EXACT_MIB * MIB / GIB
    exact, close = abs(reported - expected) <= printed, abs(reported - expected) <= 0.05 * expected
    cause = ""
    if close and not exact:
        cause = "buffers and workspaces nobody itemised"
    elif not exact:
        split = which_split(model, reported, tp_size, pp_size)
        printed_sizes = log["tp_size"] or tp_size, log["pp_size"] or pp_size
        if split is None and printed_sizes != (tp_size, pp_size):
            try:
                split = which_split(model, reported, *printed_sizes)
            except (ValueError, ZeroDivisionError):
                pass  # the log names a split that this model cannot have: another model's log
        if split is None:
            cause = "no split of these weights comes near"
            findings.append("weights unexplained")
        else:
            cause = f"fits tp_size={split['tp_size']} pp_size={split['pp_size']}"
            asked = [("tensor parallel", "tp_size", tp_size), ("pipeline", "pp_size", pp_size)]
            missed = [word for word, name, size in asked if split[name] == 1 != size]
            findings += [f"{word} not applied" for word in missed] or ["different split"]
    who = "weights" if worker["who"] is None else f"weights ({worker['who']})"
    return _line(who, rank, expected, reported, "GiB", exact, cause, close)


def _peer_lines(weights, tp_size, pp_size, findings):
    """Ranks of one stage hold the same bytes: the heaviest against the lightest."""
    lines = []
    for stage in range(pp_size):
        peers = [w for w in weights if pp_size == 1 or (w["rank"] or 0) // tp_size == stage]
        if pp_size > 1:
            peers = [worker for worker in peers if worker["rank"] is not None]
        if len(peers) < 2:
            continue
        least = min(peers, key=lambda worker: worker["weights_gib"])
        most = max(peers, key=lambda worker: worker["weights_gib"])
        low, high = least["weights_gib"], most["weights_gib"]
        same = high - low <= 10 ** -min(w["weights_decimals"] for w in peers) + 1e-9
        cause = "" if same else f"{most['who'] or 'one rank'} holds more than its peers"
        claim = f"heaviest rank of stage {stage}"
        lines.append(_line(claim, most["rank"], low, high, "GiB", same, cause))
        findings += [] if same else ["heavier rank"]
    return lines


def _kv_lines(log, model, tp_size, pp_size, block_size, findings):
    width = 1 if (log["kv_cache_dtype"] or "").startswith("fp8") else None
    per_token = [
        kv_bytes_per_token(model, tp_size, pp_size, stage, width) for stage in range(pp_size)
    ]
    unsharded = [kv_bytes_per_token(model, 1, pp_size, stage, width) for stage in range(pp_size)]
    fullest, lines = max(per_token), []
    memory = min((w["kv_memory_gib"] for w in log["ranks"] if "kv_memory_gib" in w), default=None)
    tokens = min(log["kv_tokens"], default=None)
    block_size = block_size or log["block_size"] or _block_of_concurrency(log) or _V0_BLOCK
    if tokens is None and log["gpu_blocks"] is not None:
        tokens = log["gpu_blocks"] * block_size
    if memory and memory > 0 and tokens:
        expected = memory * GIB / fullest
        printed = 0.006 * GIB / fullest + 256  # two decimals, and a block not filled
        off, near = abs(tokens - expected), 0.05 * expected
        exact, close = off <= printed <= near, off <= max(printed, near)
        cause = ""
        if not exact:
            whole = memory * GIB / max(unsharded)
            cause = "the log counts tokens of full requests, or a stage holds more"
            if printed > near:
                cause = "the memory is printed to 0.01 GiB, which is coarse here"
            if not close and abs(tokens - whole) <= 0.05 * whole:
                cause = "every rank holds all KV heads"
                findings.append("kv not sharded")
            elif not close:
                cause = "no split of this memory comes near"
                findings.append("kv unexplained")
        lines.append(_line("KV tokens", None, round(expected), tokens, "", exact, cause, close))
    if log["cpu_blocks"]:
        swap = _SWAP_GIB if log["swap_space_gib"] is None else log["swap_space_gib"]
        expected, reported = int(swap * GIB // (block_size * fullest)), log["cpu_blocks"]
        exact, cause = expected == reported, ""
        if not exact:  # no verdict: half the blocks are half the swap space, or KV heads held twice
            gib = reported * block_size * fullest / GIB
            cause = f"a swap space of {gib:.3g} GiB per rank, or another block size"
            if int(swap * GIB // (block_size * max(unsharded))) == reported:
                cause += ", or every rank holds all KV heads"
        lines.append(_line("CPU blocks", None, expected, reported, "", exact, cause, not exact))
    if log["max_concurrency"] and tokens:
        expected = tokens / log["tokens_per_request"]
        exact = abs(log["max_concurrency"] - expected) <= 0.006
        close = abs(log["max_concurrency"] - expected) <= 0.05 * expected
        cause = "" if exact else "a request takes whole blocks"
        said = log["max_concurrency"]
        lines.append(_line("max concurrency", None, expected, said, "x", exact, cause, close))
    return lines


def _block_of_concurrency(log):
    """V0 prints blocks x block_size / max_model_len: the block size, if it prints all the rest."""
    if not (log["gpu_blocks"] and log["max_concurrency"] and log["tokens_per_request"]):
        return None
    found = log["max_concurrency"] * log["tokens_per_request"] / log["gpu_blocks"]
    sizes = [size for size in (8, 16, 32, 64, 128, 256) if abs(found - size) <= 0.02 * size]
    return sizes[0] if sizes else None


def replicas_or_tp(
    model,
    gpu_memory_bytes,
    hbm_bytes_per_s,
    all_reduce_s,
    context_tokens,
    num_sequences,
    slowdowns=(1.0, 1.0),
):
    """Two GPUs: two replicas at tp_size=1, or one engine at tp_size=2, for one decode step?

    gpu_memory_bytes: of one GPU, for weights and KV cache. all_reduce_s: one all-reduce of this
    batch. context_tokens: KV length of a sequence. num_sequences: in flight on both GPUs together;
    the replicas share them as evenly as they go. slowdowns: how many times slower each GPU reads.
    A GPU's step reads its parameters and its sequences' KV once: bytes / bandwidth x slowdown.
    Ranks of one engine go in lockstep: the slowest sets the step, and 2 all-reduces per layer + 1
    for the embedding come on top. Replicas do not wait for each other.
    Returns {"replicas", "tp", "choice"}; the first two {"fits", "step_s" (the slowest one's),
    "tokens_per_s" (0.0 unless it fits)}; choice is "replicas", "tp" or "neither": of those that
    fit the one with more tokens per second. ValueError when num_sequences is below 2.
    """
    raise NotImplementedError(
        "lab-02 · replicas_or_tp is yours to write (about 29 lines). "
        "Chapter: README.md, task 8"
    )


# --- Part B: the same numbers, live -----------------------------------------------------------


def check_split(model, tp_size):
    """None when vLLM can split this model over `tp_size` ranks; ValueError in one sentence if not.

    Checks attention heads, KV heads (see `kv_heads_per_rank`) and the MLP width; the message names
    every one that fails, as `num_heads=7`, `num_kv_heads=3`, `intermediate_size=1023`, then
    `tp_size=2`. vLLM itself finds the last two late, in a worker, by a bare assert. A tp_size below
    1 is refused as well.
    """
    raise NotImplementedError(
        "lab-02 · check_split is yours to write (about 9 lines). "
        "Chapter: README.md, task 9"
    )


def treatment(full_shape, rank_shapes):
    """What tensor parallelism did to a parameter, from its shape at tp_size=1 and on every rank.

    Returns "replicated" (all alike and whole), "rows" or "columns" (that dimension adds up to the
    whole), or "rows, part copied" (the ranks' rows add up to more: KV heads held twice, padding).
    A vector has rows. ValueError when no treatment of one dimension gives these shapes.
    """
    raise NotImplementedError(
        "lab-02 · treatment is yours to write (about 15 lines). "
        "Chapter: README.md, task 10"
    )


def collectives_per_step(model, tp_size, num_tokens, num_sequences, element_bytes=4):
    """The collectives of one engine step that runs `num_tokens` tokens of `num_sequences` requests.

    Two all-reduces per layer (lab 01) and one for the vocabulary-parallel embedding, each of one
    activation [num_tokens, hidden] (lab 03's payload); then one all-gather of the logits of each
    sequence's last token, [num_sequences, padded vocabulary]; its payload is the gathered result.
    Returns {"all_reduces", "all_reduce_bytes", "all_gathers", "all_gather_bytes"}: counts, and
    payload bytes summed over them. One rank alone: all zero.
    """
    raise NotImplementedError(
        "lab-02 · collectives_per_step is yours to write (about 11 lines). "
        "Chapter: README.md, task 11"
    )


# --- Part C: tensor and sequence parallelism in Torch -----------------------------------------
#
# A rank's part in an overlapped layer is a list of operations, issued in this order:
#
#   ["post_recv", tensor, chunk, peer]  a buffer waits for this chunk; returns at once
#   ["send", tensor, chunk, peer]       put this chunk on the wire; returns at once
#   ["wait", tensor, chunk, peer]       block until the posted receive has arrived
#   ["wait_send", tensor, chunk, peer]  block until the chunk has left; its buffer is free again
#   ["gemm", tensor, chunk]             multiply one chunk of rows; `tensor` names the product
#   ["add", tensor, chunk, peer]        add a partial sum that has arrived to one's own
#
# There are num_ranks chunks; rank r owns chunk r. A rank's sends leave one after the other.


def all_gather_gemm_schedule(num_ranks, rank):
    """The operations of `rank` in y = all-gather(x) @ W.T, with the gather behind the GEMMs.

    Each rank starts with its own chunk of "x" and must multiply every chunk ("gemm" of "y") once
    it has it. Every receive is posted before the send it is exchanged for, every send and receive
    is waited for before the function returns. Returns a list of operations as above.
    Source: tensor_parallel_toy/schedule.py runs the same form; PyTorch calls it async-TP.
    """
    raise NotImplementedError(
        "lab-02 · all_gather_gemm_schedule is yours to write (about 8 lines). "
        "Chapter: README.md, task 12"
    )


def gemm_reduce_scatter_schedule(num_ranks, rank):
    """The operations of `rank` in y = reduce-scatter(x @ W.T), with the scatter behind the GEMMs.

    "gemm" of "y" makes a rank's partial sum of one chunk; the owner of a chunk must end with the
    sum over all ranks, each counted once. A partial sum may leave as soon as its GEMM is done.
    Receives, sends and waits as in all_gather_gemm_schedule. Returns a list of operations.
    """
    raise NotImplementedError(
        "lab-02 · gemm_reduce_scatter_schedule is yours to write (about 9 lines). "
        "Chapter: README.md, task 13"
    )
