"""The hang clinic: look at a recorded hang, diagnose it with your functions, make one live.

    python clinic.py list
    python clinic.py show 5              what is known, as an operator would see it
    python clinic.py read 5              what your functions say of it, and whether it is so
    python clinic.py replay idle-rank    make it now, beside its recording (Linux, Torch)
    python clinic.py record [NAME ...]   make the recordings again (Linux, Torch, root)
    python clinic.py links               your links_work, between two processes here (Torch)

`read`, `replay` and `links` run your starter.py; LAB_IMPL=solution runs the reference.
"""

import argparse
import functools
import json
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import looks
import record
from given_evidence import RECORDINGS, load, name_of, now_in

from labkit.loading import load_and_say
from labkit.needs import torch_is_here, vllm_python
from labkit.provenance import git_commit, write_provenance
from labkit.ranks import RanksFailed

HERE = Path(__file__).parent
NAMES = list(record.CASES)


def show(evidence):
    """The two looks, in the order in which one would type the commands."""
    first_s, second_s = evidence["looks_s"]
    answers = "answers" if evidence["store"]["answers"] else "does not answer"
    command = evidence["command"].partition(" --fault")[0]  # which would be the answer
    print(f"started: {command}; ranks meet over {evidence['network']}")
    print(f"store at {evidence['store']['address']}: {answers}")
    print(f"looked at {first_s:.1f} s and {second_s:.1f} s after the start")
    for number, rank in enumerate(evidence["ranks"]):
        print(f"\nrank {number}: {_life(rank, second_s - first_s)}")
        for line in _collectives(rank):
            print(f"  {line}")
        if rank["stacks"][1]:
            print(f"  stack   {' < '.join(rank['stacks'][1][:4])}")
        for one in rank["sockets"][:8]:
            print(f"  socket  {one['state']:11} {one['local']} {one['remote']}")
        if len(rank["sockets"]) > 8:
            print(f"  and {len(rank['sockets']) - 8} more")
        _last_lines(rank["log"], 10)
    if server := evidence.get("server"):
        _server(server)
    print(
        "\nYour guess: who is missing, and why? Then: python clinic.py read, with the same number"
    )


def _server(server):
    """vLLM's other processes, which hold no rank, and what whoever watches the server is told."""
    print(f"\nGET /health at the two looks: {' '.join(map(str, server['health']))}")
    for name, seen in server["processes"].items():
        print(f"  {name}: {seen['state']}; {' < '.join(seen['stack'][:4])}")
    _last_lines(server["log"], 6)


def _last_lines(log, count):
    """Whole ones: what decides may stand at the end of a line."""
    indents = {"initial_indent": "  log     ", "subsequent_indent": " " * 10}
    for line in log[-count:]:
        print(textwrap.fill(line, 100, break_on_hyphens=False, **indents))


def _in_a_line(evidence):
    """What one sees first: the program, its ranks, and how many of them live."""
    ranks, ended = evidence["ranks"], sum(r["exit"] is not None for r in evidence["ranks"])
    program, after_s = evidence["command"].split()[0], evidence["looks_s"][1]
    lives = "all are alive" if not ended else f"{ended} of them ended"
    return f"{program}, {len(ranks)} ranks, {lives} after {after_s:.0f} s"


def _life(rank, between_s):
    if rank["exit"] is not None:
        return f"ended with {rank['exit']} after {rank['ended_s']:.1f} s"
    used = (rank["cpu_s"][1] - rank["cpu_s"][0]) / between_s
    met = "has met the others" if rank["met"] else "has NOT met the others"
    return f"{rank['states'][1]}, {used:.0%} of a core between the looks; {met}"


def _collectives(rank):
    for one in rank["collectives"][-3:]:
        inside = one is now_in(rank)
        end = "is inside" if inside else f"left at {one['left_s']:.3f} s"
        what = f"{one['group']} #{one['number']} {one['operation']} {one['shape']} {one['dtype']}"
        yield f"{what}  entered at {one['entered_s']:.3f} s, {end}"


STEPS = (
    "is_hung last_agreed wait_graph circle who_is_missing disagreement never_met slowest".split()
)


def steps(lab, evidence):
    """What each function that is written makes of it: the way to the diagnosis."""
    for name in STEPS:
        try:
            what = lab.wait_graph(evidence) if name == "circle" else evidence
            print(f"  {name:15}{getattr(lab, name)(what)}")
        except NotImplementedError:
            print(f"  {name:15}not written yet")


def read(lab, evidence, answer):
    try:
        found = lab.diagnose_hang(evidence)
    except NotImplementedError:
        print(f"  {'diagnose_hang':15}not written yet")
        return
    for key, value in found.items():
        print(f"  {key:11}{value}")
    told = {key: found.get(key) for key in answer}
    print("  right: so it was done" if told == answer else f"  it was something else: {answer}")


def recorded():
    """The numbers of the recordings."""
    return [n for n in range(len(NAMES)) if (RECORDINGS / name_of(n, 0)).exists()]


def of_recording(text):
    """A recording's number, 5 or 05. (The names of the cases would be the answers.)"""
    if text.isdecimal() and int(text) in recorded():
        return int(text)
    raise argparse.ArgumentTypeError(f"no recording {text!r}; `python clinic.py list` has them all")


def record_all(names, repeats):
    commit = git_commit()  # before the recordings themselves change the tree
    RECORDINGS.mkdir(exist_ok=True)
    path, paces = RECORDINGS / "answers.json", {}
    answers = json.loads(path.read_text()) if path.exists() else {}
    for name in names:
        number, case = NAMES.index(name), record.CASES[name]
        for repeat in range(repeats):
            if name != case.healthy and case.healthy not in paces:
                paces[case.healthy] = record.pace_of_a_healthy_run(name)
            evidence = record.record(name, paces.get(case.healthy))
            paces[case.healthy] = evidence["pace_s"]
            text = json.dumps(evidence, separators=(",", ":"))
            (RECORDINGS / name_of(number, repeat)).write_text(text + "\n", encoding="utf-8")
            print(f"{name}: recorded, {repeat + 1} of {repeats}", flush=True)
        answers[str(number)] = {"cause": case.cause, "where": list(case.where)}
        ordered = dict(sorted(answers.items(), key=lambda item: int(item[0])))
        path.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
        say_where_from(names[: names.index(name) + 1], repeats, commit)


def say_where_from(names, repeats, commit):
    """provenance.json; what it said of recordings that were not made again stays, as `earlier`."""
    files = sorted(file.name for file in RECORDINGS.glob("[0-9]*.json")) + ["answers.json"]
    made = {name_of(NAMES.index(name), n) for name in names for n in range(repeats)}
    path = RECORDINGS / "provenance.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    earlier = [
        run | {"recorded": [name for name in run["recorded"] if name not in made]}
        for run in [*before.pop("earlier", []), *[before] * bool(before)]
    ]
    more = {"recorded": sorted(made), "earlier": [run for run in earlier if run["recorded"]]}
    for run in more["earlier"]:
        run.pop("sha256", None)  # stands below, of all files
    if any(record.CASES[name].vllm for name in names):
        from live.record import versions

        more["vllm"] = versions(vllm_python())
    command = "python clinic.py record" + "".join(f" {n}" for n in names if len(names) < len(NAMES))
    write_provenance(command, RECORDINGS, files, ("torch",), git_commit=commit, **more)


def links():
    """Two processes of this machine; each says what the learner's function found."""
    print("two processes send each other 1, 1,024 and 65,536 values over gloo", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        program = [sys.executable, str(record.RANK), "--links", "--steps", "0", "--size", "2"]
        store = ["--store", f"127.0.0.1:{looks.free_port()}", "--folder", folder]
        ranks = [subprocess.Popen([*program, *store, "--rank", str(rank)]) for rank in range(2)]
        try:
            return max(rank.wait(timeout=60) for rank in ranks)
        finally:
            for rank in ranks:
                rank.kill()


def main():
    parser = argparse.ArgumentParser(prog="python clinic.py", description=__doc__.split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="the recordings")
    verbs.add_parser("links", help="your links_work between two processes (Torch)")
    for verb, words in (("show", "what is known of one"), ("read", "what your diagnosis says")):
        verbs.add_parser(verb, help=words).add_argument("number", type=of_recording)
    live = verbs.add_parser("replay", help="make one now (Linux, Torch)")
    live.add_argument("name", choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    again = verbs.add_parser("record", help="make the recordings again (Linux, Torch, root)")
    again.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    again.add_argument("--repeats", type=int, default=2, metavar="N")
    chosen = parser.parse_args()
    names = getattr(chosen, "names", [])
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if chosen.verb in ("links", "replay", "record") and not torch_is_here():
        sys.exit("clinic: no Torch here; `make torch` installs it into .venv")
    if chosen.verb == "list":
        for number in recorded():
            print(f"python clinic.py show {number:<4}{_in_a_line(load(number))}")
    elif chosen.verb == "show":
        show(load(chosen.number))
    elif chosen.verb == "record":
        record_all(names or NAMES, chosen.repeats)
    elif chosen.verb == "links":
        load_and_say(HERE, default="starter")
        sys.exit(links())
    else:
        lab = load_and_say(HERE, default="starter")
        number = NAMES.index(chosen.name) if chosen.verb == "replay" else chosen.number
        answer = json.loads((RECORDINGS / "answers.json").read_text())[str(number)]
        if chosen.verb == "replay":
            lab.diagnose_hang(load(number))  # unwritten: nothing is started
        steps(lab, load(number))
        for repeat in range(2):
            print(f"recorded, {name_of(number, repeat)}")
            read(lab, load(number, repeat), answer)
        if chosen.verb == "replay":
            print("live, from 30 seconds to some minutes", flush=True)
            say = functools.partial(print, flush=True)
            pace = record.pace_of_a_healthy_run(chosen.name, say)
            read(lab, record.record(chosen.name, pace, say), answer)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the hosts and the ranks end with it
    try:
        main()
    except (NotImplementedError, OSError, RanksFailed) as error:
        sys.exit(f"clinic: {error}")
