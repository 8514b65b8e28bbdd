"""What lab 06 must prove: the claims task by task, over simulated runs, then the recordings.

The simulator knows what each rank does because it made it so; it never reads the evidence.
"""

import itertools
import json
import random
import threading
from pathlib import Path

import pytest

from labkit.expect import expect_equal
from labkit.loading import load_module

given = load_module(Path(__file__).with_name("given_evidence.py"))
simulate = load_module(Path(__file__).with_name("simulate.py"))
SERVING = [cause for cause in simulate.CAUSES if cause not in simulate.AT_START]
ANSWERS = json.loads((given.RECORDINGS / "answers.json").read_text(encoding="utf-8"))


def runs(causes, each, seed):
    """`each` simulated runs of every cause: evidence, truth, and the line that makes it again."""
    chance = random.Random(seed)
    for cause in causes:
        for _ in range(each):
            number = chance.randrange(10**6)
            evidence, truth = simulate.draw(random.Random(number), cause)
            yield evidence, truth, f"(made by simulate.draw(random.Random({number}), {cause!r}))"


@pytest.mark.points(6)
def test_is_hung__silence_is_not_slowness(lab):
    """What is slow is never called hung, what is hung never slow"""
    for evidence, truth, made in runs(simulate.CAUSES, 6, 1):
        idea = f"{why(evidence, truth['hung'])} {made}"
        expect_equal(lab.is_hung(evidence), truth["hung"], idea=idea)
        if truth["hung"]:
            at_s = sorted({t for rank in evidence["ranks"] for t in times_of(rank)})[-4:]
            middle_s = [(one + other) / 2 for one, other in zip(at_s, at_s[1:], strict=False)]
            for looks_s in ([first_s, evidence["looks_s"][1]] for first_s in at_s + middle_s):
                expected = not any(t > looks_s[0] for t in at_s)
                looked = evidence | {"looks_s": looks_s}
                expect_equal(lab.is_hung(looked), expected, idea=f"{why(looked, expected)} {made}")

    chance = random.Random(16)
    for _ in range(20):
        evidence, truth = simulate.still(chance)
        expect_equal(lab.is_hung(evidence), truth["hung"], idea=why(evidence, truth["hung"]))
        number, one = chance.choice(list(enumerate(evidence["ranks"])))
        if one["collectives"] and truth["hung"]:
            last = one["collectives"][-1]
            last["left_s"] = chance.uniform(*evidence["looks_s"])
            idea = f"rank {number}'s last was left at {last['left_s']:.3f} s, after the first look"
            expect_equal(lab.is_hung(evidence), False, idea=idea)
            last["left_s"], one["cpu_s"] = evidence["looks_s"][0], [5.0, 5.0]
            idea = f"rank {number}'s last was left at the first look, which is not after it"
            expect_equal(lab.is_hung(evidence), True, idea=idea)
            last["entered_s"] = last["left_s"] = evidence["looks_s"][1] + 0.01
            idea = (
                f"rank {number}'s last was made a moment after the second look, so after the first"
            )
            expect_equal(lab.is_hung(evidence), False, idea=idea)
            after_s = last["left_s"]
            for entered_s, left_s in ((9.0, after_s), (after_s, None)):
                last |= {"entered_s": entered_s, "left_s": left_s}
                idea = "what was entered or left after the second look was so after the first too"
                expect_equal(lab.is_hung(evidence), False, idea=idea)


def why(evidence, hung):
    """The rank that decides whether this run is hung, or those that one may be misled by."""
    (first_s, second_s), misleading, inside, outside = evidence["looks_s"], [], [], []
    for number, rank in enumerate(evidence["ranks"]):
        for one, word in itertools.product(rank["collectives"], ("entered", "left")):
            at_s = one[f"{word}_s"]
            if at_s is not None and at_s >= first_s and (at_s > first_s or hung):
                later = (
                    "after the first look" if at_s > first_s else "at the first look, not after it"
                )
                what = f"rank {number} {word} {one['group']} number {one['number']} at {at_s:.7g} s"
                return f"{what}, {later}"
        if rank["exit"] is not None:
            if rank["ended_s"] > first_s:
                misleading.append(f"rank {number} ended, which is no progress")
        else:
            used_s = rank["cpu_s"][1] - rank["cpu_s"][0]
            (inside if given.now_in(rank) else outside).append((used_s, number))
            if rank["stacks"][0] != rank["stacks"][1]:
                misleading.append(f"rank {number} has another stack, which is no progress")
    if inside and max(inside)[0] > 0:
        used_s, number = max(inside)
        where = "inside of a collective, where that is no work"
        misleading.append(f"rank {number} used {used_s:.2g} s {where}")
    if outside:
        used_s, number = max(outside)
        compared = "less than" if hung else "at least"
        tenth = f"{compared} a tenth of {second_s - first_s:.4g} s"
        misleading.append(f"rank {number}, in no collective, used {used_s:.2g} s, {tenth}")
    nothing = f"nothing was entered or left after the first look, at {first_s:.7g} s"
    return "; ".join([nothing, *misleading]) if hung else misleading[-1]


def times_of(rank):
    for collective in rank["collectives"]:
        yield collective["entered_s"]
        if collective["left_s"] is not None:
            yield collective["left_s"]


@pytest.mark.points(4)
@pytest.mark.waits_for("test_is_hung__silence_is_not_slowness")
def test_is_hung__a_busy_core_is_work_only_outside_a_collective(lab):
    """A rank at 100 % inside a collective waits; outside it works, from a tenth of a core on"""
    chance = random.Random(2)
    causes = ["idle", "circular", "operation", "killed", "unheard", "stale-lock"]
    for evidence, truth, made in runs(causes, 12, 3):
        between_s = chance.choice((10.0, 20.0, 40.0))
        evidence["looks_s"][1] = evidence["looks_s"][0] + between_s
        outside = chance.choice((0.02, 0.06, 0.09, 0.1, 0.11, 0.98, 3.0))
        working = []
        for number, rank in enumerate(evidence["ranks"]):
            if rank["exit"] is None:
                is_inside = truth["doing"][number] == "collective"
                # whole seconds: a tenth of the time between the looks is exactly a tenth
                share = 0.98 if is_inside else chance.choice((0.02, outside))
                used_s = float(chance.randrange(1, 400))
                rank["cpu_s"] = [used_s, used_s + share * between_s]
                rank["states"] = [chance.choice(("running", "sleeping")), "running"]  # by chance
                working += [number] * (share >= 0.1 and not is_inside)
        idea = f"outside of a collective 2% or {outside:.0%} of a core is used, inside 98%: "
        idea += f"{f'ranks {working}' if working else 'no ranks'} work {made}"
        expect_equal(lab.is_hung(evidence), not working, idea=idea)


@pytest.mark.points(10)
def test_last_agreed__is_what_the_last_rank_has_left(lab):
    """The last collective of a group is agreed when its last rank has left it, not entered it"""
    for evidence, truth, made in runs(simulate.CAUSES, 6, 4):
        idea = "the lowest of the numbers that the members have left " + made
        expect_equal(lab.last_agreed(evidence), truth["agreed"], idea=idea)
    for evidence, truth in stills(60, 17):
        idea = "member by member the last that it has left, whenever; then the lowest of these"
        evidence["looks_s"] = [0.0, 1.0]
        expect_equal(lab.last_agreed(evidence), truth["agreed"], idea=idea)
        group = next(iter(evidence["groups"]))
        silent = evidence["ranks"][evidence["groups"][group][-1]]
        silent["collectives"] = [c for c in silent["collectives"] if c["group"] != group]
        idea = f"one rank lists no collective of {group}, and has left none of it"
        expect_equal(lab.last_agreed(evidence), truth["agreed"] | {group: -1}, idea=idea)


@pytest.mark.points(11)
def test_wait_graph__names_those_who_have_not_come(lab):
    """A rank waits for those of its group that have not entered the collective it is in"""
    for evidence, truth, made in runs(SERVING, 10, 5):
        expect_graph(lab, evidence, truth["graph"], made)
    chance = random.Random(26)
    for evidence, truth in stills(150, 18):
        chance.choice(evidence["ranks"])["met"] = chance.random() < 0.7  # another, larger group's
        evidence["looks_s"] = [0.0, 1.0]  # the lists are read after the second look
        expect_graph(lab, evidence, truth["graph"])


def expect_graph(lab, evidence, graph, made=""):
    """The idea is of the first rank of which something else is said."""
    got, idea = lab.wait_graph(evidence), f"who waits is a key, here {[*graph] or 'nobody'}"
    for number, rank in enumerate(evidence["ranks"]):
        told = got.get(number) if isinstance(got, dict) else None
        if str(told) != str(graph.get(number)):
            idea = f"rank {number} {waiting(evidence, rank, graph.get(number))}"
            break
    expect_equal(got, graph, idea=f"{idea} {made}".strip())


def waiting(evidence, rank, absent):
    """What a rank is in, and who has entered that."""
    here = given.now_in(rank)
    if rank["exit"] is not None or here is None:
        why = "has ended" if rank["exit"] is not None else "is in no collective"
        return f"{why}: it waits for nobody and is no key"
    members, came, left = evidence["groups"][here["group"]], [], []
    for member in members:
        for one in evidence["ranks"][member]["collectives"]:
            if given.signature(one) == given.signature(here):
                came.append(member)
                left += [member] * (one["left_s"] is not None)
    what = f"{here['group']} number {here['number']}, {here['operation']} {here['shape']}"
    gone = f" ({left} left it since)" if left else ""
    waits = f"so it waits for {absent}" if absent else "so it waits for nobody and is no key"
    return f"is in {what} {here['dtype']}; of ranks {members}, {came} entered that{gone}, {waits}"


def stills(number, seed):
    """So many drawn stills, in which several things may be wrong at once."""
    chance = random.Random(seed)
    for _ in range(number):
        yield simulate.still(random.Random(chance.randrange(10**6)))


@pytest.mark.points(5)
@pytest.mark.waits_for("test_wait_graph__names_those_who_have_not_come")
def test_wait_graph__before_the_group_has_met(lab):
    """Ranks that have not met are in no collective and wait for nobody in one"""
    for evidence, truth, made in runs(simulate.AT_START, 3, 6):
        expect_graph(lab, evidence, truth["graph"], made)


@pytest.mark.points(10)
def test_circle__is_who_comes_back_to_itself(lab):
    """In a circle each waits for the next; who only waits for the circle is not in it"""
    chance = random.Random(7)
    for size in (1, 2, 3, 4, 5, 8, 9):
        for density in (0.0, 0.1, *[0.2] * 6, *[0.3] * 6, 0.4, 1.0):
            others = {rank: [o for o in range(size) if o != rank] for rank in range(size)}
            drawn = {
                rank: sorted(o for o in others[rank] if chance.random() < density)
                for rank in chance.sample(range(size), size)
            }
            graph = {rank: absent for rank, absent in drawn.items() if absent}
            idea = f"who can be reached from itself, along {graph}; sorted"
            expect_equal(lab.circle(graph), around(graph, size), idea=idea)
    for size in (4, 8, 16, 40):
        row = chance.sample(range(6, size + 6), size)
        for back in (0, size // 2):  # each waits for the next, the last for one before it
            idle = range(6 if back else 0)  # ranks that all of them wait for besides
            ahead = [*row[1:], row[back]]
            graph = {one: [*idle, ahead[at]] for at, one in enumerate(row)}
            idea = f"a circle has any length; this one is {' -> '.join(map(str, row[back:]))}"
            expect_equal(lab.circle(graph), sorted(row[back:]), idea=idea)


def around(graph, size):
    """The ranks on a circle, by paths of every length: whom each reaches in so many steps."""
    steps = [set(graph.get(rank, ())) for rank in range(size)]
    reached, found = steps, set()
    for _ in range(size):
        found |= {rank for rank in range(size) if rank in reached[rank]}
        reached = [set().union(*(steps[other] for other in others)) for others in reached]
    return sorted(found)


@pytest.mark.points(14)
@pytest.mark.waits_for("test_wait_graph__names_those_who_have_not_come")
def test_who_is_missing__dead_elsewhere_or_behind(lab):
    """Who is waited for, outside every circle: dead, elsewhere or behind"""
    drawn = ((*still, "(drawn, with several things wrong)") for still in stills(80, 19))
    for evidence, truth, made in itertools.chain(runs(SERVING, 6, 8), drawn):
        found, expected = lab.who_is_missing(evidence), missing_of(evidence, truth)
        expect_equal(found, expected, idea=f"{awaited(found, evidence, truth)} {made}")
        expect_equal(list(found), list(expected), idea="the ranks come in order")
    chance = random.Random(29)
    for _ in range(60):
        evidence, truth = simulate.waits(chance)
        for rank in evidence["ranks"]:
            rank["met"] = given.now_in(rank) is not None or chance.random() < 0.5
        found = lab.who_is_missing(evidence)
        idea = awaited(found, evidence, truth)
        expect_equal(found, missing_of(evidence, truth), idea=idea)


def awaited(found, evidence, truth):
    """Of the first rank that is told otherwise: who waits for it, the circle, and how it is."""
    told, expected = found if isinstance(found, dict) else {}, missing_of(evidence, truth)
    for number, rank in enumerate(evidence["ranks"]):
        if told.get(number) != expected.get(number):
            ring = around(truth["graph"], len(evidence["ranks"]))
            by = [one for one, absent in truth["graph"].items() if number in absent]
            how = f"ended with {rank['exit']}"
            if rank["exit"] is None:
                inside = truth["doing"][number] == "collective"
                how = f"is alive, in {'a' if inside else 'no'} collective"
            where = f"in the circle {ring}" if number in ring else "in no circle"
            return f"rank {number} is awaited by {by or 'nobody'}, is {where}, and {how}"
    return "its keys are ranks, and no others than those that are awaited and in no circle"


def missing_of(evidence, truth):
    awaited = {rank for absent in truth["graph"].values() for rank in absent}
    awaited -= set(around(truth["graph"], len(evidence["ranks"])))
    ended = [rank["exit"] is not None for rank in evidence["ranks"]]
    words = {"collective": "elsewhere"}
    return {
        rank: "dead" if ended[rank] else words.get(truth["doing"][rank], "behind")
        for rank in sorted(awaited)
    }


DIFFERENT = {
    "shape": ([2, 3, 4], [2, 4, 3], [3, 2, 4], [4, 3, 2]),
    "operation": (*simulate.OPERATIONS, "barrier"),
}


@pytest.mark.points(8)
def test_disagreement__operation_before_shape(lab):
    """Ranks in one collective that do not make the same one, the dead among them included"""
    idea = "same group and number, other operation, shape or dtype: all ranks in it, living or dead"
    for evidence, truth in stills(80, 20):
        evidence["looks_s"] = [0.0, 1.0]
        expect_equal(lab.disagreement(evidence), truth["disagree"], idea=idea)
        here = [one for one in map(given.now_in, evidence["ranks"]) if one]
        for rank in evidence["ranks"]:
            if here and given.now_in(rank) is None:
                rank["collectives"].append(here[0] | {"operation": "barrier", "left_s": 9.0})
                left = "who has left a collective is in it no more"
                expect_equal(lab.disagreement(evidence), truth["disagree"], idea=left)
                break
        key = here and given.key_of(here[0])
        now = [rank and given.key_of(rank) for rank in map(given.now_in, evidence["ranks"])]
        mine = [number for number, where in enumerate(now) if where and where == key]
        if truth["disagree"][0] is None and len(mine) > 1:
            one = evidence["ranks"][mine[-1]]["collectives"]
            one[-1] = one[-1] | {"shape": [*one[-1]["shape"][:-1], one[-1]["shape"][-1] + 1]}
            told = f"in {key[0]} number {key[1]} are ranks {mine}, living or dead"
            longer = f"{told}; only the last number of rank {mine[-1]}'s shape is another"
            expect_equal(lab.disagreement(evidence), ("shape", mine), idea=longer)
            for what, values in DIFFERENT.items():
                for place, rank in enumerate(mine):
                    evidence["ranks"][rank]["collectives"][-1][what] = values[place % len(values)]
                many = f"{told}; they differ in {what}"
                expect_equal(lab.disagreement(evidence), (what, mine), idea=many)
    for evidence, truth, made in runs(SERVING, 8, 9):
        disagree = truth["cause"] in ("operation", "shape")
        expected = (truth["cause"], truth["where"]) if disagree else (None, [])
        expect_equal(lab.disagreement(evidence), expected, idea=f"{idea} {made}")


class Links:
    """A group of ranks whose links may alter what they carry; each rank is a thread."""

    def __init__(self, size, alter):
        self.size, self.alter, self.queues = size, alter, {}
        self.changed = threading.Condition()
        self.gathered = [[] for _ in range(size)]
        self.errors = []  # the first is the cause of the others

    def run(self, function, sizes):
        found = [None] * self.size

        def work(rank):
            try:
                found[rank] = function(Member(self, rank), [*sizes])
            except Exception as error:
                with self.changed:
                    self.errors.append(error)
                    self.changed.notify_all()  # nobody waits for this rank any longer

        threads = [threading.Thread(target=work, args=[r], daemon=True) for r in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=5)
        if self.errors:
            raise self.errors[0]
        return found


class Described(str):
    """What is said of a group in the words about a call."""

    __repr__ = str.__str__


class Member:
    def __init__(self, links, rank):
        self.links, self.rank, self.size = links, rank, links.size
        self.gathers, self.received = 0, {}

    def __deepcopy__(self, memo):
        return Described(f"rank {self.rank} of {self.size}")  # for the words about a call

    def send(self, values, to):
        if to == self.rank:
            raise ValueError(f"rank {to} sends to itself, and no link carries it")
        carried = self.links.alter(self.rank, to, list(values))
        with self.links.changed:
            self.links.queues.setdefault((self.rank, to), []).append(carried)
            self.links.changed.notify_all()

    def receive(self, count, source):
        with self.links.changed:
            queue = self.links.queues.setdefault((source, self.rank), [])
            there = lambda: len(queue) > self.received.get(source, 0)  # noqa: E731
            self.links.changed.wait_for(lambda: there() or self.links.errors, timeout=3)
            if not there():
                sent = f"which sent {'no more than ' * bool(queue)}{len(queue)}"
                raise TimeoutError(f"rank {self.rank} waits for rank {source}, {sent}")
            number = self.received[source] = self.received.get(source, 0) + 1
            carried = queue[number - 1]
            if len(carried) != count:
                raise ValueError(
                    f"rank {self.rank} receives {count} values from rank {source}, which sent "
                    f"{len(carried)}; are sizes sent and received in the same order?"
                )
            return [*carried]

    def gather(self, value):
        with self.links.changed:
            self.links.gathered[self.rank].append(value)
            number, self.gathers = self.gathers, self.gathers + 1
            self.links.changed.notify_all()
            everyone = lambda: all(len(own) > number for own in self.links.gathered)  # noqa: E731
            self.links.changed.wait_for(lambda: everyone() or self.links.errors, timeout=3)
            if not everyone():
                raise TimeoutError(f"rank {self.rank} gathers, and not all ranks do")
            return [own[number] for own in self.links.gathered]


def zeros(values, chance):
    return [0] * len(values)


def one_value(values, chance):
    place = chance.randrange(len(values))
    added = chance.choice((1, 1 << 16))  # one bit, of the low ones or of the high ones
    return [*values[:place], values[place] + added, *values[place + 1 :]]


def first_value(values, chance):
    return [values[0] + 1, *values[1:]]


def last_value(values, chance):
    return [*values[:-1], values[-1] + 1]


def halves_swapped(values, chance):
    half = len(values) // 2
    return values[half:] + values[:half]


def two_swapped(values, chance):
    """Of those between the ends, two: neither the sum nor an end is another."""
    place, values = chance.randrange(1, len(values) - 2), [*values]
    values[place], values[place + 1] = values[place + 1], values[place]
    return values


@pytest.mark.threads
@pytest.mark.points(6)
def test_links_work__finds_each_broken_link(lab):
    """Every link, direction and size that alters what it carries is found, by all ranks alike"""
    chance = random.Random(13)
    for num_ranks in (2, 3, 4, 5):
        for harm in (zeros, one_value, first_value, last_value, halves_swapped, two_swapped):
            least = 1 if harm in (zeros, one_value) else 8
            sizes = [least, chance.randint(9, 400), chance.randint(401, 2000)]
            pairs = [(a, b) for a in range(num_ranks) for b in range(num_ranks) if a != b]
            broken = chance.sample(pairs, chance.randint(0, 2)) + [chance.choice(pairs)]
            at = sizes[num_ranks % 3]  # such a link may carry one size and spoil another

            def alter(source, to, values, broken=broken, at=at, harm=harm):
                hit = (source, to) in broken and len(values) == at
                return harm(values, chance) if hit else values

            expected = sorted({(source, to, at) for source, to in broken})
            links = ", ".join(f"{a} -> {b}" for a, b in sorted(set(broken)))
            what, (a, b) = harm.__name__.replace("_", " "), broken[0]
            idea = f"one sorted list, on every rank, of what all found. Of {sizes} values {links} "
            idea += f"spoil {at} ({what}); else from {a} to {b} comes pattern({a}, {b}, size)"
            for found in Links(num_ranks, alter).run(lab.links_work, sizes):
                expect_equal(found, expected, idea=idea)


@pytest.mark.threads
@pytest.mark.points(4)
@pytest.mark.waits_for("test_links_work__finds_each_broken_link")
def test_links_work__finds_what_went_to_another_place(lab):
    """A message of another link, or an old one, is no proof; whole links are clean"""
    chance = random.Random(14)
    for num_ranks in (1, 2, 3, 4):
        sizes = chance.sample(range(8, 300), 2)
        clean = Links(num_ranks, carrying({}))
        for found in clean.run(lab.links_work, sizes):
            expect_equal(found, [], idea="each link carries pattern(source, to, size)")
        if num_ranks < 3:
            continue
        to, other = chance.sample(range(num_ranks), 2)
        sources = [rank for rank in range(num_ranks) if rank not in (to, other)]
        expected = sorted((source, to, size) for size in sizes for source in sources)
        for strays, what in (
            ({(source, to): (source, other) for source in sources}, f"what rank {other} is sent"),
            ({(source, to): (other, to) for source in sources}, f"what rank {other} sends to it"),
            ({(source, to): (to, source) for source in sources}, "what it sends itself"),
        ):
            for found in Links(num_ranks, carrying(strays)).run(lab.links_work, sizes):
                expect_equal(found, expected, idea=f"rank {to} is given {what}")


def carrying(strays):
    """Links that carry what was sent from end to end; strays: {their ends: another one's}."""

    def alter(source, to, values):
        return given.pattern(*strays.get((source, to), (source, to)), len(values))

    return alter


SPANS_MS = range(1, 90_000), range(9_995, 10_005)  # in the second, some end milliseconds apart


@pytest.mark.points(2)
def test_first_to_end__by_the_clock(lab):
    """Of the ranks that ended, the one that ended first, whatever its number and its status"""
    chance = random.Random(15)
    for size in (1, 2, 3, 4, 8, 8, 9):
        for dead, span in itertools.product((0, 1, size // 2, size), SPANS_MS):
            at_s = [at / 1000 for at in chance.sample(span, dead)]
            ended_s = dict(zip(chance.sample(range(size), dead), at_s, strict=True))
            if ended_s and chance.random() < 0.5:  # at once
                ended_s[chance.choice(list(ended_s))] = 0.0
            exits = {n: chance.choice((0, 0, 1, -6, -9)) for n in ended_s}
            ranks = [{"exit": exits.get(n), "ended_s": ended_s.get(n)} for n in range(size)]
            expected = sorted(ended_s, key=ended_s.get)[:1]
            expect_equal(lab.first_to_end(ranks), expected, idea="[the smallest ended_s], or []")


@pytest.mark.points(8)
@pytest.mark.waits_for("test_first_to_end__by_the_clock")
def test_never_met__store_address_lock_or_death(lab):
    """A start that never ends: the store, an address, a lock file, or a rank that died early"""
    causes = [cause for cause in simulate.CAUSES if cause != "loading"]
    for evidence, truth, made in runs(causes, 6, 10):
        met = all(rank["met"] for rank in evidence["ranks"])
        expected = (None, []) if met else (truth["cause"], truth["where"])
        found = lab.never_met(evidence)
        expect_equal(found, expected, idea=f"{of_a_start(found, expected[0])} {made}")
    chance = random.Random(27)
    for _ in range(80):
        evidence, expected = drawn_start(chance)
        found = lab.never_met(evidence)
        idea = f"{of_a_start(found, expected[0])} (drawn, with several things wrong)"
        expect_equal(found, expected, idea=idea)


AT_A_START = {
    None: "first of all, whether all ranks have met; where they have, the rest does not matter",
    "store-gone": "the store comes before every rank, and names none",
    "wrong-address": "all ranks, the dead too, with any listening socket outside of the network",
    "stale-lock": "after the addresses and before the dead, who waits for a lock file now",
    "died-early": "after the lock files, the rank that ended first",
    "unknown": "all live, and nothing of the store, the addresses and lock files explains it",
}


def of_a_start(found, cause):
    """The rule of the answer, and of what the found one overlooks."""
    found = found[0] if isinstance(found, (list, tuple)) and len(found) else cause
    if found is None and cause:
        return f"not all ranks have met, so it is {cause!r}: {AT_A_START[cause]}"
    more = "; 0.0.0.0 is every address of a host; an address counts where a rank LISTENs"
    return AT_A_START[cause] + more * (found == "wrong-address" != cause)


NETWORKS = (  # each with an address inside and one just outside of it
    ("10.77.0.0/24", "10.77.0.9", "10.77.1.9"),
    ("10.77.0.0/25", "10.77.0.9", "10.77.0.200"),
    ("10.77.16.0/20", "10.77.31.9", "10.77.32.9"),
)


def drawn_start(chance):
    """(a start at which several things may be wrong, what never_met says of it)."""
    size, (network, inside, near) = chance.choice((2, 3, 5)), chance.choice(NETWORKS)
    # a host's own, a VPN's, one that no DHCP gave, a container's
    outside = "127.0.0.1", "100.64.0.9", "169.254.7.9", "172.17.0.2", near
    odds = [chance.choice((0, 0.5)) for _ in range(3)]
    ranks, astray, waiting, ended_s = [], [], [], {}
    for number in range(size):
        hosts = [chance.choice(("0.0.0.0", inside)) for _ in range(chance.randint(0, 3))]
        remote = [*hosts, chance.choice(outside)]  # it speaks to others from anywhere
        if chance.random() < odds[0]:
            hosts.insert(chance.randint(0, len(hosts)), chance.choice(outside))
            astray.append(number)
        sockets = [{"local": f"{host}:{61000 + number}", "state": "LISTEN"} for host in hosts]
        state = chance.choice(("ESTABLISHED", "SYN_SENT", "TIME_WAIT", "CLOSE_WAIT"))
        sockets += [{"local": f"{host}:50001", "state": state} for host in remote]
        locked, dead = chance.random() < odds[1], chance.random() < odds[2]
        free, wait = ["serve.py:main", "file_baton.py:release"], ["file_baton.py:wait"]
        stacks = [chance.choice((free, wait)), wait if locked else free]  # at the first look, now
        one = {"exit": None}
        if dead:
            one = {
                "exit": chance.choice((0, 1, -9, 137)),
                "ended_s": round(chance.uniform(0, 9), 3),
            }
        ended_s |= {one["ended_s"]: number} if dead else {}
        waiting += [number] * (locked and not dead)
        one |= {"sockets": [socket | {"remote": "0.0.0.0:0"} for socket in sockets]}
        ranks.append({"ended_s": None} | one | {"met": chance.random() < 0.6, "stacks": stacks})
    store = {"address": f"{chance.choice((inside, *outside))}:29500"}
    store["answers"] = chance.random() < 0.8
    evidence = {"network": network, "store": store, "ranks": ranks, "groups": {}}
    expected = [
        (all(rank["met"] for rank in ranks), (None, [])),
        (not store["answers"], ("store-gone", [])),
        (astray, ("wrong-address", astray)),
        (waiting, ("stale-lock", waiting)),
        (ended_s, ("died-early", [ended_s[min(ended_s)]] if ended_s else [])),
        (True, ("unknown", [])),
    ]
    return evidence, next(answer for holds, answer in expected if holds)


@pytest.mark.points(4)
def test_slowest__holds_up_the_others(lab):
    """The rank that comes latest in all holds up a slow run; a healthy one has none"""
    for evidence, truth, made in runs(["slow", "healthy", "loading"], 12, 11):
        idea = "some have not met: who is in no collective and uses processor time " + made
        if all(rank["met"] for rank in evidence["ranks"]):
            usual_s = evidence["pace_s"]
            idea = f"its pace is {given.pace_s(evidence):.3f} s, usually {usual_s:.3f} s; add up "
            idea += f"each rank's seconds behind the first to enter {made}"
        expect_equal(lab.slowest(evidence), truth["where"], idea=idea)
    chance = random.Random(23)
    for _ in range(40):
        evidence, latest = drawn_pace(chance)
        pace_s = given.pace_s(evidence)
        for usual_s in (pace_s / 2.99, pace_s / 3, pace_s / 3.01, pace_s / 4.5):
            expected = [latest] if pace_s > 3 * usual_s else []
            idea = f"its pace is {pace_s} s, that of a healthy run {usual_s:.5f} s; the seconds "
            idea += "behind the first count, of collectives that every rank of the group lists"
            expect_equal(lab.slowest(evidence | {"pace_s": usual_s}), expected, idea=idea)


def drawn_pace(chance):
    """(a run that goes on, who comes latest): each rank lists another part of its collectives."""
    while True:
        size, number = chance.choice((2, 3, 5)), chance.choice((9, 17))
        groups = {"tp": list(range(size)), "ep": sorted(chance.sample(range(size), 2))}
        slow, late = chance.randrange(size), chance.choice((None, *groups["ep"]))
        end = chance.choice((0, number - 1))  # the one that comes late there often decides
        lives = {"met": True, "exit": None, "ended_s": None}
        ranks, rows = [lives | {"collectives": []} for _ in range(size)], []
        for at in range(number):
            for group, members in groups.items():
                entered_s = {r: 3.0 * at + chance.choice((0, 0.25, 0.5)) for r in members}
                entered_s |= {slow: 3.0 * at + 0.75} if slow in members and at % 2 else {}
                listing = [r for r in members if chance.random() < 0.8] or members[:1]
                entered_s = {r: 3.0 * at for r in members} if at in (0, number - 1) else entered_s
                listing = members if at in (0, number - 1) else listing  # they make the pace 3 s
                left_s = 3.0 * at + 2
                if late in members and (group, at) == ("ep", end):
                    entered_s[late], left_s = 3.0 * at + 1.5, left_s if at == 0 else None
                for rank in listing:
                    one = {"group": group, "number": at, "operation": "all_reduce", "shape": [4]}
                    one |= {"dtype": "float32", "entered_s": entered_s[rank]}
                    ranks[rank]["collectives"].append(one | {"left_s": left_s})
                rows += [entered_s] * (len(listing) == len(members))
        behind_s = [
            sum(row[r] - min(row.values()) for row in rows if r in row) for r in range(size)
        ]
        first, second, *_ = sorted(behind_s, reverse=True)
        if second < first < second + 1:  # else another is drawn, for a close one tells more
            looks_s = [3.0 * number - 6, 3.0 * number - chance.choice((1.6, 1.4))]
            if chance.random() < 0.5:  # a dead rank does not make the run a slow one
                ranks[chance.randrange(size)] |= {"exit": 1, "ended_s": 3.0 * number}
            return {"groups": groups, "looks_s": looks_s, "ranks": ranks}, behind_s.index(first)


@pytest.mark.points(2)
@pytest.mark.waits_for("test_slowest__holds_up_the_others")
def test_slowest__before_all_have_met(lab):
    """Of a start that takes long: who works, from a tenth of a core on, and in no collective"""
    chance = random.Random(24)
    for evidence, _, made in runs(["loading"] * 4 + ["died-early", "unheard"], 8, 25):
        ranks, working, told = evidence["ranks"], [], []
        between_s, alone = chance.choice((5.0, 10.0, 40.0)), chance.random() < 0.5
        before = chance.random() < 0.5  # collectives at a slow pace, of which nothing is asked
        evidence["looks_s"][1] = evidence["looks_s"][0] + between_s
        for number, rank in enumerate(ranks):
            share, inside = chance.choice((0.0, 0.09, 0.1, 0.11, 1.0)), chance.random() < 0.3
            if rank["exit"] is not None:
                rank["exit"] = chance.choice((0, rank["exit"]))
            else:
                used_s = float(chance.randrange(1, 90))
                rank["cpu_s"] = [used_s, used_s + share * between_s]
                one = {"group": next(iter(evidence["groups"])), "number": 2, "shape": [4]}
                one |= {"operation": "all_reduce", "dtype": "float32", "entered_s": 3.0}
                rank["collectives"] = [
                    one | {"number": at, "entered_s": at + number / 9, "left_s": at + 1.0}
                    for at in range(2 * before)
                ] + [one | {"left_s": None}] * inside
                working += [number] * (share >= 0.1 and not inside)
                told.append(f"rank {number} {share:.0%}{' in a collective' * inside}")
        if alone and any(rank["exit"] is not None for rank in ranks):  # the dead alone have not met
            for rank in ranks:
                rank["met"] = rank["exit"] is None
        idea = f"some rank has not met; of a core, in {between_s:g} s: {', '.join(told)} {made}"
        expect_equal(lab.slowest(evidence), working, idea=idea)


@pytest.mark.points(2)
@pytest.mark.waits_for(
    "test_is_hung__silence_is_not_slowness",
    "test_is_hung__a_busy_core_is_work_only_outside_a_collective",
    "test_wait_graph__names_those_who_have_not_come",
    "test_circle__is_who_comes_back_to_itself",
    "test_who_is_missing__dead_elsewhere_or_behind",
    "test_disagreement__operation_before_shape",
    "test_first_to_end__by_the_clock",
    "test_never_met__store_address_lock_or_death",
    "test_slowest__holds_up_the_others",
    "test_slowest__before_all_have_met",
)
def test_diagnose_hang__simulated_runs(lab):
    """The cause and the ranks of simulated runs, with what decided and what to type next"""
    by = {"corrupt-link": "links", "store-gone": "store", "wrong-address": "sockets"}
    by |= {"stale-lock": "stacks", "idle": "stacks", "died-early": "exit", "killed": "exit"}
    by |= {"unknown": "exit"}
    for evidence, truth, made in runs(simulate.CAUSES, 8, 12):
        cause, where = truth["cause"], truth["where"]
        if where is None:
            where = around(truth["graph"], len(evidence["ranks"]))
        decided = by.get(cause, "collectives")
        if cause == "raised":
            decided = "exit" if "dead" in truth["doing"] else "log"
        idea = f"{BY_RULE.get(cause) or AT_A_START[cause]} {made}"
        expect_equal(lab.diagnose_hang(evidence), answer(cause, where, decided), idea=idea)


BY_RULE = {
    "corrupt-link": "links with entries come first: the ranks in all of them, or in any if none is",
    "slow": "nobody has ended and it is not hung: the slowest ranks",
    "healthy": "nobody has ended, it is not hung, and slowest names nobody",
    "operation": "all have met, and the disagreement comes before whoever ended",
    "shape": "all have met, and the disagreement comes before whoever ended",
    "killed": "without a disagreement, the first rank to end; -9 was killed",
    "circular": "all live and have met, and a circle comes before who is missing",
    "stale-lock": "a lock file is asked for after the circle, or, at a start, after the addresses",
    "raised": "the first to end, whose exit is not -9, or, where all live, an error in a log",
    "idle": "who is behind and has neither a lock file nor an error in its log",
    "unknown": "nothing else holds",
}


def answer(cause, where, decided_by):
    command = given.NEXT[cause].format(rank=where[0] if where else "")
    return {"cause": cause, "where": where, "decided_by": decided_by, "next": command}


@pytest.mark.points(2)
@pytest.mark.waits_for("test_diagnose_hang__simulated_runs")
def test_diagnose_hang__the_first_that_holds(lab):
    """Where several things are wrong at once, the first of the list is the diagnosis"""
    chance = random.Random(21)
    waits = (simulate.waits(chance) for _ in range(60))
    for evidence, truth in itertools.chain(stills(120, 22), waits):
        outside = [n for n, what in enumerate(truth["doing"]) if what != "collective"]
        expected, idea = first_that_holds(evidence, truth)
        expect_equal(lab.diagnose_hang(evidence), expected, idea=idea)
        number = chance.choice((2, 3))
        pairs = (chance.sample(range(len(evidence["ranks"])), 2) for _ in range(number))
        wrong = [[*pair, chance.choice((8, 65536))] for pair in pairs]
        in_any = {rank for link in wrong for rank in link[:2]}
        in_all = {rank for rank in in_any if all(rank in link[:2] for link in wrong)} or in_any
        idea = f"the links {wrong} come before everything else, a slow run and a hung one too"
        for looks_s in ([0.0, 1.0], evidence["looks_s"]):
            got = lab.diagnose_hang(evidence | {"links": wrong, "looks_s": looks_s, "pace_s": 0.0})
            expect_equal(got, answer("corrupt-link", sorted(in_all), "links"), idea=idea)
        goes_on = outside and "dead" not in truth["doing"]
        if goes_on:
            idea = f"all live, rank {outside[0]} works, none is slow: first of all, it is not hung"
            got = lab.diagnose_hang(at_work(evidence, outside[0]))
            expect_equal(got, answer("healthy", [], "collectives"), idea=idea)
        chance.choice(evidence["ranks"])["met"] = False
        if "dead" not in truth["doing"] and any(rank["collectives"] for rank in evidence["ranks"]):
            idea = "all live, and a collective was entered after the first look: first of all, it "
            idea += "is not hung, although one rank has not met the others and nobody works"
            got = lab.diagnose_hang(evidence | {"looks_s": [0.0, 1.0]})
            expect_equal(got, answer("healthy", [], "collectives"), idea=idea)
        idea = f"one rank has not met the others, which comes before collectives: {truth['doing']}"
        expect_equal(lab.diagnose_hang(evidence), start_of(evidence, truth), idea=idea)
        got, idea = lab.diagnose_hang(evidence | {"links": wrong}), f"the links {wrong} come first"
        expect_equal(got, answer("corrupt-link", sorted(in_all), "links"), idea=idea)
        if goes_on:
            idea = f"some have not met, and rank {outside[0]} works: first of all, it is not hung"
            got = lab.diagnose_hang(at_work(evidence, outside[0]))
            expect_equal(got, answer("slow", outside[:1], "collectives"), idea=idea)


def at_work(evidence, number):
    """The same still, of which one rank works outside of a collective; it keeps its pace."""
    rank = evidence["ranks"][number]
    ranks = [*evidence["ranks"]]
    ranks[number] = rank | {"cpu_s": [rank["cpu_s"][0], rank["cpu_s"][0] + 6]}
    return evidence | {"ranks": ranks, "pace_s": 1000.0}


def start_of(evidence, truth):
    """The answer for a still in which some rank has not met the others."""
    waiting = [rank for rank, what in enumerate(truth["doing"]) if what == "lock"]
    ended_s = {rank["ended_s"]: [n] for n, rank in enumerate(evidence["ranks"]) if rank["ended_s"]}
    if not evidence["store"]["answers"]:
        return answer("store-gone", [], "store")
    if waiting:
        return answer("stale-lock", waiting, "stacks")
    if ended_s:
        return answer("died-early", ended_s[min(ended_s)], "exit")
    return answer("unknown", [], "exit")


def first_that_holds(evidence, truth):
    """What a still's truth comes to, and the sentence that says why."""
    (cause, ranks), doing = truth["disagree"], truth["doing"]
    if cause:
        return answer(cause, ranks, "collectives"), "ranks that disagree come before the dead"
    ended_s = {n: rank["ended_s"] for n, rank in enumerate(evidence["ranks"]) if rank["ended_s"]}
    if ended_s:
        first = min(ended_s, key=ended_s.get)
        cause = "killed" if evidence["ranks"][first]["exit"] == -9 else "raised"
        return answer(cause, [first], "exit"), f"the ranks ended at {ended_s}"
    if ring := around(truth["graph"], len(doing)):
        return answer("circular", ring, "collectives"), f"a circle in {truth['graph']}"
    behind = [n for n, how in missing_of(evidence, truth).items() if how == "behind"]
    idea = f"missing and not elsewhere are {behind}"
    for what, cause, by, why in (
        # a rank that waits for a lock may have an old traceback in its log
        ("lock", "stale-lock", "stacks", "wait for a lock file: old errors in a log do not count"),
        ("raised", "raised", "log", "tell of an error"),
    ):
        if them := [n for n in behind if doing[n] == what]:
            return answer(cause, them, by), f"{idea}; of these {them} {why}"
    idea += ", with neither lock nor error" * bool(behind)
    return answer("idle" if behind else "unknown", behind, "stacks"), idea


@pytest.mark.points(2)
@pytest.mark.waits_for("test_diagnose_hang__simulated_runs")
@pytest.mark.parametrize("number", sorted(map(int, ANSWERS)))
def test_diagnose_hang__recorded_runs(lab, number):
    """The cause and the ranks of every recorded run, both repeats"""
    for path in sorted(given.RECORDINGS.glob(f"{number:02}-*.json")):
        found = lab.diagnose_hang(given.load(number, int(path.stem[-1])))
        if not isinstance(found, dict):
            expect_equal(found, {})
        answer = ANSWERS[str(number)]
        told = {key: found.get(key) for key in ("cause", "where")}
        expect_equal(told, answer, idea=f"python clinic.py show {number} shows what is known of it")
