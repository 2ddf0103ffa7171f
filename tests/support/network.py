"""Machines of a network: namespaces of Linux, each with a cable to one hub, that can be cut, choked and made lossy.

Needs root, and ip, tc and nft (iproute2, nftables); `missing` says what is not there.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path
from types import TracebackType

SERVER = "10.214.255.1"
"""The hub's address, from everywhere."""

CLONE_NEWNET = 0x40000000
"""As Linux numbers it."""


def missing() -> str | None:
    """Why there can be no such network here."""
    absent = [one for one in ("ip", "tc", "nft") if not shutil.which(one)]
    if absent:
        return f"needs {' and '.join(absent)}, of iproute2 and nftables"
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    name = f"smofi-{os.getpid()}-9"
    try:
        run("ip", "netns", "add", name)
    except subprocess.CalledProcessError as error:
        return f"cannot make network namespaces: {error.stderr.strip()}"
    run("ip", "netns", "delete", name)
    return None


def run(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def inside(namespace: str, *words: str) -> str:
    return run("ip", "netns", "exec", namespace, *words)


def enter(namespace: str) -> None:
    """From now on, this thread is on that machine."""
    libc = ctypes.CDLL(None, use_errno=True)
    place = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(place, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {namespace}")
    finally:
        os.close(place)


class Network:
    """A hub, where the server runs, and `count` machines."""

    def __init__(self, count: int) -> None:
        self.hub = f"smofi-{os.getpid()}-0"
        self.machines = [f"smofi-{os.getpid()}-{number}" for number in range(1, count + 1)]

    def __enter__(self) -> Network:
        for name in left_behind():
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
        try:
            self._build()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.remove()

    def _build(self) -> None:
        run("ip", "netns", "add", self.hub)
        run("ip", "-n", self.hub, "link", "set", "lo", "up")
        run("ip", "-n", self.hub, "address", "add", f"{SERVER}/32", "dev", "lo")
        for number, name in enumerate(self.machines, start=1):
            here, there = f"c{number}", "cable"
            run("ip", "netns", "add", name)
            run("ip", "link", "add", here, "netns", self.hub, "type", "veth", "peer", "name", there, "netns", name)
            for place, cable, end in ((self.hub, here, 1), (name, there, 2)):
                run("ip", "-n", place, "address", "add", f"10.214.{number}.{end}/30", "dev", cable)
                run("ip", "-n", place, "link", "set", cable, "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            self._route(number - 1)
            inside(name, "nft", "add", "table", "inet", "weather")
            for hook in ("input", "output"):
                chain = f"{{ type filter hook {hook} priority 0 ; }}"
                inside(name, "nft", "add", "chain", "inet", "weather", hook, chain)

    def _route(self, number: int) -> None:
        run("ip", "-n", self.machines[number], "route", "replace", "default", "via", f"10.214.{number + 1}.1")

    def remove(self) -> None:
        for name in (*self.machines, self.hub):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)

    # ---------------------------------------------------------------------------------------------------- bad weather

    def cut(self, number: int) -> None:
        """Drop every packet, without a word to either side."""
        self._rule(number, "drop")

    def lose(self, number: int, percent: int) -> None:
        """Drop some of the packets."""
        self._rule(number, f"numgen random mod 100 < {percent} drop")

    def unplug(self, number: int) -> None:
        """Take the cable out."""
        run("ip", "-n", self.machines[number], "link", "set", "cable", "down")

    def choke(self, number: int, kilobits: int) -> None:
        """So many kilobits a second each way."""
        shape = ["tbf", "rate", f"{kilobits}kbit", "burst", "32kb", "latency", "300ms"]
        for place, cable in ((self.machines[number], "cable"), (self.hub, f"c{number + 1}")):
            run("tc", "-n", place, "qdisc", "replace", "dev", cable, "root", *shape)

    def heal(self, number: int) -> None:
        """All is well again."""
        name = self.machines[number]
        inside(name, "nft", "flush", "chain", "inet", "weather", "input")
        inside(name, "nft", "flush", "chain", "inet", "weather", "output")
        run("ip", "-n", name, "link", "set", "cable", "up")
        self._route(number)
        for place, cable in ((name, "cable"), (self.hub, f"c{number + 1}")):
            subprocess.run(
                ["tc", "-n", place, "qdisc", "delete", "dev", cable, "root"], capture_output=True, check=False
            )

    def _rule(self, number: int, rule: str) -> None:
        for hook in ("input", "output"):
            inside(self.machines[number], "nft", "add", "rule", "inet", "weather", hook, *rule.split())


def left_behind() -> list[str]:
    """The namespaces of processes that were killed and could not remove them."""
    found = [re.match(r"smofi-(\d+)-\d+\b", line) for line in run("ip", "netns", "list").splitlines()]
    return [one[0] for one in found if one and not Path(f"/proc/{one[1]}").exists()]
