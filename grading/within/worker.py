"""Inside the cell: the learner's file, served call by call.

Nothing here is trusted by the other side: whatever is written on the socket is only ever a value or
an exception of the learner's. Requests: load(text), get(name), call(name, args, kwargs, group,
recorded), where group is None, or (place, rank, size) of the argument that stands for the rank's
group, and recorded says whether the tests look at the collectives of this call; rank(), which forks
and answers with a socket to the fork. Answers: value(x, changed, printed), where changed is None or
the args and kwargs as the call left them; function; missing; raised(kind, text, steps, printed),
where a step is (function, line) of the learner's file; and during a call collective(name, args,
kwargs) or group(method, args, kwargs), which are answered by value(x) or error(kind, text).
"""

import builtins
import contextlib
import functools
import inspect
import io
import json
import os
import pickle
import resource
import socket
import sys
import threading
import traceback
import types

PACKAGES, COURSE = "/packages", "/tmp/course"
KEPT = 4000  # bytes of what a call prints, letters of what an error says
STEPS = 8  # of an error's way, the first and the last


class Printed(io.RawIOBase):
    """What the learner's code prints: the last of it goes with the answer, the rest nowhere."""

    def __init__(self):
        self.kept = b""

    def writable(self):
        return True

    def write(self, data):
        self.kept = (self.kept + bytes(data))[-KEPT:]
        return len(data)

    def fileno(self):
        return 1

    def taken(self):
        """The text since it was asked for last; a stream that was closed is opened again."""
        for name in ("stdout", "stderr"):
            with contextlib.suppress(Exception):
                getattr(sys, name).flush()
            if getattr(getattr(sys, name), "closed", True):
                raw = io.BufferedWriter(PRINTED)
                setattr(sys, name, io.TextIOWrapper(raw, errors="backslashreplace"))
        text, self.kept = self.kept.decode("utf-8", "replace"), b""
        return text

    def close(self):
        pass


class Group:
    """One rank's group of the tests, which makes what is asked of it."""

    def __init__(self, rank, size, ask):
        self.rank, self.size, self._ask = rank, size, ask

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self._ask("group", name, args, kwargs)


class Worker:
    def __init__(self, link, lab):
        self.link, self.file = link, f"{lab}/starter.py"
        self.module, self.recorded, self.lock = None, False, threading.RLock()

    def serve(self):
        while True:
            what, *request = self.link.receive()
            if what == "rank":
                self.rank()
                continue
            try:
                answer = getattr(self, what)(*request)
            except BaseException as error:
                answer = self.raised(error)
            printed = PRINTED.taken()
            try:
                self.link.send(*answer, printed)
            except BrokenPipeError:
                return
            except BaseException as error:  # of the value's own code, or no plain value
                self.link.send(*self.raised(error), printed)

    def load(self, text):
        source = text.encode("latin-1")
        with open(self.file, "wb") as file:  # for inspect, tracebacks and paths
            file.write(source)
        self.module = sys.modules["starter"] = types.ModuleType("starter")
        self.module.__file__ = self.file
        exec(compile(source, self.file, "exec"), self.module.__dict__)
        return "value", None, None

    def get(self, name):
        if not hasattr(self.module, name):
            return ("missing",)
        value = getattr(self.module, name)
        return ("function",) if callable(value) else ("value", value, None)

    def call(self, name, args, kwargs, group, recorded):
        before = _pickled([args, kwargs])
        self.recorded, function, given = recorded, getattr(self.module, name), [*args]
        if group:
            place, rank, size = group
            given[place] = Group(rank, size, self.ask)
        value = function(*given, **kwargs)
        same = before and _pickled([args, kwargs]) == before
        return "value", value, None if same else [args, kwargs]

    def rank(self):
        """Fork; the judge gets a socket to the fork, which serves it as this process does."""
        ours, theirs = socket.socketpair()
        if os.fork() == 0:
            try:
                ours.close()
                self.link = wire.Link(theirs)
                self.serve()
            finally:
                os._exit(0)
        socket.send_fds(self.link.sock, [b"r"], [ours.fileno()])
        ours.close()
        theirs.close()

    def ask(self, *question):
        """The answer to a collective that the learner's code makes."""
        with self.lock:  # ranks may be threads of the learner's
            self.link.send(*question)
            what, *found = self.link.receive()
        if what == "error":
            raise getattr(builtins, found[0])(found[1])
        return found[0]

    def raised(self, error):
        steps = [
            [frame.f_code.co_qualname.partition(".")[0], line]
            for frame, line in traceback.walk_tb(error.__traceback__)
            if frame.f_code.co_filename == self.file
        ]
        text, steps = _text(error), steps[:STEPS] + steps[STEPS:][-STEPS:]
        if isinstance(error, SyntaxError):
            text, steps = str(error.msg), [["", error.lineno]]
        return "raised", _kind(error), text[:KEPT], steps


def _pickled(value):
    """Bytes that tell two states of arguments apart, and stay here; b"" where it cannot."""
    try:
        return pickle.dumps(value, 5)
    except Exception:
        return b""


def _kind(error):
    """The nearest builtin exception, of those that are what the checks tell apart if it is that."""
    kinds = [kind for kind in type(error).__mro__ if vars(builtins).get(kind.__name__) is kind]
    told_apart = [kind for kind in kinds if issubclass(kind, (ValueError, NotImplementedError))]
    return (told_apart or kinds)[0].__name__


def _text(error):
    try:
        return str(error)
    except BaseException:
        return ""


def serve_collectives(worker):
    """Collectives over all ranks are made by the tests' process where it records them."""

    def served(original):
        @functools.wraps(original)
        def collective(*args, **kwargs):
            if not worker.recorded:
                return original(*args, **kwargs)
            outputs = worker.ask("collective", original.__name__, args, kwargs)
            if collectives._ledgers.get():  # the learner's own
                original(*args, **kwargs)
            return outputs

        return collective

    for name, function in [*vars(collectives).items()]:
        if inspect.isfunction(function) and not name.startswith("_"):
            if next(iter(inspect.signature(function).parameters), "") == "parts":
                setattr(collectives, name, served(function))
                if name in collectives.OPERATIONS:  # those of a group of the learner's own
                    collectives.OPERATIONS[name] = getattr(collectives, name)


def main():
    lab, limits, descriptor = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    link = wire.Link(socket.socket(fileno=descriptor))
    worker = Worker(link, lab)
    serve_collectives(worker)
    sys.argv[:] = ["starter.py"]
    sys.stdout = sys.stderr = None
    PRINTED.taken()
    for name in os.listdir(lab):  # a path from the lab's folder works as one from the root does
        with contextlib.suppress(OSError):
            os.symlink(f"{lab}/{name}", name)
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, name), (most, most))
    link.send("ready")
    with contextlib.suppress(EOFError, OSError):
        worker.serve()
    os._exit(0)


PRINTED = Printed()
if __name__ == "__main__":
    sys.path += [PACKAGES, COURSE, os.path.dirname(sys.argv[1]), sys.argv[1], "/within"]
    import collectives
    import wire

    main()
