"""Machines of a network: namespaces of Linux, each with a cable to one hub, that can be cut, choked and made lossy; and
a TCP proxy that can cut, stall, delay and slow down what passes through it.

Namespaces need root, and ip, tc and nft (iproute2, nftables); `missing` says what is not there.

with Proxy(port) as proxy:
    ...connect to proxy.port instead of port...
    proxy.cut()
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Callable
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


# ------------------------ a bad network on one machine: a tcp proxy that can cut, stall, delay and slow down what pa


CHUNK = 32 * 1024


class Proxy:
    """Passes bytes on between its own port and another one of its machine; use it from any thread.

    With `namespace` its machine is that one, a network namespace, and it is found there at `host`.
    """

    def __init__(self, port: int, host: str = "127.0.0.1", namespace: str | None = None, seed: int = 0) -> None:
        self.target, self.host, self.namespace = port, host, namespace
        self.passed, self.accepted = 0, 0
        self.delay, self.jitter, self.rate = 0.0, 0.0, 0.0
        """Seconds that each byte is on its way, and at most how many more, drawn anew for all that arrives at a time;
        bytes a second each way, 0 for no limit."""
        self.quickest, self.slowest = float("inf"), 0.0
        """Seconds that bytes were on their way, as measured."""
        self.cut_after = 0
        """Cut each connection after about this many bytes, 0 for never."""
        self._draw = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._open: set[socket.socket] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._listens.wait(30)
        self.port: int = self._socket.getsockname()[1]
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._socket.close()

    # ------------------------------------------------------------------------------------------------- bad weather

    @property
    def connections(self) -> int:
        """How many there are now."""
        return len(self._open) // 2

    def cut(self) -> int:
        """Reset every connection, and say how many there were; new ones are taken."""
        return self._call(self._cut)

    def stall(self) -> None:
        """Pass nothing on; connections stay open, as with a cable that was pulled."""
        self._call(self._flowing.clear)

    def flow(self) -> None:
        """Pass bytes on again."""
        self._call(self._flowing.set)

    def _call(self, function: Callable[[], int | None]) -> int:
        async def called() -> int:
            return function() or 0

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result()

    def _cut(self) -> int:
        found = self.connections
        for one in list(self._open):
            self._close(one)
        return found

    def _close(self, one: socket.socket) -> None:
        if one in self._open:
            self._open.discard(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # at once, with a reset
            self._loop.remove_reader(one)
            self._loop.remove_writer(one)
            one.close()

    # ----------------------------------------------------------------------------------------------------- passing

    def _run(self) -> None:
        if self.namespace:  # all sockets of this thread are there
            enter(self.namespace)
        self._socket = socket.create_server((self.host, 0))
        self._socket.setblocking(False)
        self._listens.set()
        asyncio.set_event_loop(self._loop)
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._start(self._accept())
        try:
            self._loop.run_forever()
        finally:
            self._cut()
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.close()

    def _start(self, work: object) -> None:
        task: asyncio.Task[None] = self._loop.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        while True:
            client, _ = await self._loop.sock_accept(self._socket)
            self.accepted += 1
            client.setblocking(False)
            self._start(self._connect(client))

    async def _connect(self, client: socket.socket) -> None:
        server = socket.socket()
        server.setblocking(False)
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.add(one)
        try:
            await self._loop.sock_connect(server, (self.host, self.target))
        except OSError:
            self._close(client)
            self._close(server)
            return
        left = [self.cut_after]
        self._start(self._pass(client, server, left))
        self._start(self._pass(server, client, left))

    async def _pass(self, source: socket.socket, sink: socket.socket, left: list[int]) -> None:
        """One direction of one connection."""
        under_way: asyncio.Queue[tuple[float, float, bytes]] = asyncio.Queue(256)
        reading = asyncio.ensure_future(self._read(source, under_way))
        try:
            while source in self._open and sink in self._open:
                since, due, data = await under_way.get()
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                await self._flowing.wait()
                if not data:
                    break
                if self.rate:
                    await asyncio.sleep(len(data) / self.rate)
                if left[0]:
                    left[0] -= len(data)
                    if left[0] <= 0:
                        break
                await self._loop.sock_sendall(sink, data)
                self.passed += len(data)
                took = self._loop.time() - since
                self.quickest, self.slowest = min(self.quickest, took), max(self.slowest, took)
        except OSError:
            pass
        finally:
            reading.cancel()
            self._close(source)
            self._close(sink)

    async def _read(self, source: socket.socket, under_way: asyncio.Queue[tuple[float, float, bytes]]) -> None:
        data = b"-"
        while data:
            try:
                data = await self._loop.sock_recv(source, CHUNK if not self.rate else 2048)
            except OSError:
                data = b""
            now = self._loop.time()
            await under_way.put((now, now + self.delay + self._draw.uniform(0, self.jitter), data))
