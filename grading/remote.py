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
import select
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
    "the grader has Python with numpy, pytest, labkit, collectives and the lab's given files, and "
    "no other packages, processes or programs, and no network"
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
        self._number = 0
        self._left_s = limits.submission_s
        self.incident = None  # of the current check
        self.infrastructure = ""
        self.layers = None
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
            answer = self._ask(process, ("get", name), name)
        match answer:
            case ("got", value):
                return value
            case ("is function",):
                self._functions[name] = self._function(name)
                return self._functions[name]
            case ("missing",):
                raise AssertionError(f"starter.py has no `{name}`; the tests call it by that name")
        self._raised(answer, 0, name)

    def load(self):
        """A process with the learner's file in it; LoadError if the file does not load."""
        with self._process():
            pass

    def _function(self, name):
        def function(*args, **kwargs):
            steps = self._steps(name, args, kwargs)
            try:
                request = next(steps)
                while True:  # it has a group, which makes its collectives by itself
                    group, (operation, array, axis) = self._without_group(args, kwargs)[3], request
                    options = {} if axis is None else {"axis": axis}
                    try:
                        answer = getattr(group, operation)(array, **options)
                    except Exception as error:
                        request = steps.throw(error)
                    else:
                        request = steps.send(answer)
            except StopIteration as end:
                return end.value

        def steps(*args, **kwargs):
            return self._steps(name, args, kwargs)

        function.__name__, function.steps = name, steps
        return function

    def _steps(self, name, args, kwargs):
        """One call, as a generator of what its rank brings to the collectives of its group."""
        args, kwargs, place, group = self._without_group(args, kwargs)
        about = None if group is None else (place, group.rank, group.size)
        # one rank alone holds everything: it needs no process of its own
        with self._process(group.rank if group and group.size > 1 else None) as process:
            self._number += 1
            number = self._number
            recorded = bool(self._collectives and self._collectives._ledgers.get())
            call = "call", number, name, args, kwargs, about, recorded
            answer = self._ask(process, call, name)
            while group:
                match answer:
                    case ("group", str(operation), array, (int() | None) as axis):
                        reply = yield from self._met(group, operation, array, axis)
                        answer = self._ask(process, reply, name)
                    case _:
                        break
        match answer:
            case ("returned", n, result, changed) if n == number:
                if changed is not None:
                    _carry_over((args, kwargs), changed)
                return result
        self._raised(answer, number, name)

    def _met(self, group, operation, array, axis):
        try:
            if operation not in OF_A_GROUP:
                raise ValueError(f"a group has no {operation}")
            self._simulate(operation, [array], group.size + 4)
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

    def _raised(self, answer, number, name):
        match answer:
            case ("raised", n, str(kind), str(message), (int() | None) as line) if n == number:
                if kind == "AssertionError" and not message.strip():
                    message = self._source_line(line) or "without a message"
                if kind in ("BlockingIOError", "PermissionError"):  # what the walls answer
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
        if self._left_s <= 0:
            self._refuse_time()
        try:
            process = WorkerProcess(self._control, self._request)
        except (OSError, ValueError, Infrastructure) as error:
            self.infrastructure = f"no process could be started: {error}"
            raise Infrastructure(self.infrastructure) from None
        self.layers = process.layers
        return process

    def _load(self, process):
        load = "load", self._source, self._code
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
            case ("raised", 0, str(kind), str(message), (int() | None) as line):
                message = message[:MAX_TEXT]
                where = f"starter.py line {line}: " if line else "starter.py: "
                self._loading = f"{where}{kind[:MAX_NAME]}: {message} (while it was imported)"
                if kind == "ModuleNotFoundError":
                    self._loading += f"; {HERE}"
                if kind in ("SyntaxError", "IndentationError", "TabError"):
                    self._loading = f"{where}{message}"
                if kind == "MemoryError":
                    self.incident = Incident("memory", self._loading)
                    self._loading = self.incident
                raise LoadError(str(self._loading))
        self._broken("an answer that is no answer to an import")

    def _refuse_time(self):
        sentence = f"no time left: {self._limits.submission_s:g} s were used up by earlier checks"
        self.incident = Incident("timeout", sentence)
        raise self.incident

    # --- one question, one answer ---------------------------------------------------------------

    def _ask(self, process, question, name):
        """Send a question, make the collectives asked for meanwhile, return the answer."""
        if self._left_s <= 0:
            self._refuse_time()
        # an import is not the check's: each rank's process has its own time
        left_s = self._check_left_s if process.loaded else self._limits.check_s
        started = time.monotonic()
        process.deadline = started + min(left_s, self._left_s)
        try:
            while True:
                self._send(process, question, name)
                answer = self._receive(process, name)
                match answer:
                    case ("collective", str(operation), tuple(args), dict(kwargs)):
                        question = self._collective(operation, args, kwargs)
                    case _:
                        return answer
        finally:
            spent = time.monotonic() - started
            self._left_s -= spent
            self._check_left_s -= spent if process.loaded else 0

    def _collective(self, operation, args, kwargs):
        """The reply to a collective of all ranks."""
        try:
            with np.errstate(all="ignore"):
                return "value", self._collective_of_all(operation, args, kwargs)
        except _REFUSALS as error:
            return _refusal(error)

    def _collective_of_all(self, operation, args, kwargs):
        if operation not in COLLECTIVES or kwargs.keys() - {"parts", "axis", "root"}:
            raise ValueError(f"collectives has no {operation} with these arguments")
        parts = args[0] if args else kwargs.get("parts")
        if isinstance(parts, (list, tuple)):
            self._simulate(operation, parts, len(parts) + 1)
        for value in (*args[1:], *(kwargs[key] for key in kwargs if key != "parts")):
            if not isinstance(value, (int, np.integer, type(None))):
                raise TypeError(f"{operation}: axis and root are ints")
        return getattr(self._collectives, operation)(*args, **kwargs)

    def _simulate(self, operation, parts, times):
        """Bound what the ledgers of a check keep."""
        sizes = [part.nbytes + ARRAY_BYTES for part in parts if isinstance(part, np.ndarray)]
        self._check_bytes += sum(sizes) * times
        if len(parts) > MAX_RANKS or self._check_bytes > MAX_BYTES:
            raise ValueError(f"{operation}: more ranks or bytes than the grader simulates")

    def _send(self, process, value, name):
        try:
            data = wire.frame(value)
        except wire.Unsendable as problem:
            raise TypeError(f"cannot be sent to the submission: {problem}") from None
        view = memoryview(data)
        while view:
            try:
                view = view[process.data.send(view) :]
            except BlockingIOError:
                self._wait(process, name, select.POLLOUT)
            except OSError:
                self._gone(process, name)

    def _receive(self, process, name):
        data = process.received
        try:
            while len(data) < 4 or len(data) < 4 + wire.frame_size(data[:4]):
                self._wait(process, name, select.POLLIN)
                try:
                    chunk = process.data.recv(1 << 16)
                except BlockingIOError:
                    continue
                except OSError:
                    chunk = b""
                if not chunk:
                    self._gone(process, name)
                data += chunk
            end = 4 + wire.frame_size(data[:4])
            self._check_bytes += end
            if self._check_bytes > MAX_BYTES:
                mib = MAX_BYTES >> 20
                self._end("memory", f"{name} gave more than {mib} MiB back; return what was asked")
            answer = wire.decode(data[4:end])
            del data[:end]
        except wire.BadFrame as problem:
            self._broken(f"bytes that are no message ({problem})")
        self._watch_the_clock(process, name)  # frames that wait in the buffer take time as well
        return answer

    def _wait(self, process, name, event):
        """Until the socket is ready; meanwhile the output is read and the clock watched."""
        while True:
            ready = process.poll(event, self._watch_the_clock(process, name))
            if process.output in ready:
                self._read_output(process, name)
            if process.data.fileno() in ready:
                return
            if process.lifeline.fileno() in ready:
                self._gone(process, name)

    def _watch_the_clock(self, process, name):
        """The seconds that are left; the check ends when there are none."""
        left = process.deadline - time.monotonic()
        if left <= 0:
            spent = min(self._limits.check_s, self._limits.submission_s)
            loop = "; look for a loop that does not end"
            self._end("timeout", f"{name} did not finish within {spent:g} s{loop}")
        return left

    def _read_output(self, process, name):
        chunk = process.read_output()
        if self._keep_output:
            self.output = (self.output + chunk)[:KEPT_OUTPUT]
        self._check_output += len(chunk)
        if self._check_output > self._limits.output_bytes:
            limit = self._limits.output_bytes
            self._end("output", f"{name} printed more than {limit} bytes; remove the print")

    # --- how it ended ---------------------------------------------------------------------------

    def _gone(self, process, name):
        """The process ended by itself, or the sandbox ended it; say which, and never trust it."""
        report = process.last_report(2.0)
        told = not report
        if told:  # its connection is closed, yet it lives
            process.hang_up()
            report = process.last_report()
        self._drain(process)
        if "setup" in report or not report:
            self.infrastructure = f"the process was lost: {report.get('setup', 'no report')}"
            raise Infrastructure(self.infrastructure)
        code, reason = report.get("exit"), report.get("reason")
        if reason == "memory":
            mib = self._limits.memory_bytes >> 20
            self._end("memory", f"{name} used more than {mib} MiB of memory")
        if told:
            self._end("crashed", f"{name} closed its connection; return a value instead")
        if code in (-9, -24) and report["cpu_s"] >= 0.9 * self._limits.cpu_s:
            self._end("timeout", f"{name} used more than {self._limits.cpu_s} s of processor time")
        how = f"with exit status {code}" if code >= 0 else f"by signal {-code}"
        self._end("crashed", f"{name} ended the whole process {how}; return a value instead")

    def _drain(self, process):
        taken = 0  # at most what a check may print: who prints faster than this reads never ends
        with contextlib.suppress(OSError):
            while (
                taken <= self._limits.output_bytes
                and process.output in process.poll(0, 0)
                and (chunk := process.read_output())
            ):
                taken += len(chunk)
                if self._keep_output:
                    self.output = (self.output + chunk)[:KEPT_OUTPUT]

    def _end(self, kind, sentence):
        """An incident: nothing of this submission's processes goes on."""
        incident = Incident(kind, sentence)
        self.incident = self.incident or incident
        self.close()
        raise incident


class WorkerProcess:
    """One sandboxed process: its data socket, its output, its lifeline to the sandbox."""

    loaded = False
    deadline = 0.0

    def __init__(self, control, request):
        self.data, data = socket.socketpair()
        self.lifeline, lifeline = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.output, output = os.pipe()
        try:
            socket.send_fds(control, [request], [data.fileno(), output, lifeline.fileno()])
        finally:
            data.close()
            lifeline.close()
            os.close(output)
        self.lifeline.settimeout(20)
        try:
            first = json.loads(self.lifeline.recv(65536) or b"{}")
        except (OSError, ValueError) as error:
            self.close()
            raise Infrastructure(f"no report from the sandbox ({error})") from None
        if "layers" not in first:
            self.close()
            raise Infrastructure(first.get("setup", "the sandbox is gone"))
        self.layers = first["layers"]
        self.data.setblocking(False)
        os.set_blocking(self.output, False)
        self.received = bytearray()
        self._poll, self._event = select.poll(), None
        self._poll.register(self.lifeline, select.POLLIN)
        self._poll.register(self.output, select.POLLIN)

    def poll(self, event, timeout_s):
        if event != self._event:
            self._poll.register(self.data, event)
            self._event = event
        return {descriptor for descriptor, _ in self._poll.poll(max(0, timeout_s) * 1000)}

    def read_output(self):
        try:
            chunk = os.read(self.output, 65536)
        except BlockingIOError:
            return b""
        if not chunk:
            self._poll.unregister(self.output)  # closed by the learner's code
        return chunk

    def last_report(self, timeout_s=5.0):
        """What the sandbox says once the process and all of its threads are gone; then, {}."""
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


_UNUSABLE = {"StopIteration", "StopAsyncIteration", "ExceptionGroup"}


def _exception(kind, message):
    found = getattr(builtins, kind, None)
    if not isinstance(found, type) or not issubclass(found, BaseException):
        found = BaseException
    if issubclass(found, Exception) and kind not in _UNUSABLE:
        try:
            return found(message)
        except TypeError:  # such as UnicodeDecodeError, which takes five arguments
            pass
    return type(found.__name__, (Stopped,), {})(message)


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
        case (np.ndarray(), np.ndarray()) if given.shape == changed.shape:
            if given.dtype == changed.dtype and given.flags.writeable:
                given[...] = changed
        case (list(), list()):
            given[:] = changed
        case (dict(), dict()):
            given.clear()
            given.update(changed)
        case (tuple(), tuple()):
            for one, other in zip(given, changed, strict=False):
                _carry_over(one, other)
