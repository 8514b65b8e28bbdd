"""Plausible mistakes of lab 06. See labkit/mistakes/__init__.py for how they are written down."""

EDITS = """
Rejected by: test_is_hung__silence_is_not_slowness

is_hung__at_the_first_look
what happened at the very moment of the first look counts as progress.
The look has seen it: what counts is what came after it.
    > first_s:  ->  >= first_s:

is_hung__only_what_was_left_counts
only collectives that were left count as progress.
A rank that has entered one since the first look has worked until then: a very slow one, say.
    max(collective["entered_s"], collective["left_s"] or 0)  ->  (collective["left_s"] or 0)

is_hung__a_quiet_processor_is_a_hang
progress is looked for on the processor alone.
A rank that waits for a reply of a slow neighbour uses none and goes on all the same.
    > first_s:  ->  > second_s:

is_hung__since_the_second_look
progress is looked for after the second look.
Nothing is known of that time: what counts is what happened between the two.
    first_s, second_s = evidence["looks_s"]  ->  second_s, first_s = evidence["looks_s"]

is_hung__until_the_second_look
only what was entered or left up to the second look counts as progress.
The collectives are read a moment later: what they say of that moment is progress too.
    if max(collective["entered_s"], collective["left_s"] or 0) > first_s:
    ->  if any(first_s < (collective[at] or 0) <= second_s for at in ("entered_s", "left_s")):

Rejected by: test_is_hung__a_busy_core_is_work_only_outside_a_collective

is_hung__the_mean_of_those_outside
the ranks outside of collectives are held against WORKING by their mean.
One that works is enough, however many are idle beside it.
    after_s - before_s >=  ->  _mean_used_s(evidence) >=

is_hung__more_than_a_tenth
a tenth of a core is not yet work, only more of it.
WORKING is the least that is work.
    after_s - before_s >=  ->  after_s - before_s >

is_hung__always_ten_seconds
ten seconds are taken for the time between the looks.
That time stands in evidence["looks_s"].
    WORKING * (second_s - first_s)  ->  WORKING * 10

is_hung__a_busy_core_is_work_everywhere
a rank that uses its core is taken as working, wherever it is.
Inside a collective many libraries ask again and again whether the others have come: 100 % of a
core is waiting there.
    if rank["exit"] is None and now_in(rank) is None:  ->  if rank["exit"] is None:

is_hung__processor_time_says_nothing
processor time is not looked at.
A rank that loads its weights, or computes for minutes, enters no collective meanwhile.
    if after_s - before_s >= WORKING * (second_s - first_s):  ->  if False:

is_hung__any_processor_time_is_work
any processor time at all is taken as work.
A process that waits still answers timers and signals, the one of the look among them.
    >= WORKING * (second_s - first_s)  ->  > 0

is_hung__a_tenth_of_a_second
a tenth of a second is asked for, not a tenth of the time between the looks.
WORKING is a share of a core.
    WORKING * (second_s - first_s)  ->  WORKING

Rejected by: test_last_agreed__is_what_the_last_rank_has_left

last_agreed__what_was_entered
a collective counts as agreed when it was entered.
Entering is a promise; the hung one has been entered too, by those who wait in it.
    and c["left_s"] is not None]  ->  ]

last_agreed__the_furthest_rank
the furthest rank decides.
What all have left is what the last of them has left.
    min(left)  ->  max(left)

last_agreed__counts_the_list
the entries of the list are counted.
The list holds the last ones only; the number says which they were.
    max(numbers, default=-1)  ->  len(numbers) - 1

last_agreed__all_groups_are_one
the numbers of all groups are taken together.
Each group counts its own collectives from 0.
    if c["group"] == group and  ->  if

last_agreed__ranks_outside_the_group_too
all ranks are asked, those outside of the group too.
They have never entered it, and would hold it at -1 for ever.
    for member in members:  ->  for member in range(len(evidence["ranks"])):

last_agreed__a_group_never_entered_is_left_out
a group of which nothing was left is left out.
It is the most telling one: -1 says that it never worked.
    agreed[group] = min(left)  ->  agreed |= {group: min(left)} if min(left) >= 0 else {}

last_agreed__who_lists_nothing_is_skipped
a rank that lists no collective of the group is not counted.
It has left none, and so they have agreed on none.
    left.append(max(numbers, default=-1))  ->  left += [max(numbers)] if numbers else []
    min(left)  ->  min(left, default=-1)

last_agreed__zero_for_none
0 stands for none.
0 is the first collective's number: it would say that this one worked.
    default=-1  ->  default=0

Rejected by: test_wait_graph__names_those_who_have_not_come

wait_graph__the_number_is_enough
ranks in the same number of a group are taken as being in the same collective.
One is in an all-reduce and the other in an all-gather: each waits for the other.
    if signature(here) not in entered:  ->  if signature(here)[:2] not in [e[:2] for e in entered]:

wait_graph__the_operation_is_not_looked_at
the shape is compared and the operation is not.
Both matter: a sum of four rows does not meet a gather of four rows.
    if signature(here) not in entered:
    ->  if (signature(here)[:2] + signature(here)[3:]) not in [e[:2] + e[3:] for e in entered]:

wait_graph__all_ranks_are_asked
ranks outside of the group are waited for.
They never enter its collectives.
    evidence["groups"][here["group"]]  ->  range(len(evidence["ranks"]))

wait_graph__the_dead_wait_too
a rank that has ended is said to wait.
It was inside when it ended; it waits for nobody now.
    rank["exit"] is not None or here is None  ->  here is None

wait_graph__nobody_waits_for_the_dead
the dead are not waited for.
They are whom one waits for longest.
    if signature(here) not in entered:
    ->  if signature(here) not in entered and evidence["ranks"][member]["exit"] is None:

wait_graph__who_is_inside_is_waited_for
only who is in the same collective now counts as come, and the others are waited for.
Who has come and left it has come; but here nobody can have left before all are there.
    if signature(here) not in entered:  ->  if signature(here) in entered:

wait_graph__itself_too
a rank waits for itself.
It has entered what it is in.
    absent = []  ->  absent = [number]

wait_graph__keeps_those_who_wait_for_nobody
ranks that wait for nobody are listed with an empty list.
A graph that lists them makes everybody look stuck.
    if absent:  ->  if True:

wait_graph__reversed
the arrows point from the awaited to those who wait.
Read "0: [1]" as "0 waits for 1".
    graph[number] = absent
    ->  graph |= {member: sorted([*graph.get(member, []), number]) for member in absent}

wait_graph__one_is_enough
only the first absent rank is named.
Of eight ranks three may be missing, and each for another reason.
    graph[number] = absent  ->  graph[number] = absent[:1]

Rejected by: test_circle__is_who_comes_back_to_itself

circle__everybody_who_waits
everybody who waits is taken as part of the circle.
Who waits for the circle from outside is its victim.
    if rank in reached_from(rank)  ->  if reached_from(rank)

circle__pairs_only
only two ranks that wait for each other are a circle.
Three can do it, each waiting for the next.
    if rank in reached_from(rank)  ->  if any(rank in graph.get(o, ()) for o in graph[rank])

circle__who_is_waited_for
ranks that wait and are waited for are taken as the circle.
A chain has such ranks too, in its middle.
    if rank in reached_from(rank)  ->  if any(rank in absent for absent in graph.values())

circle__one_step
only the ranks that are awaited directly are looked at.
The way back may be long.
    ahead += graph.get(other, ())  ->  pass

circle__follows_the_first_only
of several awaited ranks the first alone is followed.
The circle may close through another.
    list(graph.get(rank, ()))  ->  list(graph.get(rank, ())[:1])
    graph.get(other, ())  ->  graph.get(other, [])[:1]

Rejected by: test_who_is_missing__dead_elsewhere_or_behind

who_is_missing__in_no_order
the ranks come in another order.
A reader looks for a rank, and diagnose_hang names the first one in its command.
    in sorted(awaited):  ->  in sorted(awaited, reverse=True):

who_is_missing__the_dead_are_behind
a rank that has ended is called behind.
Behind comes some day, dead does not.
    if rank["exit"] is not None:  ->  if False:

who_is_missing__who_died_inside_is_elsewhere
a rank that was inside a collective when it ended is called elsewhere.
Its process is gone: first ask whether it lives.
    if rank["exit"] is not None:  ->  if rank["exit"] is not None and not now_in(rank):

who_is_missing__elsewhere_is_behind
a rank that is in another collective is called behind.
It waits in turn: look for whom.
    "elsewhere" if now_in(rank) else "behind"  ->  "behind"

who_is_missing__the_circle_too
the ranks of a circle are listed as missing.
They are all there, each in a collective; none of them is the one to look for.
    - set(circle(graph))  ->  - set()

who_is_missing__who_waits
those who wait are listed, not those who are waited for.
The last line in a log is mostly a victim's.
    {rank for absent in graph.values() for rank in absent}  ->  set(graph)

who_is_missing__only_who_does_not_wait
only ranks that wait for nobody are listed.
A rank that waits elsewhere is missing here all the same.
    - set(circle(graph))  ->  - set(graph)

who_is_missing__who_waits_for_the_circle
ranks that wait for a rank of the circle are left out with it.
They are in no circle, and somebody waits for them: they are missing, elsewhere.
    in sorted(awaited):
    ->  in sorted(one for one in awaited if not {*graph.get(one, ())} & {*circle(graph)}):

Rejected by: test_disagreement__operation_before_shape

disagreement__whatever_the_number
ranks in the same group are compared, in whichever of its collectives each is.
A rank that died in one collective and others that are in the next one do not disagree.
    setdefault(here["number"], {})  ->  setdefault(None, {})

disagreement__the_dead_do_not_count
ranks that have ended are left out.
Some libraries end a process for the disagreement itself: it is dead because of what it was in.
    if here and here["group"] == group:
    ->  if here and here["group"] == group and rank["exit"] is None:

disagreement__shape_before_operation
a difference of shapes is told where the operations differ.
An all-gather's shape means something else than an all-reduce's.
    return "operation", sorted(ranks)
    ->  return ("shape", "operation")[len({str(c["shape"]) for c in ranks.values()}) < 2], [*ranks]

disagreement__the_dtype_is_forgotten
the dtype is not compared.
float32 against bfloat16 is half the bytes for the same shape.
    {signature(c) for c in ranks.values()}  ->  {tuple(c["shape"]) for c in ranks.values()}

disagreement__across_groups
collectives of different groups are compared.
Group tp number 7 and group ep number 7 have nothing to do with each other.
    if here and here["group"] == group:  ->  if here:

disagreement__the_odd_one_out
only the ranks that differ from the first are named.
With two ranks nobody can say which of them is wrong.
    return "shape", sorted(ranks)  ->  return "shape", sorted(ranks)[1:]
    return "operation", sorted(ranks)  ->  return "operation", sorted(ranks)[1:]

disagreement__who_has_left_is_in_it
a rank's last collective counts, even after it has left it.
Who has left is elsewhere; ranks disagree where they are in one collective together.
    here = now_in(rank)  ->  here = (rank["collectives"] or [None])[-1]

Rejected by: test_first_to_end__by_the_clock

first_to_end__the_last_to_die
of several dead ranks the last is named.
The first error printed is often the second to happen; the first to end comes before.
    return [min(ended)[1]] if ended else []  ->  return [max(ended)[1]] if ended else []

first_to_end__the_lowest_dead_rank
of several dead ranks the one with the lowest number is named.
The order in which they ended decides.
    (rank["ended_s"], n)  ->  (n, n)

first_to_end__everybody_who_died
all ranks that ended are named.
The others ended because of the first.
    return [min(ended)[1]] if ended else []  ->  return [n for _, n in sorted(ended)]

first_to_end__only_killed_ranks_count
a rank that ended with 0 is taken as living.
A server that ends has ended, however politely.
    if rank["exit"] is not None]  ->  if rank["exit"]]

first_to_end__at_once_is_not_at_all
a rank that ended at 0.0 s is taken for alive.
0 is a moment like any other, and None is none: ask whether it is None.
    if rank["exit"] is not None]  ->  if rank["ended_s"]]

first_to_end__whole_seconds
the seconds are rounded before they are compared.
The one that ended first may have taken the others with it within milliseconds.
    (rank["ended_s"], n)  ->  (round(rank["ended_s"]), n)

Rejected by: test_never_met__store_address_lock_or_death

never_met__the_dead_before_the_address
the rank that ended is named, although another told it a useless address.
A time-out names its victim: it says who gave up, not who could not be reached.
    if astray:  ->  if astray and not first_to_end(ranks):

never_met__the_victim
the rank whose connection failed is named in place of the one that listens in the wrong place.
It did as it was told.
    return "wrong-address", astray  ->  return "wrong-address", first_to_end(ranks) or astray

never_met__everywhere_counts_as_astray
0.0.0.0, at which the store listens, is taken for an address outside of the network.
It is no address but all of the host's, the one in the network among them.
    for host in listening if host != "0.0.0.0"]  ->  for host in listening]

never_met__the_far_end
the far end of a socket is looked at.
A socket that listens has none yet: where it listens is its local end.
    s["local"]  ->  s["remote"]

never_met__private_is_inside
every private address is taken to be inside.
The network is the one over which the ranks shall meet; a host has private addresses besides.
    ip_address(host) not in network  ->  not ip_address(host).is_private

never_met__only_who_has_not_met
only ranks that have not met the others themselves are asked.
One that has met may still be the one that misled the rest.
    if s["state"] == "LISTEN"]  ->  if s["state"] == "LISTEN" and not rank["met"]]

never_met__the_lock_before_the_address
a lock file is looked at before the addresses.
Whoever gets the lock in the end is still sent to an address of no use.
    if astray:  ->  if astray and not locked(ranks):

never_met__nobody_has_died_of_it
where nobody has ended, a death is told all the same.
All live and none can reach the other: a firewall, say. Nothing here says which of them it is.
    return ("died-early", first_to_end(ranks)) if first_to_end(ranks) else ("unknown", [])
    ->  return "died-early", first_to_end(ranks)

never_met__connections_count_as_listening
the near ends of all connections are looked at.
A rank is sent where the other listens; from where it calls says little.
    if s["state"] == "LISTEN"]  ->  ]

never_met__loopback_only
only 127.0.0.1 counts as a wrong address.
A container's bridge, 172.17.0.2, reaches nobody either.
    if any(ip_address(host) not in network for host in hosts):  ->  if "127.0.0.1" in hosts:

never_met__the_first_numbers_are_the_network
an address belongs to the network when its first three numbers are the same.
In 192.168.4.0/22 the third one may differ: the part after the slash says how much counts.
    ip_network(evidence["network"])  ->  str(ip_network(evidence["network"])).rpartition(".")[0]
    ip_address(host) not in network  ->  not host.startswith(network)

never_met__whole_numbers_of_the_address
of a network's bits only whole numbers of the address are compared.
A /25 ends in the middle of the last number: 10.77.0.200 is not in 10.77.0.0/25.
    ip_network(evidence["network"])  ->  evidence["network"].split("/")
    ip_address(host) not in network
    ->  host.split(".")[: int(network[1]) // 8] != network[0].split(".")[: int(network[1]) // 8]

never_met__the_store_is_asked_last
a store that does not answer is looked at after everything else.
Nothing else can be trusted before the ranks have met there.
    if not store["answers"]:  ->  if not store["answers"] and not first_to_end(ranks):

never_met__after_all_have_met
ranks that have met are diagnosed as a start that failed.
Then the addresses were right, and what came later is another story.
    if all(rank["met"] for rank in ranks):
    ->  if all(rank["met"] for rank in ranks) and not first_to_end(ranks):

never_met__who_waited_at_the_first_look
a rank that waited for a lock file at either look is taken to wait for it.
It got the lock since: given_evidence.locked looks at the second one.
    locked(ranks)  ->  _locked_at_a_look(ranks)

never_met__the_dead_before_the_lock
a rank that ended comes before one that waits for a lock file.
Whoever waits for a dead process's lock makes others give up and end: they are its victims.
    if locked(ranks):
    ->  if locked(ranks) and not first_to_end(ranks):

never_met__the_first_astray_alone
only the first rank on a useless address is named.
Each of them told the others an address at which nobody reaches it; both are to be mended.
    return "wrong-address", astray  ->  return "wrong-address", astray[:1]

never_met__astray_with_all_its_sockets
a rank is astray only if everything that it listens on is outside of the network.
One group's socket on a useless address is enough: that group never meets.
    if any(ip_address(host) not in network for host in hosts)
    ->  if hosts and all(ip_address(host) not in network for host in hosts)

never_met__astray_with_its_connections_too
a rank is astray only if everything that it listens on is outside of the network.
One group's socket on a useless address is enough, whatever its connections are.
    if any(ip_address(host) not in network for host in hosts)
    ->  if [ip_address(h) in network for h in hosts] == [False] * (len(rank["sockets"]) or 99)

never_met__the_dead_told_nothing
only living ranks are asked what they listen on.
A rank may have ended since, and the address that it told is still what the others try.
    for number, rank in enumerate(ranks):
    ->  for number, rank in [pair for pair in enumerate(ranks) if pair[1]["exit"] is None]:

Rejected by: test_slowest__holds_up_the_others

slowest__collectives_that_some_list
collectives count that only some ranks of their group still list.
Whoever lists more of them gathers more seconds, and need not be late.
    if len(times) == len(evidence["groups"][group]):  ->  if times:

slowest__the_first_is_a_warm_up
the first collective of each group is left out.
Whoever came late there kept the others waiting as well: all that all list count.
    for one in rank["collectives"]:  ->  for one in [c for c in rank["collectives"] if c["number"]]:

slowest__three_times_is_slow
a pace of exactly three times the usual one is called slow.
Slow is more than that.
    if pace_s(evidence) <= 3  ->  if pace_s(evidence) < 3

slowest__the_one_that_waits
the rank that comes first is named.
It waits longest because another is slow.
    behind_s.index(max(behind_s))  ->  behind_s.index(min(behind_s))

slowest__who_is_last_most_often
the rank that is last most often is named.
Of two ranks one is always last, by microseconds; what counts is by how much.
    behind_s[number] += at_s - min(times.values())
    ->  behind_s[number] += at_s == max(times.values())

slowest__a_healthy_run_has_one_too
some rank is named in a healthy run.
Somebody is always last; it matters only where the pace suffers.
    return []  ->  pass

slowest__who_waits_for_a_lock_while_starting
ranks that use no processor time are named while the others load.
Who loads works, and the others wait for it.
    if after_s - before_s >= least_s]  ->  if after_s - before_s < least_s]

slowest__by_processor_time
the rank that used most processor time is named.
A rank that waits may use all of its core, and a slow one may be slow because it gets none.
    behind_s.index(max(behind_s))
    ->  max(range(len(ranks)), key=lambda rank: ranks[rank]["cpu_s"][1])

slowest__the_last_collective_decides
one collective alone decides.
One late arrival is chance; the sum counts.
    behind_s[number] += at_s - min(times.values())
    ->  behind_s[number] = at_s - min(times.values())

slowest__five_times
the run has to be five times slower than a healthy one.
Three times is what the docstring asks for; pick the limit before the incident, not in it.
    3 * evidence["pace_s"]  ->  5 * evidence["pace_s"]

slowest__seconds_not_a_share
a tenth of a second of processor time is taken as work.
WORKING is a share of a core, and there are many seconds between the looks.
    WORKING * (second_s - first_s)  ->  WORKING

slowest__behind_the_mean
seconds behind the mean of a group count, not behind the first to enter.
A rank in few groups is compared with fewer others; behind the first, each second is one of waiting.
    at_s - min(times.values())  ->  at_s - sum(times.values()) / len(times)

slowest__what_is_under_way_does_not_count
collectives that have not been left yet are not counted.
Whoever is late there keeps the others waiting now; all of them list it.
    for one in rank["collectives"]:
    ->  for one in [c for c in rank["collectives"] if c["left_s"] is not None]:

Rejected by: test_slowest__before_all_have_met

slowest__only_the_living_have_to_meet
the run counts as having met when its living ranks have.
A rank that died before it met the others will never meet them: the start is not over.
    if not all(rank["met"] for rank in ranks):
    ->  if not all(rank["met"] for rank in ranks if rank["exit"] is None):

slowest__the_pace_of_a_start
a start at a slow pace is asked who comes latest.
While some rank has not met, nothing is late yet: who works, holds it up.
    for rank in ranks):  ->  for rank in ranks) and pace_s(evidence) <= 3 * evidence["pace_s"]:

slowest__always_ten_seconds
ten seconds are taken for the time between the looks.
That time stands in evidence["looks_s"].
    WORKING * (second_s - first_s)  ->  WORKING * 10

slowest__busy_inside_a_collective
before all have met, a rank that is busy in a collective is taken to work.
It waits there, asking again and again.
    rank["exit"] is not None or now_in(rank) is not None  ->  rank["exit"] is not None

Rejected by: test_diagnose_hang__the_first_that_holds

diagnose_hang__the_rank_in_most_links
where no rank is in all broken links, those in most of them are named.
Then no one card explains them: all ends are named.
    sorted(set.intersection(*ends) or set.union(*ends))  ->  _in_most(ends)

diagnose_hang__the_largest_messages_only
of broken links only those of the largest messages count.
A link that spoils small ones is broken too.
    for source, to, _ in links]
    ->  for source, to, n in links if n == max(size for *_, size in links)]

diagnose_hang__every_signal_is_a_kill
every negative exit is a kill.
-6 is an abort of the program's own, -11 a segmentation fault: memory is not what to look for.
    ["exit"] == -9  ->  ["exit"] < 0

diagnose_hang__any_kill_is_the_cause
a kill is told when any rank was killed.
Whoever starts the ranks often kills the survivors: the first to end counts.
    if ranks[ended[0]]["exit"] == -9  ->  if any(rank["exit"] == -9 for rank in ranks)

diagnose_hang__whoever_waits_for_a_lock
every rank that waits for a lock file is named.
One that nobody waits for may get its lock later, and holds up nobody now.
    [rank for rank in missing if rank in locked(ranks)]  ->  locked(ranks)

diagnose_hang__the_word_traceback
a line that speaks of a traceback is taken for one.
A traceback begins with all of given_evidence.ERROR; the word alone is in other lines too.
    ERROR in line  ->  "Traceback" in line

diagnose_hang__busy_is_healthy
a run of which a rank has ended is told to be slow when another still works.
It may work for long: the one that ended does not come back.
    if not ended and not is_hung(evidence):  ->  if not is_hung(evidence):

diagnose_hang__a_disagreement_before_the_looks
ranks that disagree are told of before it is asked whether anything goes on.
While another rank still works, the run is not hung: that comes before.
    if not ended and not is_hung(evidence):
    ->  if not ended and not is_hung(evidence) and not disagreement(evidence)[0]:

diagnose_hang__only_a_slow_start_goes_on
a start at which nobody works is taken for one that failed, though collectives go on.
Whether anything goes on is asked first: then it is slow, or healthy when nobody holds it up.
    and not is_hung(evidence):
    ->  and not is_hung(evidence) and (slowest(evidence) or not never_met(evidence)[0]):

diagnose_hang__nobody_is_idle
where nobody is missing, idle ranks are told, and none is named.
"unknown" is an answer too, and it sends one back to look.
    "idle" if missing else "unknown"  ->  "idle"

Rejected by: test_diagnose_hang__simulated_runs

diagnose_hang__who_is_elsewhere_is_the_cause
a rank that waits in another collective is named as the cause.
Follow the chain: it waits for somebody too.
    if how != "elsewhere"]  ->  ]

diagnose_hang__the_survivor_that_died_of_it
the rank that ended last is blamed.
Survivors end too when the connection breaks; the first to end began it.
    ended = first_to_end(ranks)
    ->  ended = [n for n, rank in enumerate(ranks) if rank["exit"] is not None][-1:]

diagnose_hang__a_traceback_anywhere
any rank with a traceback in its log has raised, whether it is missing or not.
An old error that was handled stands in many logs.
    told = [rank for rank in missing if any  ->  told = [rank for rank in range(len(ranks)) if any

diagnose_hang__every_death_is_a_kill
every rank that ended was killed.
-9 is the kernel's or an operator's; 1 is the program's own error.
    "killed" if ranks[ended[0]]["exit"] == -9 else "raised", ended  ->  "killed", ended

diagnose_hang__a_shell_s_number_is_a_kill
137, which a shell prints of a killed process, is taken for -9.
The evidence has Python's number: 137 is an exit that the program chose.
    ["exit"] == -9  ->  ["exit"] in (-9, 137)

diagnose_hang__death_before_disagreement
a rank that ended is blamed before the collectives are compared.
It may have ended because the shapes disagreed.
    disagreement(evidence)  ->  (None, []) if ended else disagreement(evidence)

diagnose_hang__the_lock_is_an_idle_rank
a rank that waits for a lock file is called idle.
Its stack says what it waits for.
    if waiting := [rank for rank in missing if rank in locked(ranks)]:  ->  if waiting := []:

diagnose_hang__tested_links_are_broken_links
links that were tested and found clean are called broken.
None is "not tested", [] is "tested, and all work".
    if links:  ->  if links is not None:
    set.intersection(*ends) or set.union(*ends)  ->  set().union(*ends)

diagnose_hang__all_ends_of_broken_links
all ends of broken links are named.
Where one rank is in all of them, it is that rank's card, not everybody's.
    set.intersection(*ends) or set.union(*ends)  ->  set.union(*ends)

diagnose_hang__a_start_is_no_run
ranks that have not met are told of before it is asked whether anything goes on.
A start that takes long, and works, is slow and not hung.
    if not ended and not is_hung(evidence):
    ->  if not ended and not is_hung(evidence) and never_met(evidence)[0] is None:

diagnose_hang__slow_is_hung
a run that goes on is diagnosed as a hang.
First ask whether anything goes on at all.
    if not ended and not is_hung(evidence):  ->  if False:

diagnose_hang__a_circle_needs_no_look
a circle is called idle ranks.
Nobody is idle: each of them is in a collective, and waits for the next.
    if around := circle(wait_graph(evidence)):  ->  if around := []:

diagnose_hang__next_without_the_rank
the rank is not put into the next command.
It is a command for one host: which?
    NEXT[cause].format(rank=where[0] if where else "")  ->  NEXT[cause]

Rejected by: test_links_work__finds_each_broken_link

links_work__one_direction
only links to higher ranks are tested.
A card may send well and receive badly.
    for source in others:  ->  for source in [rank for rank in others if rank < group.rank]:

links_work__the_first_size_only
only the first size is tested.
Libraries send small and large messages in different ways.
    for size in sizes:  ->  for size in sizes[:1]:

links_work__compares_the_sum
the sums are compared.
Swapped halves have the same sum.
    if group.receive(size, source) != pattern(source, group.rank, size):
    ->  if sum(group.receive(size, source)) != sum(pattern(source, group.rank, size)):

links_work__compares_the_ends
the first and last values are compared.
What is spoiled may lie in the middle.
    group.receive(size, source)  ->  group.receive(size, source)[:: size - 1 or 1]
    pattern(source, group.rank, size):  ->  pattern(source, group.rank, size)[:: size - 1 or 1]:

links_work__compares_the_sum_and_the_ends
the sums, the first and the last values are compared.
Two values between the ends may be exchanged.
    group.receive(size, source)  ->  _sum_and_ends(group.receive(size, source))
    pattern(source, group.rank, size):  ->  _sum_and_ends(pattern(source, group.rank, size)):

links_work__compares_the_set
the values are compared without their order.
A message whose halves are exchanged has all its values.
    if group.receive(size, source) != pattern(source, group.rank, size):
    ->  if sorted(group.receive(size, source)) != sorted(pattern(source, group.rank, size)):

links_work__tells_its_own_only
each rank returns what it found itself.
The rank that found it may be the one whose log nobody reads.
    sorted(link for part in group.gather(wrong) for link in part)  ->  sorted(wrong)

links_work__from_and_to_exchanged
the ends of a broken link are exchanged.
It is the link from the one that sent to the one that received.
    (source, group.rank, size))  ->  (group.rank, source, size))

links_work__stops_at_the_first
the test ends with the first broken link.
One bad link points at a cable, all links of a rank at its card.
    wrong.append((source, group.rank, size))
    ->  wrong[:] = wrong or [(source, group.rank, size)]

links_work__unsorted
the links are listed in the order of the ranks that found them.
Sorted lists can be compared from day to day.
    sorted(link for part in group.gather(wrong) for link in part)
    ->  [link for part in group.gather(wrong) for link in part]

Rejected by: test_links_work__finds_what_went_to_another_place

links_work__the_sender_alone_decides_the_pattern
what is expected depends on the sender alone.
A message meant for another rank would look right.
    group.send(pattern(group.rank, to, size), to)  ->  group.send(pattern(group.rank, 0, size), to)
    != pattern(source, group.rank, size)  ->  != pattern(source, 0, size)
"""


def _mean_used_s(evidence):
    outside = [rank for rank in evidence["ranks"] if rank["exit"] is None and not now_in(rank)]
    return sum(rank["cpu_s"][1] - rank["cpu_s"][0] for rank in outside) / len(outside)


def _locked_at_a_look(ranks):
    tops = [[stack[0] for stack in rank["stacks"] if stack] for rank in ranks]
    waits = [any(top.startswith("file_baton") for top in own) for own in tops]
    return [n for n, rank in enumerate(ranks) if waits[n] and rank["exit"] is None]


def _sum_and_ends(values):
    return sum(values), values[0], values[-1]


def _in_most(ends):
    often = {rank: sum(rank in pair for pair in ends) for rank in set().union(*ends)}
    return sorted(rank for rank, count in often.items() if count == max(often.values()))


def wait_graph__who_has_not_met_waits_for_all(evidence):
    """a rank that has not met the others is said to wait for all of them.

    It waits for the store or for an address; that is another question (never_met).

    Rejected by: test_wait_graph__before_the_group_has_met
    """
    everyone = range(len(evidence["ranks"]))
    if all(rank["met"] for rank in evidence["ranks"]):
        return {}
    return {rank: [other for other in everyone if other != rank] for rank in everyone}
