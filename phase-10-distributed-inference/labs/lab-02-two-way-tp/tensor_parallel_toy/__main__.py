"""python -m tensor_parallel_toy test | profile | mistakes | replay.

The first three also run under torchrun, which then says how many ranks there are.
"""

import argparse
import json
import os
import shlex
import signal
import sys

from labkit.ranks import RanksFailed

from .config import SIZES, ModelConfig
from .launch import in_torchrun, launch, run_rank


def parser():
    root = argparse.ArgumentParser(prog="python -m tensor_parallel_toy", description=__doc__)
    commands = root.add_subparsers(dest="command", required=True)
    test = commands.add_parser("test", help="outputs and gradients against the unsharded model")
    profile = commands.add_parser("profile", help="train every mode; table, JSON, SVG, trace")
    commands.add_parser("replay", help="run schedules from standard input (JSON) on gloo")
    mistakes = commands.add_parser("mistakes", help="which comparison rejects which mistake")
    for command in (test, profile):
        command.add_argument(
            "--link",
            default="auto",
            metavar="LINK",
            help="auto (gloo or NCCL), shm (shared memory, ranks of one host), or simulated:1gbit "
            "(real gloo, paced; no privileges)",
        )
    for command in (test, profile, mistakes):
        command.add_argument("--ranks", type=int, default=2, help="processes (default 2)")
        command.add_argument("--backend", choices=("auto", "gloo", "nccl"), default="auto")
        command.add_argument(
            "--timeout",
            type=float,
            default=60,
            metavar="S",
            help="seconds one communication may take (default 60)",
        )
    profile.add_argument("--dtype", choices=("float32", "float64", "bfloat16"), default="float32")
    profile.add_argument("--steps", type=int, default=20, help="measured steps per mode")
    profile.add_argument(
        "--quiet",
        type=float,
        default=0,
        metavar="SHARE",
        help="repeat a step beside which other programs used more than this share of the "
        "processors (default 0: accept all)",
    )
    profile.add_argument("--out", default="toy-profile", help="folder for the results")
    for size in SIZES:
        flag = "--" + size.replace("_", "-")
        profile.add_argument(flag, type=int, default=getattr(ModelConfig, size))
    profile.add_argument("--bias", action="store_true")
    return root


def main(argv=None):
    options = vars(parser().parse_args(argv))
    command = options.pop("command")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that `launch` can clean up
    os.environ["TOY_ARGUMENTS"] = shlex.join(sys.argv[1:] if argv is None else argv)
    try:
        if command == "replay":
            schedules, target = json.load(sys.stdin), "tensor_parallel_toy.measure.replay:replay"
            ranks = len(next(iter(schedules.values())))
            json.dump(launch(target, ranks, {"schedules": schedules}, limit_s=50), sys.stdout)
            return 0
        ranks, timeout_s = options.pop("ranks"), options.pop("timeout")
        if ranks < 1:
            raise ValueError(f"--ranks {ranks}: at least one rank is needed")
        if timeout_s <= 0 or options.get("steps", 1) < 1:
            raise ValueError("--timeout must be above 0 and --steps at least 1")
        target = {
            "test": "tensor_parallel_toy.equality:report",
            "mistakes": "tensor_parallel_toy.mistakes:kill_table",
            "profile": "tensor_parallel_toy.measure.profile:profile",
        }[command]
        if command == "profile":
            config = {name: options.pop(name) for name in (*SIZES, "dtype", "bias")}
            ModelConfig(**config).check(ranks)
            options["config"] = config
        if in_torchrun():
            results = [run_rank(target, options, timeout_s)]
        else:
            prefix = os.environ.get("TOY_RANK_PREFIX", "")
            results = launch(target, ranks, options, timeout_s, 3600, prefix, echo=True)
        return 0 if results[0].get("ok", True) else 1
    except (RanksFailed, ValueError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
