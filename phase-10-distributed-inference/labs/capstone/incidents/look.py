"""What is known of a recorded incident, in the terminal, before anybody has said what it is.

Beside every number of today stands the healthy run's. Times are in ms, medians but where it says.
"""

import statistics

from labkit.table import bytes_text, columns

WIDTH = 64  # letters of a timeline
SYMBOLS = {"computes": "#", "waits": ".", "transfers": "="}


def show(number, evidence):
    """Print the start-up, times beside the healthy run's, shares of cores, and a timeline."""
    print(planned(evidence), *_other_plan(evidence), sep="\n")
    for lines in (_start_up(evidence), _cores(evidence), *_timings(evidence)):
        if lines:
            print("", *lines, sep="\n")
    print("\nYour guess: what is wrong, where, and what does it cost? Then type:")
    print(f"python -m incidents read {number}")


def planned(evidence):
    """The plan in a line, without its model."""
    plan = {key: value for key, value in evidence["plan"].items() if key != "model"}
    return "planned: " + ", ".join(f"{key} {value}" for key, value in plan.items())


def _other_plan(evidence):
    """A line where the healthy run's plan, or its model, is another: what there is otherwise."""
    today, then = (
        run["plan"] | run["plan"].get("model", {}) for run in (evidence, evidence["healthy"])
    )
    other = [f"{key} {then[key]}" for key in then if key != "model" and then[key] != today[key]]
    return [f"the healthy run beside it has {', '.join(other)}"] * bool(other)


def _start_up(evidence):
    """What each process said of itself."""
    said = evidence.get("start_up", [])
    rows = [["process", "rank", "of", "weights", "KV heads", "blocks"]] * bool(said)
    for number, process in enumerate(said):
        cache, weights = process["kv_cache"], bytes_text(process["parameters_bytes"])
        world = (process["rank"], process["world_size"])
        rows.append([number, *world, weights, cache["kv_heads"], cache["blocks"]])
    heads = evidence["plan"].get("model", {}).get("num_key_value_heads")
    has = f"the model has {heads} KV head{'s' * (heads != 1)}"
    return columns(rows, "rrrrrr") + [has] * bool(said)


def _cores(evidence):
    """Mean shares of a core, today and on the healthy day."""
    rows = []
    for day, run in (("today", evidence), ("healthy", evidence["healthy"])):
        watched = run.get("processor", {"ranks": [], "cores": []})
        used, busy = (
            [statistics.fmean(c) for c in zip(*watched[of], strict=True)]
            for of in ("ranks", "cores")
        )
        for rank, share in enumerate(used if busy else []):
            rows.append([day, rank, f"{share:.0%}", f"{busy[rank]:.0%}"])
    return columns([["core of", "rank", "its rank used", "busy"], *rows], "lrrr") if rows else []


def _timings(evidence):
    """Lists of lines: what kind of times there are decides."""
    if "spans" in evidence:
        return _training(evidence)
    if "microbatches" in evidence:
        return _stages(evidence)
    if "stages" in evidence:
        return _served(evidence)
    return _ranks(evidence)


def _ranks(evidence):
    """Compute, wait and transfer of each rank, and one decode step of today."""
    rows = [["day", "rank", "computes", "waits", "transfers", "step", "worst in 100"]]
    for day, run in (("today", evidence), ("healthy", evidence["healthy"])):
        for rank, parts in enumerate(_parts_of_steps(run)):
            middle = [f"{statistics.median(times) / 1e3:.2f}" for times in zip(*parts, strict=True)]
            worst = sorted(sum(part) for part in parts)[int(0.99 * (len(parts) - 1))]
            rows.append([day, rank, *middle, *_whole(parts), f"{worst / 1e3:.2f}"])
    steps = [rank["steps"] for rank in evidence["ranks"]]
    decode = [n for n, step in enumerate(steps[0]) if _decodes(step)]
    at = sorted(decode, key=lambda n: steps[0][n]["end_us"] - steps[0][n]["start_us"])
    chosen = at[len(at) // 2]
    bars = [_bar_of_a_step([of[chosen] for of in steps], rank) for rank in range(len(steps))]
    title = f"one decode step, number {chosen}: " + _legend()
    table = ["decode steps: medians in ms, each column by itself", *columns(rows, "lrrrrrr")]
    table += [f"all steps, prefills included, in the mean: {_means(evidence)} ms"]
    table += [f"on the healthy day: {_means(evidence['healthy'])} ms"]
    return table, [title, *(f"rank {n} {bar}" for n, bar in enumerate(bars))]


def has_collectives(evidence):
    """Whether these ranks are of one engine; engines of their own send each other nothing."""
    return any(step["collectives"] for step in evidence["ranks"][0]["steps"])


def _decodes(step):
    """Whether a step takes in no prompt; engines without collectives do not say their tokens."""
    return step["tokens"] in (None, step["requests"])


def _whole(parts):
    return [f"{statistics.median(sum(part) for part in parts) / 1e3:.2f}"]


def _means(run):
    """A step and its transfers."""
    parts = _parts_of_steps(run, lambda step: True)
    step_us = statistics.fmean(sum(part) for rank in parts for part in rank)
    transfer_us = statistics.fmean(transfer for *_, transfer in parts[0])
    return f"a step {step_us / 1e3:.2f}, its transfers {transfer_us / 1e3:.2f}"


def _parts_of_steps(run, wanted=_decodes):
    """Per rank and step that is wanted: computes, waits, transfers, in us."""
    found = [[] for _ in run["ranks"]]
    for steps in zip(*(rank["steps"] for rank in run["ranks"]), strict=True):
        if not wanted(steps[0]):
            continue
        stays = [[left - came for *_, came, left in step["collectives"]] for step in steps]
        transfer = sum(map(min, zip(*stays, strict=True)))
        for rank, step in enumerate(steps):
            inside = sum(stays[rank])
            computes = step["end_us"] - step["start_us"] - inside
            found[rank].append((computes, inside - transfer, transfer))
    return found


def _bar_of_a_step(steps, rank):
    """A step as letters; each rank's by its own clock."""
    shortest = [
        min(c[3] - c[2] for c in calls)
        for calls in zip(*(s["collectives"] for s in steps), strict=True)
    ]
    spans, step = [], steps[rank]
    for (*_, came, left), transfer in zip(step["collectives"], shortest, strict=True):
        spans += [(came, left - transfer, "waits"), (left - transfer, left, "transfers")]
    longest = max(one["end_us"] - one["start_us"] for one in steps)
    return _bar(spans, 0, longest, step["end_us"] - step["start_us"])


def _bar(spans, begin, end, busy_until=None, blank="#"):
    """(from, to, what) as letters of WIDTH columns; what lasts longest in a column fills it."""
    per, letters = (end - begin) / WIDTH, []
    for column in range(WIDTH):
        low, high = begin + column * per, begin + (column + 1) * per
        shares = {}
        for came, left, what in spans:
            inside = max(0, min(high, left) - max(low, came))
            shares[what] = shares.get(what, 0) + inside
        rest = per - sum(shares.values())
        longest = max(shares, key=shares.get, default=None)
        letter = SYMBOLS.get(longest, longest) if longest and shares[longest] > rest else blank
        letters.append(letter if busy_until is None or low < begin + busy_until else " ")
    return "".join(letters).rstrip()


def _legend():
    return ", ".join(f"{symbol} {what}" for what, symbol in SYMBOLS.items())


def _stages(evidence):
    """Busy time of each stage, and the first microbatches as they went through."""
    rows = [["stage", "busy today, median", "healthy"]]
    both = zip(evidence["microbatches"], evidence["healthy"]["microbatches"], strict=True)
    for stage, runs in enumerate(both):
        busy = [statistics.median(done - had for _, had, done, _ in run) / 1e3 for run in runs]
        rows.append([stage, *(f"{ms:.1f} ms" for ms in busy)])
    shown = [stage[:5] for stage in evidence["microbatches"]]
    end = max(row[2] for stage in shown for row in stage)
    bars = [
        _bar([(had, done, str(n)) for n, (_, had, done, _) in enumerate(stage)], 0, end, blank=" ")
        for stage in shown
    ]
    lines = [f"stage {number} {bar}" for number, bar in enumerate(bars)]
    return columns(rows, "rrr"), [
        f"the first {len(shown[0])} microbatches, each by its number",
        *lines,
    ]


def _served(evidence):
    """When each request was there, and when each stage executed."""
    rows = [["", "requests", "last token", "stages executing"]]
    for day, run in (("today", evidence), ("healthy", evidence["healthy"])):
        end = max(request["token_us"][-1] for request in run["requests"])
        busy = [sum(b - a for what, a, b in st if what == "execute") / end for st in run["stages"]]
        shares = ", ".join(f"{share:.0%}" for share in busy)
        rows.append([day, len(run["requests"]), f"{end / 1e3:.0f} ms", shares])
    end = max(request["token_us"][-1] for request in evidence["requests"])
    lines = ["the whole run: # a request is there, or a stage executes"]
    for number, request in enumerate(evidence["requests"]):
        there = [(request["arrived_us"], request["token_us"][-1], "computes")]
        lines.append(f"request {number:2} {_bar(there, 0, end, blank=' ')}")
    middle, tenth = end / 2, end / 10
    lines.append(f"a tenth of it, from {middle / 1e3:.0f} ms on")
    for number, stage in enumerate(evidence["stages"]):
        executes = [(began, ended, "computes") for what, began, ended in stage if what == "execute"]
        lines.append(f"stage {number:4} {_bar(executes, middle, middle + tenth, blank=' ')}")
    return columns(rows, "lrrl"), lines


def _training(evidence):
    """Of each rank's step, the shares of its lanes, and the step itself."""
    rows = [["step of", "rank", "length", "GEMM", "wait", "issue"]]
    for day, run in (("today", evidence), ("healthy", evidence["healthy"])):
        for rank, spans in enumerate(run["spans"]):
            length = max(span[3] for span in spans) - min(span[2] for span in spans)
            lanes = [
                sum(ended - began for what, _, began, ended in spans if what == lane) / length
                for lane in ("GEMM", "wait", "issue")
            ]
            rows.append([day, rank, f"{length / 1e3:.1f} ms", *(f"{lane:.0%}" for lane in lanes)])
    lines = ["today's step: # multiplies, . waits"]
    kinds = {"GEMM": "computes", "wait": "waits"}
    for rank, spans in enumerate(evidence["spans"]):
        inside = [(began, ended, kinds[what]) for what, _, began, ended in spans if what in kinds]
        begin, end = min(span[2] for span in spans), max(span[3] for span in spans)
        lines.append(f"rank {rank} {_bar(inside, begin, end, blank=' ')}")
    return columns(rows, "lrrrrr"), lines
