"""An engine's processes, and the path of one token through two of them."""

import math
import re
from statistics import median

from incidents import simulated
from labbook.labs import capture, fact, facts, model, solution

from labkit.svg import SERIES, Drawing

from .cost import achieved
from .panels import WIDTH, bar, key


def process_tree(log="lab-02/captures/tp2-engine/engine.log"):
    """The processes of one engine on two ranks, with the ids that a recorded start-up printed."""
    text = capture(log)
    pids = {
        name: re.search(rf"\({name} pid=(\d+)\)", text)[1]
        for name in ("MainProcess", "EngineCore", "Worker_TP0", "Worker_TP1")
    }
    d = Drawing(WIDTH, 380)

    def process(x, y, name, what, pid, fill):
        d.rect(x, y, 180, 62, fill, "box", 6)
        d.text(x + 90, y + 20, name, "bg", size=14, extra="bold")
        d.text(x + 90, y + 37, what, "bg", size=13)
        d.text(x + 90, y + 54, f"pid {pids[pid]}", "bg", size=13)

    process(120, 8, "front end", "requests, text, tokens", "MainProcess", "c4")
    process(120, 122, "EngineCore", "scheduler, KV blocks", "EngineCore", "c3")
    process(6, 260, "Worker_TP0", "half of the model", "Worker_TP0", SERIES[0])
    process(234, 260, "Worker_TP1", "half of the model", "Worker_TP1", SERIES[1])
    d.line([(210, 70), (210, 121)], "muted", "arrow")
    d.text(218, 100, "sockets", "muted", "start", 13)
    d.line([(180, 184), (110, 259)], "muted", "arrow")
    d.line([(240, 184), (310, 259)], "muted", "arrow")
    d.text(210, 222, "notes in", "muted", size=13)
    d.text(210, 238, "shared memory", "muted", size=13)
    d.line([(187, 291), (233, 291)], "c2", "thick")
    d.text(210, 346, "collectives: kernels or NCCL on GPUs, shared memory here", "c2", size=13)
    d.text(210, 366, "four processes; every arrow crosses from one to another", "muted", size=13)
    alt = (
        "Four processes. The front end takes requests and hands them to EngineCore over sockets. "
        "EngineCore schedules and writes notes into shared memory, which both workers read. "
        "The two workers hold half of the model each and meet in collectives."
    )
    return d.figure(alt, "The process ids are those of the capture tp2-engine: four, not two.")


def read_us(tp=2):
    """{layer's short name: microseconds in which a rank reads its part} of our 8B model."""
    lab02, shape, (rate, _) = solution("lab-02"), model("llama-3.1-8b"), achieved("H100")
    return {
        parameter["name"].removesuffix(".weight").rpartition(".")[2]: shape["dtype_bytes"]
        * math.prod(lab02.rank_shape(parameter, shape, tp))
        / rate
        * 1e6
        for parameter in lab02.parameters(shape)
        if len(parameter["shape"]) == 2
    }


STEPS = (  # module, what it does on a rank, where the ranks meet
    ("embed_tokens", "each rank has its own rows", "all-reduce"),
    ("qkv_proj", "column-parallel: the heads of this rank", ""),
    ("attention", "its heads, its half of the KV cache", ""),
    ("o_proj", "row-parallel: a partial sum", "all-reduce"),
    ("gate_up_proj", "column-parallel: half of the columns", ""),
    ("down_proj", "row-parallel: a partial sum", "all-reduce"),
    ("lm_head", "scores of its own rows", "all-gather"),
    ("sampler", "both choose the same token; rank 0 answers", ""),
)


def token_path():
    """One decode step on two ranks of vLLM, where they meet, and how long each part takes."""
    took = {**read_us(), "embed_tokens": None}  # of the embedding a token reads one row
    message = fact("cus0231")  # measured: one-shot on two H100s, 8 KiB
    engine = facts()["cus0231"]["setting"]["engine"].replace("vllm", "vLLM")
    row, top = 60, 92
    d = Drawing(WIDTH, top + row * len(STEPS) + 4)
    d.rect(96, 6, 318, 30, "c3", "box", 5)
    d.text(255, 26, "EngineCore: notes for all ranks", "bg", size=14, extra="bold")
    for rank, x in ((0, 166), (1, 344)):
        d.line([(x, 36), (x, 60)], "muted", "arrow")
        d.text(x, 80, f"rank {rank}", f"c{rank}", size=14, extra="bold")
    for i, (name, what, meet) in enumerate(STEPS):
        y = top + i * row
        for rank, x in ((0, 96), (1, 274)):
            d.rect(x, y, 140, 30, SERIES[rank], "box", 5)
            shown = f"{name}  {took[name]:.1f}" if took.get(name) else name
            d.text(x + 70, y + 20, shown, "bg", size=13, extra="bold")
        if meet:
            d.line([(237, y + 15), (273, y + 15)], "c2", "thick")
        meeting = f"{meet} {message:.1f}" if meet == "all-reduce" else meet
        said = f"{meeting}: {what}" if meet else what
        d.text(255, y + 47, said, "c2" if meet else "muted", size=13)
    first, last = top + row - 4, top + 5 * row + 54
    d.line([(88, first), (78, first), (78, last), (88, last)], "muted", "thin")
    d.text(70, (first + last) / 2 - 6, "every", "muted", "end", 13)
    d.text(70, (first + last) / 2 + 10, "layer", "muted", "end", 13)
    alt = (
        "One decode step on two ranks. EngineCore, a process of its own, sends notes. Both "
        "ranks look up embeddings and all-reduce. In every layer they run their own heads and meet "
        "in an all-reduce after o_proj, run their half of the MLP and meet in an all-reduce after "
        "down_proj. The logits are all-gathered, both ranks sample, and rank 0 answers. "
        + ", ".join(f"{name} takes {us:.1f} µs" for name, us in took.items() if us)
        + f"; an all-reduce {message:.1f} µs."
    )
    return d.figure(
        alt,
        "Green: the only places where the ranks meet. Numbers: microseconds of our model's step at "
        "batch 1, to read a rank's half of a matrix, or of an all-reduce measured with "
        f"{engine}'s own kernel (below), launched as engines do (lab 03).",
    )


def messages_of_a_step(name="lab-02/captures/tp2/report.json"):
    """What crosses in a prefill and in a decode step of the recorded toy, in the order made."""
    report = capture(name)
    layers, prompts = report["config"]["num_hidden_layers"], report["prompts"]
    left, wide, tall = 10, 40, 56
    d, said = Drawing(WIDTH, 238), []
    titles = f"prefill, {sum(map(len, prompts))} tokens", f"decode, {len(prompts)} tokens"
    steps = report["ranks"][0]["steps_together"]
    most = max(total / n for n, total in steps[0].values())
    for row, (title, made) in enumerate(zip(titles, steps, strict=False)):
        floor = 88 + row * 88
        (sums, summed), (joins, joined) = made["all_reduce"], made["all_gather"]
        d.text(left, floor - tall - 12, title, "fg", "start", 14, "bold")
        told = f"{sums} x {summed // sums:,} and {joined // joins:,} bytes"
        d.text(WIDTH - 10, floor - tall - 12, told, "muted", "end", 13)
        for k in range(sums + joins):
            size = summed / sums if k < sums else joined / joins
            d.rect(left + k * wide, floor - size / most * tall, wide - 6, size / most * tall,
                   "c2" if k < sums else "c3")  # fmt: skip
        d.line([(left, floor), (left + wide * (sums + joins) - 6, floor)], "muted", "thin")
        said.append(f"{title}: {sums} all-reduces of {summed // sums:,} bytes and {joins} "
                    f"all-gather of {joined // joins:,}")  # fmt: skip
    places = ["emb."] + [f"layer {n}" for n in range(layers)] + ["logits"]
    x = left
    for place in places:
        width = 2 * wide if place.startswith("layer") else wide
        d.text(x + width / 2 - 3, 194, place, "muted")
        x += width
    key(d, 208, {"all-reduce": "c2", "all-gather": "c3"})
    return d.figure(
        "What crosses in a step, in order: the embedding, two per layer, the logits. "
        + "; ".join(said) + ".",
        "The messages of two recorded steps, two requests together: one for the embedding, two in "
        "each layer (after attention and after the MLP), one for the logits.",
    )  # fmt: skip


def lanes(ranks, right, last):
    """A drawing with a lane for each rank; ranks: [[(length, colour, label), ...], ...].

    right: the longest lane. last: what its last part, in green, is called.
    """
    left, lane = 62, 28
    bottom = 8 + lane * len(ranks)
    d = Drawing(WIDTH, bottom + 54)
    for rank, parts in enumerate(ranks):
        y = 8 + rank * lane
        d.text(left - 8, y + 17, f"rank {rank}", "muted", "end", 13)
        bar(d, left, y, 24, parts, (WIDTH - left - 8) / right)
    key(
        d, bottom + 6, {"computing": "c0", "computing, slowly": "c3", "waiting": "idle", last: "c2"}
    )
    return d


def lockstep(slow=1.5, num_ranks=4, rounds=3, message=0.3):
    """Four ranks meet at every all-reduce; one computes longer, so the others wait."""
    step, healthy = slow + message, 1 + message
    usual = [(1.0, "c0", ""), (slow - 1.0, "idle", ""), (message, "c2", "")] * rounds
    ranks = [usual] * num_ranks
    ranks[2] = [(slow, "c3", ""), (message, "c2", "")] * rounds
    return lanes(ranks, rounds * step, "all-reduce").figure(
        f"{num_ranks} ranks in {rounds} rounds of computing and an all-reduce. The others wait for "
        "rank 2 in every round.",
        f"Rank 2 computes {slow:g} times as long, and every rank's round takes "
        f"{step / healthy:.2f} times as long. All lanes are equally long: the one without "
        "grey is slow.",
    )


def tuesday_parts():
    """{day: (computing, waiting per rank; transfer), median ms} of eight simulated ranks."""
    run, _ = simulated.tensor_parallel(
        7, num_ranks=8, num_steps=200, cause="slow-rank", slow=5, strength=1.9
    )
    found = {}
    for day, evidence in (("healthy", run["healthy"]), ("today", run)):
        parts = solution("capstone").decompose(evidence)
        both = [[median(of) / 1e3 for of in parts[name]] for name in ("compute_us", "wait_us")]
        found[day] = (*both, median(sum(step) for step in parts["transfer_us"]) / 1e3)
    return found


def tuesday():
    """One decode step on each of eight ranks: computing, waiting and transfer."""
    computing, waiting, transfer = tuesday_parts()["today"]
    ranks, said = [], []
    for rank, (own, wait) in enumerate(zip(computing, waiting, strict=True)):
        parts = ((own, "c3" if own == max(computing) else "c0"), (wait, "idle"), (transfer, "c2"))
        ranks.append([(size, fill, f"{size:.1f}") for size, fill in parts])
        said.append(f"rank {rank} computes {own:.1f} and waits {wait:.1f}")
    longest = max(own + wait for own, wait in zip(computing, waiting, strict=True)) + transfer
    return lanes(ranks, longest, "transfer").figure(
        f"Median milliseconds of a decode step: {'; '.join(said)}. "
        f"Transfer takes {transfer:.1f} on all.",
        "A decode step of eight ranks, in milliseconds, from the lab's simulator. Every bar is as "
        "long as the next, and every monitor shows full load.",
    )


TELLING = {  # what a start-up's lines of evidence are, in the order of its log
    "V1 LLM engine": "settings asked for",
    "DP group leader": "size of the world",
    "world_size=2 rank": "a rank reports",
    "is assigned as": "its place",
    "to load model": "it loads its shard",
    "Explicitly": "its memory for the cache",
    "KV cache size": "tokens that fit",
}


def evidence(log):
    """{number of a line: what it tells} of a start-up's lines that are evidence."""
    return {
        number: what
        for number, line in enumerate(log.splitlines())
        for sign, what in TELLING.items()
        if sign in line
    }


def annotated_log():
    """A start-up's log as strips, one a line: grey is noise, and evidence says what it tells."""
    log = capture("lab-02/captures/tp2-engine/engine.log")
    told, lines, step = evidence(log), log.splitlines(), 5
    d, free, last = Drawing(300, step * len(lines) + 24), 0.0, ""
    scale = 90 / max(map(len, lines))
    for number, line in enumerate(lines):
        y, what = 8 + step * number, told.get(number)
        d.rect(8, y, max(4, min(len(line) * scale * 3, 90)), 3.5, "c1" if what else "idle")
        if what and what != last:
            free = max(free + 17, y + 6)  # labels stand below each other
            d.line([(102, y + 2), (116, free - 4)], "c1", "thin")
            d.text(120, free, what, "fg", "start", 13)
            last = what
    return d.figure(
        f"{len(lines)} lines of a log as strips; {len(told)} are evidence, from top to bottom: "
        + ", ".join(dict.fromkeys(told.values())) + ".",
        "Most of a start-up's log is noise. Each strip is a line of the recorded start.",
    )  # fmt: skip
