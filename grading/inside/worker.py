"""Inside the sandbox: the learner's module, served call by call.

Nothing here is trusted by the other side: whatever is written on the socket is only ever a value
or an exception of the learner's.

Requests: ("load", source, the same compiled or b""), ("get", name), ("call", name, args, kwargs,
group, recorded), where group is None, or (place, rank, size) of an argument that stands for the
rank's group, and recorded says whether the judge makes the collectives; and, in answer to what this
side asked for during a call, ("value", x) or ("error", type name, message).
Answers: ("loaded", compiled), ("function",), ("missing",), ("value", x, the arguments if they have
changed, else None), ("raised", type name, message, line); and during a call
("collective", operation, parts, axis or root) or ("group", operation, array, axis).
"""

import builtins
import contextlib
import functools
import inspect
import marshal
import operator
import os
import socket
import sys
import threading
import traceback
import types
from collections.abc import Mapping, Sequence
from fractions import Fraction

import collectives
import numpy as np
import wire
from wire import MAX_TEXT

FILE_NAME = "starter.py"
MAX_PACKED = 1 << 20
HOME = "course/phase-10-distributed-inference/labs"  # in which the labs lie at home
SERVED = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")


def serve(data, output, lab):
    """The process's life: descriptors, the lab's given files, then requests."""
    null = os.open("/dev/null", os.O_RDWR)  # the fork server's would be one file for all workers
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(data, 3)
    for descriptor in range(4, 256):  # Python 3.13's closerange() aborts where /proc is empty
        with contextlib.suppress(OSError):
            os.close(descriptor)
    sys.stdout.reconfigure(errors="backslashreplace")
    sys.argv[:] = [FILE_NAME]
    stand_beside(lab)
    link = Link(socket.socket(fileno=3))
    serve_collectives(link)
    with contextlib.suppress(EOFError):
        Worker(link).serve()


def stand_beside(lab):
    """The lab's given files and folders lie beside the learner's file, as deep as at home."""
    if lab is not None and os.path.isdir(lab):
        home = os.path.join(HOME, os.path.basename(lab))
        os.makedirs(home)
        os.chdir(home)
        sys.path.append(lab)
        for name in os.listdir(lab):
            with contextlib.suppress(OSError):
                os.symlink(os.path.join(lab, name), name)


class Link:
    """The socket to the judge."""

    def __init__(self, sock):
        self.sock, self.arrived, self.frame = sock, bytearray(), b""
        self.lock = threading.RLock()  # ranks may be threads
        self.recorded = False  # whether the judge looks at the collectives of this call

    def send(self, *value):
        self.sock.sendall(wire.frame([*value], plain))

    def receive(self):
        """The next value, which stays in `frame`; EOFError when the other side is gone."""
        while (frame := wire.take_frame(self.arrived)) is None:
            chunk = self.sock.recv(1 << 16)
            if not chunk:
                raise EOFError
            self.arrived += chunk
        self.frame = frame
        return wire.read(frame)

    def ask(self, what, operation, value, place):
        """The judge's answer to a collective that the learner's code makes."""
        place = place if place is None else operator.index(place)  # numpy's whole numbers too
        with self.lock:
            self.send(what, operation, value, place)
            reply = self.receive()
        if reply[0] == "error":
            raise getattr(builtins, reply[1])(reply[2])
        return reply[1]


def serve_collectives(link):
    """The course's collectives.py; those over all ranks that the judge records, it makes."""

    def served(original):
        signature = inspect.signature(original)

        @functools.wraps(original)
        def collective(*args, **kwargs):
            if not link.recorded:
                return original(*args, **kwargs)
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            parts, place = (*given.args, None)[:2]
            outputs = link.ask("collective", original.__name__, parts, place)
            if collectives._ledgers.get():  # the learner's own, which the judge does not see
                original(*args, **kwargs)
            return outputs

        return collective

    for name in SERVED:
        setattr(collectives, name, served(getattr(collectives, name)))
    for name in collectives.OPERATIONS:  # those of a group of the learner's own
        collectives.OPERATIONS[name] = getattr(collectives, name)


class Worker:
    def __init__(self, link):
        self.link = link
        self.module = None

    def serve(self):
        while True:
            what, *request = self.link.receive()
            getattr(self, "do_" + what)(*request)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()

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
            return self._raised(error)
        self.link.send("loaded", packed if len(packed) < MAX_PACKED else b"")

    def do_get(self, name):
        try:
            value = getattr(self.module, name)
        except AttributeError:
            return self.link.send("missing")
        if callable(value):
            return self.link.send("function")
        self._answer(name, value, None)

    def do_call(self, name, args, kwargs, group, recorded):
        asked, sent = ["call", name, args, kwargs, group, recorded], self.link.frame
        self.link.recorded = recorded
        given, named = (args, kwargs) if group is None else self._with_group(args, kwargs, *group)
        try:
            result = getattr(self.module, name)(*given, **named)
        except BaseException as error:
            return self._raised(error)
        self._answer(name, result, None if _stands_in(sent, asked) else (args, kwargs))

    def _with_group(self, args, kwargs, place, rank, size):
        group = collectives.Group(rank, size, functools.partial(self.link.ask, "group"))
        if place in kwargs:
            return args, kwargs | {place: group}
        return (*args[:place], group, *args[place + 1 :]), kwargs

    def _answer(self, name, value, changed):
        try:
            self.link.send("value", value, changed)
        except wire.Unsendable as problem:
            text = (
                f"{name} holds {problem}; while grading, arguments and results are plain values: "
                "numbers, strings, lists, tuples, dicts, numpy arrays"
            )
            self.link.send("raised", "TypeError", text, None)
        except Exception as error:  # of the value's own code, which is asked what it holds
            self._raised(error)

    def _raised(self, error):
        line = None
        for frame, at in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename == getattr(self.module, "__file__", None):
                line = at
        if isinstance(error, SyntaxError):
            line, message = error.lineno, str(error.msg)
        else:
            message = _text(error)
        self.link.send("raised", _builtin_name(error), message[:MAX_TEXT], line)


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


AS_IT_IS = {  # whatever a class of one's own makes of str(), float() or iteration
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    Fraction: lambda value: Fraction(value.numerator, value.denominator),
    list: lambda value: [*list.__iter__(value)],
    tuple: lambda value: (*tuple.__iter__(value),),
    dict: lambda value: dict(dict.items(value)),
    np.ma.MaskedArray: lambda value: value,  # its numbers are not all it is
    np.ndarray: lambda value: _native(np.asarray(value)),
    np.longdouble: np.float64,
    Mapping: dict,
    Sequence: list,  # a deque or an array.array, which the checks look at by place
}


def plain(value):
    """What is of a class of its own as what it is: a NamedTuple as a tuple."""
    for kind, make in AS_IT_IS.items():
        if isinstance(value, kind):
            return make(value)
    return value


def _native(array):
    """In this machine's byte order, long doubles as float64, objects such as Fractions as lists."""
    if array.dtype.kind not in "biufc":
        return array.tolist()
    dtype = np.float64 if array.dtype == np.longdouble else array.dtype.newbyteorder("=")
    return array if array.dtype is dtype else array.astype(dtype)


def _stands_in(frame, asked):
    """Whether the question is still what the frame brought: nobody has changed the arguments."""
    try:
        return wire.encode(asked) == frame
    except wire.Unsendable:
        return False
