"""What to type, what the start-up will say, and what a real log says against it."""

import math
import re
from dataclasses import replace

from planner import labs, memory, plans

GIB = 2**30
PORT = 8000


def commands(model, box, candidate, load, name=None):
    """[(where, command)], one per process to start. Options as in vLLM 0.32.0's arg_utils.py."""
    plan, name = candidate.plan, name or repository(model)
    length = _length(model, candidate, load)
    common = [f"vllm serve {name}"]
    if plan.tp_size > 1:
        common.append(f"--tensor-parallel-size {plan.tp_size}")
    if plan.pp_size > 1:
        common.append(f"--pipeline-parallel-size {plan.pp_size}")
    if plan.dcp_size > 1:
        common.append(f"--decode-context-parallel-size {plan.dcp_size}")
    if plan.ep_size > 1:
        common.append("--enable-expert-parallel")
    tail = [f"--max-model-len {length}", f"--gpu-memory-utilization {load.utilization}"]
    tail.append(f"--max-num-seqs {load.max_seqs}")
    tail.append(f"--max-num-batched-tokens {load.batched_tokens}")
    if load.kv_bytes == 1:
        tail.append("--kv-cache-dtype fp8")
    if plan.copies > 1:
        return _data_parallel(box, plan, common, tail)
    gpus = plan.gpus_per_replica
    if gpus > box.gpus_per_node:
        return _over_nodes(box, plan, common, tail)
    per_node = box.gpus_per_node // gpus
    if plan.replicas == 1:
        return [("node 0", " ".join(common + tail))]
    # Servers of their own, behind a router: vLLM's data parallelism would cut a MoE's experts over
    # the replicas as well, and asks all of them to go in step.
    lines = []
    for replica in range(plan.replicas):
        node, place = divmod(replica, per_node)
        devices = ",".join(str(place * gpus + n) for n in range(gpus))
        line = [f"CUDA_VISIBLE_DEVICES={devices}", *common, *tail, f"--port {PORT + place}"]
        lines.append((f"node {node}", " ".join(line)))
    return lines


def _length(model, candidate, load):
    """What is wanted, or the longest that starts: whole blocks, and the engine keeps one."""
    plan, found = candidate.plan, candidate.memory
    wanted = load.max_model_len or model.max_positions
    block = load.block_size * plan.dcp_size
    with_one_more = (math.ceil(wanted / block) + 1) * block
    if memory.sequence_bytes(found, plan, with_one_more) <= (load.kv_memory or found["kv_bytes"]):
        return wanted
    return max(0, min(found["longest_context"], wanted) // block - 1) * block


def repository(model):
    found = re.match(r"huggingface\.co/(\S+)", model.config.get("_source", ""))
    return found[1] if found else model.name


def _over_nodes(box, plan, common, tail):
    nodes = plan.gpus_per_replica // box.gpus_per_node
    lines = []
    for replica in range(plan.replicas):
        head = f"NODE{replica * nodes}"
        for rank in range(nodes):
            line = [*common, *tail, f"--nnodes {nodes} --node-rank {rank} --master-addr {head}"]
            line += ["--headless"] if rank else []
            lines.append((f"node {replica * nodes + rank}", " ".join(line)))
    return lines


def _data_parallel(box, plan, common, tail):
    lines, nodes = [], max(1, plan.copies // box.gpus_per_node)
    here = plan.copies // nodes
    parallel = f"--data-parallel-size {plan.copies} --all2all-backend {plan.back_end}"
    for replica in range(plan.replicas):
        for rank in range(nodes):
            line = [*common, parallel, f"--data-parallel-size-local {here}", *tail]
            if nodes > 1:
                line.append(
                    f"--data-parallel-address NODE{replica * nodes} --data-parallel-rpc-port 13345"
                )
            if rank:
                line.append(f"--headless --data-parallel-start-rank {rank * here}")
            lines.append((f"node {replica * nodes + rank}", " ".join(line)))
    return lines


def expected(model, box, candidate, load):
    """What one replica's start-up will print: {"weights_gib": one per stage, "kv_gib", "kv_tokens",
    "concurrency", "max_model_len"}; the last three kinds as [best, typical, worst]."""
    plan, length = candidate.plan, _length(model, candidate, load)
    said = {"max_model_len": length, "kv_gib": [], "kv_tokens": [], "concurrency": []}
    stages = memory.ranks(model, plan)
    said["weights_gib"] = [memory.weights_bytes(model, plan, rank) / GIB for rank in stages]
    for mood in plans.MOODS:
        found = memory.verdicts(model, plan, box.at(mood), load)
        room = load.kv_memory or max(0, int(found["kv_bytes"]))
        said["kv_gib"].append((load.kv_memory or found["kv_bytes"]) / GIB)
        whole = max(1, length)
        each = memory.sequence_bytes(found, plan, whole)
        if all(layer["kind"] in ("full", "latent") for layer in found["layers"]):
            told = labs.ledger().kv_capacity(room, each / whole, load.block_size, whole)
            said["kv_tokens"].append(told["tokens"])
            said["concurrency"].append(told["max_concurrency"])
        else:  # a request's need is no multiple of its tokens
            said["concurrency"].append(room / each)
            said["kv_tokens"].append(int(room / each * whole))
    return said


def expected_lines(said):
    weights = said["weights_gib"]
    each = " and ".join(f"{w:.2f}" for w in dict.fromkeys(round(w, 2) for w in weights))
    low, high = sorted(said["kv_gib"][::2])
    few, many = sorted(said["kv_tokens"][::2])
    least, most = sorted(said["concurrency"][::2])
    return [
        f"  Model loading took {each} GiB memory and ... seconds"
        + (" (one per stage)" if len(weights) > 1 else ""),
        f"  Available KV cache memory: {said['kv_gib'][1]:.2f} GiB",
        f"  GPU KV cache size: {said['kv_tokens'][1]:,} tokens, Maximum concurrency for "
        f"{said['max_model_len']:,} tokens per request: {said['concurrency'][1]:.2f}x",
        f"or within {low:.2f} to {high:.2f} GiB, {few:,} to {many:,} tokens, {least:.2f} to "
        f"{most:.2f}x" + "; below 1.00x it does not start" * (least < 1),
    ]


FAILURES = [  # what a start says when it fails; the first that a log holds
    ("no room for the cache", r"No available memory for the cache blocks"),
    ("the context is too long", r"To serve at least one request with the model'?s max seq len"),
    ("the context is too long", r"max seq len \(\d+\) is larger than the maximum number of tokens"),
    ("out of memory", r"CUDA out of memory|torch\.(cuda\.)?OutOfMemoryError"),
    ("another process on the GPU", r"Free memory on device .{0,200}is less than desired"),
]


def check(text, model, box, candidate, load, candidates):
    """A log against the plan: {"lines", "failure", "advice", "agrees"}.

    lines: {"claim", "expected", "reported", "status"}; status "near" (weights within 1 %, cache
    within 5%), "inside" the interval, or "off". ValueError for a text that holds no start-up.
    """
    log = labs.ledger().read_startup_log(text)
    failure = next((word for word, pattern in FAILURES if re.search(pattern, text)), None)
    rooms = [w["kv_memory_gib"] for w in log["ranks"] if "kv_memory_gib" in w]
    if failure is None and rooms and min(rooms) < 0:
        failure = "no room for the cache"
    if failure is None and not log["ranks"] and not log["kv_tokens"]:
        raise ValueError("this text is no start-up log of vLLM: it names no weights and no cache")
    said, lines = expected(model, box, candidate, load), []
    plan = candidate.plan
    for name, size in [("tp_size", plan.tp_size), ("pp_size", plan.pp_size)]:
        if log[name] is not None:
            _line(lines, name, [size] * 3, log[name], 0)
    for worker in log["ranks"]:
        if "weights_gib" in worker:
            stage = min((worker["rank"] or 0) // plan.tp_size, plan.pp_size - 1)
            who = "" if worker["rank"] is None else f" of rank {worker['rank']}"
            near = [said["weights_gib"][stage] * part for part in (1.0, 1.0, 1.02)]
            _line(lines, f"weights{who}, GiB", near, worker["weights_gib"], 0.01)
    if rooms:
        _line(lines, "cache memory, GiB", said["kv_gib"], min(rooms), 0.05, printed=0.005)
    same_length = log["tokens_per_request"] in (None, said["max_model_len"])
    if log["kv_tokens"]:
        _line(lines, "cache, tokens", said["kv_tokens"], min(log["kv_tokens"]), 0.05)
    if log["max_concurrency"] and same_length:
        _line(lines, "max concurrency", said["concurrency"], log["max_concurrency"], 0.05)
    advice = _advice(model, box, load, candidate, candidates, failure) if failure else None
    agrees = failure is None and all(line["status"] != "off" for line in lines)
    return {"lines": lines, "failure": failure, "advice": advice, "agrees": agrees}


def _line(lines, claim, values, reported, tolerance, printed=0.0):
    low, high = min(values), max(values)
    near = abs(reported - values[1]) <= tolerance * abs(values[1]) + printed
    status = "near" if near else "inside" if low <= reported <= high else "off"
    lines.append({"claim": claim, "expected": values[1], "reported": reported, "status": status})


def _advice(model, box, load, candidate, candidates, failure):
    """The change that would let this start succeed, in one sentence."""
    longest, wanted = _length(model, candidate, load), load.max_model_len or model.max_positions
    if failure == "another process on the GPU":
        return "the plan is not at fault: something else holds this GPU; nvidia-smi names it"
    if failure == "the context is too long" and longest:
        need = memory.sequence_bytes(candidate.memory, candidate.plan, wanted) / GIB
        return f"--max-model-len {longest} fits this plan ({wanted:,} tokens need {need:.2f} GiB)"
    gpus = candidate.plan.gpus_per_replica
    smallest = plans.smallest(c for c in candidates if c.plan.gpus_per_replica > gpus)
    if smallest is None:
        smallest = plans.smallest_that_fits(model, replace(box, nodes=2 * box.nodes), load)
    if smallest is None:
        return "no plan of up to 32 times these GPUs holds the model"
    name, gpus = replace(smallest.plan, replicas=1).name, smallest.plan.gpus_per_replica
    room = smallest.memory["kv_bytes"] / GIB
    return f"{name} would fit: {gpus} GPUs a replica, {room:.1f} GiB of cache on each"
