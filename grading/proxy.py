"""A pytest plugin: one collected pytest of a lab, forked for each hand-in, whose `lab` is a proxy.

    python -P -m pytest LAB -p grading.proxy     with {"socket": descriptor, "limits"} in $GRADING

says that it is ready, then answers requests (source, secret) with labkit's entry of the lab
(labkit.scoreboard), or {"no_cell": sentence}. Nothing that comes out of the cell is believed but a
value or an exception of the learner's. A check's clock is pytest-timeout's, as at home.
"""

import builtins
import contextlib
import gc
import hashlib
import json
import os
import random
import resource
import socket
import sys
import threading
import time

import numpy as np
import pytest

from grading.cell import Cell, Limits, NoCell
from grading.within.wire import Link, line_of
from labkit.loading import LoadError
from labkit.mistakes import read_bank
from labkit.session import STATE

OWN_BYTES = 3 << 30  # what the tests' process may take beside what it has
MAX_TEXT, MAX_NAME = 4000, 99
# what a collective or a group may tell the learner's code
REFUSALS = (ValueError, TypeError, IndexError, KeyError, OverflowError, TimeoutError)
REFUSALS += (AttributeError,)
# what reading a hostile answer may raise
WRONG = (OSError, EOFError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError)


class Lab:
    """The learner's functions and constants as attributes; each rank has a process of its own."""

    def __init__(self, lab, source, limits, collectives):
        self._lab, self._source, self._limits = lab, source, limits
        self._collectives, self._functions, self._notes = collectives, {}, []
        self._cell, self._links = None, {}  # by rank; None is the usual process's
        self._lock, self._until = threading.Lock(), time.monotonic() + limits.all_s

    # --- the cell -----------------------------------------------------------------------------

    def _begin_check(self):
        """Nothing of an earlier check's call is left; LoadError when the file does not load."""
        if time.monotonic() > self._until:
            pytest.fail(f"not run: all checks together took {self._limits.all_s:g} s", False)
        if any(link.busy for link in self._links.values()):  # a time limit, or ranks that wait
            self._cell.close()
            self._cell = None
        if self._cell is None:
            self._cell = Cell(self._lab, self._limits)
            self._links = {None: self._cell.link}
            self._load(self._cell.link)

    def _load(self, link):
        limit_s = self._limits.check_s
        link.sock.settimeout(limit_s)
        try:
            answer = self._exchange(link, line_of(["load", self._source.decode("latin-1")]))
        except WRONG as error:
            why = f"did not finish within {limit_s:g} s; look for a loop that does not end"
            why = self._end(why if isinstance(error, TimeoutError) else "")
            raise LoadError(f"starter.py: the import {why}") from None
        link.sock.settimeout(None)
        match answer:
            case ["raised", str(kind), str(text), steps, _]:
                steps = _steps(steps)
                where = f"starter.py line {steps[-1][1]}: " if steps else "starter.py: "
                if kind in ("SyntaxError", "IndentationError", "TabError"):
                    raise LoadError(where + text[:MAX_TEXT])
                text = f"{kind[:MAX_NAME]}: {text[:MAX_TEXT]}"
                raise LoadError(f"{where}{text} (while it was imported)")

    def _end(self, why=""):
        """End all of its processes; why, to be read after the name of what was called."""
        if self._cell:
            why = self._cell.end() or why or "ended one of its processes, or sent no answer"
            self._notes.append(f"its process was ended, as it {why}")
            self._cell, self._links = None, {}
        return why

    def _link(self, group):
        """To the usual process or, for one rank of several, to a fork of it for that rank."""
        rank = group.rank if group and group.size > 1 else None
        if None not in self._links:
            pytest.fail("not run: its process was ended earlier in this check", False)
        with self._lock:  # a check may run its ranks as threads
            if rank is not None and rank in self._links and self._links[rank].busy:
                self._links.pop(rank).sock.shutdown(socket.SHUT_RDWR)  # it waits for another rank
            if rank not in self._links:
                self._links[None].send("rank")
                _, (descriptor,), _, _ = socket.recv_fds(self._links[None].sock, 1, 1)
                self._links[rank] = Link(socket.socket(fileno=descriptor))
        return self._links[rank]

    # --- what the tests see -------------------------------------------------------------------

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._functions:
            match self._asked(name, ["get", name]):
                case ["value", value, _, _]:
                    return value
                case ["missing", _]:
                    text = f"starter.py has no `{name}`; the tests call it by that name"
                    raise AssertionError(text)
            self._functions[name] = lambda *args, **kwargs: self._call(name, args, kwargs)
        return self._functions[name]

    def _call(self, name, args, kwargs):
        place = next((n for n, value in enumerate(args) if _is_group(value)), None)
        group = None if place is None else args[place]
        about = group and (place, group.rank, group.size)
        sent = [None if n == place else value for n, value in enumerate(args)]
        recorded = bool(self._collectives and self._collectives._ledgers.get())
        answer = self._asked(name, ["call", name, sent, kwargs, about, recorded], group)
        if answer[0] != "value":
            pytest.fail(f"{name} sent no answer that could be one", False)
        if answer[2] is not None:  # labkit's recorder is to see what the call did to its arguments
            try:
                _become([*sent, *kwargs.values()], [*answer[2][0], *answer[2][1].values()])
            except WRONG:
                raise AssertionError(f"{name} changed an argument: work on a copy") from None
        return answer[1]

    def _asked(self, name, question, group=None):
        """The answer; what the learner's code raised is raised here."""
        line, link = line_of(question), self._link(group)
        if link.busy:
            pytest.fail("not run: an earlier call has not come back", False)
        link.busy = True
        try:
            answer = self._exchange(link, line, group)
        except WRONG:
            pytest.fail(f"{name} {self._end()}; return a value instead", False)
        link.busy = False
        if answer[0] == "raised":
            self._raised(name, *answer[1:4])
        return answer

    def _exchange(self, link, line, group=None):
        link.sock.sendall(line)
        while True:
            answer = link.receive()
            match answer:
                case ["collective", str(operation), tuple(args), dict(kwargs)]:
                    # made here, where the tests record it
                    link.send(*_reply(self._collectives, operation, args, kwargs))
                case ["group", str(method), tuple(args), dict(kwargs)] if group:
                    link.send(*_reply(group, method, args, kwargs))
                case (
                    ["value", _, None | [list(), dict()], str(printed)]
                    | ["raised", str(), str(), list(), str(printed)]
                    | ["function" | "missing", str(printed)]
                ):
                    sys.stdout.write(printed[-MAX_TEXT:])
                    return answer
                case _:
                    raise ValueError("no answer")

    def _raised(self, name, kind, text, steps):
        """Raise it as if from those lines of the learner's file, so that the failure names them."""
        found, text, steps = getattr(builtins, kind, None), text[:MAX_TEXT], _steps(steps)
        if not isinstance(found, type) or not issubclass(found, Exception):
            pytest.fail(f"{name} raised {kind[:MAX_NAME]}: {text}", False)
        if found is AssertionError and not text.strip():
            lines = dict(enumerate(self._source.decode("utf-8", "replace").splitlines(), 1))
            text = lines.get(steps and steps[-1][1], "without a message").strip()
        try:
            error = found(text)
        except TypeError:  # as UnicodeDecodeError, which takes five
            error = (ValueError if issubclass(found, ValueError) else RuntimeError)(text)
        if isinstance(error, (StopIteration, StopAsyncIteration)):
            error = RuntimeError(f"{kind}: {text}")
        _raise(error, str(self._lab.file("starter")), steps)


def _steps(steps):
    """Those of [function, line] that may be true."""
    good = [step for step in steps if len(step) == 2 and list(map(type, step)) == [str, int]]
    return [(function[:MAX_NAME], line) for function, line in good[:99] if 0 < line < 100_000]


def _raise(error, path, steps):
    """Raise it through frames that read as if they were of that file."""
    if not steps:
        raise error
    (function, line), *deeper = steps
    source = "\n" * (line - 1) + ("deeper()" if deeper else "raise error")
    code = compile(source, path, "exec").replace(co_name=function, co_qualname=function)
    exec(code, {"error": error, "deeper": lambda: _raise(error, path, deeper)})


def _is_group(value):
    return hasattr(value, "rank") and hasattr(value, "size")


def _become(old, new):
    """Make the caller's lists, dicts and arrays what the call has made of them."""
    for value, now in zip(old, new, strict=True):
        if isinstance(value, np.ndarray):
            value[...] = now
        elif isinstance(value, list):
            value[:] = now
        elif isinstance(value, dict):
            value.clear()
            value.update(now)
        elif isinstance(value, tuple):
            _become(value, now)


def _reply(of, name, args, kwargs):
    """What a public function of collectives, or of a rank's group, gives the learner's code."""
    try:
        function = getattr(of, name, None)
        if name.startswith("_") or not hasattr(function, "__code__"):
            raise AttributeError(f"'{type(of).__name__}' object has no attribute '{name}'")
        with np.errstate(all="ignore"):
            return "value", function(*args, **kwargs)
    except REFUSALS as error:
        kind = next(kind for kind in type(error).__mro__ if kind in REFUSALS)
        return "error", kind.__name__, str(error)[:MAX_TEXT]


# --- hidden numbers -------------------------------------------------------------------------------


def mix_in(secret: bytes) -> None:
    """From now on every seed in this process has the secret in it: numpy's and random.Random's.

    A check draws its inputs and its own oracle judges, so that an answer known by heart is none.
    """
    np.random.default_rng = _mixed(np.random.default_rng, secret)
    random.Random = _mixed(random.Random, secret)


def _mixed(make, secret):
    def generator(seed=None):
        if isinstance(seed, (np.random.Generator, np.random.BitGenerator)):
            return make(seed)
        return make(int.from_bytes(hashlib.sha256(secret + repr(seed).encode()).digest(), "little"))

    return generator


# --- the plugin -----------------------------------------------------------------------------------


class Judge:
    def __init__(self, requests, limits):
        self.requests, self.limits = Link(requests), limits
        self.hand_in = self.broken = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        """Serve requests; each is graded by pytest's own loop, in a fork of this process."""
        (lab,) = {session.config.stash[STATE].lab_of(item) for item in session.items}
        read_bank(lab)  # every fork inherits it
        gc.collect()
        gc.freeze()
        with contextlib.suppress(OSError, EOFError):
            self.requests.send("ready")
            while True:
                source, secret = self.requests.receive()
                child = os.fork()
                if child == 0:
                    self.prepare(lab, source.encode("latin-1"), secret)
                    return None
                if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                    break
        os._exit(0)

    def prepare(self, lab, source, secret):
        with open("/proc/self/statm") as file:
            most = int(file.read().split()[0]) * resource.getpagesize() + OWN_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        if secret:
            mix_in(bytes.fromhex(secret) + hashlib.sha256(source).digest())
        self.hand_in = Lab(lab, source, self.limits, sys.modules.get("collectives"))
        try:
            self.pytest_runtest_setup()
        except LoadError as error:
            self.broken = error

    def pytest_lab_implementation(self, lab, config):
        if self.broken:
            raise self.broken
        return self.hand_in

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self):
        try:
            if not self.broken:
                self.hand_in._begin_check()
        except NoCell as error:
            self.requests.send({"no_cell": str(error)})
            os._exit(0)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session):
        """The end of a fork: what labkit made of the checks is the answer."""
        scoreboard = session.config.pluginmanager.get_plugin("lab-scoreboard")
        ((_, entry),) = scoreboard.entries()
        yield
        if self.hand_in._cell:
            self.hand_in._cell.close()
        self.requests.send(entry | {"notes": list(dict.fromkeys(self.hand_in._notes))})
        os._exit(0)


def pytest_configure(config):
    if settings := os.environ.pop("GRADING", ""):
        settings = json.loads(settings)
        judge = Judge(socket.socket(fileno=settings["socket"]), Limits(**settings["limits"]))
        config.pluginmanager.register(judge, "judge")
