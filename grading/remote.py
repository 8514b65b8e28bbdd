"""The object behind the `lab` fixture while grading: every call runs in a sandboxed worker.

Nothing the worker says is believed except as a value or as an exception of the learner's code. All
clocks are here. An incident (timeout, memory, output, crashed, protocol) ends the worker; the next
check gets a fresh one.
"""

import builtins
import contextlib
import json
import os
import select
import socket
import time

import numpy as np

from grading import arrays
from grading.inside import wire
from grading.inside.wire import COLLECTIVES, MAX_TEXT
from labkit.loading import LoadError
from labkit.traced import TracedArray
from labkit.values import leaves

MAX_RANKS = 256
MAX_COLLECTIVE_BYTES = 64 << 20  # in and out, of all collectives of a check: a ledger keeps them
MAX_RECEIVED_BYTES = 64 << 20  # in one check, of which a test may keep all
ARRAY_BYTES = 256  # what an array takes besides its numbers
MAX_NAME = 200
KEPT_OUTPUT = 4000


class Incident(Exception):
    """The worker was ended; `kind` says why, str() is a sentence for the learner."""

    def __init__(self, kind, sentence):
        super().__init__(sentence)
        self.kind = kind


class Stopped(Exception):
    """The learner's code raised something that is not an Exception, such as SystemExit."""


class Infrastructure(Exception):
    """The grader's own failure: never the learner's, never a zero."""


class RemoteLab:
    """A learner's file in a sandbox: functions and constants as attributes."""

    def __init__(self, source, control, request, limits, collectives, path):
        self._source, self._control, self._request = source, control, request
        self._limits, self._collectives, self._path = limits, collectives, str(path)
        self._worker = None
        self._functions = {}  # names that stood for functions when they were first asked for
        self._loading = None  # why the file could not be loaded
        self._number = 0
        self._left_s = limits.submission_s
        self.incident = None  # of the current check
        self.infrastructure = ""
        self.layers = None
        self.output = b""
        self.begin_check()

    def begin_check(self, carry_over=False, hidden=False):
        """A new check: its own clock, its own output allowance.

        With `carry_over`, what the learner's code does to its arguments is done to the caller's.
        Without, a result cannot pass by bending the numbers that it is compared with. What is
        printed during a hidden check is counted, but not kept: it could tell the numbers.
        """
        self._keep_output = not hidden
        self.incident = None
        self._carry_over = carry_over
        self.changed_arguments = False
        self._check_left_s = self._limits.check_s
        self._check_output = self._check_received = self._check_collective = 0
        self._held = None

    @property
    def what_happened(self):
        """The incident of this check: its own, or the one of the import that every check needs."""
        return self.incident or (self._loading if isinstance(self._loading, Incident) else None)

    def close(self):
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    # --- what tests see ---------------------------------------------------------------------

    def __getattr__(self, name):
        if name.startswith("_") or len(name) > MAX_NAME:
            raise AttributeError(name)
        self.load()
        if name in self._functions:
            return self._functions[name]
        answer = self._ask(("get", name), name)
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
        """A worker with the learner's file in it; LoadError if the file does not load."""
        if self._loading:
            raise LoadError(str(self._loading))
        if self._worker is not None:
            return
        self._start()
        try:
            answer = self._ask(("load", self._source), "the import of starter.py")
        except Incident as incident:
            self._loading = incident
            raise LoadError(str(incident)) from None
        match answer:
            case ("loaded", list()):
                return
            case ("raised", 0, str(kind), str(message), (int() | None) as line):
                message = message[:MAX_TEXT]
                where = f"starter.py line {line}: " if line else "starter.py: "
                self._loading = f"{where}{kind}: {message} (while it was imported)"
                if kind in ("SyntaxError", "IndentationError", "TabError"):
                    self._loading = f"{where}{message}"
                if kind == "MemoryError":
                    self.incident = Incident("memory", self._loading)
                    self._loading = self.incident
                raise LoadError(str(self._loading))
        self._broken("an answer that is no answer to an import")

    def _function(self, name):
        def function(*args, **kwargs):
            return self._call(name, args, kwargs)

        function.__name__ = name
        return function

    def _call(self, name, args, kwargs):
        self.load()
        self._number += 1
        given = [v for v in leaves((args, kwargs)) if isinstance(v, np.ndarray)]
        traces = {id(v.trace): v.trace for v in given if type(v) is TracedArray}
        looks_up = any(value.dtype.kind in "iu" for value in given)
        self._held = arrays.Held(traces.values(), looks_up) if traces else None
        answer = self._ask(("call", self._number, name, args, kwargs), name)
        match answer:
            case ("returned", number, result, changed) if number == self._number:
                if changed is not None:
                    self.changed_arguments = True
                    if self._carry_over:
                        _carry_over((args, kwargs), changed)
                return result
        self._raised(answer, self._number, name)

    def _raised(self, answer, number, name):
        match answer:
            case ("raised", n, str(kind), str(message), (int() | None) as line) if n == number:
                if kind == "AssertionError" and not message.strip():
                    message = self._source_line(line) or "without a message"
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

    # --- one question, one answer ---------------------------------------------------------------

    def _start(self):
        if self._left_s <= 0:
            self._refuse_time()
        try:
            self._worker = worker = WorkerProcess(self._control, self._request)
        except (OSError, ValueError, Infrastructure) as error:
            self.infrastructure = f"no worker could be started: {error}"
            raise Infrastructure(self.infrastructure) from None
        self.layers = worker.layers

    def _refuse_time(self):
        sentence = f"no time left: {self._limits.submission_s:g} s were used up by earlier checks"
        self.incident = Incident("timeout", sentence)
        raise self.incident

    def _number_of(self, value):
        if self._held is not None and isinstance(value, np.ndarray):
            return self._held.number_of(value)
        return None

    def _number_of_argument(self, value):
        """As above; what the caller passed, and every slice of it, can only be read.

        Indices, which nobody counts, are sent as they are: a mask made of them may be local.
        """
        if type(value) is np.ndarray and value.dtype.kind in "iu":
            return None
        if self._held is not None and isinstance(value, np.ndarray):
            value = value.view()
            value.flags.writeable = False
        return self._number_of(value)

    def _ask(self, question, name):
        """Send a question, serve what the learner's code asks for meanwhile, return the answer."""
        if self._left_s <= 0:
            self._refuse_time()
        started = time.monotonic()
        self._deadline = started + min(self._check_left_s, self._left_s)
        try:
            self._send(question, name, self._number_of_argument)
            while True:
                answer = self._receive(name)
                self._watch_the_clock(name)  # frames that wait in the buffer take time as well
                match answer:
                    case (
                        "collective" | "array" as kind,
                        str(operation),
                        tuple(args),
                        dict(kwargs),
                        list(notes),
                    ):
                        if self._held is None and (kind == "array" or notes):
                            self._broken("a request about an array it was not given")
                        self._serve(name, kind, operation, args, kwargs, notes)
                    case _:
                        return self._without_promises(answer)
        finally:
            spent = time.monotonic() - started
            self._left_s -= spent
            self._check_left_s -= spent

    def _without_promises(self, answer):
        if self._held is None:
            return answer
        try:
            return arrays.fulfil(answer, [])
        except arrays.Refused:
            self._broken("an array that it only promised")

    def _serve(self, name, kind, operation, args, kwargs, notes):
        """Do what the worker noted down, then what it asks for, and answer."""
        held, done = self._held, []
        try:
            with np.errstate(all="ignore"):
                if held is not None:
                    done = arrays.perform_notes(notes, held, self._deadline)
                    args, kwargs = arrays.fulfil(args, done), arrays.fulfil(kwargs, done)
                    counted = held.counted()
                if kind == "collective":
                    result = self._collective(operation, args, kwargs)
                elif operation == "values":
                    result = held.values(*args)
                else:
                    result = arrays.perform(operation, args, kwargs)
                if held is not None:
                    held.note_result(result, counted, (args, kwargs))
                answer = ("value", result, done)
            self._send(answer, name)
        except (Incident, Infrastructure):
            raise
        except Exception as error:
            failed = None
            if isinstance(error, arrays.NoteFailed):
                failed, done, error = error.note, error.results, error.__cause__
            if held is not None and len(held.arrays) + len(done) > arrays.MAX_HELD:
                done = []
            kind = type(error) if type(error) in _SENDABLE_ERRORS else ValueError
            self._send(("error", kind.__name__, str(error)[:500], failed, done), name)

    def _collective(self, operation, args, kwargs):
        if operation not in COLLECTIVES or not all(
            key in ("parts", "axis", "root") for key in kwargs
        ):
            raise ValueError(f"collectives has no {operation} with these arguments")
        parts = args[0] if args else kwargs.get("parts")
        if isinstance(parts, (list, tuple)):
            sizes = [part.nbytes + ARRAY_BYTES for part in parts if isinstance(part, np.ndarray)]
            self._check_collective += sum(sizes) * (len(parts) + 1)
            if len(parts) > MAX_RANKS or self._check_collective > MAX_COLLECTIVE_BYTES:
                raise ValueError(f"{operation}: more ranks or bytes than the grader simulates")
        for value in (*args[1:], *(kwargs[key] for key in kwargs if key != "parts")):
            if type(value) is not int:
                raise TypeError(f"{operation}: axis and root are ints")
        return getattr(self._collectives, operation)(*args, **kwargs)

    def _send(self, value, name, number_of=None):
        try:
            data = wire.frame(value, number_of or self._number_of)
        except wire.Unsendable as problem:
            raise TypeError(f"cannot be sent to the submission: {problem}") from None
        view = memoryview(data)
        while view:
            try:
                view = view[self._worker.data.send(view) :]
            except BlockingIOError:
                self._wait(name, select.POLLOUT)
            except OSError:
                self._gone(name)

    def _receive(self, name):
        data = self._worker.received
        try:
            while len(data) < 4 or len(data) < 4 + wire.frame_size(data[:4]):
                self._wait(name, select.POLLIN)
                try:
                    chunk = self._worker.data.recv(1 << 18)
                except BlockingIOError:
                    continue
                except OSError:
                    chunk = b""
                if not chunk:
                    self._gone(name)
                data += chunk
            end = 4 + wire.frame_size(data[:4])
            self._check_received += end
            if self._check_received > MAX_RECEIVED_BYTES:
                mib = MAX_RECEIVED_BYTES >> 20
                self._end("memory", f"{name} gave more than {mib} MiB back; return what was asked")
            array_of = self._held.array_of if self._held is not None else None
            answer = wire.decode(data[4:end], array_of)
            del data[:end]
            return answer
        except (wire.BadFrame, arrays.Refused) as problem:
            self._broken(f"bytes that are no message ({problem})")

    def _wait(self, name, event):
        """Until the worker's socket is ready; meanwhile its output is read, its clock watched."""
        worker = self._worker
        while True:
            ready = worker.poll(event, self._watch_the_clock(name))
            if worker.output in ready:
                self._read_output(name)
            if worker.data.fileno() in ready:
                return
            if worker.lifeline.fileno() in ready:
                self._gone(name)

    def _watch_the_clock(self, name):
        """The seconds that are left; the check ends when there are none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            spent = min(self._limits.check_s, self._limits.submission_s)
            loop = "; look for a loop that does not end"
            self._end("timeout", f"{name} did not finish within {spent:g} s{loop}")
        return left

    def _read_output(self, name):
        chunk = self._worker.read_output()
        if self._keep_output:
            self.output = (self.output + chunk)[:KEPT_OUTPUT]
        self._check_output += len(chunk)
        if self._check_output > self._limits.output_bytes:
            limit = self._limits.output_bytes
            self._end("output", f"{name} printed more than {limit} bytes; remove the print")

    # --- how it ended ---------------------------------------------------------------------------

    def _gone(self, name):
        """The worker ended by itself, or its monitor ended it; say which, and never trust it."""
        report = self._worker.last_report(2.0)
        told = not report
        if told:  # its connection is closed, yet it lives
            report = self._worker.end()
        self._drain(name)
        if "setup" in report or not report:
            self._worker.close()
            self._worker = None
            self.infrastructure = f"the worker was lost: {report.get('setup', 'no report')}"
            raise Infrastructure(self.infrastructure)
        code, reason = report.get("exit"), report.get("reason")
        full = report["peak_bytes"] >= 0.9 * self._limits.memory_bytes
        if reason == "memory" or code == -9 and full and not told:
            mib = self._limits.memory_bytes >> 20
            self._end("memory", f"{name} used more than {mib} MiB of memory")
        if told:
            self._end("crashed", f"{name} closed its connection; return a value instead")
        if code in (-9, -24) and report["cpu_s"] >= 0.9 * self._limits.cpu_s:
            self._end("timeout", f"{name} used more than {self._limits.cpu_s} s of processor time")
        how = f"with exit status {code}" if code >= 0 else f"by signal {-code}"
        self._end("crashed", f"{name} ended the whole process {how}; return a value instead")

    def renew_time(self):
        """All of the submission's time again: who is slow and honest is as slow the second time."""
        self._left_s = self._limits.submission_s

    def drain(self):
        """Take what was printed so far, before a hidden check may print."""
        if self._worker is not None:
            self._drain("")

    def _drain(self, name):
        taken = 0  # at most what a check may print: who prints faster than this reads never ends
        with contextlib.suppress(OSError):
            while (
                taken <= self._limits.output_bytes
                and self._worker.output in self._worker.poll(0, 0)
                and (chunk := self._worker.read_output())
            ):
                taken += len(chunk)
                if self._keep_output:
                    self.output = (self.output + chunk)[:KEPT_OUTPUT]

    def _end(self, kind, sentence):
        self.close()
        self.incident = Incident(kind, sentence)
        raise self.incident


class WorkerProcess:
    """One sandboxed process: its data socket, its output, its monitor's lifeline."""

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

    def last_report(self, timeout_s):
        self.lifeline.settimeout(timeout_s)
        try:
            return json.loads(self.lifeline.recv(65536))
        except (OSError, ValueError):
            return {}

    def end(self):
        """Have the monitor kill a worker that closed its connection; its report, or {}."""
        with contextlib.suppress(OSError):
            self.lifeline.shutdown(socket.SHUT_WR)
        return self.last_report(5.0)

    def close(self):
        """Hang up: the monitor kills whatever is left."""
        self.data.close()
        self.lifeline.close()
        os.close(self.output)


_SENDABLE_ERRORS = {ValueError, TypeError, IndexError, KeyError, ZeroDivisionError, OverflowError}
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
    """What the learner's code did to its arguments, done to the caller's."""
    match given, changed:
        case (np.ndarray(), np.ndarray()) if given.shape == changed.shape:
            if given.dtype == changed.dtype and given.flags.writeable and given is not changed:
                given[...] = changed
        case (list(), list()):
            if len(given) == len(changed):
                for one, other in zip(given, changed, strict=True):
                    _carry_over(one, other)
            for i, value in enumerate(changed[: len(given)]):
                if not isinstance(value, (np.ndarray, list, dict, tuple)):
                    given[i] = value
            if len(given) != len(changed):
                given[:] = changed
        case (tuple(), tuple()):
            for one, other in zip(given, changed, strict=False):
                _carry_over(one, other)
        case (dict(), dict()):
            for key in [key for key in given if key not in changed]:
                del given[key]
            for key, value in changed.items():
                if key in given and isinstance(value, (np.ndarray, list, dict, tuple)):
                    _carry_over(given[key], value)
                else:
                    given[key] = value
