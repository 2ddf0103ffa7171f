"""What a client's user is told while there is no connection: what is wrong, now and then, and that it is over."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from smofi.serving.client import Client, Joining
from smofi.serving.own_data import OwnData
from smofi.serving.waiting import ENDLESS, Waits
from support.deployed import PATIENT, Clients, Serve, small
from support.ends import SOON, eventually
from support.ports import free_port
from support.proxy import Proxy


def test_the_same_reason_is_told_at_growing_intervals() -> None:
    """An attempt every ten seconds for two hours, and fifteen lines at most."""
    said: list[tuple[float, str]] = []
    now = 1000.0
    waits = Waits(lambda sentence: said.append((now, sentence)), lambda: now)
    for _ in range(720):
        waits.wait("nothing listens there")
        now += 10
    times = [when - 1000 for when, _ in said]
    assert times == [0, 60, 180, 420, 900, 1860, 3780]
    assert [sentence for _, sentence in said][:2] == [
        f"nothing listens there; {ENDLESS}",
        "nothing listens there; still trying, for 1 minute now",
    ]


def test_another_reason_is_told_at_once_but_not_each_time_they_take_turns() -> None:
    said: list[str] = []
    waits = Waits(said.append, lambda: 0.0)
    for _ in range(5):
        waits.wait("nothing listens there")
        waits.wait("its certificate has expired")
    assert said == [f"nothing listens there; {ENDLESS}", f"its certificate has expired; {ENDLESS}"]


def test_that_it_is_over_is_told_to_whom_it_concerns() -> None:
    said: list[str] = []
    waits = Waits(said.append, lambda: 0.0)
    waits.over("connected again")
    assert said == []
    waits.wait("gone")
    waits.over("connected again")
    waits.over("connected again")
    waits.wait("gone")
    assert said == [f"gone; {ENDLESS}", "connected again", f"gone; {ENDLESS}"]


def test_a_client_without_a_server_says_so_once() -> None:
    said: list[str] = []
    port = free_port()
    client = Client(Joining(f"127.0.0.1:{port}", OwnData("digits"), name="a"), said.append)
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(client.run)
        assert eventually(lambda: said and client.dialer._line._backoff._tries > 3)
        client.dialer.close()
        with pytest.raises(RuntimeError, match="the connection is closed"):
            running.result(SOON)
    assert said == [f"127.0.0.1:{port} does not answer: nothing listens there; {ENDLESS}"]


def test_a_connection_that_comes_back_is_told(tmp_path: Path) -> None:
    """The way to the server is closed while it waits for a second client, and opened again."""
    port = free_port()
    config = small(clients=2, participation=1.0, rounds=1)
    with Proxy(port) as proxy, Clients(proxy.port, 1, PATIENT) as clients, Serve(config, tmp_path / "run", port) as one:
        one.wait_for(lambda: "joined" in clients.said("site-0"))
        before = clients.said("site-0").count(ENDLESS)  # it may have come before the server
        proxy.target = free_port()
        proxy.cut()
        one.wait_for(lambda: clients.said("site-0").count(ENDLESS) > before)
        proxy.target = port
        one.wait_for(lambda: f"connected to localhost:{proxy.port} again" in clients.said("site-0"))
        clients.start(1)
        one.result()
        assert clients.all_ended() == [0, 0]
