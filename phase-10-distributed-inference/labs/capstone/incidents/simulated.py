"""Evidence of runs that never were: the labs' models with the noise of the recordings.

Each function returns (evidence, truth). Truth is {"cause", "where", "cost"}, and the cost is not
computed from the evidence: the same run is simulated again, with the same noise, without the fault.
"""

import math
import random

OVERHEAD_US = 150  # of a step, outside its segments
SKEW = 0.07  # healthy ranks of one machine differ by so much, either way


# What may be wrong. pace: all ranks compute so many times as long. slow: a rank that computes
# `strength` times as long. foreign: {core: share of others}. The factors spoil the link, in all
# steps or in the part bad_steps of the decode steps, in one of them at least.
NO_FAULT = {"pace": 1.0, "slow": None, "strength": 1.0, "foreign": {}}
NO_FAULT |= {"latency_factor": 1.0, "rate_factor": 1.0, "bad_steps": 0.0}


def tensor_parallel(
    seed, *, num_ranks=2, num_steps=64, num_layers=4, link=(40.0, 2000.0), cause="healthy", **fault
):
    """link: latency in us and bytes per us of a healthy run. fault: as in NO_FAULT."""
    size = (num_ranks, num_steps, num_layers, link)
    run, without = (
        _ranks(f"{seed}", *size, **NO_FAULT | fault),
        _ranks(f"{seed}", *size, **NO_FAULT),
    )
    healthy = _ranks(f"{seed} another day", *size, **NO_FAULT)
    plan = {"tp_size": num_ranks, "pp_size": 1, "hosts": 1, "model": _model(num_layers)}
    found = {"plan": plan, "start_up": _start_up(num_ranks, num_ranks, 8)}
    cost = 0.0 if cause in ("healthy", "disturbed") else 1 - _mean_step(without) / _mean_step(run)
    where = fault.get("slow") if cause in ("slow-rank", "busy-neighbour") else None
    truth = {"cause": cause, "where": "link" if "link" in cause else where, "cost": cost}
    return found | run | {"healthy": found | healthy}, truth


def _model(num_layers):
    return {"num_key_value_heads": 8, "num_hidden_layers": num_layers, "hidden_size": 512}


def _start_up(processes, world_size, num_kv_heads, parameters_bytes=77_000_000):
    held = max(1, num_kv_heads // world_size)
    return [
        {
            "rank": process % world_size,
            "world_size": world_size,
            "parameters_bytes": parameters_bytes // world_size,
            "kv_cache": {"kv_heads": held, "blocks": 42 // held, "block_size": 128},
        }
        for process in range(processes)
    ]


def _ranks(seed, num_ranks, num_steps, num_layers, link, *, slow, strength, foreign, **spoilt):
    bad_steps = spoilt["bad_steps"]
    draw = random.Random(seed)
    skew = [1 + draw.uniform(-SKEW, SKEW) for _ in range(num_ranks)]
    clocks = [draw.randrange(10**9) for _ in range(num_ranks)]
    ranks, requests, now = [{"steps": []} for _ in range(num_ranks)], [], 0.0
    decode = [number for number in range(num_steps) if number % 8]
    # drawn apart, so that the run without the fault has the same noise
    bad = random.Random(f"{seed}, bad").sample(decode, math.ceil(bad_steps * len(decode)))
    for number in range(num_steps):
        running = min(1 + number // 4, 4)
        tokens = running + (draw.randrange(12, 40) if number % 8 == 0 else 0)
        is_bad = not bad_steps or number in bad
        latency = link[0] * (spoilt["latency_factor"] if is_bad else 1)
        rate = link[1] / (spoilt["rate_factor"] if is_bad else 1)
        at = [now] * num_ranks
        calls = [[] for _ in range(num_ranks)]
        for _ in range(2 * num_layers + 1):
            payload = tokens * 512 * 4
            for rank in range(num_ranks):
                factor = spoilt["pace"] * (strength if rank == slow else 1.0)
                at[rank] += factor * skew[rank] * _segment_us(draw, tokens)
            arrived = [round(time) for time in at]
            noise = draw.lognormvariate(0, 0.2) * (5 if draw.random() < 0.005 else 1)
            left = max(arrived) + round((latency + payload / rate) * noise)
            for rank in range(num_ranks):
                calls[rank].append(["all_reduce", payload, arrived[rank], left])
            at = [float(left)] * num_ranks
        for rank in range(num_ranks):
            ranks[rank]["steps"].append(_step(now, at[rank], running, tokens, calls[rank]))
            ranks[rank]["steps"][-1]["start_us"] += clocks[rank]
            ranks[rank]["steps"][-1]["end_us"] += clocks[rank]
        requests.append({"arrived_us": round(now), "token_us": [round(max(at) + OVERHEAD_US)]})
        now = float(round(max(at) + OVERHEAD_US))
    processor = _processor(draw, num_ranks, slow, strength, foreign)
    return {"ranks": ranks, "requests": requests, "processor": processor}


def _segment_us(draw, tokens):
    """Computing between two collectives: longer with more tokens, and sometimes interrupted."""
    us = 400 * (1 + tokens / 40) * draw.lognormvariate(0, 0.12)
    return us + (draw.expovariate(1 / 1500) if draw.random() < 0.002 else 0)


def _step(start, end, running, tokens, calls):
    return {
        "start_us": round(start),
        "end_us": round(end) + OVERHEAD_US,
        "requests": running,
        "tokens": tokens,
        "collectives": [
            [what, payload, entered - round(start), left - round(start)]
            for what, payload, entered, left in calls
        ],
    }


def _processor(draw, num_ranks, slow, strength, foreign):
    rows, cores = [], []
    for _ in range(20):
        share = [0.99 / (strength if rank == slow else 1) for rank in range(num_ranks)]
        share = [min(own, 1 - foreign.get(rank, 0)) for rank, own in enumerate(share)]
        rows.append([round(own - draw.uniform(0, 0.03), 3) for own in share])
        cores.append(
            [round(min(1, own + foreign.get(rank, 0)), 3) for rank, own in enumerate(share)]
        )
    return {"every_s": 0.1, "ranks": rows, "cores": cores}


def _mean_step(run):
    steps = run["ranks"][0]["steps"]
    return sum(step["end_us"] - step["start_us"] for step in steps) / len(steps)


def started(seed, *, tp_size, world_size, num_kv_heads):
    """What a start-up tells: planned over tp_size ranks, started as engines of world_size."""
    evidence, _ = tensor_parallel(seed, num_ranks=tp_size, num_steps=20, num_layers=2)
    model = _model(2) | {"num_key_value_heads": num_kv_heads}
    evidence["plan"] = evidence["plan"] | {"model": model}
    evidence["healthy"]["plan"] = evidence["plan"]
    evidence["start_up"] = _start_up(tp_size, world_size, num_kv_heads)
    truth = {"cause": "healthy", "where": None, "cost": 0.0}
    if world_size < tp_size:
        for rank in evidence["ranks"]:
            for step in rank["steps"]:
                step["collectives"] = []
        held = sum(process["parameters_bytes"] for process in evidence["start_up"])
        truth = {"cause": "replicas", "where": None, "cost": 1 - 77_000_000 / held}
    elif num_kv_heads < tp_size:
        held = sum(process["kv_cache"]["kv_heads"] for process in evidence["start_up"])
        truth = {"cause": "copied-heads", "where": None, "cost": 1 - num_kv_heads / held}
    return evidence, truth


def in_flight(seed, *, num_stages, num_requests, num_tokens=24):
    """vLLM's pipeline: one token of each request at a time, each through every stage."""
    draw = random.Random(seed)
    ends, free = [0.0] * num_requests, [0.0] * num_stages
    stages, tokens = [[] for _ in range(num_stages)], [[] for _ in range(num_requests)]
    for _ in range(num_tokens):
        for request in range(num_requests):
            at = ends[request]
            for stage in range(num_stages):
                began = max(at, free[stage])
                at = free[stage] = began + 5000 * draw.lognormvariate(0, 0.05)
                stages[stage].append(["execute", round(began), round(at)])
            ends[request] = at
            tokens[request].append(round(at))
    plan = {"tp_size": 1, "pp_size": num_stages, "hosts": 1, "model": _model(num_stages)}
    start_up = [process | {"world_size": num_stages} for process in _start_up(num_stages, 1, 8)]
    evidence = {
        "plan": plan,
        "start_up": start_up,
        "requests": [{"arrived_us": 0, "token_us": times} for times in tokens],
        "stages": stages,
    }
    if num_requests >= num_stages:
        return evidence, {"cause": "healthy", "where": None, "cost": 0.0}
    busy = sum(ended - began for stage in stages for _, began, ended in stage)
    idle = 1 - busy / (num_stages * max(ends))
    return evidence, {"cause": "starved", "where": None, "cost": idle}


def microbatches(seed, *, num_stages, count, slow=None, strength=1.0, stage_us=50_000):
    """Lab 04's pipeline: `count` microbatches through stages, of which one may be slow."""

    def run(strength):
        draw = random.Random(seed)
        done_before, stages = [0.0] * count, []
        for stage in range(num_stages):
            free, rows = 0.0, []
            for number in range(count):
                asked, received = free, max(free, done_before[number])
                factor = strength if stage == slow else 1.0
                free = received + factor * stage_us * draw.lognormvariate(0, 0.01)
                rows.append([round(t) for t in (asked, received, free, free + 100)])
                done_before[number] = free
            stages.append(rows)
        return stages, done_before[-1]

    found, seconds = run(strength)
    _, without = run(1.0)
    plan = {"tp_size": 1, "pp_size": num_stages, "microbatches": count}
    cause = "healthy" if slow is None else "slow-stage"
    return (
        {"plan": plan, "microbatches": found, "healthy": {"plan": plan, "microbatches": run(1)[0]}},
        {"cause": cause, "where": slow, "cost": 1 - without / seconds},
    )


def training(seed, *, num_ranks=2, overlapped, payload=1.0):
    """A step of GEMMs and transfers: the next transfer runs behind a GEMM, or is waited for.

    payload: how much there is to transfer.
    """
    draw = random.Random(seed)

    def run(draw, overlapped):
        spans, waited, total = [], 0.0, 0.0
        for _ in range(num_ranks):
            rows, at = [], 0.0
            for piece in range(16):
                gemm, comm = draw.uniform(3000, 5000), payload * draw.uniform(2000, 4000)
                wait = max(0.0, comm - gemm) + 60 if overlapped else comm
                rows.append(["wait", f"x[{piece}]", round(at), round(at + wait)])
                rows.append(["GEMM", f"y[{piece}]", round(at + wait), round(at + wait + gemm)])
                at, waited = at + wait + gemm, waited + wait
            total += at
            spans.append(rows)
        return spans, waited / total

    plan = {"tp_size": num_ranks, "pp_size": 1, "overlap": True}
    spans, share = run(draw, overlapped)
    usual, usual_share = run(draw, True)
    evidence = {"plan": plan, "spans": spans, "healthy": {"plan": plan, "spans": usual}}
    if overlapped:
        return evidence, {"cause": "healthy", "where": None, "cost": 0.0}
    return evidence, {"cause": "no-overlap", "where": None, "cost": share - usual_share}
