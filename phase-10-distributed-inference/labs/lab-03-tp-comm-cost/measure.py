"""Measure all-reduces on this machine, fit c, a and busbw to three of them, and draw the rest.

`make measure-comm`, or `python measure.py --out DIR`. Gloo over local processes; NCCL, one process
per GPU, where there are two GPUs or more. It writes measurements.json, plot.svg and provenance.json
into DIR. The processes meet through a file in a temporary folder, so no port is fixed; whatever
happens, they are gone when this program ends.
"""

import argparse
import datetime
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import calibration_table
from loglog import picture
from share_table import HERE

from labkit.loading import load_and_say, run_program
from labkit.provenance import write_provenance
from labkit.ranks import RanksFailed, run_processes
from labkit.table import bytes_text, columns, seconds_text

KiB, MiB = 1024, 1024**2
SIZES = [KiB * 4**step for step in range(9)]  # 1 KiB to 64 MiB
# Each batch is a few calls back to back. The fastest counts: whatever else the machine does only
# adds to it. The median and the slowest are recorded beside it.
BATCHES = 15
BATCH_S = 0.02  # about how long a batch takes, once the time of a call is known
MAX_CALLS = 200


def run_rank(rank, num_ranks, backend, folder, sizes, deadline_s):
    """One process: time every payload; rank 0 writes [[bytes, [seconds per call, ...]], ...]."""
    import torch  # here, so that the rest of the lab needs numpy alone
    import torch.distributed as dist

    torch.set_num_threads(1)
    if backend == "gloo":  # all ranks are here: no name service, no firewall
        loopback = "lo0" if sys.platform == "darwin" else "lo"
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    if backend == "nccl":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        backend,
        init_method=f"file://{folder}/meet-{num_ranks}",
        rank=rank,
        world_size=num_ranks,
        timeout=datetime.timedelta(seconds=deadline_s),
    )
    try:
        found = [(size, time_payload(size, rank, backend)) for size in sizes]
        if rank == 0:
            (folder / "times.json").write_text(json.dumps(found))
        dist.barrier()
    finally:
        dist.destroy_process_group()


def time_payload(size, rank, backend):
    """Seconds per call of each of BATCHES batches of all-reduces: the slowest rank's."""
    import torch
    import torch.distributed as dist

    device = f"cuda:{rank}" if backend == "nccl" else "cpu"
    finish = torch.cuda.synchronize if backend == "nccl" else lambda: None
    buffer = torch.zeros(size // 4, dtype=torch.float32, device=device)

    def batch_s(calls):
        dist.barrier()
        finish()
        start = time.perf_counter()
        for _ in range(calls):
            dist.all_reduce(buffer)
        finish()
        mine = (time.perf_counter() - start) / calls
        slowest = torch.tensor([mine], dtype=torch.float64, device=device)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)  # all ranks then make as many calls
        return slowest.item()

    batch_s(2)  # the first calls set up connections and touch the memory
    calls = max(1, min(MAX_CALLS, int(BATCH_S / batch_s(2))))
    return [batch_s(calls) for _ in range(BATCHES)]


def measure(num_ranks, backend, sizes=SIZES, deadline_s=240):
    """[[bytes, [seconds per call, ...]], ...] over num_ranks processes of this machine.

    RuntimeError when a process fails or the deadline passes; no process is left behind.
    """
    with tempfile.TemporaryDirectory() as folder:
        job = {"num_ranks": num_ranks, "backend": backend, "folder": folder}
        job |= {"sizes": list(sizes), "deadline_s": deadline_s}
        words = [["--rank", json.dumps(job | {"rank": rank})] for rank in range(num_ranks)]
        try:
            run_processes(__file__, words, folder, timeout_s=deadline_s)
        except RanksFailed as error:
            raise RuntimeError(f"{backend} over {num_ranks} processes:\n{error}") from None
        return json.loads((Path(folder) / "times.json").read_text())


def fit(lab, table, protocols):
    """({ranks: (c, a, busbw)}, a sentence when c and a could not be told apart, or "").

    Given to the fit: the smallest payload of the first and the last rank count, and each one's
    largest. Latency that is not linear in the hops (more processes than processors take turns), or
    a single rank count: each is then fitted alone, with all of its latency in c.
    """
    small, large = min(table[min(table)]), max(table[min(table)])
    reason = "one rank count cannot tell c from a"
    if len(table) > 1:
        joint = calibration_table.fit(lab, table, protocols)
        misses = [
            abs(lab.predict_all_reduce_s(p, small, *joint[p], protocols) / table[p][small] - 1)
            for p in (min(table), max(table))
        ]
        if max(misses) < 0.1:
            return joint, ""
        reason = f"no c and a, both at least 0, meet the given points (off by {max(misses):.0%})"
    alone = {}
    for ranks, times in table.items():
        rest_s = times[large] - times[small]
        busbw = lab.bus_bandwidth("all_reduce", ranks, large, rest_s)
        alone[ranks] = (times[small], 0.0, busbw)
    return alone, f"{reason}: each rank count is fitted alone, its latency all in c"


def report(lab, table, constants, protocols):
    """The text: per rank count the constants, and each payload measured and predicted."""
    rows, unseen = [["ranks", "payload", "measured", "predicted", "error", ""]], []
    for ranks, times in table.items():
        c_s, a_s, busbw = constants[ranks]
        fitted = f"c {seconds_text(c_s)}, a {seconds_text(a_s)}, busbw {busbw / 1e9:.2f} GB/s"
        for size, seconds in times.items():
            predicted = lab.predict_all_reduce_s(ranks, size, c_s, a_s, busbw, protocols)
            given = size in (min(times), max(times))
            unseen += [] if given else [(size, predicted, seconds)]
            shown = bytes_text(size), seconds_text(seconds), seconds_text(predicted)
            note = "given" * given + (f": {fitted}" if size == min(times) else "")
            rows.append([ranks, *shown, f"{predicted / seconds - 1:+.0%}", note])
    lines = columns(rows, "rrrrrl")
    for name, errors in calibration_table.errors_by_class(unseen).items():
        if errors:
            lines.append(f"median |error|, payloads {name}: {median(map(abs, errors)):.0%}")
    return "\n".join(lines)


def off_the_line(lab, runs, constants, protocols):
    """The sentence that names the worst of the sizes which the line misses by more than their own
    repeats differ (half of the batches lie between the fastest and the median), or ""."""
    worst, sentence = 0.0, ""
    for ranks, run in runs.items():
        for size, times in run:
            fastest_s, spread_s = min(times), median(times) - min(times)
            predicted_s = lab.predict_all_reduce_s(ranks, size, *constants[ranks], protocols)
            off_s = predicted_s - fastest_s
            if abs(off_s) > max(spread_s, worst * fastest_s):
                worst = abs(off_s) / fastest_s
                sentence = (
                    f"{bytes_text(size)} on {ranks} ranks is off the line by {worst:.0%}, and its "
                    f"own repeats differ by {spread_s / fastest_s:.0%}: run again, and if it stays "
                    "off, do not use the line there"
                )
    return sentence


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="out/measure-comm", help="folder for the three files")
    parser.add_argument("--backend", choices=("auto", "gloo", "nccl"), default="auto")
    parser.add_argument("--ranks", type=int, nargs="+", help="default: 2 4, or 2 4 8 GPUs")
    parser.add_argument("--rank", metavar="JOB", help=argparse.SUPPRESS)  # one process of a run
    return parser.parse_args()


def chosen_ranks(options):
    """(backend, rank counts, GPUs here); one sentence and status 1 for what cannot be."""
    if min(options.ranks or [2]) < 2:
        sys.exit(f"--ranks must be 2 or more processes each, not {options.ranks}")
    try:
        import torch
    except ImportError:
        sys.exit("measure.py needs Torch; `make torch` installs it")
    gpus = torch.cuda.device_count()
    backend = options.backend
    if backend == "auto":
        backend = "nccl" if gpus >= 2 else "gloo"
    if backend == "nccl" and gpus < 2:
        sys.exit(f"--backend nccl needs 2 GPUs or more and this machine has {gpus}; leave it out")
    usual = [2, 4] if backend == "gloo" else [p for p in (2, 4, 8) if p <= gpus]
    ranks = sorted(set(options.ranks or usual))
    if backend == "nccl" and ranks[-1] > gpus:
        sys.exit(f"--ranks must be at most {gpus} with nccl, one GPU each, not {ranks}")
    return backend, ranks, gpus


def content(backend, runs, constants, remark):
    """What measurements.json holds."""
    names = ("c_s", "a_s", "busbw_bytes_per_s")
    rows = [
        {"ranks": p, "bytes": size, "fastest_s": min(times)}
        | {"median_s": median(times), "slowest_s": max(times)}
        for p, run in runs.items()
        for size, times in run
    ]
    fitted = {str(p): dict(zip(names, constants[p], strict=True)) for p in runs}
    found = {"backend": backend, "batches": BATCHES, "fit": fitted, "remark": remark}
    return found | {"rows": rows}


def main():
    options = arguments()
    if options.rank:
        job = json.loads(options.rank)
        return run_rank(**job | {"folder": Path(job["folder"])})
    backend, ranks, gpus = chosen_ranks(options)
    lab = load_and_say(HERE)
    # Gloo has one protocol; the switch is NCCL's.
    protocols = lab.NCCL_PROTOCOLS if backend == "nccl" else lab.STRAIGHT_LINE
    runs = {}
    for num_ranks in ranks:
        print(f"{backend}, {num_ranks} ranks ...", flush=True)
        runs[num_ranks] = measure(num_ranks, backend)
    table = {p: {size: min(times) for size, times in run} for p, run in runs.items()}
    constants, remark = fit(lab, table, protocols)
    if remark:
        print(remark)
    if backend == "gloo" and max(ranks) > os.cpu_count():
        print(f"{max(ranks)} processes shared {os.cpu_count()} processors, with whatever else ran")
    print(report(lab, table, constants, protocols))
    if not remark and (off := off_the_line(lab, runs, constants, protocols)):
        print(off)

    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    measured = json.dumps(content(backend, runs, constants, remark), indent=1) + "\n"
    (folder / "measurements.json").write_text(measured)
    where = f"{gpus} GPUs" if backend == "nccl" else f"{os.cpu_count()} CPUs"
    title = f"{backend} all-reduce, one machine, {where}"
    drawn = picture(lab, title, table, constants, protocols)
    (folder / "plot.svg").write_text(drawn, encoding="utf-8")
    command = " ".join(["python measure.py", *sys.argv[1:]])
    files = ("measurements.json", "plot.svg")
    write_provenance(command, folder, files, ("numpy", "torch"), backend=backend)
    print(f"wrote {folder / 'plot.svg'}, measurements.json and provenance.json")


if __name__ == "__main__":
    run_program(main)
