"""What a rank did and when: main-thread spans, and messages.

torch.profiler is not enough on gloo: its span of a send or receive ends at `wait`, so that a short
transfer seems to cover the whole GEMM. Here a thread per message waits for it and stamps its end.
perf_counter is one clock for all processes of a machine, so the ranks' records can be merged.
"""

import contextlib
import functools
import itertools
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

LANES = {"gemm": "GEMM", "wait": "wait", "wait_send": "wait", "collective": "wait"}


class Recorder:
    """Spans [(lane, name, start, end)] of the main thread; with wire=True also every message.

    `seconds` adds up the spans by verb.
    """

    def __init__(self, wire=False):
        self.wire, self.spans, self.messages = wire, [], []
        self.threads = ThreadPoolExecutor(1000)  # as many as messages may be in flight
        self.seconds = Counter()

    @contextlib.contextmanager
    def span(self, verb, key):
        self.started = start = time.perf_counter()
        yield
        end = time.perf_counter()
        name = key[0] if len(key) == 1 else f"{key[0]}[{key[1]}]"
        self.seconds[verb] += end - start
        self.spans.append((LANES.get(verb, "issue"), name, start, end))
        if verb == "collective":  # blocked for as long as it is in flight
            self.spans.append(("in flight", name, start, end))

    def message(self, work, event, key, tag):
        """Note the moment of a send (it may arrive before `isend` returns); or have a thread
        note the moment of an arrival. What arrives through shared memory says itself when."""
        if not self.wire:
            return work
        entry = [event, f"{key[0]}[{key[1]}]", key[2], tag, self.started]
        self.messages.append(entry)
        if event == "sent":
            return work
        wait = functools.partial(_noted, work, entry)
        if not hasattr(work, "arrived_at"):
            wait = self.threads.submit(wait).result
        return SimpleNamespace(wait=wait)

    def finish(self):
        """Wait for the threads that watch messages."""
        self.threads.shutdown()

    def exposed_s(self):
        """Time the main thread was blocked by communication."""
        return sum(end - start for lane, _, start, end in self.spans if lane == "wait")


def _noted(work, entry):
    """What has arrived, with its moment in `entry`."""
    arrived = work.wait()
    entry[4] = getattr(work, "arrived_at", None) or time.perf_counter()
    return arrived


def in_flight(records):
    """Per receiving rank [(name, start, end)]: from its send to its arrival.

    records: one {"messages": [[event, name, peer, tag, moment], ...]} per rank.
    """
    sent = {
        (tag, rank, peer): moment
        for rank, record in enumerate(records)
        for event, _, peer, tag, moment in record["messages"]
        if event == "sent"
    }
    return [
        [
            (f"{name} from {peer}", sent[tag, peer, rank], moment)
            for event, name, peer, tag, moment in record["messages"]
            if event == "arrived"
        ]
        for rank, record in enumerate(records)
    ]


def with_flights(records):
    """Per rank its spans, and its arriving messages as spans of the lane "in flight"."""
    return [
        [*record["spans"], *(("in flight", *flight) for flight in flights)]
        for record, flights in zip(records, in_flight(records), strict=True)
    ]


def perfetto(runs):
    """Chrome trace events, which ui.perfetto.dev opens: {mode: one record per rank} -> dict.

    One process per rank, in it the lanes of each mode, below each other; all modes begin at 0.
    Messages that are in flight together get lanes of their own.
    """
    events, titles = [], {}  # titles: (rank, lane's title) -> number
    for mode, records in runs.items():
        origin = min(start for record in records for _, _, start, _ in record["spans"])
        for rank, spans in enumerate(with_flights(records)):
            busy_until = Counter()  # of the lanes in which messages are in flight
            for lane, name, start, end in sorted(spans, key=lambda span: span[2]):
                if lane == "issue":
                    continue
                title = f"{mode}: {lane}"
                if lane == "in flight":
                    row = next(row for row in itertools.count() if busy_until[row] <= start)
                    busy_until[row], title = end, f"{title} {row + 1}"
                event = {"ph": "X", "pid": rank, "cat": lane, "name": name}
                event["tid"] = titles.setdefault((rank, title), len(titles) + 1)
                events.append(event | {"ts": (start - origin) * 1e6, "dur": (end - start) * 1e6})
    names = [_label("process_name", rank, 0, name=f"rank {rank}") for rank in range(len(records))]
    for (rank, title), lane in titles.items():
        order = sorted(other for who, other in titles if who == rank).index(title)
        names.append(_label("thread_name", rank, lane, name=title))
        names.append(_label("thread_sort_index", rank, lane, sort_index=order))
    return {"traceEvents": names + events, "displayTimeUnit": "ms"}


def _label(what, rank, lane, **arguments):
    return {"ph": "M", "name": what, "pid": rank, "tid": lane, "args": arguments}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")
