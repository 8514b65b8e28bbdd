"""Lab 06: from a last line and two stacks to the cause of a hang.

A rank waits in a collective until the last rank of its group has come. So a hang has one question:
who has not come, and what is it doing instead? given_evidence.py says what an evidence holds. The
lists that a function returns are sorted.
"""

from ipaddress import ip_address, ip_network

from given_evidence import ERROR, NEXT, locked, now_in, pace_s, pattern, signature

WORKING = 0.1  # of a core between two looks: outside a collective, this much is work


def is_hung(evidence):
    """Return True when nothing went on between the two looks, on any rank.

    Entering or leaving a collective after the first look is progress. So is processor time, at
    least WORKING of the time between the looks, of a rank that is alive and in no collective at the
    second look; inside a collective it is none, for many libraries wait by asking again and again.
    That a rank has ended is no progress, even between the looks.
    """
    # BEGIN SOLUTION (task 1)
    first_s, second_s = evidence["looks_s"]
    for rank in evidence["ranks"]:
        for collective in rank["collectives"]:
            if max(collective["entered_s"], collective["left_s"] or 0) > first_s:
                return False
        if rank["exit"] is None and now_in(rank) is None:
            before_s, after_s = rank["cpu_s"]
            if after_s - before_s >= WORKING * (second_s - first_s):
                return False
    return True
    # END SOLUTION


def last_agreed(evidence):
    """Return per group the number of its last collective that all its ranks have left, -1 if none.

    {"tp": 41, "ep": 40}, say: a dict by group name. A rank that lists no collective of a group has
    left none of it.
    """
    # BEGIN SOLUTION (task 2)
    agreed = {}
    for group, members in evidence["groups"].items():
        left = []
        for member in members:
            own = evidence["ranks"][member]["collectives"]
            numbers = [c["number"] for c in own if c["group"] == group and c["left_s"] is not None]
            left.append(max(numbers, default=-1))
        agreed[group] = min(left)
    return agreed
    # END SOLUTION


def wait_graph(evidence):
    """Return {rank: the ranks that it waits for}: of the living, who has not entered what it is in.

    A rank waits for each other member of its collective's group that has not entered the same
    collective (given_evidence.signature). Ranks that are dead, or in no collective, wait for nobody
    and are no key; a rank that waits for nobody is none either. Each list is in order of rank.
    """
    # BEGIN SOLUTION (task 3)
    graph = {}
    for number, rank in enumerate(evidence["ranks"]):
        here = now_in(rank)
        if rank["exit"] is not None or here is None:
            continue
        absent = []
        for member in evidence["groups"][here["group"]]:
            entered = map(signature, evidence["ranks"][member]["collectives"])
            if signature(here) not in entered:
                absent.append(member)
        if absent:
            graph[number] = absent
    return graph
    # END SOLUTION


def circle(graph):
    """Return the ranks that wait for each other in a circle, sorted; [] when nobody does.

    graph is what wait_graph returns. A rank belongs to a circle when the way from it, from rank to
    awaited rank, comes back to it.
    """
    # BEGIN SOLUTION (task 4)

    def reached_from(rank):
        reached, ahead = set(), list(graph.get(rank, ()))
        while ahead:
            other = ahead.pop()
            if other not in reached:
                reached.add(other)
                ahead += graph.get(other, ())
        return reached

    return sorted(rank for rank in graph if rank in reached_from(rank))
    # END SOLUTION


def who_is_missing(evidence):
    """Return {rank: how} for the ranks that are waited for and are in no circle, by rank.

    how is "dead" (it has ended), "elsewhere" (alive, in another collective) or "behind" (alive,
    in no collective). Source: what Torch's flight recorder analyzer,
    torch/distributed/flight_recorder, asks of the dumps of all ranks.
    """
    # BEGIN SOLUTION (task 5)
    graph = wait_graph(evidence)
    awaited = {rank for absent in graph.values() for rank in absent} - set(circle(graph))
    missing = {}
    for number in sorted(awaited):
        rank = evidence["ranks"][number]
        if rank["exit"] is not None:
            missing[number] = "dead"
        else:
            missing[number] = "elsewhere" if now_in(rank) else "behind"
    return missing
    # END SOLUTION


def disagreement(evidence):
    """Return (cause, ranks) where ranks meet in a collective and disagree; (None, []) when none do.

    Ranks, dead ones included, that are in the same number of the same group shall make the same
    operation with the same shape and dtype. cause is "operation" where operations differ, and
    "shape" where only shapes or dtypes do; ranks: all that are in that number. At most one
    collective of an evidence is disagreed on.
    """
    # BEGIN SOLUTION (task 6)
    for group in evidence["groups"]:
        inside = {}
        for number, rank in enumerate(evidence["ranks"]):
            here = now_in(rank)
            if here and here["group"] == group:
                inside.setdefault(here["number"], {})[number] = here
        for ranks in inside.values():
            if len({c["operation"] for c in ranks.values()}) > 1:
                return "operation", sorted(ranks)
            if len({signature(c) for c in ranks.values()}) > 1:
                return "shape", sorted(ranks)
    return None, []
    # END SOLUTION


def links_work(group, sizes):
    """Return the links that do not carry what they are given: [(from, to, size), ...], sorted.

    Run by every rank of a group; every rank returns the whole list. For each size, a number of
    values, every rank sends to every other and compares what it receives, value by value, with what
    was sent: given_evidence.pattern(source, to, size), which both ends can compute. group has
    .rank, .size, .send(values, to), which does not wait, .receive(count, source), and
    .gather(value), the list of all ranks' values on every rank. A link that is reported is not one
    that works: nccl issue 1999, club-3090 issue 922.
    """
    # BEGIN SOLUTION (task 7)
    others = [rank for rank in range(group.size) if rank != group.rank]
    wrong = []
    for size in sizes:
        for to in others:
            group.send(pattern(group.rank, to, size), to)
        for source in others:
            if group.receive(size, source) != pattern(source, group.rank, size):
                wrong.append((source, group.rank, size))
    return sorted(link for part in group.gather(wrong) for link in part)
    # END SOLUTION


def first_to_end(ranks):
    """Return [the rank that ended first], or [] when all live; ranks as in an evidence.

    The first error that one reads is often the second to happen: it is a survivor's.
    """
    # BEGIN SOLUTION (task 8)
    ended = [(rank["ended_s"], n) for n, rank in enumerate(ranks) if rank["exit"] is not None]
    return [min(ended)[1]] if ended else []
    # END SOLUTION


def never_met(evidence):
    """Return (cause, ranks) when some rank has not met the others; (None, []) when all have.

    "store-gone", []: nothing answers at the store's address. Else "wrong-address", the ranks that
    listen on a host outside evidence["network"]: they told the others an address of no use, and the
    rank whose connection failed for it is their victim. 0.0.0.0 stands for every address of a host
    and is not outside. Else "stale-lock", the ranks that wait for a lock file now
    (given_evidence.locked). Else "died-early", the rank that ended first. Else, where all live,
    "unknown", []. Every rank is asked, whether it has met the others itself or not.
    """
    # BEGIN SOLUTION (task 9)
    ranks, store = evidence["ranks"], evidence["store"]
    if all(rank["met"] for rank in ranks):
        return None, []
    if not store["answers"]:
        return "store-gone", []
    network, astray = ip_network(evidence["network"]), []
    for number, rank in enumerate(ranks):
        listening = [s["local"].split(":")[0] for s in rank["sockets"] if s["state"] == "LISTEN"]
        hosts = [host for host in listening if host != "0.0.0.0"]
        if any(ip_address(host) not in network for host in hosts):
            astray.append(number)
    if astray:
        return "wrong-address", astray
    if locked(ranks):
        return "stale-lock", locked(ranks)
    return ("died-early", first_to_end(ranks)) if first_to_end(ranks) else ("unknown", [])
    # END SOLUTION


def slowest(evidence):
    """Return the ranks that hold up a run which goes on: [] when it keeps its pace.

    While some rank has not met the others: the living ranks in no collective that used processor
    time, at least WORKING of the time between the looks. When all have met, and the run's
    given_evidence.pace_s is more than 3 times evidence["pace_s"]: the one rank that comes latest in
    all, by the sum of its seconds behind the first to enter, over the collectives that every rank
    of their group lists.
    """
    # BEGIN SOLUTION (task 10)
    ranks, (first_s, second_s) = evidence["ranks"], evidence["looks_s"]
    if not all(rank["met"] for rank in ranks):
        away = [rank["exit"] is not None or now_in(rank) is not None for rank in ranks]
        used_s = [(0, 0) if away[n] else rank["cpu_s"] for n, rank in enumerate(ranks)]
        least_s = WORKING * (second_s - first_s)
        return [n for n, (before_s, after_s) in enumerate(used_s) if after_s - before_s >= least_s]
    if pace_s(evidence) <= 3 * evidence["pace_s"]:
        return []
    entered = {}
    for number, rank in enumerate(ranks):
        for one in rank["collectives"]:
            entered.setdefault(signature(one), {})[number] = one["entered_s"]
    behind_s = [0.0] * len(ranks)
    for (group, *_), times in entered.items():
        if len(times) == len(evidence["groups"][group]):
            for number, at_s in times.items():
                behind_s[number] += at_s - min(times.values())
    return [behind_s.index(max(behind_s))]
    # END SOLUTION


def diagnose_hang(evidence):
    """Return {"cause": ..., "where": ranks, "decided_by": ..., "next": what to type}.

    Ask in the order of the chapter's "One page to print": what a later question finds may be the
    consequence of an earlier one. Each cause and where it sits, by what decided it:
      "links"        corrupt-link: the ranks that are in all of links, or in any if none is in all
      "collectives"  when all live and it is not hung, slow, or healthy when nobody is; else a
                     disagreement; circular
      "store", "sockets", "stacks"  of never_met: a store that is gone, an address, a lock file
      "exit"         whatever else never_met says; when all have met, the first to end: killed if
                     its exit is -9, else raised
      "stacks"       of the missing ranks that are not elsewhere: stale-lock, those that wait for a
                     lock file (old errors in their logs do not count); idle, all of them, where no
                     lock and no error says more; unknown, [], where there are none
      "log"          of the same ranks: raised, those with given_evidence.ERROR in a line
    next is given_evidence.NEXT[cause], with the first rank of where in place of {rank}.
    """
    # BEGIN SOLUTION (task 11)
    ranks, links = evidence["ranks"], evidence["links"]
    ended = first_to_end(ranks)

    def found():
        if links:
            ends = [{source, to} for source, to, _ in links]
            return "corrupt-link", sorted(set.intersection(*ends) or set.union(*ends)), "links"
        if not ended and not is_hung(evidence):
            held_up_by = slowest(evidence)
            return "slow" if held_up_by else "healthy", held_up_by, "collectives"
        cause, where = never_met(evidence)
        if cause:
            by = {"store-gone": "store", "wrong-address": "sockets", "stale-lock": "stacks"}
            return cause, where, by.get(cause, "exit")
        cause, where = disagreement(evidence)
        if cause:
            return cause, where, "collectives"
        if ended:
            return "killed" if ranks[ended[0]]["exit"] == -9 else "raised", ended, "exit"
        if around := circle(wait_graph(evidence)):
            return "circular", around, "collectives"
        missing = [rank for rank, how in who_is_missing(evidence).items() if how != "elsewhere"]
        if waiting := [rank for rank in missing if rank in locked(ranks)]:
            return "stale-lock", waiting, "stacks"
        told = [rank for rank in missing if any(ERROR in line for line in ranks[rank]["log"])]
        if told:
            return "raised", told, "log"
        return "idle" if missing else "unknown", missing, "stacks"

    cause, where, decided_by = found()
    command = NEXT[cause].format(rank=where[0] if where else "")
    return {"cause": cause, "where": where, "decided_by": decided_by, "next": command}
    # END SOLUTION
