"""Simulated runs with one thing wrong: any rank, any step, any groups. The checks' second method.

    evidence, truth = draw(random.Random(7), "idle")

Ranks are programs of work and collectives; the simulator lets each go on until nothing can. `truth`
is what it knows itself of the end, and it is never read off the evidence: hung, agreed, graph,
missing, cause, where.
"""

CAUSES = (
    "healthy slow loading operation shape idle raised stale-lock killed crashed circular "
    "died-early early-lock wrong-address store-gone unheard corrupt-link"
).split()
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")
USUAL = [(what, shape, "float32") for what in OPERATIONS for shape in ((3, 64), (1, 8))]
TOLD = "Traceback (most recent call last):"
ENGINE = "(Worker_TP1 pid=77) ERROR 11-24 03:43:49 [multiproc_executor.py:1063] "
TRACEBACKS = TOLD, ENGINE + TOLD, f"(pid=77) {TOLD} [repeated 3x across cluster]"
HARMLESS = (
    "1 client met an Error, says the client's log",
    "1 client met what its log calls a Traceback",
    "0 requests with a traceback (most recent call last)",
)
WORK_S, TRANSFER_S = 0.02, 0.001
LOOKS_S = (60.0, 70.0)
AT_START = ("loading", "died-early", "early-lock", "wrong-address", "store-gone", "unheard")
NAMES = {"loading": "slow", "early-lock": "stale-lock", "crashed": "raised", "unheard": "unknown"}


def draw(chance, cause, num_ranks=None):
    """A run with this cause, which is the only thing wrong with it."""
    while True:
        run = Run(chance, cause, num_ranks or chance.choice((2, 2, 3, 4, 6, 8)))
        if cause in AT_START:
            run.ends_at_the_start()
        else:
            run.serves()
        harmless = cause == "circular" and not run.stuck  # then another is drawn
        if not harmless and (cause != "slow" or run.is_late_in_all()):
            return run.evidence(), run.truth()


class Run:
    """Ranks in groups, what each has done, and what is wrong with one of them."""

    def __init__(self, chance, cause, num_ranks):
        self.chance, self.cause, self.size = chance, cause, num_ranks
        self.culprit = chance.randrange(num_ranks)
        self.groups = self._groups()
        self.listed = [[] for _ in range(num_ranks)]  # the collectives of each rank
        self.now_s = [3.0 + chance.random() for _ in range(num_ranks)]
        self.doing = ["serving"] * num_ranks  # or collective, idle, raised, lock, dead, joining
        self.ended_s, self.exits = [None] * num_ranks, [None] * num_ranks
        self.met = [True] * num_ranks
        self.stuck, self.waiting = False, {}  # (group, number) -> {rank: its entry}
        self.kept = chance.choice((100, 9))  # the evidence lists so many of a rank's last ones
        self.done = []  # collectives that are over, in order
        self.left = {(rank, group): -1 for group in self.groups for rank in range(num_ranks)}
        self.entered = dict.fromkeys(self.left, 0)

    def _groups(self):
        """All ranks in one group; or in two; or a grid, whose rows and columns are groups."""
        everyone, half = list(range(self.size)), self.size // 2
        kind = self.chance.choice(("two", "grid", "one"))
        if kind == "one" and self.cause != "circular":
            return {"tp": everyone}
        if kind == "grid" and self.size in (4, 6, 8):
            rows = {"tp0": everyone[:half], "tp1": everyone[half:]}
            return rows | {f"ep{rank}": [rank, half + rank] for rank in range(half)}
        return {"tp": everyone, "ep": everyone}

    # --- a run that serves ----------------------------------------------------------------------

    def program(self, rank, steps, fault_at):
        """The actions of a rank: (work in seconds) or (group, operation, shape, dtype)."""
        usual = 1.3 if rank == (self.culprit + 1) % self.size else 1  # last by a moment, mostly
        slow = 40 if self.cause == "slow" and rank == self.culprit else 1
        for step in range(steps):
            tokens = 1 + step % 3
            mine = [group for group, members in self.groups.items() if rank in members]
            wrong = rank == self.culprit and step == fault_at
            actions = [
                (group, OPERATIONS[n % 3], (tokens, 64), "float32") for n, group in enumerate(mine)
            ]
            if wrong and self.cause == "circular":
                actions.reverse()
            for place, action in enumerate(actions):
                late = slow if place == 0 and step % 3 == 0 else usual  # not in each collective
                pause = 60 if self.cause == "slow" and self.chance.random() < 0.05 else late
                yield WORK_S * pause * (1 + 0.1 * self.chance.random())
                if wrong and place == self.place % len(actions):
                    action = self._altered(action)
                if action is None:
                    return
                yield action

    def _altered(self, action):
        group, operation, shape, dtype = action
        if self.cause == "operation":
            shape = self.chance.choice((shape, (shape[0] + 1, 64)))
            return group, OPERATIONS[(OPERATIONS.index(operation) + 1) % 3], shape, dtype
        if self.cause == "shape":
            wider, turned = ((shape[0] + 1, 64), dtype), (shape[::-1], dtype)
            other = self.chance.choice((wider, turned, (shape, "bfloat16")))
            return group, operation, *other
        ends = {"idle": "idle", "raised": "raised", "stale-lock": "lock"}
        ends |= {"killed": "dead", "crashed": "dead"}
        if self.cause not in ends:
            return action
        self.doing[self.culprit] = ends[self.cause]
        if ends[self.cause] == "dead":
            self.exits[self.culprit] = self.chance.choice((0, 1, -6, -11, 137))
            if self.cause == "killed":
                self.exits[self.culprit] = -9
            self.ended_s[self.culprit] = self.now_s[self.culprit]
        return None

    def serves(self):
        goes_on = self.cause in ("healthy", "slow", "corrupt-link")
        self.place = self.chance.randrange(3)
        fault_at = self.chance.randrange(6)
        steps = 8 if goes_on else 7
        if goes_on:  # its end lies between the looks
            self.now_s = [LOOKS_S[1] - 6.0 for _ in self.now_s]
            steps = 400
        programs = [self.program(rank, steps, fault_at) for rank in range(self.size)]
        while any([self._advance(rank, programs[rank]) for rank in range(self.size)]):
            if min(self.now_s) > LOOKS_S[1]:
                break
        if goes_on:
            self._forget_what_came_after(LOOKS_S[1])
        self.stuck = "collective" in self.doing and not goes_on
        if not goes_on:
            self._survivors()

    def _advance(self, rank, program):
        """Let one rank go on to its next collective. False when it cannot."""
        if self.doing[rank] != "serving":
            return False
        for action in program:
            if isinstance(action, float):
                self.now_s[rank] += action
                continue
            group, operation, shape, dtype = action
            number = self.entered[rank, group]
            self.entered[rank, group] += 1
            entry = {"group": group, "number": number, "operation": operation}
            entry |= {"shape": list(shape), "dtype": dtype}
            entry |= {"entered_s": round(self.now_s[rank], 5), "left_s": None}
            self.listed[rank].append(entry)
            self.doing[rank] = "collective"
            here = self.waiting.setdefault((group, number), {})
            here[rank] = entry
            self._complete(group, number, here)
            return True
        return False

    def _complete(self, group, number, here):
        if len(here) < len(self.groups[group]):
            return
        if len({(e["operation"], tuple(e["shape"]), e["dtype"]) for e in here.values()}) > 1:
            return
        end_s = max(entry["entered_s"] for entry in here.values()) + TRANSFER_S
        for rank, entry in here.items():  # a moment apart
            entry["left_s"] = round(end_s + 0.01 * self.chance.random(), 5)
            self.left[rank, group] = number
            self.now_s[rank], self.doing[rank] = entry["left_s"], "serving"
        self.done.append(self.waiting.pop((group, number)))

    def _forget_what_came_after(self, look_s):
        """A run that goes on is seen as it stands at the second look."""
        self.left = dict.fromkeys(self.left, -1)
        for here in [*self.done, *self.waiting.values()]:
            inside = {}
            for rank, entry in here.items():
                if entry["entered_s"] > look_s:
                    self.listed[rank].remove(entry)
                    continue
                inside[rank] = entry
                if entry["left_s"] is None or entry["left_s"] > look_s:
                    entry["left_s"], self.doing[rank] = None, "collective"
                else:  # they are numbered from 0, without a gap
                    self.left[rank, entry["group"]] += 1
            here.clear()
            here.update(inside)
            if any(entry["left_s"] is None for entry in here.values()):
                self.waiting[entry["group"], entry["number"]] = here

    def is_late_in_all(self):
        """Whether the culprit is by far the latest: chance may make another one slower."""
        late_s = dict.fromkeys(range(self.size), 0.0)
        for here in [*self.done, *self.waiting.values()]:
            seen = [here[r]["entered_s"] for r in here if here[r] in self.listed[r][-self.kept :]]
            group = next((entry["group"] for entry in here.values()), None)
            if here and len(seen) == len(self.groups[group]):  # all of its group list it
                for rank, entry in here.items():
                    late_s[rank] += entry["entered_s"] - min(seen)
        culprits_s = late_s.pop(self.culprit)
        return culprits_s > 1.3 * max(late_s.values(), default=0)

    def _survivors(self):
        """Some libraries end those who wait for the dead, or disagree in shape; others do not."""
        if self.cause not in ("killed", "crashed", "shape"):
            return
        odds = self.chance.choice((0, 0.5, 1))
        for rank, doing in enumerate(self.doing):
            if doing == "collective" and self.chance.random() < odds:
                self.exits[rank] = self.chance.choice((0, 1, -6, -9))  # -9: by who started it
                self.ended_s[rank] = self.chance.choice((20.0, 62.0)) + self.chance.random()

    # --- a run that never began -----------------------------------------------------------------

    def ends_at_the_start(self):
        self.doing = ["joining"] * self.size
        self.stuck = self.cause != "loading"
        self.met = [self.chance.random() < 0.3 for _ in self.met]
        self.met[self.chance.randrange(self.size)] = False
        another = self.chance.randrange(self.size)
        if self.cause == "loading":
            self.doing[self.culprit] = self.doing[another] = "loading"
        if self.cause in ("wrong-address", "store-gone") and self.chance.random() < 0.5:
            self.doing[another] = "lock"  # and yet another answer comes first
        if self.cause == "early-lock":
            self.doing[self.culprit] = "lock"
        if self.cause == "died-early":
            self._ends(self.culprit, 1 + self.chance.random())
            other = (self.culprit + 1) % self.size
            if self.size > 2 and self.chance.random() < 0.5:  # and takes another with it, later
                self._ends(other, 5 + self.chance.random())
        if self.cause == "store-gone" and self.chance.random() < 0.5:  # one has lost patience
            self._ends(self.culprit, 30 + self.chance.random())
        if self.cause == "wrong-address":  # the victim may end; the one that misled it waits
            victim = (self.culprit + 1) % self.size
            if self.chance.random() < 0.7:
                self._ends(victim, 2 + self.chance.random())

    def _ends(self, rank, at_s):
        self.doing[rank], self.exits[rank], self.ended_s[rank] = "dead", 1, round(at_s, 3)

    # --- what can be seen of it, and what is so -------------------------------------------------

    def evidence(self):
        chance = self.chance
        network = chance.choice(("10.77.0.0/24", "192.168.4.0/22"))
        self.wide = network.endswith("/22")
        self.store = f"{self._host(0)}:{chance.randrange(20000, 60000)}"
        links = None
        if self.cause == "corrupt-link":
            links = self._wrong_links()
        elif chance.random() < 0.3:
            links = []
        return {
            "command": "simulated",
            "groups": self.groups,
            "network": network,
            "store": {"address": self.store, "answers": self.cause != "store-gone"},
            "looks_s": list(LOOKS_S),
            "pace_s": WORK_S * (1 + len(self.groups) * 0.5),
            "links": links,
            "ranks": [self._rank(rank) for rank in range(self.size)],
        }

    def _rank(self, rank):
        doing, gone = self.doing[rank], self.exits[rank] is not None
        gone_at = [gone and self.ended_s[rank] < look_s for look_s in LOOKS_S]
        used_s = 4 + self.chance.random()
        # who waits may sleep, or ask again and again
        grows = {"collective": self.chance.choice((0.0, 9.9)), "loading": 6.0}
        grows = grows.get(doing, self.chance.choice((0.02, 0.6)))
        if doing == "serving" and self.cause in ("healthy", "slow", "corrupt-link"):
            grows = 5.0
        return {
            "met": self.met[rank],
            "exit": self.exits[rank],
            "ended_s": self.ended_s[rank] and round(self.ended_s[rank], 3),
            "states": ["gone" if ended else "sleeping" for ended in gone_at],
            "cpu_s": [None if gone_at[n] else used_s + n * grows for n in range(2)],
            "stacks": [[] if gone_at[n] else self._stack(rank, n) for n in range(2)],
            "sockets": [] if gone else self._sockets(rank),
            "collectives": self.listed[rank][-self.kept :],
            "log": self._log(rank),
        }

    def _stack(self, rank, look):
        doing = self.doing[rank]
        if self.listed[rank] and doing in ("collective", "dead"):
            top = [f"distributed_c10d.py:{self.listed[rank][-1]['operation']}"]
        else:
            at_first = doing == "loading" and look == 0  # it had to wait for the lock, and got it
            names = {"lock": "file_baton.py:wait", "joining": "rendezvous.py:_create_c10d_store"}
            names |= {
                "idle": "queue.py:get",
                "raised": "queue.py:get",
                "loading": "weights.py:read",
            }
            top = ["file_baton.py:wait" if at_first else names.get(doing, "model.py:forward")]
        return [*top, "serve.py:step", "serve.py:main"]

    def _host(self, rank):
        return f"192.168.{4 + rank % 4}.{rank + 1}" if self.wide else f"10.77.0.{rank + 1}"

    def _sockets(self, rank):
        host = self._host(rank)
        if self.cause == "wrong-address" and rank == self.culprit:
            host = self.chance.choice(("127.0.0.1", "172.17.0.2", "10.99.0.2"))
        anywhere = [8000 + rank] * (self.chance.random() < 0.3)  # its meters, for all to read
        anywhere += [int(self.store.split(":")[1])] * (rank == 0)
        listening = [f"0.0.0.0:{port}" for port in anywhere]
        listening += [f"{host}:{port}" for port in (61000 + rank, 62000 + rank)]  # two groups
        found = [{"local": local, "remote": "0.0.0.0:0", "state": "LISTEN"} for local in listening]
        if self.cause != "store-gone":
            ours = f"{self._host(rank)}:{40000 + rank}"
            found.append({"local": ours, "remote": self.store, "state": "ESTABLISHED"})
        if self.chance.random() < 0.5:  # somebody reads the machine's meters
            monitor = {"local": "127.0.0.1:51000", "remote": "127.0.0.1:9100"}
            found.append(monitor | {"state": "ESTABLISHED"})
        self.chance.shuffle(found)
        return found

    def _log(self, rank):
        lines = [f"rank {rank}: loading the model"]
        doing = self.doing[rank]
        if doing == "collective" and self.chance.random() < 0.5:  # an old story, long since mended
            lines += [TOLD, "TimeoutError: request 3"]
        if doing == "raised":
            lines += [self.chance.choice(TRACEBACKS), "ValueError: token id 70000"]
        elif self.exits[rank] is not None and self.exits[rank] != -9:
            lines += [TOLD, "RuntimeError: Connection closed by peer"]
        if self.chance.random() < 0.3:
            lines += [f"rank {rank}: {self.chance.choice(HARMLESS)}"]
        if self.doing[rank] == "idle":
            lines += [f"rank {rank}: request 7 is answered, waiting for the next"]
        return lines

    def _wrong_links(self):
        """One link in one direction, or all of one rank's."""
        others = [rank for rank in range(self.size) if rank != self.culprit]
        if self.size > 2 and self.chance.random() < 0.5:
            pairs = [(self.culprit, other) for other in others]
            pairs += [(other, self.culprit) for other in others]
            self.ends = [self.culprit]
        else:
            pairs = [(self.culprit, self.chance.choice(others))]
            self.ends = sorted(pairs[0])
        return [[source, to, 65536] for source, to in sorted(pairs)]

    def truth(self):
        goes_on = self.cause in ("healthy", "slow", "corrupt-link", "loading")
        return {
            "hung": not goes_on,
            "agreed": {
                group: min(self.left[rank, group] for rank in members)
                for group, members in self.groups.items()
            },
            "graph": self._graph(),
            "cause": NAMES.get(self.cause, self.cause),
            "where": self._where(),
            "doing": list(self.doing),
        }

    def _graph(self):
        graph = {}
        for (group, _), here in self.waiting.items():
            for rank, entry in here.items():
                if self.exits[rank] is None:
                    same = {r for r, other in here.items() if _same(entry, other)}
                    graph[rank] = sorted(set(self.groups[group]) - same)
        return {rank: absent for rank, absent in graph.items() if absent}

    def _where(self):
        if self.cause in ("healthy", "store-gone", "unheard"):
            return []
        if self.cause == "loading":
            return [rank for rank, doing in enumerate(self.doing) if doing == "loading"]
        if self.cause == "corrupt-link":
            return self.ends
        if self.cause in ("operation", "shape"):
            here = [h for h in self.waiting.values() if self.culprit in h]
            return sorted(here[0])
        return None if self.cause == "circular" else [self.culprit]  # the circle: see the checks


def _same(one, other):
    return all(one[key] == other[key] for key in ("operation", "shape", "dtype"))


# --- a still: many things wrong at once ---------------------------------------------------------


def still(chance):
    """(evidence, truth): silent ranks of drawn groups, each dead, inside or outside by chance.

    truth: graph, agreed, doing, disagree (cause and ranks) and hung.
    """
    size = chance.choice((2, 3, 4, 5, 6, 12))
    names = chance.sample(("tp", "ep", "pp", "dp"), chance.randint(1, 3))
    groups = {name: sorted(chance.sample(range(size), chance.randint(1, size))) for name in names}
    place = Places(chance, groups, size)
    odds, outside = chance.choice((0, 0.3)), ("idle", "lock", "raised")
    doing = [chance.choice(outside) for _ in range(size)]
    doing = ["collective" if n in place.inside else what for n, what in enumerate(doing)]
    doing = ["dead" if chance.random() < odds else what for what in doing]
    ranks = [_still_rank(chance, place.listed(rank), doing[rank], rank) for rank in range(size)]
    busy = [rank for rank in range(size) if doing[rank] in outside]
    hung = not ("dead" in doing and busy and chance.random() < 0.3)
    if not hung:
        ranks[busy[0]]["cpu_s"][1] += 6
    agreed = {
        group: number - (group not in place.over or (group, number) in place.inside.values())
        for group, number in place.number.items()
    }
    graph = {rank: place.awaited_by(rank) for rank in place.inside if doing[rank] != "dead"}
    truth = {"agreed": agreed, "doing": doing, "hung": hung, "disagree": place.disagree}
    truth["graph"] = {rank: graph[rank] for rank in sorted(graph) if graph[rank]}
    return _of_ranks(chance, groups, ranks), truth


def waits(chance):
    """(evidence, truth) of a drawn graph: whoever waits is alone in a collective of its own group.

    truth: graph, doing and disagree.
    """
    size, odds = chance.choice((3, 4, 5, 8)), chance.choice((0.15, 0.25, 0.4))
    ranks, graph, groups = [], {}, {}
    drawn = ("idle", "lock", "raised"), ("idle", "dead", "lock"), ("lock",), ("idle",)
    outside = chance.choice(drawn)
    doing = [chance.choice(("collective", chance.choice(outside))) for _ in range(size)]
    for rank, what in enumerate(doing):
        absent = [other for other in range(size) if other != rank and chance.random() < odds]
        groups[f"g{rank}"] = sorted({rank, (rank + 1) % size, *absent})
        one = {"group": f"g{rank}", "number": 0, "operation": "all_reduce", "shape": [3, 64]}
        one |= {"dtype": "float32", "entered_s": 5.0, "left_s": None}
        ranks.append(_still_rank(chance, [one] * (what == "collective"), what, rank))
        if what == "collective":
            graph[rank] = [other for other in groups[f"g{rank}"] if other != rank]
    return _of_ranks(chance, groups, ranks), {
        "graph": graph,
        "doing": doing,
        "disagree": (None, []),
    }


def _of_ranks(chance, groups, ranks):
    known = {"command": "drawn", "network": "10.77.0.0/24", "looks_s": list(LOOKS_S)}
    known |= {"store": {"address": "10.77.0.1:29500", "answers": chance.random() < 0.5}}
    return known | {"groups": groups, "pace_s": 0.04, "links": None, "ranks": ranks}


class Places:
    """Which collective each rank is in; `over`: the groups whose `number` all have entered.

    Of such a group some may be in `number` still, and some in the one after it.
    """

    def __init__(self, chance, groups, size):
        self.groups, self.chance, self.odd, self.disagree = groups, chance, None, (None, [])
        self.number = {group: chance.choice((0, 0, 1, 7, 40)) for group in groups}
        self.over = {group for group in groups if chance.random() < 0.3}
        self.inside = {}
        for rank in range(size):
            mine = [group for group, members in groups.items() if rank in members]
            if mine and chance.random() < 0.75:
                group = chance.choice(mine)
                ahead = group in self.over and chance.random() < 0.5
                self.inside[rank] = group, self.number[group] + ahead
        self.usual = {group: chance.sample(USUAL, 2) for group in groups}
        self._disagree()

    def here(self, place):
        return [rank for rank in sorted(self.inside) if self.inside[rank] == place]

    def _disagree(self):
        """One of the ranks in one collective makes another one than the others."""
        places = sorted(set(self.inside.values()))
        of_all = [(group, self.number[group]) for group in self.over]
        open_to_it = [p for p in places if p not in of_all and len(self.here(p)) > 1]
        if open_to_it and self.chance.random() < 0.3:
            place = self.chance.choice(open_to_it)
            cause = self.chance.choice(("operation", "shape"))
            self.odd, self.unusual = self.chance.choice(self.here(place)), [*self._words(*place)]
            other = self.chance.choice(((1, (64, 3)), (1, (4, 64)), (2, "bfloat16")))
            at, what = other if cause == "shape" else (0, "broadcast")
            self.unusual[at] = what
            self.disagree = (cause, self.here(place))

    def _words(self, group, number):
        """Operation, shape, dtype: in turn those of two collectives."""
        return self.usual[group][number % 2]

    def awaited_by(self, rank):
        group, number = self.inside[rank]
        if group in self.over and number == self.number[group]:
            return []
        here, odd = self.here((group, number)), rank == self.odd
        return sorted(set(self.groups[group]) - {one for one in here if (one == self.odd) == odd})

    def listed(self, rank):
        """Its last collectives, one to three of each group, the one that it is inside last."""
        kept, now = self.chance.choice((1, 3)), self.inside.get(rank)
        rows = []
        for group in [group for group, members in self.groups.items() if rank in members]:
            at = (group, self.number[group])
            last = at[1] - (group not in self.over or now == at)
            alone = group in self.over and self.chance.random() < 0.3  # of a short list
            numbers = range(max(0, last if alone else last + 1 - kept), last + 1)
            rows += [(number - self.number[group], group, number) for number in numbers]
        rows = sorted(rows) + ([(0, *now)] if now else [])
        found = [self._entry(5 + n, *rows[n][1:]) for n in range(len(rows))]
        if now:
            found[-1]["left_s"] = None
            if rank == self.odd:
                words = dict(zip(("operation", "shape", "dtype"), self.unusual, strict=True))
                found[-1] |= words | {"shape": list(words["shape"])}
        return found

    def _entry(self, at_s, group, number):
        operation, shape, dtype = self._words(group, number)
        entry = {"group": group, "number": number, "operation": operation, "shape": list(shape)}
        return entry | {"dtype": dtype, "entered_s": at_s, "left_s": at_s + 0.5}


def _still_rank(chance, collectives, doing, rank):
    dead, used_s = doing == "dead", round(chance.uniform(1, 90), 2)
    ended_s = round(chance.uniform(30, 69), 3) if dead else None
    gone = [dead and ended_s < look_s for look_s in LOOKS_S]
    waits = {"lock": "file_baton.py:wait", "collective": "distributed_c10d.py:all_reduce"}
    outer = ["file_baton.py:release"] * (doing == "raised")  # which is no wait, and not innermost
    stacks = [[waits.get(doing, "queue.py:get"), *outer, "serve.py:main"] for _ in range(2)]
    if chance.random() < 0.2:
        stacks[0] = ["file_baton.py:wait", "serve.py:main"]  # it had to wait, and got the lock
    log = [f"rank {rank}: {chance.choice(HARMLESS)}"]
    if doing == "raised" or doing in ("collective", "lock") and chance.random() < 0.3:
        log += [chance.choice(TRACEBACKS), "KeyError: 7"]
    return {
        "met": True,
        "exit": chance.choice((0, 1, -6, -9, -15, 137)) if dead else None,
        "ended_s": ended_s,
        "states": ["gone" if one else "sleeping" for one in gone],
        "cpu_s": [None if one else used_s + 0.02 * look for look, one in enumerate(gone)],
        "stacks": [[] if one else stack for one, stack in zip(gone, stacks, strict=True)],
        "sockets": [],
        "collectives": collectives,
        "log": log,
    }
