"""Inside the sandbox: the learner's module, served call by call.

Nothing here is trusted by the other side: whatever is written on the socket is only ever a value
or an exception of the learner's.

Requests: ("load", source, the same compiled or b""), ("get", name), ("call", number, name, args,
kwargs, group, recorded), where group is None, or (place, rank, size) of an argument that stands for
the rank's group, and recorded says whether the judge makes the collectives; and, in answer to what
this side asked for during a call, ("value", x) or ("error", type name, message).
Answers: ("loaded", compiled), ("got", x), ("is function",), ("missing",),
("returned", number, x, the arguments if they have changed, else None),
("raised", number, type name, message, line); and during a call ("collective", name, args, kwargs)
or ("group", name, array, axis).
"""

import builtins
import functools
import marshal
import operator
import os
import socket
import sys
import threading
import traceback
import types
from fractions import Fraction

import collectives
import numpy as np
import wire
from wire import MAX_TEXT

FILE_NAME = "starter.py"
MAX_PACKED = 1 << 20
ENVIRONMENT = {"HOME": "/tmp", "USER": "student", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
SERVED = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")


def serve(data, output, lab):
    """The process's life: descriptors, environment, the lab's given files, then requests."""
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(data, 3)
    os.closerange(4, 256)
    sys.stdin = open(0, closefd=False)
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = open(descriptor, "w", closefd=False, errors="backslashreplace")
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv[:] = [FILE_NAME]
    os.environ.clear()
    os.environ.update(ENVIRONMENT)
    stand_beside(lab)
    link = Link(socket.socket(fileno=3))
    serve_collectives(link)
    try:
        Worker(link).serve()
    except EOFError:
        pass


def stand_beside(lab):
    """The lab's given files and folders lie beside the learner's file, as they do at home."""
    if lab is not None and os.path.isdir(lab):
        sys.path.append(lab)
        for name in os.listdir(lab):
            try:
                os.symlink(os.path.join(lab, name), name)
            except OSError:
                pass


class Link:
    """The socket to the judge."""

    def __init__(self, sock):
        self.sock, self.receiver = sock, wire.Receiver(sock)
        self.lock = threading.RLock()  # ranks may be threads
        self.recorded = False  # whether the judge looks at the collectives of this call

    def send(self, value):
        self.sock.sendall(wire.frame(value))

    def ask(self, *question):
        """The judge's answer to what the learner's code asks for."""
        with self.lock:
            try:
                self.send(question)
            except wire.NotPlain:
                self.send(as_builtin(question))
            reply = self.receiver.next()
        if reply[0] == "error":
            raise getattr(builtins, reply[1])(reply[2])
        return reply[1]


def serve_collectives(link):
    """The course's collectives.py; those over all ranks that the judge records, it makes."""

    def served(original):
        @functools.wraps(original)
        def collective(*args, **kwargs):
            if not link.recorded:
                return original(*args, **kwargs)
            outputs = link.ask("collective", original.__name__, args, kwargs)
            if collectives._ledgers.get():  # the learner's own, which the judge does not see
                original(*args, **kwargs)
            return outputs

        return collective

    for name in SERVED:
        setattr(collectives, name, served(getattr(collectives, name)))
    for name in getattr(collectives, "OPERATIONS", ()):  # those of a group of the learner's own
        collectives.OPERATIONS[name] = getattr(collectives, name)


class Worker:
    def __init__(self, link):
        self.link = link
        self.module = None

    def serve(self):
        while True:
            request = self.link.receiver.next()
            getattr(self, "do_" + request[0])(*request[1:])
            _flush()

    def do_load(self, source, packed):
        with open(FILE_NAME, "wb") as file:  # for inspect and tracebacks
            file.write(source)
        path = os.path.abspath(FILE_NAME)
        module = types.ModuleType("starter")
        module.__file__ = path
        sys.modules["starter"] = self.module = module
        try:
            code = marshal.loads(packed) if packed else compile(source, path, "exec")
            packed = b"" if packed else marshal.dumps(code)
            exec(code, module.__dict__)
        except BaseException as error:
            return self._raised(0, error)
        self.link.send(("loaded", packed if len(packed) < MAX_PACKED else b""))

    def do_get(self, name):
        try:
            value = getattr(self.module, name)
        except AttributeError:
            return self.link.send(("missing",))
        if callable(value):
            return self.link.send(("is function",))
        self._answer(0, name, lambda: ("got", value))

    def do_call(self, number, name, args, kwargs, group, recorded):
        sent, self.link.recorded = self.link.receiver.frame, recorded
        given, named = (args, kwargs) if group is None else self._with_group(args, kwargs, *group)
        try:
            result = getattr(self.module, name)(*given, **named)
        except BaseException as error:
            return self._raised(number, error)
        changed = None if _is_in(sent, (args, kwargs)) else (args, kwargs)
        self._answer(number, name, lambda: ("returned", number, result, changed))

    def _with_group(self, args, kwargs, place, rank, size):
        def meet(operation, array, axis):
            axis = axis if axis is None else operator.index(axis)  # numpy's whole numbers too
            return self.link.ask("group", operation, array, axis)

        group = collectives.Group(rank, size, meet)
        if place in kwargs:
            return args, kwargs | {place: group}
        return (*args[:place], group, *args[place + 1 :]), kwargs

    def _answer(self, number, name, answer):
        try:
            try:
                self.link.send(answer())
            except wire.NotPlain:  # a NamedTuple is a tuple, a defaultdict a dict
                self.link.send(as_builtin(answer()))
        except wire.Unsendable as problem:
            text = (
                f"{name} holds {problem}; while grading, arguments and results are plain values: "
                "numbers, strings, lists, tuples, dicts, numpy arrays"
            )
            self.link.send(("raised", number, "TypeError", text, None))
        except MemoryError as error:
            self._raised(number, error)

    def _raised(self, number, error):
        if isinstance(error, EOFError) and not isinstance(error, Exception):
            raise error
        line = None
        for frame, at in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename == getattr(self.module, "__file__", None):
                line = at
        if isinstance(error, SyntaxError):
            line, message = error.lineno, str(error.msg)
        else:
            message = _text(error)
        self.link.send(("raised", number, _builtin_name(error), message[:MAX_TEXT], line))


def _builtin_name(error):
    """The nearest builtin exception, of those that are what the checks tell apart if it is that."""
    kinds = [kind for kind in type(error).__mro__ if vars(builtins).get(kind.__name__) is kind]
    told_apart = [kind for kind in kinds if issubclass(kind, (ValueError, NotImplementedError))]
    return (told_apart or kinds)[0].__name__


def _text(error):
    try:
        text = str(error)
    except BaseException:
        text = ""
    return text.encode("utf-8", "backslashreplace").decode()


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


AS_IT_IS = {  # whatever a class of one's own makes of str() or float()
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    Fraction: lambda value: Fraction(value.numerator, value.denominator),
}


def as_builtin(value, depth=0):
    """What is of a class of its own as what it is; a copy, as far as it may go deep."""
    if depth > wire.MAX_DEPTH:
        return value
    if isinstance(value, dict):
        pairs = dict.items(value)
        return {as_builtin(key, depth + 1): as_builtin(item, depth + 1) for key, item in pairs}
    for kind in (list, tuple):
        if isinstance(value, kind):
            return kind([as_builtin(item, depth + 1) for item in kind.__iter__(value)])
    if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
        return np.asarray(value, _native(value.dtype))
    if isinstance(value, np.longdouble):
        return np.float64(value)
    if isinstance(value, (bool, np.generic)):
        return value
    for kind, plain in AS_IT_IS.items():
        if isinstance(value, kind):
            return plain(value)
    return value


def _native(dtype):
    """The dtype in this machine's byte order; long doubles, which the checks accept, as float64."""
    return np.dtype(np.float64) if dtype == np.longdouble else dtype.newbyteorder("=")


def _is_in(frame, pair):
    """Whether the two values stand in the frame that brought them: nobody has changed them."""
    try:
        return wire.encode(pair)[5:] in frame  # without the pair's own tag and length
    except (wire.Unsendable, RecursionError):
        return False
