"""Run a real pipeline and hold its times against makespan_s.

    python measure_pipeline.py                  (needs torch; about a minute and a half)
    python measure_pipeline.py --redraw FOLDER  draw a recorded run's figure again

One process per stage, joined by gloo on this machine; a stage sleeps for its time (labs/live/
sleeping_stages.py). The fill, the drain and the pace of the slowest stage are real. T runs from
the start of the first stage to the end of the last, for several m. If makespan_s is right, a
straight line through T has slope max(stage_s) and intercept sum(stage_s) - max(stage_s).

Writes run.json, provenance.json and figure.svg to out/measure-pipeline of the project, or to --out.
"""

import argparse
import importlib.util
import json
import os
import random
import sys
from pathlib import Path
from statistics import linear_regression, median

from live import sleeping_stages

from labkit.loading import answered_by, load_chosen, run_program
from labkit.provenance import provenance, write_provenance
from labkit.ranks import RanksFailed
from labkit.svg import SERIES, Plot
from labkit.table import columns

HERE = Path(__file__).resolve().parent
MICROBATCHES = (1, 2, 4, 8, 16)


def run_pipeline(stage_s, counts):
    """Seconds of each m in counts. Raises RanksFailed; leaves no process."""
    runs = sleeping_stages.run([(stage_s, m) for m in counts])
    return [stages[-1][-1][2] - stages[0][0][0] for stages in runs]  # first asked, last computed


def measure(pipelines, counts, repeats):
    """Run each pipeline `repeats` times for every m: [{"stage_ms": ..., "seconds": {m: [...]}}]."""
    runs, rng = [], random.Random(4)
    for stage_ms in pipelines:
        # all m in every repeat, shuffled: a load that comes and goes must not look like a slope
        plan = [m for _ in range(repeats) for m in rng.sample(counts, len(counts))]
        of_m = {str(m): [] for m in counts}
        for m, seconds in zip(
            plan, run_pipeline([ms / 1000 for ms in stage_ms], plan), strict=True
        ):
            of_m[str(m)].append(round(seconds, 6))
        runs.append({"stage_ms": stage_ms, "seconds": of_m})
    return runs


def fit_line(points):
    """(slope, intercept) of the least-squares line through [(m, seconds), ...]."""
    return linear_regression(*zip(*points, strict=True))


def medians(run):
    """[(m, median seconds), ...] of one pipeline's run."""
    return [(int(m), median(seconds)) for m, seconds in run["seconds"].items()]


def summarise(runs, makespan_s):
    """Per pipeline: the fitted line, the line of makespan_s, and the bubble at the largest m."""
    rows = []
    for run in runs:
        stage_s = [ms / 1000 for ms in run["stage_ms"]]
        measured = medians(run)
        slope, intercept = fit_line(measured)
        predicted = fit_line([(m, makespan_s(stage_s, m)) for m, _ in measured])
        largest, seconds = max(measured)
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
    """The summary as text, one line per pipeline: each number beside the formula's."""
    lines = [["stages, ms", "slope ms", "formula", "intercept ms", "formula", "bubble", "formula"]]
    for row in rows:
        cells = [" ".join(f"{ms:g}" for ms in row["stage_ms"])]
        for name, style in (("slope_ms", ".2f"), ("intercept_ms", ".2f"), ("bubble", ".1%")):
            formula = name.replace("_ms", "_predicted_ms") if "_ms" in name else f"{name}_predicted"
            cells += [f"{row[name]:{style}}", f"({row[formula]:{style}})"]
        lines.append([*cells, f"at m={row['largest_m']}"])
    return "\n".join(columns(lines, "lrrrrrrl"))


def draw(runs, makespan_s):
    """T against m as an .svg file: dots are medians, lines are makespan_s."""
    counts = sorted({int(m) for run in runs for m in run["seconds"]})
    most_t = 1.08 * max(seconds for run in runs for _, seconds in medians(run))
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 50) if most_t / s <= 8)
    plot = Plot(
        (0, counts[-1]),
        (0, most_t),
        "microbatches m",
        "seconds: dots measured, lines makespan_s",
        [(m, str(m)) for m in counts],
        [(i * step, f"{i * step:g}") for i in range(int(most_t / step) + 1)],
        width=420,
        right=136,
    )
    names = []
    for series, run in enumerate(runs):
        series %= len(SERIES)
        stage_s = [ms / 1000 for ms in run["stage_ms"]]
        line = [makespan_s(stage_s, m) for m in range(1, counts[-1] + 1)]
        plot.curve(range(1, counts[-1] + 1), line, series)
        plot.points(*zip(*medians(run), strict=True), series)
        names.append([plot.y(line[-1]) + 4, _name(run["stage_ms"]), SERIES[series]])
    names.sort()
    for above, below in zip(names, names[1:], strict=False):
        below[0] = max(below[0], above[0] + 16)  # labels must not overlap
    for y, name, colour in names:
        plot.text(plot.right + 10, y, name, colour, "start")
    return plot.standalone(
        "Measured seconds against the number of microbatches lie on the lines of makespan_s, for "
        + "; ".join(name for _, name, _ in names)
    )


def _name(stage_ms):
    if len(set(stage_ms)) == 1:
        return f"p = {len(stage_ms)}, {stage_ms[0]:g} ms each"
    return " ".join(f"{ms:g}" for ms in stage_ms) + " ms"


def redraw(folder, makespan_s):
    """Draw a recorded run's figure again; its provenance says that it was, and holds its hash."""
    runs = json.loads((folder / "run.json").read_text(encoding="utf-8"))["runs"]
    (folder / "figure.svg").write_text(draw(runs, makespan_s), encoding="utf-8")
    path = folder / "provenance.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    command = f"python measure_pipeline.py --redraw {os.path.relpath(folder, HERE)}"
    now = provenance(command, folder, ["figure.svg"])
    what = "figure.svg, from the recorded run.json; nothing was run again"
    facts["redrawn"] = {"what": what} | {key: now[key] for key in ("command", "date", "git_commit")}
    facts["sha256"] |= now["sha256"]
    path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def options(arguments):
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
    parser.add_argument("--redraw", type=Path, metavar="FOLDER", help="measure nothing")
    chosen = parser.parse_args(arguments)
    if min([*chosen.ranks, *chosen.microbatches, chosen.repeats]) < 1 or chosen.stage_ms <= 0:
        parser.error("ranks, microbatches, repeats and stage-ms must be above 0")
    chosen.microbatches = sorted(set(chosen.microbatches))
    if len(chosen.microbatches) < 2:
        parser.error("give two or more different --microbatches: a line needs two points")
    return chosen


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    chosen = options(arguments)
    makespan_s = load_chosen(HERE).makespan_s
    makespan_s([1.0], 1)  # not written yet? then say so before measuring
    print(answered_by(HERE), flush=True)
    if chosen.redraw:
        return redraw(chosen.redraw, makespan_s)
    if importlib.util.find_spec("torch") is None:
        sys.exit("measure_pipeline.py: torch is not installed; run `make measure-pipeline`")

    pipelines = [[chosen.stage_ms] * p for p in chosen.ranks]
    if not chosen.no_straggler:
        slow = [chosen.stage_ms] * 4
        slow[2] *= 2
        pipelines.append(slow)
    try:
        runs = measure(pipelines, chosen.microbatches, chosen.repeats)
    except RanksFailed as error:
        sys.exit(f"measure_pipeline.py: {error}")
    rows = summarise(runs, makespan_s)
    print(table(rows))

    chosen.out.mkdir(parents=True, exist_ok=True)
    record = {"activation_bytes": sleeping_stages.ACTIVATION_BYTES, "runs": runs, "summary": rows}
    (chosen.out / "run.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (chosen.out / "figure.svg").write_text(draw(runs, makespan_s), encoding="utf-8")
    write_provenance(
        " ".join(["python", "measure_pipeline.py", *arguments]),
        chosen.out,
        ["run.json", "figure.svg"],
        packages=("torch",),
        what="p processes over gloo on one machine, stages that sleep",
    )
    print(f"recorded in {os.path.relpath(chosen.out)}")
    return 0


if __name__ == "__main__":
    run_program(main)
