"""What a profile says: profile.json, the table, the pictures, and where they come from."""

import json
import os
from statistics import fmean, median

import torch.distributed as dist

from labkit.provenance import write_provenance

from . import figures, rows, trace
from .modes import DESCRIPTIONS

FILES = ("curves.svg", "profile.json", "timeline.json", "timeline.svg", "trace.json")
PER_STEP = ("loss", "gradient_norm", "step_s", "accepted")
HEADER = (
    *("mode", "loss", "grad norm", "step ms", "middle half", "exposed ms"),
    *("saved MiB", "peak MiB", "sent MiB"),
)
BYTES = ("saved_bytes", "peak_bytes", "sent_bytes")
PEERS = ("DTensor", "DTensor, patient", "plain", "sequential", "overlap, input kept")
# float32: sums in another order, through Adam, over tens of steps
LARGEST_LOSS_GAP = {"float64": 1e-8, "float32": 1e-2}


def link_name(tp):
    if tp.link.name != "gloo":
        return tp.link.name
    on_loopback = os.environ.get("GLOO_SOCKET_IFNAME", "lo") == "lo"
    return os.environ.get("TOY_LINK_NAME") or ("loopback" if on_loopback else "gloo")


def summarize(tp, config, modes, table, records):
    """profile.json: everything the figures and the tables show."""
    result = {
        "ranks": tp.size,
        "backend": dist.get_backend(tp.group),
        "link": link_name(tp),
        "device": str(tp.device),
        "config": vars(config) | {},
        "operations": table,
        "modes": {mode.name: summarize_mode(mode, records) for mode in modes},
        "remainder": [remainder(record["own"]) for record in records],
    }
    return result | bound(result) | compare_losses(result)


def summarize_mode(mode, records):
    steps, only = mode.counted(), mode.name == "compute only"
    seconds = sorted(step["step_s"] for step in steps)
    quarter = len(seconds) // 4
    shown = {name: [step[name] for step in mode.taken] for name in PER_STEP}
    return {
        "what": DESCRIPTIONS[mode.name],
        **(shown | {"loss": [], "gradient_norm": []} if only else shown),
        "median_step_s": median(seconds),
        "spread_s": [seconds[quarter], seconds[-1 - quarter]],
        # DTensor's collectives are not ours to see
        "exposed_s": None if mode.dtensor else median(step["exposed_s"] for step in steps),
        **{kind: [record["bytes"][mode.name][kind] for record in records] for kind in BYTES},
    }


def bound(result):
    """What overlap could reach, and what part of the communication it hides."""
    shown = result["modes"]
    compute, overlap = shown["compute only"], shown["overlap"]
    times = [entry["times_s"] for entry in result["operations"]]
    best = [min(v for name, v in t.items() if name.startswith("overlap")) for t in times]
    alone = sum(t["comm alone"] for t in times)
    comm_s = result["config"]["num_layers"] * alone
    return {
        "comm_alone_s": comm_s,
        "bound_s": max(compute["spread_s"][0], comm_s),
        "hidden_in_step": (comm_s + compute["median_step_s"] - overlap["median_step_s"]) / comm_s,
        "hidden": (alone + sum(t["gemm alone"] for t in times) - sum(best)) / alone,
    }


def remainder(own):
    """Where one rank's time goes between "compute only" and "overlap": seconds that add up.

    own: {mode: per step seconds by activity}. Means over the steps, since medians do not add up.
    """
    alone, step = [mean_by_name(own[mode]) for mode in ("compute only", "overlap")]
    parts = {
        "GEMMs slower than alone": step["gemm"] - alone["gemm"],
        "partial sums added": step.get("add", 0.0),
        "sends and receives issued": step.get("send", 0.0) + step.get("post_recv", 0.0),
        "blocked": step.get("wait", 0.0) + step.get("wait_send", 0.0),
    }
    rest = step["wall"] - alone["wall"] - sum(parts.values())
    on_processor, ready = step["on a processor"], step["ready"]
    return {
        "compute only": alone["wall"],
        "parts": parts | {"everything else slower": rest},
        "overlap": step["wall"],
        "of which": {
            "on a processor": on_processor,
            "ready, but no processor free": ready,
            "asleep": step["wall"] - on_processor - ready,
        },
    }


def mean_by_name(steps):
    return {name: fmean(step.get(name, 0.0) for step in steps) for name in steps[-1]}


def compare_losses(result):
    shown = result["modes"]
    reference = shown["no TP"]["loss"]
    gap = max(
        abs(a - b) / max(abs(b), 1e-3)
        for mode in shown.values()
        if mode["loss"]
        for a, b in zip(mode["loss"], reference, strict=True)
    )
    limit = LARGEST_LOSS_GAP.get(result["config"]["dtype"], 1)
    return {"largest_loss_gap": gap, "losses_coincide": gap < limit}


def print_tables(result):
    """What a profile prints; its numbers are those of the README's tables."""
    shown, ranks, bound_s = result["modes"], result["remainder"], result["bound_s"]
    print_columns([HEADER, *(mode_row(result, name) for name in shown if name != "compute only")])
    step = {name: mode["median_step_s"] for name, mode in shown.items()}
    print(
        f"communication alone {1e3 * result['comm_alone_s']:.1f} ms, compute only "
        f"{1e3 * step['compute only']:.1f} ms (lower quartile "
        f"{1e3 * shown['compute only']['spread_s'][0]:.1f}): overlap can reach "
        f"{1e3 * bound_s:.1f} ms and takes {step['overlap'] / bound_s:.2f} times that "
        f"({step['overlap'] / step['compute only']:.2f} times compute only)"
    )
    ours = [name for name in ("overlap", "overlap, gloo") if name in step]
    ratios = [(mode, peer) for mode in ours for peer in PEERS if peer in step]
    print(", ".join(f"{mode} / {peer} {step[mode] / step[peer]:.2f}" for mode, peer in ratios))
    print(
        f"hidden {result['hidden_in_step']:.2f} of a step's communication, "
        f"{result['hidden']:.2f} of the layers' measured alone"
    )
    print_columns(
        [
            ["where the time goes, ms (means)", *(f"rank {rank}" for rank in range(len(ranks)))],
            *rows.remainder_rows(result["link"], result),
            *(
                [f"  of which {name}", *(f"{1e3 * rank['of which'][name]:.1f}" for rank in ranks)]
                for name in ranks[0]["of which"]
            ),
        ]
    )
    print(
        f"losses of all modes: within {result['largest_loss_gap']:.1e} of no TP"
        + ("" if result["losses_coincide"] else "  THEY DIFFER")
    )


def mode_row(result, name):
    mode = result["modes"][name]
    low, high = mode["spread_s"]
    return [
        name,
        f"{mode['loss'][-1]:.5f}",
        f"{mode['gradient_norm'][-1]:.4f}",
        f"{1e3 * mode['median_step_s']:.1f}",
        f"{1e3 * low:.1f}-{1e3 * high:.1f}",
        "-" if mode["exposed_s"] is None else f"{1e3 * mode['exposed_s']:.1f}",
        *(f"{rows.mib(result, name, kind):.1f}" for kind in BYTES),
    ]


def print_columns(lines):
    """Lines of cells under each other: names to the left, numbers to the right."""
    first, *others = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for name, *cells in lines:
        numbers = [cell.rjust(width) for cell, width in zip(cells, others, strict=True)]
        print("  ".join([name.ljust(first), *numbers]))


def write(folder, result, records):
    """The folder of a profile: what was measured, drawn, and how to make it again."""
    folder.mkdir(parents=True, exist_ok=True)
    runs, steps = [
        {mode: [record[kind][mode] for record in records] for mode in records[0][kind]}
        for kind in ("timeline", "step")
    ]
    trace.write_json(folder / "profile.json", result)
    trace.write_json(folder / "timeline.json", runs)
    draw(folder)
    compact = json.dumps(trace.perfetto(steps), separators=(",", ":"))
    (folder / "trace.json").write_text(compact + "\n")
    arguments = os.environ.get("TOY_ARGUMENTS", "").replace(str(folder), folder.name)
    command = f"python -m tensor_parallel_toy {arguments}".strip()
    what = f"tensor_parallel_toy profile, {result['ranks']} ranks, {result['backend']}"
    write_provenance(
        os.environ.get("TOY_WRAPPER", "") + command,
        folder,
        FILES,
        packages=("torch",),
        what=f"{what}, link: {result['link']}",
    )
    return folder


def draw(folder):
    """The two pictures, from the two files."""
    result, runs = [
        json.loads((folder / name).read_text()) for name in ("profile.json", "timeline.json")
    ]
    (folder / "curves.svg").write_text(figures.curves(result))
    title = (
        "One MLP, forward and backward, as recorded: "
        f"{result['ranks']} ranks, {result['backend']}, link {result['link'].split(',')[0]}"
    )
    flights = {mode: trace.with_flights(records) for mode, records in runs.items()}
    drawing, said = figures.timeline(flights, width=960, title=title)
    (folder / "timeline.svg").write_text(drawing.standalone(f"{title}. {said}."))
