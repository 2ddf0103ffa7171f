"""A served run that is attacked: its server and its honest clients as processes, and connections that say nothing."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from support.chaos import Nursery, Process, Usage
from support.ports import free_port

HONEST, ATTACKERS = 3, 10


def make_pki(folder: Path) -> Path:
    from smofi.net.certs import init, issue

    init(folder)
    issue(folder, server=["127.0.0.1", "localhost"])
    for name in [f"honest-{n}" for n in range(HONEST)] + [f"mallory-{n}" for n in range(ATTACKERS)]:
        issue(folder, client=name)
    return folder


@dataclass
class Attacked:
    """`words` are the settings of its run, for `honest` clients. Its server keeps no attacker out, as another would
    after a few messages, and so has to deal with all of them."""

    nursery: Nursery
    folder: Path
    pki: Path
    words: list[str]
    honest: int
    port: int = field(default_factory=free_port)

    def serve(self, name: str, *words: object) -> Process:
        server = ["serve", "--certs", self.pki / "server", "--listen", f"127.0.0.1:{self.port}"]
        return self.nursery.smofi(*server, *words, log=f"server-{name}", SMOFI_TESTS_PATIENT="1")

    def join(self, name: str) -> list[Process]:
        clients = []
        for number in range(self.honest):
            words = ["join", f"127.0.0.1:{self.port}", "--certs", self.pki / f"honest-{number}", "--part", number]
            log = f"{name}-honest-{number}"
            clients.append(self.nursery.smofi(*words, "--data", "digits", "--allow-labels", log=log))
        return clients

    def train(self, name: str, rounds: int) -> tuple[Path, Usage]:
        """A run that nobody attacks, and the most memory that its server takes."""
        folder = self.folder / name
        server, clients = self.serve(name, *self.words, "--rounds", rounds, "--output", folder), self.join(name)
        usage, end = server.usage(), time.monotonic() + 60 + 20 * rounds
        while server.alive and time.monotonic() < end:
            with suppress(OSError):  # it may end while it is looked at
                usage = max(usage, server.usage(), key=lambda one: one.memory)
            time.sleep(0.5)
        assert server.wait(1) == 0, server.text()
        assert [client.wait(60) for client in clients] == [0] * self.honest
        return folder, usage


class Lorises:
    """Connections that say nothing, or a byte now and then; those that the server closes are made again."""

    def __init__(self, port: int, count: int) -> None:
        self.port, self.count, self.made, self.closed = port, count, 0, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Lorises:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        connections: list[socket.socket] = []
        hello = bytes.fromhex("1603010200010001fc0303")
        while not self._stop.is_set():
            while len(connections) < self.count:
                connections.append(socket.create_connection(("127.0.0.1", self.port)))
                self.made += 1
            for number, one in enumerate(list(connections)):
                try:
                    one.setblocking(False)
                    if number % 3:
                        one.send(hello[self.made % len(hello) :][:1])
                    gone = one.recv(100) == b""
                except BlockingIOError:
                    gone = False
                except OSError:
                    gone = True
                if gone:
                    one.close()
                    connections.remove(one)
                    self.closed += 1
            self._stop.wait(0.5)
        for one in connections:
            one.close()
