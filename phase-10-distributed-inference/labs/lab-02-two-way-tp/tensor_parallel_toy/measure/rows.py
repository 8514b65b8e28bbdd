"""The README's tables of recorded profiles, made from the captures.

python -m tensor_parallel_toy.measure.rows writes them between the README's markers.
"""

import json
from pathlib import Path

LAB = Path(__file__).resolve().parent.parent.parent
README = LAB / "README.md"
HEADER = (
    *("ranks, link", "no TP", "no TP, all cores", "plain", "sequential", "overlap", "way"),
    *("DTensor", "overlap / DTensor", "bound", "blocked", "hidden", "kept", "peak"),
)
PEERS = ("DTensor", "DTensor, patient")


def captures():
    """{folder's name: its profile}"""
    folders = sorted((LAB / "captures").glob("toy-*"))
    return {f.name: json.loads((f / "profile.json").read_text()) for f in folders}


def title(name):
    return name.removeprefix("toy-").replace("-", " ")


def steps(result):
    return {name: 1e3 * mode["median_step_s"] for name, mode in result["modes"].items()}


def mib(result, mode, what):
    return max(result["modes"][mode][what]) / 2**20


def slashed(digits, values):
    """Numbers of one cell."""
    return " / ".join(f"{value:.{digits}f}" for value in values)


def main_row(name, result):
    """Times in ms, saved and peak MiB per rank."""
    step, modes = steps(result), result["modes"]
    beside = ("overlap", "DTensor")
    return [
        title(name),
        *(f"{step[m]:.0f}" for m in HEADER[1:6]),
        result["chosen"],
        slashed(0, [step[peer] for peer in PEERS]),
        slashed(2, [step["overlap"] / step[peer] for peer in PEERS]),
        f"{1e3 * result['bound_s']:.0f}",
        slashed(0, [1e3 * modes[mode]["exposed_s"] for mode in ("sequential", "overlap")]),
        slashed(2, [result["hidden"], result["hidden_in_step"]]),
        slashed(1, [mib(result, mode, "saved_bytes") for mode in beside]),
        slashed(0, [mib(result, mode, "peak_bytes") for mode in beside]),
    ]


def gain(result):
    """The part of the sequential step that overlap takes off."""
    step = steps(result)
    return f"{1 - step['overlap'] / step['sequential']:.0%}"


def kept_row(name, result):
    """The gathered input gathered again / kept: step, bytes sent, bytes kept for backward."""
    step, both = steps(result), ("overlap", "overlap, input kept")
    return [
        title(name),
        slashed(0, [step[mode] for mode in both]),
        slashed(0, [mib(result, mode, "sent_bytes") for mode in both]),
        slashed(1, [mib(result, mode, "saved_bytes") for mode in both]),
        slashed(2, [step[mode] / step["DTensor"] for mode in both]),
    ]


def wire_row(name, result):
    """Shared memory beside gloo, DTensor's wire."""
    step, bound = steps(result), 1e3 * result["bound_s"]
    return [
        title(name),
        f"{step['overlap']:.0f}",
        f"{step['overlap, gloo']:.0f}",
        slashed(2, [step["overlap"] / step[peer] for peer in PEERS]),
        slashed(2, [step["overlap, gloo"] / step[peer] for peer in PEERS]),
        f"{step['overlap'] / bound:.2f}",
    ]


def remainder_rows(name, result):
    """From "compute only" to the step, each rank's mean, in ms."""
    ranks = result["remainder"]

    def row(label, values):
        return [label, *(f"{1e3 * value:.1f}" for value in values)]

    parts = [row(f"+ {p}", [r["parts"][p] for r in ranks]) for p in ranks[0]["parts"]]
    return [
        row("compute only", [r["compute only"] for r in ranks]),
        *parts,
        row("= overlap", [r["overlap"] for r in ranks]),
    ]


def tables():
    """{marker: Markdown}, for what has been recorded."""
    found = captures()
    shm = {name: result for name, result in found.items() if "overlap, gloo" in result["modes"]}
    texts = {"toy-profiles": markdown(HEADER, [main_row(*item) for item in found.items()])}
    texts["toy-gains"] = markdown([title(name) for name in found], [[*map(gain, found.values())]])
    texts["toy-kept"] = markdown(
        ("ranks, link", "step", "sent, MiB per rank", "kept, MiB per rank", "step / DTensor"),
        [kept_row(*item) for item in found.items()],
    )
    texts["toy-shm"] = markdown(
        ("ranks, link", "overlap", "the same over gloo", "overlap / DTensor")
        + ("over gloo / DTensor", "overlap / bound"),
        [wire_row(*item) for item in shm.items()],
    )
    texts["toy-remainder"] = "\n\n".join(
        markdown(
            (title(name), *(f"rank {rank}" for rank in range(result["ranks"]))),
            remainder_rows(name, result),
        )
        for name, result in shm.items()
    )
    return texts


def markdown(header, cells):
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filled(readme):
    """The README's text with every table that has markers made anew."""
    for marker, text in tables().items():
        begin, end = f"<!-- {marker} -->\n", f"<!-- /{marker} -->"
        before, rest = readme.split(begin)
        readme = f"{before}{begin}{text}\n{end}{rest.split(end)[1]}"
    return readme


if __name__ == "__main__":
    README.write_text(filled(README.read_text()))
