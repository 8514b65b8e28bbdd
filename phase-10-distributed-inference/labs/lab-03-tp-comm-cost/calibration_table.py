"""Print how well three points predict the measured all-reduces that were not given to the fit.

`python calibration_table.py`; LAB_IMPL=starter takes your functions. For each GPU and rank count p,
the points are 1 KiB at two and at eight ranks and 512 MiB at p; where p has no 512 MiB row, its
bus bandwidth lies between its neighbours'. The last part chooses NCCL_PROTOCOLS again on all GPUs
but one, by a search over a coarse grid, and scores the choice on the GPU left out.
"""

import argparse
from itertools import product
from pathlib import Path
from statistics import mean, median

from loglog import picture
from share_table import HERE, all_reduces, read_measurements

from labkit.loading import load_and_say, run_program
from labkit.table import bytes_text, columns, seconds_text

KiB, MiB, GiB = 1024, 1024**2, 1024**3
TINY, HUGE = 1 * KiB, 512 * MiB
CLASSES = ("up to 64 KiB", "to 4 MiB", "above 4 MiB")


def errors_by_class(rows):
    """{class: [relative error, ...]} of (payload, predicted seconds, measured seconds)."""
    errors = {name: [] for name in CLASSES}
    for size, predicted, seconds in rows:
        name = CLASSES[(size > 64 * KiB) + (size > 4 * MiB)]
        errors[name].append(predicted / seconds - 1)
    return errors


def fit(lab, table, protocols):
    """{ranks: (c, a, busbw)} of one machine's measurements, {ranks: {bytes: seconds}}.

    Given to each: the smallest payload of the first and the last rank count, and its own largest.
    """
    first, last = min(table), max(table)
    small, large = min(table[first]), max(table[first])
    tiny = [(p, small, table[p][small]) for p in (first, last)]
    found = {
        p: lab.calibrate([*tiny, (p, large, times[large])], protocols)
        for p, times in table.items()
        if large in times
    }
    busbw = {p: constants[2] for p, constants in found.items()}
    c_s, a_s, _ = found[first]
    for p in table.keys() - found.keys():
        found[p] = (c_s, a_s, lab.busbw_at(p, busbw))
    return found


def held_out_errors(lab, table, protocols):
    """{class: [relative error, ...]} on the rows that no fit has seen."""
    constants = fit(lab, table, protocols)
    return errors_by_class(
        (size, lab.predict_all_reduce_s(ranks, size, *constants[ranks], protocols), seconds)
        for ranks, times in table.items()
        for size, seconds in times.items()
        if size not in (TINY, HUGE)
    )


def medians(groups):
    """Median |error| per class, in percent, pooled over several {class: errors}; None: no row."""
    pooled = [[abs(e) for group in groups for e in group[name]] for name in CLASSES]
    return [100 * median(errors) if errors else None for errors in pooled]


def leave_one_out(lab, data):
    """[(GPU left out, the protocols chosen on the others, its errors)]."""
    grid = [
        ((1.0, part, 0.0), (factor, 1.0, 0.0), (1.0, 1.0, fill))
        for part, factor, fill in product(
            (0.4, 0.45, 0.5, 0.55), (3.0, 4.0, 5.0), (8e6, 10e6, 12e6)
        )
    ]
    scores = {
        protocols: {gpu: held_out_errors(lab, rows, protocols) for gpu, rows in data.items()}
        for protocols in grid
    }

    def cost(protocols, gpus):
        errors = [e for gpu in gpus for group in scores[protocols][gpu].values() for e in group]
        return mean(min(abs(e), 1.0) for e in errors)

    results = []
    for out in data:
        others = [gpu for gpu in data if gpu != out]
        best = min(grid, key=lambda protocols, others=others: cost(protocols, others))
        results.append((out, best, scores[best][out]))
    return results


def engine_kernels(lab, rows, data):
    """{GPU: {class: errors}} of one-shot/two-shot from one latency per rank count (8 KiB)."""
    found = {}
    for gpu, table in all_reduces(rows, "vLLM graph").items():
        constants = fit(lab, data[gpu], lab.NCCL_PROTOCOLS)
        predicted = []
        for ranks, times in table.items():
            for size, seconds in times.items():
                if size != 8 * KiB:
                    direct = (ranks, size, times[8 * KiB], constants[ranks][2])
                    shots = lab.one_shot_all_reduce_s, lab.two_shot_all_reduce_s
                    predicted.append((size, min(shot(*direct) for shot in shots), seconds))
        found[gpu] = errors_by_class(predicted)
    return found


def other_box(lab, rows, data):
    """[(payload, measured s, predicted s)] of an 8 x H200 node that chose none of the constants.

    c and a are the H100's (the same NVLink and switch), busbw its own 1 GiB row.
    """
    times = {}
    for row in rows:
        if row["kind"] == "busbw_all_reduce" and "H200" in row["setting"]["gpu"]:
            size = row["setting"]["bytes"]
            times[size] = 1.75 * size / (row["value"] * 1e9)
    tiny = [(p, TINY, data["H100"][p][TINY]) for p in (2, 8)]
    constants = lab.calibrate([*tiny, (8, GiB, times[GiB])])
    return [
        (size, seconds, lab.predict_all_reduce_s(8, size, *constants))
        for size, seconds in sorted(times.items())
        if size != GiB
    ]


def figure(lab, data, gpu):
    """An SVG of one GPU's NCCL all-reduces: measured, predicted, and the straight line."""
    constants = fit(lab, data[gpu], lab.NCCL_PROTOCOLS)
    shown = {p: data[gpu][p] for p in (2, 8)}
    return picture(lab, f"NCCL all-reduce, {gpu}, one node", shown, constants, lab.NCCL_PROTOCOLS)


def errors_text(title, groups):
    """A row of the table, "-" where there is nothing."""
    return [title, *("-" if middle is None else f"{middle:.1f}" for middle in medians(groups))]


def print_errors(lab, data):
    print("Median |error| on rows the fit has not seen, %\n")
    rows = [["", *CLASSES]]
    for title, protocols in (
        ("straight line", lab.STRAIGHT_LINE),
        ("protocol switch", lab.NCCL_PROTOCOLS),
    ):
        errors = {gpu: held_out_errors(lab, measured, protocols) for gpu, measured in data.items()}
        rows += [errors_text(f"{title}, {gpu}", [group]) for gpu, group in errors.items()]
        rows.append(errors_text(f"{title}, all", errors.values()))
    rows += [[], ["NCCL_PROTOCOLS chosen without the GPU (factor, part of busbw, fill in MB)"]]
    for gpu, protocols, errors in leave_one_out(lab, data):
        chosen = f"{protocols[1][0]:g}, {protocols[0][1]:g}, {protocols[2][2] / 1e6:g}"
        rows.append(errors_text(f"{gpu} ({chosen})", [errors]))
    print("\n".join(columns(rows, "lrrr")))


def print_elsewhere(lab, rows, data):
    print("\nvLLM's kernel in a CUDA graph: 8 KiB gives kernel_s, NCCL's fit gives busbw")
    kernels = engine_kernels(lab, rows, data).items()
    print("\n".join(columns([errors_text(gpu, [errors]) for gpu, errors in kernels], "lrrr")))
    print("\nAnother box, 8 x H200: payload, measured, predicted, error")
    shown = [
        [bytes_text(size), *map(seconds_text, times), f"{100 * (times[1] / times[0] - 1):+z.1f}%"]
        for size, *times in other_box(lab, rows, data)
    ]
    print("\n".join(columns(shown, "rrrr")))


def print_constants(lab, data):
    print("\nc, a, busbw from three points")
    shown = [
        [gpu, f"{ranks} ranks", seconds_text(c_s), seconds_text(a_s), f"{busbw / 1e9:.1f} GB/s"]
        for gpu, measured in data.items()
        for ranks, (c_s, a_s, busbw) in sorted(fit(lab, measured, lab.NCCL_PROTOCOLS).items())
    ]
    print("\n".join(columns(shown, "llrrr")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--svg", metavar="FILE", help="draw the H100's rows into FILE instead")
    options = parser.parse_args()
    lab, rows = load_and_say(HERE), read_measurements()
    data = all_reduces(rows)
    if options.svg:
        Path(options.svg).write_text(figure(lab, data, "H100"), encoding="utf-8")
        return
    print_errors(lab, data)
    print_elsewhere(lab, rows, data)
    print_constants(lab, data)


if __name__ == "__main__":
    run_program(main)
