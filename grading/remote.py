"""The object behind the `lab` fixture while grading: every call runs in a sandboxed process.

Nothing that process says is believed except as a value or as an exception of the learner's code.
All clocks are here. An incident (timeout, memory, output, crashed, protocol) ends the process; the
next check gets a fresh one.

A call that is given a `collectives.Group` is one rank's: it runs in that rank's own process, which
has loaded the submission and is only ever given what a rank of that number holds, so the kernel
keeps the other ranks' shards from it. What the collectives give it, it may of course keep, and what
it held when there were more or fewer ranks.
"""

import builtins
import contextlib
import json
import os
import socket
import time

import numpy as np

from grading.inside import wire
from grading.inside.wire import MAX_TEXT
from labkit.loading import LoadError

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
OF_A_GROUP = COLLECTIVES[:3]
MAX_RANKS = 256
MAX_BYTES = 64 << 20  # that one check may send, and have its collectives make: all may be kept
ARRAY_BYTES = 256  # what an array takes besides its numbers
MAX_NAME = 200
HERE = (
    "the grader has Python with numpy, pytest, labkit, collectives and the lab's given files, at "
    "most 32 threads, and no other packages, processes or programs, no locks of files, no shared "
    "memory and no network"
)
KEPT_OUTPUT = 4000


class Incident(Exception):
    """The process was ended; `kind` says why, str() is a sentence for the learner."""

    def __init__(self, kind, sentence):
        super().__init__(sentence)
        self.kind = kind


class Stopped(Exception):
    """The learner's code raised something that is not an Exception, such as SystemExit."""


class Infrastructure(Exception):
    """The grader's own failure: never the learner's, never a zero."""


class RemoteLab:
    """A learner's file in a sandbox: functions and constants as attributes."""

    def __init__(self, source, control, request, limits, collectives, path, keep_output=True):
        self._source, self._control, self._request = source, control, request
        self._limits, self._collectives, self._path = limits, collectives, str(path)
        self._keep_output = keep_output
        self._idle = {}  # processes that wait for a call, by rank; None is the usual one's
        self._functions = {}  # names that stood for functions when they were first asked for
        self._code = b""  # the file, compiled
        self._loading = None  # why the file could not be loaded
        self._left_s = limits.submission_s
        self.incident = None  # of the current check
        self.infrastructure = ""
        self.layers = []
        self.output = b""
        self.begin_check()

    def begin_check(self):
        """A new check: its own clock, its own output allowance."""
        self.incident = None
        self._check_left_s = self._limits.check_s
        self._check_output = self._check_bytes = 0

    @property
    def what_happened(self):
        """The incident of this check: its own, or the one of the import that every check needs."""
        return self.incident or (self._loading if isinstance(self._loading, Incident) else None)

    def close(self):
        """End all of its processes; when this returns, none is left."""
        processes = [*self._idle.values()]
        self._idle.clear()
        for process in processes:
            process.hang_up()
        for process in processes:
            process.close()

    # --- what tests see ---------------------------------------------------------------------

    def __getattr__(self, name):
        if name.startswith("_") or len(name) > MAX_NAME:
            raise AttributeError(name)
        if name in self._functions:
            self.load()
            return self._functions[name]
        with self._process() as process:
            answer = self._ask(process, ["get", name], name)
        match answer:
            case ("value", value, None):
                return value
            case ("function",):
                self._functions[name] = self._function(name)
                return self._functions[name]
            case ("missing",):
                raise AssertionError(f"starter.py has no `{name}`; the tests call it by that name")
        self._raised(answer, name)

    def load(self):
        """A process with the learner's file in it; LoadError if the file does not load."""
        with self._process():
            pass

    def _function(self, name):
        def steps(*args, **kwargs):
            return self._steps(name, args, kwargs)

        def function(*args, **kwargs):
            try:
                next(steps(*args, **kwargs))  # no step is left to others: its group makes them
            except StopIteration as end:
                return end.value

        function.__name__, function.steps = name, steps
        return function

    def _steps(self, name, args, kwargs):
        """One call, as a generator of what its rank brings to the collectives of its group."""
        args, kwargs, place, group = self._without_group(args, kwargs)
        about = None if group is None else (place, group.rank, group.size)
        # one rank alone holds everything: it needs no process of its own
        with self._process(group.rank if group and group.size > 1 else None) as process:
            recorded = bool(self._collectives and self._collectives._ledgers.get())
            answer = self._ask(process, ["call", name, args, kwargs, about, recorded], name)
            while group:
                match answer:
                    case ("group", str(operation), array, (int() | None) as axis):
                        reply = yield from self._met(group, operation, array, axis)
                        answer = self._ask(process, reply, name)
                    case _:
                        break
        match answer:
            case ("value", result, changed):
                if changed is not None:
                    _carry_over((args, kwargs), changed)
                return result
        self._raised(answer, name)

    def _met(self, group, operation, array, axis):
        """The reply to a collective of a rank's group: made by the group, or where ranks meet."""
        try:
            if operation not in OF_A_GROUP:
                raise ValueError(f"a group has no {operation}")
            self._simulate(operation, [array], group.size + 4)
            if group._meet:
                return "value", group._meet(operation, array, axis)
            return "value", (yield operation, array, axis)
        except _REFUSALS as error:
            return _refusal(error)

    def _without_group(self, args, kwargs):
        """The arguments with None for the group, its place (position or name), and the group."""
        kind = getattr(self._collectives, "Group", ())
        for place, value in (*enumerate(args), *kwargs.items()):
            if isinstance(value, kind):
                if place in kwargs:
                    return args, kwargs | {place: None}, place, value
                return (*args[:place], None, *args[place + 1 :]), kwargs, place, value
        return args, kwargs, None, None

    def _raised(self, answer, name):
        match answer:
            case ("raised", str(kind), str(message), (int() | None) as line):
                if kind == "AssertionError" and not message.strip():
                    message = self._source_line(line) or "without a message"
                if _of_the_walls(kind, message):
                    message = f"{message[: MAX_TEXT // 2]}; {HERE}"
                error = _exception(kind, message[:MAX_TEXT])
                if isinstance(error, MemoryError):
                    self.incident = Incident("memory", f"{name} ran out of memory: {message}")
                _raise_at(error, self._path, line)
        self._broken("an answer to a question that was not asked")

    def _source_line(self, number):
        lines = self._source.decode("utf-8", "replace").split("\n")
        return lines[number - 1].strip() if number and 0 < number <= len(lines) else ""

    def _broken(self, what):
        self._end("protocol", f"the submission's process sent {what}; the check cannot count")

    # --- processes ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _process(self, rank=None):
        """A process with the file in it, for this caller alone: the usual one, or a rank's."""
        if self._loading:
            raise LoadError(str(self._loading))
        if self._left_s <= 0:
            spent = f"{self._limits.submission_s:g} s were used up by earlier checks"
            self._end("timeout", f"no time left: {spent}")
        process = self._idle.pop(rank, None) or self._start()
        try:
            if not process.loaded:
                self._load(process)
            yield process
        except BaseException:
            process.close()
            raise
        self._idle[rank] = process

    def _start(self):
        try:
            process = WorkerProcess(self._control, self._request)
        except (OSError, ValueError, Infrastructure) as error:
            self._lost(f"no process could be started: {error}")
        self.layers = process.layers
        return process

    def _load(self, process):
        load = ["load", self._source, self._code]
        try:
            answer = self._ask(process, load, "the import of starter.py")
        except Incident as incident:
            self._loading = incident
            raise LoadError(str(incident)) from None
        match answer:
            case ("loaded", bytes() as code):
                # what the first process compiled before it was given anything, the others need not
                self._code, process.loaded = self._code or code, True
                return
            case ("raised", str(kind), str(message), (int() | None) as line):
                message = message[:MAX_TEXT]
                where = f"starter.py line {line}: " if line else "starter.py: "
                why = f"{where}{kind[:MAX_NAME]}: {message} (while it was imported)"
                if kind == "ModuleNotFoundError" or _of_the_walls(kind, message):
                    why += f"; {HERE}"
                if kind in ("SyntaxError", "IndentationError", "TabError"):
                    why = f"{where}{message}"
                self._loading = Incident("memory", why) if kind == "MemoryError" else why
                raise LoadError(why)
        self._broken("an answer that is no answer to an import")

    # --- one question, one answer ---------------------------------------------------------------

    def _ask(self, process, question, name):
        """Send a question, make the collectives asked for meanwhile, return the answer."""
        # an import is not the check's: each rank's process has its own time
        left_s = self._check_left_s if process.loaded else self._limits.check_s
        started = time.monotonic()
        process.doing, process.deadline = name, started + min(left_s, self._left_s)
        try:
            while True:
                answer = self._exchange(process, question)
                match answer:
                    case ("collective", str(operation), parts, (int() | None) as place):
                        question = self._collective(operation, parts, place)
                    case _:
                        return answer
        finally:
            spent = time.monotonic() - started
            self._left_s -= spent
            self._check_left_s -= spent if process.loaded else 0

    def _collective(self, operation, parts, place):
        """The reply to a collective of all ranks; its place is the axis or the root."""
        try:
            if operation not in COLLECTIVES:
                raise ValueError(f"collectives has no {operation}")
            if isinstance(parts, (list, tuple)):
                self._simulate(operation, parts, len(parts) + 1)
            with np.errstate(all="ignore"):
                function = getattr(self._collectives, operation)
                return "value", function(parts) if place is None else function(parts, place)
        except _REFUSALS as error:
            return _refusal(error)

    def _simulate(self, operation, parts, times):
        """Bound what the ledgers of a check keep."""
        sizes = [part.nbytes + ARRAY_BYTES for part in parts if isinstance(part, np.ndarray)]
        self._check_bytes += sum(sizes) * times
        if len(parts) > MAX_RANKS or self._check_bytes > MAX_BYTES:
            raise ValueError(f"{operation}: more ranks or bytes than the grader simulates")

    def _exchange(self, process, question):
        """Send a question; what comes back, be it an answer or a question."""
        try:
            data = wire.frame(question)
        except wire.Unsendable as problem:
            raise TypeError(f"cannot be sent to the submission: {problem}") from None
        try:
            process.data.settimeout(self._time_left(process))
            process.data.sendall(data)
            while (frame := wire.take_frame(process.arrived)) is None:
                process.data.settimeout(self._time_left(process))
                chunk = process.data.recv(1 << 16)
                if not chunk:
                    self._gone(process)
                process.arrived += chunk
            self._read_output(process)
            self._check_bytes += len(frame)
            if self._check_bytes > MAX_BYTES:
                mib = MAX_BYTES >> 20
                what = f"{process.doing} gave more than {mib} MiB back; return what was asked"
                self._end("memory", what)
            return wire.decode(frame)
        except wire.BadFrame as problem:
            self._broken(f"bytes that are no message ({problem})")
        except TimeoutError:
            self._out_of_time(process)
        except OSError:
            self._gone(process)

    def _time_left(self, process):
        left_s = process.deadline - time.monotonic()
        return left_s if left_s > 0 else self._out_of_time(process)

    def _read_output(self, process):
        """What was printed since this was asked before; the check ends if that is too much."""
        limit = self._limits.output_bytes
        printed = process.read_output(limit + 1)
        if self._keep_output:
            self.output = (self.output + printed)[:KEPT_OUTPUT]
        self._check_output += len(printed)
        if self._check_output > limit:
            what = f"{process.doing} printed more than {limit} bytes"
            self._end("output", f"{what}; remove the print")

    # --- how it ended ---------------------------------------------------------------------------

    def _out_of_time(self, process):
        self._read_output(process)
        spent = min(self._limits.check_s, self._limits.submission_s)
        what = f"{process.doing} did not finish within {spent:g} s"
        self._end("timeout", f"{what}; look for a loop that does not end")

    def _gone(self, process):
        """The process ended by itself, or the sandbox ended it; say which, and never trust it."""
        report = process.last_report(2.0)  # a connection is closed before its process has ended
        told = not report
        if told:
            process.hang_up()
            report = process.last_report()
        self._read_output(process)
        if "exit" not in report:
            self._lost(f"the process was lost: {report.get('setup', 'no report')}")
        name, code = process.doing, report["exit"]
        if report["reason"] == "memory":
            mib = self._limits.memory_bytes >> 20
            self._end("memory", f"{name} used more than {mib} MiB of memory")
        if code in (-9, -24) and report["cpu_s"] >= 0.9 * self._limits.cpu_s:
            self._end("timeout", f"{name} used more than {self._limits.cpu_s} s of processor time")
        how = f"ended the whole process with exit status {code}"
        if told and code == -9:  # it lived until then
            how = "closed its connection"
        elif code < 0:
            how = f"ended the whole process by signal {-code}"
        self._end("crashed", f"{name} {how}; return a value instead")

    def _lost(self, why):
        self.infrastructure = why
        raise Infrastructure(why) from None

    def _end(self, kind, sentence):
        """An incident: nothing of this submission's processes goes on."""
        incident = Incident(kind, sentence)
        self.incident = self.incident or incident
        self.close()
        raise incident


class WorkerProcess:
    """One sandboxed process: its data socket, the file it prints to, its lifeline."""

    loaded = False  # whether the learner's file is
    doing, deadline = "", 0.0

    def __init__(self, control, request):
        self.data, data = socket.socketpair()
        self.lifeline, lifeline = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.output, self.arrived = os.memfd_create("output"), bytearray()
        self._output_read = 0
        with data, lifeline:
            descriptors = [data.fileno(), self.output, lifeline.fileno()]
            socket.send_fds(control, [request], descriptors)
        first = self.last_report(20)
        if "layers" not in first:
            self.close()
            raise Infrastructure(first.get("setup", "no report from the sandbox"))
        self.layers = first["layers"]

    def read_output(self, limit):
        printed = os.pread(self.output, limit, self._output_read)
        self._output_read += len(printed)
        return printed

    def last_report(self, timeout_s=5.0):
        """What the sandbox says when it starts, and once all of its threads are gone; then, {}."""
        try:
            self.lifeline.settimeout(timeout_s)
            return json.loads(self.lifeline.recv(65536))
        except (OSError, ValueError):
            return {}

    def hang_up(self):
        """The sandbox kills it."""
        for end, how in ((self.lifeline, socket.SHUT_WR), (self.data, socket.SHUT_RDWR)):
            with contextlib.suppress(OSError):
                end.shutdown(how)

    def close(self):
        self.hang_up()
        self.last_report()
        self.data.close()
        self.lifeline.close()
        os.close(self.output)


_REFUSALS = (ValueError, TypeError, IndexError, KeyError, OverflowError)


def _refusal(error):
    """What the learner's code is told of a collective that it cannot make."""
    kind = next(kind for kind in type(error).__mro__ if kind in _REFUSALS)
    return "error", kind.__name__, str(error)[:500]


def _of_the_walls(kind, message):
    """Whether it is what the sandbox answers to what it denies."""
    return kind in ("BlockingIOError", "PermissionError") or "start new thread" in message


_UNUSABLE = {"StopIteration", "StopAsyncIteration", "ExceptionGroup"}


def _exception(kind, message):
    found = getattr(builtins, kind, None)
    if not isinstance(found, type) or not issubclass(found, BaseException):
        kind, found = "BaseException", BaseException
    if issubclass(found, Exception) and kind not in _UNUSABLE:
        with contextlib.suppress(TypeError):  # as UnicodeDecodeError raises, which takes five
            return found(message)
        if issubclass(found, ValueError):
            return ValueError(message)
    return type(kind, (Stopped,), {})(message)


def _raise_at(error, path, line):
    """Raise `error` as if from that line of the learner's file, so that the failure names it."""
    if line is None or not 0 < line < 100_000:
        raise error
    exec(compile("\n" * (line - 1) + "raise error", path, "exec"), {"error": error})


def _carry_over(given, changed):
    """What the learner's code did to its arguments, done to the caller's: the Recorder judges it.

    The process itself says what they are now, which a submission could forge; all it would gain is
    what copying its arguments at the start gives to anybody.
    """
    match given, changed:
        case (np.ndarray(), np.ndarray()) if given.size == changed.size:
            if given.dtype == changed.dtype and given.flags.writeable:
                if given.shape != changed.shape:
                    given.shape = changed.shape
                given[...] = changed
        case (list(), list()):
            given[:] = changed
        case (dict(), dict()):
            given.clear()
            given.update(changed)
        case (tuple(), tuple()):
            for one, other in zip(given, changed, strict=False):
                _carry_over(one, other)
