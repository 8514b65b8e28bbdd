"""Run a real pipeline and hold its times against makespan_s.

    python measure_pipeline.py                  (needs torch; about a minute and a half)

One process per stage, joined by gloo on this machine. A stage receives an activation, sleeps for
its stage time, and sends the activation on. Sleeping stages need no cores, so p stages do work in
parallel on a laptop; the fill, the drain and the pace of the slowest stage are real. T runs from
the start of the first stage to the end of the last, for several m. If makespan_s is right, a
straight line through T has slope max(stage_s) and intercept sum(stage_s) - max(stage_s).

Writes run.json, provenance.json and figure.svg to out/measure-pipeline of the project, or to --out.
"""

import argparse
import hashlib
import importlib.util
import json
import multiprocessing
import os
import platform
import queue
import random
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from statistics import median

from grid import LoadError, load_implementation

HERE = Path(__file__).parent
MICROBATCHES = (1, 2, 4, 8, 16)
ACTIVATION_BYTES = 8192  # one token of a model with hidden size 4096, 2 bytes per value
GRACE_S = 60  # for starting processes and importing torch


# --- the pipeline ---------------------------------------------------------------------------------


def stage_process(rank, stage_s, plan, folder, results):
    """One stage: for each m in plan, receive, sleep, send, m times over; report when."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    # all ranks are here: no name service, no firewall
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    store = dist.FileStore(str(Path(folder) / "store"), len(stage_s))
    limit = timedelta(seconds=GRACE_S)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=len(stage_s), timeout=limit)
    try:
        times = []
        for m in plan:
            activation = torch.zeros(ACTIVATION_BYTES, dtype=torch.uint8)
            sends = []
            dist.barrier()
            started = time.monotonic()  # one clock for all processes of a machine
            for _ in range(m):
                if rank > 0:
                    dist.recv(activation, src=rank - 1)
                time.sleep(stage_s[rank])
                if rank < len(stage_s) - 1:
                    sends.append(dist.isend(activation, dst=rank + 1))
            times.append((started, time.monotonic()))
            for send in sends:
                send.wait()
        dist.barrier()
        results.put((rank, times))
    finally:
        dist.destroy_process_group()


def run_pipeline(stage_s, plan, grace_s=GRACE_S):
    """Seconds of each m in plan, by processes that are gone when this returns or raises."""
    busiest = sum((sum(stage_s) + (m - 1) * max(stage_s)) for m in plan)
    deadline = time.monotonic() + 3 * busiest + grace_s
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            context.Process(
                target=stage_process, args=(rank, stage_s, plan, folder, results), daemon=True
            )
            for rank in range(len(stage_s))
        ]
        try:
            for process in processes:
                process.start()
            times = {}
            while len(times) < len(processes):
                try:
                    rank, of_rank = results.get(timeout=0.2)
                    times[rank] = of_rank
                except queue.Empty:
                    failed = [p.exitcode for p in processes if p.exitcode]
                    if failed or time.monotonic() > deadline:
                        why = f"a stage ended with {failed[0]}" if failed else "it took too long"
                        raise RuntimeError(f"pipeline of {len(stage_s)} stages: {why}") from None
        finally:
            for process in processes:
                if process.pid:
                    process.join(timeout=5)
                if process.is_alive():
                    process.kill()
                    process.join()
    last = len(stage_s) - 1
    return [times[last][i][1] - times[0][i][0] for i in range(len(plan))]


# --- the line through it --------------------------------------------------------------------------


def fit_line(points):
    """(slope, intercept) of the least-squares line through [(m, seconds), ...]."""
    n = len(points)
    mean_m, mean_t = sum(m for m, _ in points) / n, sum(t for _, t in points) / n
    spread = sum((m - mean_m) ** 2 for m, _ in points)
    slope = sum((m - mean_m) * (t - mean_t) for m, t in points) / spread
    return slope, mean_t - slope * mean_m


def summarise(runs, makespan_s):
    """Per pipeline: the fitted line, the line of makespan_s, and the bubble at the largest m."""
    rows = []
    for run in runs:
        stage_s = [ms / 1000 for ms in run["stage_ms"]]
        medians = [(int(m), median(seconds)) for m, seconds in run["seconds"].items()]
        slope, intercept = fit_line(medians)
        predicted = fit_line([(m, makespan_s(stage_s, m)) for m, _ in medians])
        largest, seconds = max(medians)
        busy = sum(stage_s) * largest / len(stage_s)
        rows.append(
            {
                "stage_ms": run["stage_ms"],
                "slope_ms": round(1000 * slope, 2),
                "slope_predicted_ms": round(1000 * predicted[0], 2),
                "intercept_ms": round(1000 * intercept, 2),
                "intercept_predicted_ms": round(1000 * predicted[1], 2),
                "largest_m": largest,
                "bubble": round(1 - busy / seconds, 4),
                "bubble_predicted": round(1 - busy / makespan_s(stage_s, largest), 4),
            }
        )
    return rows


def table(rows):
    """The summary as text, one line per pipeline."""
    lines = [
        "stages, ms              slope ms (formula)   intercept ms (formula)   bubble (formula)"
    ]
    for row in rows:
        stages = " ".join(f"{ms:g}" for ms in row["stage_ms"])
        lines.append(
            f"{stages:22}  {row['slope_ms']:7.2f} ({row['slope_predicted_ms']:6.2f})   "
            f"{row['intercept_ms']:10.2f} ({row['intercept_predicted_ms']:6.2f})       "
            f"{row['bubble']:6.1%} ({row['bubble_predicted']:5.1%})  at m={row['largest_m']}"
        )
    return "\n".join(lines)


# --- the picture ----------------------------------------------------------------------------------

STYLE = """
.pm text { font: 11px system-ui, sans-serif; fill: currentColor }
.pm .title { font-weight: 600; font-size: 12px }
.pm .mid { text-anchor: middle } .pm .end { text-anchor: end }
.pm .axis { stroke: currentColor; stroke-width: 1; fill: none }
.pm .grid { stroke: var(--lab-line, #767676); stroke-width: .5; stroke-dasharray: 2 3 }
.pm .line { fill: none; stroke-width: 1.5 }
.pm .c0 { --this: var(--lab-c0, #0b62a8) } .pm .c1 { --this: var(--lab-c1, #b04600) }
.pm .c2 { --this: var(--lab-c2, #1b7a3a) } .pm .c3 { --this: var(--lab-c3, #8a2a8f) }
.pm .c4 { --this: var(--lab-c4, #7a5a00) }
.pm .line { stroke: var(--this) } .pm .dot { fill: var(--this) } .pm text.name { fill: var(--this) }
svg.pm:root { background: var(--bg, #fff); color: #1f2328 }
@media (prefers-color-scheme: dark) {
  svg.pm:root { --bg: #0d1117; --lab-c0: #6cb6ff; --lab-c1: #ffa657; --lab-c2: #7ee787;
    --lab-c3: #e0a2ff; --lab-c4: #f2cc60; --lab-line: #8b90a5; color: #e6edf3 }
}
"""


def draw(runs, makespan_s):
    """T against m as SVG: dots are medians, lines are makespan_s; colours follow the page."""
    width, height, left, right, top, bottom = 640, 340, 52, 150, 30, 40
    most_m = max(int(m) for run in runs for m in run["seconds"])
    most_t = 1.08 * max(max(seconds) for run in runs for seconds in run["seconds"].values())

    def at(m, t):
        x = left + (width - left - right) * m / most_m
        return f"{x:.1f}", f"{height - bottom - (height - top - bottom) * t / most_t:.1f}"

    shapes = []
    step = next(
        s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if most_t / s <= 8
    )
    for i in range(int(most_t / step) + 1):
        (x0, y), (x1, _) = at(0, i * step), at(most_m, 0)
        shapes.append(f'<path class="grid" d="M{x0} {y}H{x1}"/>')
        shapes.append(
            f'<text class="end" x="{left - 6}" y="{float(y) + 4:.1f}">{i * step:g}</text>'
        )
    for m in sorted({int(m) for run in runs for m in run["seconds"]}):
        x, y = at(m, 0)
        shapes.append(f'<text class="mid" x="{x}" y="{float(y) + 15:.1f}">{m}</text>')
    (x0, y0), (x1, y1) = at(0, 0), at(most_m, most_t)
    shapes.append(f'<path class="axis" d="M{x0} {y1}V{y0}H{x1}"/>')
    names = []
    for index, run in enumerate(runs):
        stage_s = [ms / 1000 for ms in run["stage_ms"]]
        colour = f"c{index % 5}"
        line = [at(m, makespan_s(stage_s, m)) for m in range(1, most_m + 1)]
        path = "L".join(f"{x} {y}" for x, y in line)
        shapes.append(f'<path class="line {colour}" d="M{path}"/>')
        for m, seconds in run["seconds"].items():
            x, y = at(int(m), median(seconds))
            shapes.append(f'<circle class="dot {colour}" cx="{x}" cy="{y}" r="3.5"/>')
        names.append([float(line[-1][1]), colour, _name(run["stage_ms"])])
    names.sort()
    for above, below in zip(names, names[1:], strict=False):
        below[0] = max(below[0], above[0] + 14)  # labels must not overlap
    for y, colour, name in names:
        shapes.append(
            f'<text class="name {colour}" x="{float(x1) + 8}" y="{y + 4:.1f}">{name}</text>'
        )
    title = "Seconds for m microbatches: dots measured, lines makespan_s"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pm" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{escape(title)}">'
        f'<style>{STYLE}</style>\n<text class="title" x="{left}" y="17">{escape(title)}</text>\n'
        + "\n".join(shapes)
        + f'\n<text class="mid" x="{(left + width - right) / 2:g}" y="{height - 6}">microbatches m'
        + "</text>\n</svg>\n"
    )


def _name(stage_ms):
    if len(set(stage_ms)) == 1:
        return f"p = {len(stage_ms)}, {stage_ms[0]:g} ms each"
    return " ".join(f"{ms:g}" for ms in stage_ms) + " ms"


# --- the record -----------------------------------------------------------------------------------


def provenance(command, out, files):
    """Where the numbers come from: command, versions, hardware, date, commit, hashes."""
    import torch

    git = ["git", "-C", str(HERE), "rev-parse", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "command": command,
        "what": "p processes over gloo on one machine, stages that sleep",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "date": datetime.now(UTC).date().isoformat(),
        "git_commit": commit or None,
        "sha256": {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in files},
    }


def _processor():
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        return next(
            line.split(":")[1].strip() for line in info.splitlines() if "model name" in line
        )
    except (OSError, IndexError):
        return platform.processor() or None


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 4], metavar="P")
    parser.add_argument(
        "--stage-ms", type=float, default=50, help="50 or more keeps overheads small"
    )
    parser.add_argument("--microbatches", type=int, nargs="+", default=MICROBATCHES, metavar="M")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--no-straggler", action="store_true", help="leave out the slow stage")
    parser.add_argument("--out", type=Path, default=HERE.parents[2] / "out" / "measure-pipeline")
    chosen = parser.parse_args(arguments)
    if min(chosen.ranks + list(chosen.microbatches) + [chosen.repeats]) < 1 or chosen.stage_ms <= 0:
        parser.error("ranks, microbatches, repeats and stage-ms must be above 0")
    counts = sorted(set(chosen.microbatches))
    if len(counts) < 2:
        parser.error("give two or more different --microbatches: a line needs two points")
    if importlib.util.find_spec("torch") is None:
        sys.exit("measure_pipeline.py: torch is not installed; run `make measure-pipeline`")
    try:
        makespan_s = load_implementation().makespan_s
        makespan_s([1.0], 1)
    except (ValueError, LoadError, NotImplementedError) as error:
        parser.exit(2, f"measure_pipeline.py: {error}\n")

    pipelines = [[chosen.stage_ms] * p for p in chosen.ranks]
    if not chosen.no_straggler:
        slow = [chosen.stage_ms] * 4
        slow[2] *= 2
        pipelines.append(slow)
    runs, rng = [], random.Random(4)
    for stage_ms in pipelines:
        # all m in every repeat, shuffled: a load that comes and goes must not look like a slope
        plan = [m for _ in range(chosen.repeats) for m in rng.sample(counts, len(counts))]
        seconds = run_pipeline([ms / 1000 for ms in stage_ms], plan)
        of_m = {str(m): [] for m in counts}
        for m, t in zip(plan, seconds, strict=True):
            of_m[str(m)].append(round(t, 6))
        runs.append({"stage_ms": stage_ms, "seconds": of_m})
    rows = summarise(runs, makespan_s)
    print(table(rows))

    chosen.out.mkdir(parents=True, exist_ok=True)
    record = {"activation_bytes": ACTIVATION_BYTES, "runs": runs, "summary": rows}
    (chosen.out / "run.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (chosen.out / "figure.svg").write_text(draw(runs, makespan_s), encoding="utf-8")
    command = " ".join(["python", "measure_pipeline.py", *(arguments or sys.argv[1:])])
    facts = provenance(command, chosen.out, ["run.json", "figure.svg"])
    (chosen.out / "provenance.json").write_text(
        json.dumps(facts, indent=2) + "\n", encoding="utf-8"
    )
    print(f"recorded in {os.path.relpath(chosen.out)}")


if __name__ == "__main__":
    main()
