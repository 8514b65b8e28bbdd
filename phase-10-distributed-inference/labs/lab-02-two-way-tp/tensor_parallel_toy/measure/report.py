"""What a profile says: profile.json, the table, the pictures, and where they come from."""

import json
import os
from statistics import fmean, median

import torch.distributed as dist

from labkit.provenance import write_provenance

from . import figures, trace
from .modes import DESCRIPTIONS

FILES = ("curves.svg", "profile.json", "timeline.json", "timeline.svg", "trace.json")
# float32: sums in another order, through Adam, over tens of steps
LARGEST_LOSS_GAP = {"float64": 1e-8, "float32": 1e-2}


def link_name(tp):
    if tp.link.name != "gloo":
        return tp.link.name
    return os.environ.get("TOY_LINK_NAME") or ("loopback" if on_loopback() else "gloo")


def on_loopback():
    return os.environ.get("GLOO_SOCKET_IFNAME", "lo") == "lo"


def summarize(tp, config, modes, table, records, blocked, warm_up):
    """profile.json: everything the figures and the table show."""
    result = {
        "ranks": tp.size,
        "backend": dist.get_backend(tp.group),
        "link": link_name(tp),
        "device": str(tp.device),
        "config": vars(config) | {},
        "operations": table,
        "comm_alone_s": config.num_layers * sum(entry["times_s"]["comm alone"] for entry in table),
        "modes": {mode.name: summarize_mode(tp, mode, records, warm_up) for mode in modes},
    }
    for name, seconds in blocked.items():
        result["modes"][name]["exposed_s"] = seconds
    result["remainder"] = [remainder(record["own"]) for record in records]
    return result | bound(result) | compare_losses(result)


def summarize_mode(tp, mode, records, warm_up):
    steps, only = mode.steps(warm_up), mode.name == "compute only"
    seconds = sorted(mode.step_s[i] for i in steps)
    quarter = len(seconds) // 4
    return {
        "what": DESCRIPTIONS[mode.name],
        "loss": [] if only else mode.loss,
        "gradient_norm": [] if only else mode.norm,
        "step_s": mode.step_s,
        "accepted": mode.accepted,
        "foreign_share": mode.foreign,
        "median_step_s": median(seconds),
        "spread_s": [seconds[quarter], seconds[-1 - quarter]],
        "exposed_s": median(mode.exposed_s[i] for i in steps),
        "gemm_s": median(mode.gemm_s[i] for i in steps),
        "saved_bytes": [record["memory"][mode.name]["saved_bytes"] for record in records],
        "peak_bytes": [record["memory"][mode.name]["peak_bytes"] for record in records],
        "sent_bytes": [record["sent"][mode.name][-1] for record in records],
        # loopback counts the bytes of all ranks
        "wire_bytes": median(mode.wire_bytes) / (tp.size if on_loopback() else 1),
    }


def bound(result):
    """What overlap could reach, and what part of the communication it hides."""
    shown, comm_s = result["modes"], result["comm_alone_s"]
    compute, overlap = shown["compute only"], shown["overlap"]
    times = [entry["times_s"] for entry in result["operations"]]
    best = [min(v for name, v in t.items() if name.startswith("overlap")) for t in times]
    alone = sum(t["comm alone"] for t in times)
    return {
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
        "other threads on a processor": step["all threads"] - on_processor,
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


def print_table(result):
    print(
        f"{'mode':19} {'loss':>9} {'grad norm':>9} {'step ms':>8} {'middle half':>15} "
        f"{'exposed ms':>10} {'saved MiB':>9} {'peak MiB':>8} {'sent MiB':>8} {'on card':>8}"
    )
    for name, mode in result["modes"].items():
        if name == "compute only":
            continue
        low, high = mode["spread_s"]
        print(
            f"{name:19} {mode['loss'][-1]:9.5f} {mode['gradient_norm'][-1]:9.4f} "
            f"{1e3 * mode['median_step_s']:8.1f} {1e3 * low:7.1f}-{1e3 * high:7.1f} "
            f"{1e3 * mode['exposed_s']:10.1f} "
            f"{max(mode['saved_bytes']) / 2**20:9.1f} {max(mode['peak_bytes']) / 2**20:8.1f} "
            f"{max(mode['sent_bytes']) / 2**20:8.1f} {mode['wire_bytes'] / 2**20:8.1f}"
        )
    shown, bound_s = result["modes"], result["bound_s"]
    step = {name: mode["median_step_s"] for name, mode in shown.items()}
    print(
        f"communication alone {1e3 * result['comm_alone_s']:.1f} ms, compute only "
        f"{1e3 * step['compute only']:.1f} ms (lower quartile "
        f"{1e3 * shown['compute only']['spread_s'][0]:.1f}): overlap can reach "
        f"{1e3 * bound_s:.1f} ms and takes {step['overlap'] / bound_s:.2f} times that "
        f"({step['overlap'] / step['compute only']:.2f} times compute only)"
    )
    print(", ".join(ratios(step)))
    print(
        f"hidden {result['hidden_in_step']:.2f} of a step's communication, "
        f"{result['hidden']:.2f} of the layers' measured alone"
    )
    print_remainder(result["remainder"])
    print(
        f"losses of all modes: within {result['largest_loss_gap']:.1e} of no TP"
        + ("" if result["losses_coincide"] else "  THEY DIFFER")
    )


def ratios(step):
    """Overlap against its peers, and against DTensor over DTensor's own wire."""
    peers = ("DTensor", "DTensor, patient", "plain", "sequential", "overlap, input kept")
    over_gloo = [("overlap, gloo", peer) for peer in ("DTensor", "DTensor, patient")]
    return [
        f"{mode} / {peer} {step[mode] / step[peer]:.2f}"
        for mode, peer in [*(("overlap", peer) for peer in peers), *over_gloo]
        if mode in step and peer in step
    ]


def print_remainder(ranks):
    def row(name, values):
        print(f"{name:36}" + "".join(f"{1e3 * value:9.1f}" for value in values))

    print(
        f"{'where the time goes, ms (means)':36}"
        + "".join(f"   rank {rank}" for rank in range(len(ranks)))
    )
    row("  compute only", [rank["compute only"] for rank in ranks])
    for name in ranks[0]["parts"]:
        row(f"+ {name}", [rank["parts"][name] for rank in ranks])
    row("= overlap", [rank["overlap"] for rank in ranks])
    for name in ranks[0]["of which"]:
        row(f"  of which {name}", [rank["of which"][name] for rank in ranks])
    name = "other threads on a processor"
    row(f"  beside it {name}", [rank[name] for rank in ranks])


def write(folder, result, records):
    """The folder of a profile: what was measured, drawn, and how to make it again."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = {
        name: [record["timeline"][name][1] for record in records] for name in records[0]["timeline"]
    }
    trace.write_json(folder / "profile.json", result)
    trace.write_json(folder / "timeline.json", runs)
    draw(folder)
    steps = {name: [record["step"][name] for record in records] for name in records[0]["step"]}
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
