"""Two hosts on one machine: network namespaces, joined by a virtual cable. Linux, root."""

import contextlib
import subprocess
import uuid


@contextlib.contextmanager
def two_hosts():
    """Yields `hosts` for run_ranks: the command that enters each host, and its interface."""
    names = [f"lab02-{uuid.uuid4().hex[:6]}" for _ in range(2)]
    try:
        for name in names:
            _ip("netns", "add", name)
        here, there = names
        _ip("link", "add", "cable0", "netns", here, "type", "veth", "peer", "name", "cable0",
            "netns", there)  # fmt: skip
        for number, name in enumerate(names, 1):
            inside = ["netns", "exec", name, "ip"]
            _ip(*inside, "address", "add", f"10.77.0.{number}/24", "dev", "cable0")
            _ip(*inside, "link", "set", "cable0", "up")
            _ip(*inside, "link", "set", "lo", "up")
        yield [(["ip", "netns", "exec", name], "cable0") for name in names]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False)


def cable_bytes(hosts):
    """(sent, received) by the first host's end of the cable."""
    statistics = "/sys/class/net/cable0/statistics"
    return [
        int(subprocess.check_output([*hosts[0][0], "cat", f"{statistics}/{way}_bytes"]))
        for way in ("tx", "rx")
    ]


def _ip(*words):
    subprocess.run(["ip", *words], check=True)
