"""The rule of the deployment guide that limits connections by address, in a network of its own."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from support.ends import eventually
from support.network import SERVER, Network, enter, inside, missing

GUIDE = (Path(__file__).parents[1] / "docs/deployment.md").read_text()
MOST = 16


def there(namespace: str, work: Callable[[], None]) -> None:
    """Do something on that machine."""

    def enter_and_work() -> None:
        enter(namespace)
        work()

    thread = threading.Thread(target=enter_and_work)
    thread.start()
    thread.join()


def reset(one: socket.socket) -> None:
    """Close it at once, at both ends."""
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()


def test_an_address_has_only_so_many_connections(tmp_path: Path) -> None:
    """Others are let in, and so is who has closed one."""
    if why := missing():
        pytest.skip(why)
    rules = re.search(r"```nft\n(.*?)```", GUIDE, flags=re.DOTALL)
    assert rules
    (tmp_path / "smofi.nft").write_text(rules[1])
    listening = list[socket.socket]()
    connected: dict[str, list[socket.socket]] = {"": []}

    def listen() -> None:
        listening.append(socket.create_server((SERVER, 7443), backlog=100))

    def connect(machine: str, times: int) -> bool:
        def again_and_again() -> None:
            for _ in range(times):
                try:
                    connected[machine].append(socket.create_connection((SERVER, 7443), timeout=10))
                except ConnectionRefusedError:
                    refused.append(machine)

        refused = list[str]()
        connected.setdefault(machine, [])
        there(machine, again_and_again)
        return not refused

    with Network(2) as network:
        inside(network.hub, "nft", "-f", str(tmp_path / "smofi.nft"))
        there(network.hub, listen)
        bad, good = network.machines
        try:
            connect(bad, 40)
            assert len(connected[bad]) == MOST
            connect(good, 3)
            assert len(connected[good]) == 3
            reset(connected[bad].pop())
            assert eventually(lambda: connect(bad, 1))
            connect(bad, 1)
            assert len(connected[bad]) == MOST
        finally:
            for one in (*listening, *(one for several in connected.values() for one in several)):
                one.close()
