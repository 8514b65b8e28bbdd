"""python -m tensor_parallel_toy test | profile | mistakes | replay | draw, from lab 02's folder.

The first three also run under torchrun, which then says how many ranks there are. The forward pass
runs your two schedules (tasks 10 and 11) with LAB_IMPL=starter, those of solution.py without.
"""

import argparse
import importlib.util
import json
import os
import shlex
import signal
import sys
from pathlib import Path

if not __package__:  # python tensor_parallel_toy
    sys.exit("start it from lab 02's folder as a module: python -m tensor_parallel_toy test")
if importlib.util.find_spec("labkit") is None:
    sys.exit("labkit is not found: use the course's .venv/bin/python, which `make torch` makes")

from labkit.loading import answered_by, load_chosen, run_program
from labkit.ranks import RanksFailed

from . import two_timelines
from .config import SIZES, ModelConfig
from .launch import LAB, chosen_schedules, in_torchrun, launch, run_rank
from .stream_machine import ScheduleError

TARGETS = {
    "test": "tensor_parallel_toy.equality:report",
    "mistakes": "tensor_parallel_toy.mistakes:kill_table",
    "profile": "tensor_parallel_toy.bench:profile",
}


def parser():
    root = argparse.ArgumentParser(prog="python -m tensor_parallel_toy", description=__doc__)
    commands = root.add_subparsers(dest="command", required=True)
    test = commands.add_parser("test", help="outputs and gradients against the unsharded model")
    profile = commands.add_parser("profile", help="train every mode; bars, curves, Perfetto trace")
    commands.add_parser("replay", help="run schedules from standard input (JSON) on gloo")
    mistakes = commands.add_parser("mistakes", help="which comparison rejects which mistake")
    draw = commands.add_parser("draw", help="your schedules beside a pipeline's, as SVG; no Torch")
    draw.add_argument("--gemm", type=float, default=1, help="units that a chunk's GEMM takes")
    draw.add_argument("--comm", type=float, default=1, help="units that its transfer takes")
    draw.add_argument("--out", default="toy-schedules", help="folder for the two files")
    draw.add_argument("--ranks", type=int, default=3, help="ranks to be drawn (default 3)")
    for command in (test, profile, mistakes):
        command.add_argument("--ranks", type=int, default=2, help="processes (default 2)")
        command.add_argument("--backend", choices=("auto", "gloo", "nccl"), default="auto")
        command.add_argument("--timeout", type=float, default=60, metavar="S",
                             help="seconds one communication may take (default 60)")  # fmt: skip
    for command in (test, profile):
        command.add_argument("--link", default="auto", metavar="LINK",
                             help="gloo or NCCL (auto), or simulated:1gbit")  # fmt: skip
    profile.add_argument("--steps", type=int, default=8, help="measured steps per mode")
    profile.add_argument("--details", action="store_true", help="print a table of all modes too")
    profile.add_argument("--out", default="toy-profile", help="folder for the results")
    profile.add_argument("--dtype", choices=("float32", "float64", "bfloat16"), default="float32")
    for size in SIZES:
        flag = "--" + size.replace("_", "-")
        profile.add_argument(flag, type=int, default=getattr(ModelConfig, size))
    profile.add_argument("--bias", action="store_true")
    return root


def main(argv=None):
    options = vars(parser().parse_args(argv))
    command = options.pop("command")
    if command == "draw":
        return draw_schedules(**options)
    if importlib.util.find_spec("torch") is None:
        sys.exit("tensor_parallel_toy needs Torch: `make torch` installs it into .venv")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that `launch` can clean up
    os.environ["TOY_ARGUMENTS"] = shlex.join(sys.argv[1:] if argv is None else argv)
    try:
        if command == "replay":
            schedules, target = json.load(sys.stdin), "tensor_parallel_toy.replay:replay"
            ranks = len(next(iter(schedules.values())))
            json.dump(launch(target, ranks, {"schedules": schedules}, limit_s=50), sys.stdout)
            return 0
        return run(command, options)
    except json.JSONDecodeError as error:
        sys.exit(f"replay reads {{problem: a list of operations per rank}} as JSON: {error}")
    except (RanksFailed, ScheduleError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1


def draw_schedules(ranks, gemm, comm, out):
    """Both of the learner's schedules: in the terminal, and a file for each."""
    print(answered_by(LAB))
    lab = load_chosen(LAB)
    for problem in ("all_gather_gemm", "gemm_reduce_scatter"):
        own = getattr(lab, f"{problem}_schedule")
        schedules = [own(ranks, rank) for rank in range(ranks)]
        path = Path(out) / f"{problem}.svg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(two_timelines.svg(schedules, problem, gemm, comm), encoding="utf-8")
        print(f"\n{problem}, drawn in {path}", two_timelines.text(schedules, problem, gemm, comm),
              sep="\n")  # fmt: skip
    return 0


def run(command, options):
    ranks, timeout_s = options.pop("ranks"), options.pop("timeout")
    if ranks < 1:
        raise ValueError(f"--ranks {ranks}: at least one rank is needed")
    if timeout_s <= 0 or options.get("steps", 1) < 1:
        raise ValueError("--timeout must be above 0 and --steps at least 1")
    if command == "profile":
        config = {name: options.pop(name) for name in (*SIZES, "dtype", "bias")}
        ModelConfig(**config).check(ranks)
        options["config"] = config
    if os.environ.get("RANK", "0") == "0":
        print(answered_by(LAB), flush=True)
    # A wrong schedule is a sentence here, and a hang between ranks.
    options["chosen"] = bool(chosen_schedules(ranks))
    if not in_torchrun():
        results = launch(TARGETS[command], ranks, options, timeout_s, 3600, echo=True)
        return 0 if results[0].get("ok", True) else 1
    result = run_rank(TARGETS[command], options, timeout_s)
    sys.stdout.flush()
    # Torch's threads, when the interpreter ends in order, abort it now and then ("terminate called
    # without an active exception"), and torchrun would call a run failed that was right.
    os._exit(0 if result.get("ok", True) else 1)


if __name__ == "__main__":
    run_program(main)
