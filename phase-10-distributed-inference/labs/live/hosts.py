"""Two hosts on one machine: network namespaces, joined by a virtual cable. Linux, root."""

import contextlib
import json
import os
import subprocess
from functools import partial

from labkit.ranks import die_with_parent


@contextlib.contextmanager
def two_hosts():
    """Yields `hosts` for run_ranks: the command that enters each host, and its interface.

    The namespaces have no name, so the kernel takes each of them, and its end of the cable, away
    with the last process in it, however this one ends.
    """
    with contextlib.ExitStack() as stack:
        keepers = [stack.enter_context(_host()) for _ in range(2)]
        enter = [["nsenter", f"--net=/proc/{keeper.pid}/ns/net"] for keeper in keepers]
        _ip(enter[0], "link", "add", "cable0", "type", "veth", "peer", "name", "cable0",
            "netns", str(keepers[1].pid))  # fmt: skip
        for number, words in enumerate(enter, 1):
            _ip(words, "address", "add", f"10.77.0.{number}/24", "dev", "cable0")
            _ip(words, "link", "set", "cable0", "up")
            _ip(words, "link", "set", "lo", "up")
        yield [(words, "cable0") for words in enter]


@contextlib.contextmanager
def _host():
    """A process that only keeps its network namespace; it ends with this one."""
    words = ["unshare", "--net", "sh", "-c", "echo here; exec sleep infinity"]
    ends = partial(die_with_parent, os.getpid())
    with subprocess.Popen(words, stdout=subprocess.PIPE, preexec_fn=ends) as keeper:
        try:
            if not keeper.stdout.readline():
                raise PermissionError("two hosts on one machine need root: unshare --net failed")
            yield keeper
        finally:
            keeper.kill()


def shape(hosts, rate):
    """Both ends of the cable send at `rate` (tc's spelling, such as 50mbit) from here on."""
    for enter, card in hosts:  # a burst below one message of a prefill, or tbf lets it through
        tc = [*enter, "tc", "qdisc", "replace", "dev", card, "root", "tbf", "rate", rate]
        subprocess.run([*tc, "burst", "10kb", "latency", "400ms"], check=True)


def unshape(hosts):
    for enter, card in hosts:
        subprocess.run([*enter, "tc", "qdisc", "delete", "dev", card, "root"], check=True)


def cable_bytes(hosts):
    """(sent, received) by the first host's end of the cable."""
    words = [*hosts[0][0], "ip", "-json", "-statistics", "link", "show", "cable0"]
    counted = json.loads(subprocess.check_output(words))[0]["stats64"]
    return [counted[way]["bytes"] for way in ("tx", "rx")]


def _ip(enter, *words):
    subprocess.run([*enter, "ip", *words], check=True)
