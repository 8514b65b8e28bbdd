"""Look at a recorded incident, diagnose it with your functions, or replay one live beside it.

    python -m incidents list
    python -m incidents show 11                            what is known, as an engineer sees it
    python -m incidents read 11                            what your functions say, and if it is so
    python -m incidents read hang-5                        what they may not say: a run of lab 06
    python -m incidents replay slow-rank
    python -m incidents record [GROUP...] [--repeats 2]    (in this folder, on a quiet machine)

`read` calls those of your functions that are written, `replay` your diagnose; LAB_IMPL=solution
calls the reference's: the answer.
`list`, `show` and `read` need nothing. The others: Linux with two cores, vLLM (make vllm) and Torch
(make torch); quotas and cables need root.
"""

import argparse
import contextlib
import json
import statistics
import sys
from pathlib import Path

from live import run
from live.record import versions as versions_of

from incidents import faults, hung, look, tp
from incidents.cases import CASES, DONE, GROUPS, NEIGHBOURS, group_of, make
from incidents.recorded import FOLDER, answers, load, name_of, repeats
from labkit.loading import load_and_say
from labkit.provenance import git_commit, provenance

LAB = Path(__file__).resolve().parent.parent
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
    versions = versions_of(run.python())
    command = f"python -m incidents record {group}{' --first' * first}"
    signed[group] = provenance(command, FOLDER, files, git_commit=commit, vllm_environment=versions)
    PROVENANCE.write_text(json.dumps(signed, indent=1, sort_keys=True) + "\n")
    keys = {
        str(number): {"cause": cause, "where": where, "healthy": healthy}
        for number, cause, where, healthy in CASES.values()
        if (FOLDER / name_of(number, 0)).exists()
    }
    (FOLDER / "answers.json").write_text(json.dumps(keys, indent=1, sort_keys=True) + "\n")


def _beside_a_healthy_day(number):
    """The evidence to be shown; a healthy recording stands beside its other repeat, since beside
    itself it would tell on itself."""
    evidence = load(number)
    if answers()[number]["healthy"] == number:
        evidence["healthy"] = load(number, repeats(number) - 1)
    return evidence


STEPS = {  # by the key of the evidence: the functions on the way to its diagnosis
    "spans": "share_waited look_at_overlap",
    "microbatches": "stage_times look_at_stages",
    "stages": "requests_in_flight look_at_requests look_at_start_up",
    "ranks": "decompose used_by_others slowest_rank look_at_ranks decode_transfer link_line "
    "look_at_link look_at_start_up",
}


IN_MS = {
    "decompose": lambda found: (
        f"computes {_ms(map(statistics.median, found['compute_us']))} ms, "
        f"waits {_ms(map(statistics.median, found['wait_us']))} ms, "
        f"transfers {_ms([statistics.median(map(sum, found['transfer_us']))])} ms"
    ),
    "stage_times": lambda found: f"busy {_ms(found[0])} ms, period {_ms(found[1:])} ms",
    "link_line": lambda found: f"latency {found[0]:.0f} us, {found[1] / 1e9:.3g} GB/s",
    "decode_transfer": lambda found: f"median {_ms(found[:1])} ms, tail {_ms(found[1:])} ms",
}


def _ms(times_us):
    return " ".join(f"{time_us / 1e3:.1f}" for time_us in times_us)


def asked_by_diagnose(lab, evidence):
    """The names of all functions that the learner's diagnose calls; none where it raises."""
    names, before = set(), sys.getprofile()
    try:
        sys.setprofile(lambda frame, *_: names.add(frame.f_code.co_name))
        with contextlib.redirect_stdout(None):  # it is asked once more, for what it says
            lab.diagnose(evidence)
    except Exception:  # diagnose has a line of its own among the steps
        names.clear()
    finally:
        sys.setprofile(before)
    return names


def steps(lab, evidence):
    """Print what each function that is written makes of it; whether diagnose is."""
    kind = next(key for key in STEPS if key in evidence)
    asked_for = asked_by_diagnose(lab, evidence)
    for name in [*STEPS[kind].split(), "diagnose"]:
        direct = name in ("share_waited", "stage_times")
        of_link = name in ("decode_transfer", "link_line", "look_at_link")
        if of_link and not look.has_collectives(evidence):
            print(f"  {name:20}does not apply: these ranks make no collectives")
            continue
        try:
            asked = evidence[kind] if direct else evidence
            if name == "link_line":
                asked = lab.all_reduces(evidence)
            found = getattr(lab, name)(asked)
            told = "" if name == "diagnose" else IN_MS.get(name, _brief)(found)
            if asked_for and name.startswith("look_at_") and name not in asked_for:
                told += "  (diagnose did not ask)"
        except NotImplementedError:
            print(f"  {name:20}not written yet")
            continue
        except Exception as error:  # the learner's own
            print(f"  {name:20}{type(error).__name__}: {error}")
            continue
        if name == "diagnose":
            return True
        print(f"  {name:20}{told}")
    return False


def _brief(found):
    """A finding or numbers, in a line."""
    if isinstance(found, dict):
        where = f", where {found['where']}" if found["where"] is not None else ""
        return found["cause"] + where + (f", cost {found['cost']:z.1%}" if found["cost"] else "")
    if isinstance(found, (list, tuple)):
        return ", ".join(map(_brief, found))
    return f"{found:.4g}"


def read(lab, number):
    """Print what the learner's functions say of each recording of a number."""
    answer = answers()[number]
    for repeat in range(repeats(number)):
        evidence = load(number, repeat)
        print(f"{name_of(number, repeat)}  {look.planned(evidence)}")
        if steps(lab, evidence):
            say(lab, evidence, answer, number)


def replay(name):
    """Diagnose the recordings, then run the incident now with the healthy run of its plan."""
    group, healthy, number = group_of(name), CASES[name][3], CASES[name][0]
    if group == "training":
        raise run.LiveError("a training step's evidence is lab 02's; make toy-profile runs one")
    lab = load_and_say(LAB, default="starter")
    lab.diagnose(load(number))  # unwritten: nothing is started
    read(lab, number)
    reference = [other for other in GROUPS[group] if CASES[other][0] == healthy]
    now = make(group, tuple(dict.fromkeys([*reference, name])), 1)
    evidence = now[name][0] | {"healthy": now[reference[0] if reference else name][0]}
    print("live")
    say(lab, evidence, answers()[number], number, live=True)


def say(lab, evidence, answer=None, number=None, live=False):
    """A finding, and whether it is what was done to the machine; of a run that has ended alone."""
    if inside := hung.unended(evidence):
        print("  cause  none: this run did not end")
        print(*(f"  rank {rank} was left {what}" for rank, what in inside.items()), sep="\n")
        print("  slow or silent? two looks tell: lab 06, python clinic.py read")
        return
    found = lab.diagnose(evidence)
    print(f"  {'cause':7}{found['cause']}", f"  {'where':7}{found['where']}", sep="\n")
    print(f"  {'cost':7}{found['cost']:z.1%}")
    decided = ", ".join(f"{name} {value:.4g}" for name, value in found["numbers"].items())
    print(f"  {'by':7}{decided}")
    told = {key: found[key] for key in ("cause", "where")}
    done = {key: answer[key] for key in told}
    if live and found["cause"] == "disturbed" != done["cause"]:
        print("  others used the machine: run it again when it is quiet, to see what was done")
    elif told != done:
        print("  it was something else")
    else:
        how = [f": {words}" for name, words in DONE.items() if CASES[name][0] == number]
        print("  right: so it was done", *how, next_stage(evidence, done), sep="")


def next_stage(evidence, done):
    """Of a slow stage, which one is next when it is mended: words, or none."""
    if done["cause"] != "slow-stage":
        return ""
    busy = [statistics.median(row[2] - row[1] for row in rows) for rows in evidence["microbatches"]]
    typical = statistics.median_low(busy)
    busy[done["where"]] = 0
    second = busy.index(max(busy))
    if max(busy) < 1.1 * typical:
        return ""
    times = f"{_ms([max(busy)])} ms beside {_ms([typical])}"
    return f". Mend stage {done['where']}, and stage {second} is next: {times}"


def of_recording(text):
    """A recording's number, from 2, 02 or its case's name."""
    if text in CASES:
        return CASES[text][0]
    if text.isdecimal() and int(text) in answers():
        return int(text)
    raise argparse.ArgumentTypeError(f"no recording {text!r}; `python -m incidents list` has them")


def of_any(text):
    """As of_recording; hang-5, a run of lab 06, as it is."""
    return text if text in hung.names() else of_recording(text)


def main():
    parser = argparse.ArgumentParser(prog="python -m incidents", description=__doc__.split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    of_record = verbs.add_parser("record", help="make the recordings again")
    of_record.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    of_record.add_argument("--repeats", type=int, default=2, metavar="N")
    of_record.add_argument(
        "--first", action="store_true", help="before everybody else's processes (root, cgroup v1)"
    )
    for verb, number, words in (
        ("show", of_recording, "what is known of one"),
        ("read", of_any, "what your diagnose says of it"),
    ):
        verbs.add_parser(verb, help=words).add_argument("number", type=number)
    of_replay = verbs.add_parser("replay", help="one of them live, beside its recording")
    of_replay.add_argument("name", metavar="NAME", choices=CASES, help=", ".join(CASES))
    verbs.add_parser("list", help="the recordings")
    chosen = parser.parse_args()
    try:
        if chosen.verb == "record":
            unknown = [group for group in chosen.groups if group not in GROUPS]
            if unknown:
                parser.error(f"no group {', '.join(unknown)}; there are {', '.join(GROUPS)}")
            with faults.first_on_the_machine() if chosen.first else contextlib.nullcontext():
                record(chosen.groups or list(GROUPS), chosen.repeats, chosen.first)
        elif chosen.verb == "show":
            look.show(chosen.number, _beside_a_healthy_day(chosen.number))
        elif chosen.verb == "read" and isinstance(chosen.number, str):
            lab, number = load_and_say(LAB, default="starter"), int(chosen.number.split("-")[1])
            print(f"recorded, lab 06, {number}")
            say(lab, hung.load(number))
        elif chosen.verb == "read":
            read(load_and_say(LAB, default="starter"), chosen.number)
        elif chosen.verb == "replay":
            replay(chosen.name)
        else:  # the names of the cases would be the answers
            for number in sorted(answers()):
                print(f"python -m incidents show {number:<4}{look.planned(load(number))}")
    except (run.LiveError, OSError, NotImplementedError) as error:
        parser.exit(2, f"incidents: {error}\n")


if __name__ == "__main__":
    main()
