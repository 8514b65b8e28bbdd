"""Record the capstone's incidents, diagnose a recording, or replay one live beside it.

    python -m incidents read 11                            (or by name: read slow-link)
    python -m incidents record [GROUP...] [--repeats 2]    (in this folder, on a quiet machine)
    python -m incidents replay slow-rank
    python -m incidents list

`read` and `list` need nothing. The others: Linux with two cores, vLLM (make vllm) and Torch (make
torch); quotas and cables need root.
"""

import argparse
import contextlib
import json
from pathlib import Path

from evidence.recordings import FOLDER, answers, load, name_of, repeats

from incidents import faults, tp
from incidents.cases import CASES, GROUPS, NEIGHBOURS, group_of, make
from incidents.lab02 import record as lab02_record
from incidents.lab02 import run
from labkit.loading import load_chosen
from labkit.provenance import git_commit, provenance

PROVENANCE = FOLDER / "provenance.json"


def record(groups, times, first=False):
    commit = git_commit()  # before the recordings themselves change the tree
    for group in groups:
        kept_any = False
        for name, runs in make(group, GROUPS[group], times).items():
            kept = [evidence for evidence in runs if _worth_keeping(name, evidence)]
            if not kept:
                continue  # what was recorded before stays
            kept_any = True
            for old in FOLDER.glob(name_of(CASES[name][0], "*")):
                old.unlink()
            for repeat, evidence in enumerate(kept):
                path = FOLDER / name_of(CASES[name][0], repeat)
                text = json.dumps(evidence, separators=(",", ":"))
                path.write_text(text + "\n", encoding="utf-8")
            print(f"{name}: {len(kept)} recorded")
        if kept_any:
            _sign(group, first, commit)


def _worth_keeping(name, evidence):
    """Others used less than a tenth of every core, unless they or the start-up are the incident."""
    if group_of(name) in ("replicas", "heads"):
        return True
    used = tp.used_by_others(evidence)
    for core, share in enumerate(used):
        if share > 0.1 and core not in NEIGHBOURS.get(name, ()):
            print(f"{name}: not kept; others used {share:.2f} of core {core}. Try again.")
            return False
    return True


def _sign(group, first, commit):
    """Each group has an entry of its own: they are recorded apart."""
    numbers = [CASES[name][0] for name in GROUPS[group]]
    files = sorted(path.name for number in numbers for path in FOLDER.glob(name_of(number, "*")))
    signed = json.loads(PROVENANCE.read_text()) if PROVENANCE.exists() else {}
    versions = lab02_record.versions(run.python())
    command = f"python -m incidents record {group}{' --first' * first}"
    signed[group] = provenance(command, FOLDER, files, git_commit=commit, vllm_environment=versions)
    PROVENANCE.write_text(json.dumps(signed, indent=1, sort_keys=True) + "\n")
    keys = {
        str(number): {"cause": cause, "where": where, "healthy": healthy}
        for number, cause, where, healthy in CASES.values()
        if (FOLDER / name_of(number, 0)).exists()
    }
    (FOLDER / "answers.json").write_text(json.dumps(keys, indent=1, sort_keys=True) + "\n")


def read(number):
    """Print what the learner's diagnose says of every recording of this number."""
    for repeat in range(repeats(number)):
        show(f"recorded, {name_of(number, repeat)}", load(number, repeat))


def replay(name):
    """Diagnose the recordings, then run the incident now with the healthy run of its plan."""
    group, healthy, number = group_of(name), CASES[name][3], CASES[name][0]
    if group == "training":
        raise run.LiveError("a training step's evidence is lab 02's; make toy-profile runs one")
    read(number)
    reference = [other for other in GROUPS[group] if CASES[other][0] == healthy]
    now = make(group, tuple(dict.fromkeys([*reference, name])), 1)
    show("live", now[name][0] | {"healthy": now[reference[0] if reference else name][0]})


def show(title, evidence):
    lab = load_chosen(Path(__file__).parent.parent)
    print(title, *(f"  {key:10}{value}" for key, value in lab.diagnose(evidence).items()), sep="\n")


def main():
    parser = argparse.ArgumentParser(prog="python -m incidents", description=__doc__.split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    of_record = verbs.add_parser("record", help="make the recordings again")
    of_record.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    of_record.add_argument("--repeats", type=int, default=2, metavar="N")
    of_record.add_argument(
        "--first", action="store_true", help="before everybody else's processes (root, cgroup v1)"
    )
    of_read = verbs.add_parser("read", help="diagnose what was recorded")
    known = [*map(str, sorted(answers())), *CASES]
    of_read.add_argument("name", metavar="NAME", choices=known, help=", ".join(known))
    of_replay = verbs.add_parser("replay", help="one of them live, beside its recording")
    of_replay.add_argument("name", metavar="NAME", choices=CASES, help=", ".join(CASES))
    verbs.add_parser("list", help="the names")
    chosen = parser.parse_args()
    try:
        if chosen.verb == "record":
            unknown = [group for group in chosen.groups if group not in GROUPS]
            if unknown:
                parser.error(f"no group {', '.join(unknown)}; there are {', '.join(GROUPS)}")
            with faults.first_on_the_machine() if chosen.first else contextlib.nullcontext():
                record(chosen.groups or list(GROUPS), chosen.repeats, chosen.first)
        elif chosen.verb == "read":
            read(CASES[chosen.name][0] if chosen.name in CASES else int(chosen.name))
        elif chosen.verb == "replay":
            replay(chosen.name)
        else:
            for name in CASES:
                print(name + " (recorded only)" * (group_of(name) == "training"))
    except (run.LiveError, OSError, NotImplementedError) as error:
        parser.exit(2, f"incidents: {error}\n")


if __name__ == "__main__":
    main()
