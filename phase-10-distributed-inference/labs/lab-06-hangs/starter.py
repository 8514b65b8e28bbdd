# lab-06 starter: write where NotImplementedError stands. [e8dcc9953bd9]
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
    raise NotImplementedError(
        "lab-06 · is_hung is yours to write (about 10 lines). "
        "The book (make book) says more: lab-06, task 1"
    )


def last_agreed(evidence):
    """Return per group the number of its last collective that all its ranks have left, -1 if none.

    {"tp": 41, "ep": 40}, say: a dict by group name. A rank that lists no collective of a group has
    left none of it.
    """
    raise NotImplementedError(
        "lab-06 · last_agreed is yours to write (about 9 lines). "
        "The book (make book) says more: lab-06, task 2"
    )


def wait_graph(evidence):
    """Return {rank: the ranks that it waits for}: of the living, who has not entered what it is in.

    A rank waits for each other member of its collective's group that has not entered the same
    collective (given_evidence.signature). Ranks that are dead, or in no collective, wait for nobody
    and are no key; a rank that waits for nobody is none either. Each list is in order of rank.
    """
    raise NotImplementedError(
        "lab-06 · wait_graph is yours to write (about 13 lines). "
        "The book (make book) says more: lab-06, task 3"
    )


def circle(graph):
    """Return the ranks that wait for each other in a circle, sorted; [] when nobody does.

    graph is what wait_graph returns. A rank belongs to a circle when the way from it, from rank to
    awaited rank, comes back to it.
    """
    raise NotImplementedError(
        "lab-06 · circle is yours to write (about 9 lines). "
        "The book (make book) says more: lab-06, task 4"
    )


def who_is_missing(evidence):
    """Return {rank: how} for the ranks that are waited for and are in no circle, by rank.

    how is "dead" (it has ended), "elsewhere" (alive, in another collective) or "behind" (alive,
    in no collective). Source: what Torch's flight recorder analyzer,
    torch/distributed/flight_recorder, asks of the dumps of all ranks.
    """
    raise NotImplementedError(
        "lab-06 · who_is_missing is yours to write (about 10 lines). "
        "The book (make book) says more: lab-06, task 5"
    )


def disagreement(evidence):
    """Return (cause, ranks) where ranks meet in a collective and disagree; (None, []) when none do.

    Ranks, dead ones included, that are in the same number of the same group shall make the same
    operation with the same shape and dtype. cause is "operation" where operations differ, and
    "shape" where only shapes or dtypes do; ranks: all that are in that number. At most one
    collective of an evidence is disagreed on.
    """
    raise NotImplementedError(
        "lab-06 · disagreement is yours to write (about 12 lines). "
        "The book (make book) says more: lab-06, task 6"
    )


def links_work(group, sizes):
    """Return the links that do not carry what they are given: [(from, to, size), ...], sorted.

    Run by every rank of a group; every rank returns the whole list. For each size, a number of
    values, every rank sends to every other and compares what it receives, value by value, with what
    was sent: given_evidence.pattern(source, to, size), which both ends can compute. group has
    .rank, .size, .send(values, to), which does not wait, .receive(count, source), and
    .gather(value), the list of all ranks' values on every rank. A link that is reported is not one
    that works: nccl issue 1999, club-3090 issue 922.
    """
    raise NotImplementedError(
        "lab-06 · links_work is yours to write (about 9 lines). "
        "The book (make book) says more: lab-06, task 7"
    )


def first_to_end(ranks):
    """Return [the rank that ended first], or [] when all live; ranks as in an evidence.

    The first error that one reads is often the second to happen: it is a survivor's.
    """
    raise NotImplementedError(
        "lab-06 · first_to_end is yours to write (about 2 lines). "
        "The book (make book) says more: lab-06, task 8"
    )


def never_met(evidence):
    """Return (cause, ranks) when some rank has not met the others; (None, []) when all have.

    "store-gone", []: nothing answers at the store's address. Else "wrong-address", the ranks that
    listen on a host outside evidence["network"]: they told the others an address of no use, and the
    rank whose connection failed for it is their victim. 0.0.0.0 stands for every address of a host
    and is not outside. Else "stale-lock", the ranks that wait for a lock file now
    (given_evidence.locked). Else "died-early", the rank that ended first. Else, where all live,
    "unknown", []. Every rank is asked, whether it has met the others itself or not.
    """
    raise NotImplementedError(
        "lab-06 · never_met is yours to write (about 16 lines). "
        "The book (make book) says more: lab-06, task 9"
    )


def slowest(evidence):
    """Return the ranks that hold up a run which goes on: [] when it keeps its pace.

    While some rank has not met the others: the living ranks in no collective that used processor
    time, at least WORKING of the time between the looks. When all have met, and the run's
    given_evidence.pace_s is more than 3 times evidence["pace_s"]: the one rank that comes latest in
    all, by the sum of its seconds behind the first to enter, over the collectives that every rank
    of their group lists.
    """
    raise NotImplementedError(
        "lab-06 · slowest is yours to write (about 18 lines). "
        "The book (make book) says more: lab-06, task 10"
    )


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
    raise NotImplementedError(
        "lab-06 · diagnose_hang is yours to write (about 30 lines). "
        "The book (make book) says more: lab-06, task 11"
    )
