"""Ranks that are forks of one process, which has imported what takes long: vLLM, or Torch. Linux.

    with Nursery(python, program, log, environment) as nursery:
        run_processes(commands, folder, start=nursery.start, ...)

`program` is imported, and each rank calls its main() with the command's words as sys.argv. The
nursery itself does nothing but import and fork: what a rank starts, no other rank has.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from pathlib import Path

from labkit.ranks import RanksFailed, die_with_parent


class Nursery:
    """Imports `program` with `interpreter` as soon as it is made. Close it: its forks die with it.

    log: the file that receives what the import prints. environment: of the import.
    """

    def __init__(self, interpreter, program, log, environment):
        self.log = Path(log)
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        here = os.pathsep.join([str(Path(__file__).parents[1]), environment.get("PYTHONPATH", "")])
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [interpreter, "-m", "labkit.nursery", str(program), str(theirs.fileno())],
                env=environment | {"PYTHONPATH": here},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                preexec_fn=die_with_parent(os.getpid()),
            )
        theirs.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.requests.close()
        self.process.kill()
        self.process.wait()

    def start(self, command, environment, out, err):
        """A rank, for labkit.ranks.run_processes; `command` is [interpreter, program, *words]."""
        own = dict(os.environ) if environment is None else environment
        request = json.dumps({"words": command[1:], "environment": own}).encode()
        told, tell = os.pipe()
        with contextlib.suppress(BrokenPipeError):  # the import failed: then nothing is told
            screen = out.fileno() if out else sys.__stdout__.fileno()
            socket.send_fds(self.requests, [request], [screen, err.fileno(), tell])
        os.close(tell)
        return Fork(told, self)


class Fork:
    """A process of a nursery with what run_processes asks of a subprocess.Popen."""

    def __init__(self, told, nursery):
        self.told, self.returncode = os.fdopen(told, "rb", buffering=0), None
        line = self.told.readline()  # comes when the import is done
        if not line:
            said = nursery.log.read_text(errors="replace").strip().splitlines()
            raise RanksFailed(f"rank 0: could not be started: {said[-1] if said else 'no message'}")
        self.pid = int(line)

    def poll(self):
        if self.returncode is None and select.select([self.told], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self):
        if self.returncode is None:
            line = self.told.readline()
            self.returncode = int(line) if line else -signal.SIGKILL  # with its nursery
            self.told.close()
        return self.returncode

    def kill(self):
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


# --- in the nursery -----------------------------------------------------------------------------


def serve(program, requests):
    """Fork a rank for each request; tell of each its pid and, in the end, its exit status."""
    ranks = {}
    while True:
        if select.select([requests], [], [], 0.02 if ranks else None)[0]:
            message, descriptors, *_ = socket.recv_fds(requests, 1 << 20, 3)
            if not message:
                return
            *outputs, tell = descriptors
            parent, pid = os.getpid(), os.fork()
            if pid == 0:
                requests.close()
                os.close(tell)
                become(program, json.loads(message), outputs, parent)
            for descriptor in outputs:
                os.close(descriptor)
            ranks[pid] = tell
            os.write(tell, f"{pid}\n".encode())
        for pid, tell in list(ranks.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                with contextlib.suppress(BrokenPipeError):
                    os.write(tell, f"{os.waitstatus_to_exitcode(status)}\n".encode())
                os.close(ranks.pop(pid))


def become(program, request, outputs, parent):
    """What a fork does: the rest of its life is the rank's."""
    status = 1
    try:
        os.setsid()
        die_with_parent(parent)()
        for target, descriptor in enumerate(outputs, 1):
            os.dup2(descriptor, target)
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.argv = request["words"]
        program.main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else bool(end.code)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def main():
    path, descriptor = sys.argv[1:]
    sys.path.insert(0, str(Path(path).parent))
    gc.disable()  # an import makes a million objects and no garbage
    program = importlib.import_module(Path(path).stem)
    gc.freeze()  # nor has a fork to look through them, or to copy their pages, to find its own
    gc.enable()
    serve(program, socket.socket(fileno=int(descriptor)))


if __name__ == "__main__":
    main()
