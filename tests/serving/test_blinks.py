"""Connections that break again and again: the numbers are those of a good network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.deployed import PATIENT, Clients, Serve, same_bits, simulated, small
from support.ports import free_port
from support.proxy import Proxy


def through_a_bad_network(folder: Path, cut_after: int, **changes: object) -> None:
    config = small(clients=4, participation=1.0, **changes)
    port = free_port()
    with Proxy(port) as proxy, Clients(proxy.port, 4) as clients, Serve(config, folder, port) as server:
        proxy.cut_after = cut_after
        results = server.result()
        assert proxy.accepted >= 12, "connections were not cut often enough"
        proxy.cut_after = 0
        assert clients.all_ended() == [0] * 4
    same_bits(results, simulated(config))


def test_cut_after_some_bytes(tmp_path: Path) -> None:
    through_a_bad_network(tmp_path / "run", 10_000, rounds=2)


def test_clients_take_the_times_of_their_server(tmp_path: Path) -> None:
    """Each makes its connection anew for that, once, and the numbers are the same."""
    config, port = small(clients=2, participation=1.0, rounds=2), free_port()
    others = replace(PATIENT, keepalive=10.0)
    with (
        Proxy(port) as proxy,
        Serve(config, tmp_path / "run", port) as server,
        Clients(proxy.port, 0, others) as clients,
    ):
        server.wait_for(lambda: server.server and server.server.hub.offer)
        for number in range(2):
            clients.start(number)
        results = server.result()
        assert clients.all_ended() == [0, 0]
        assert proxy.accepted == 4
    same_bits(results, simulated(config))


@pytest.mark.slow
def test_all_kinds_of_methods(tmp_path: Path) -> None:
    methods = ["smofi", "fednar(max_norm=0.5)", "fednag", "sflv2", "mergesfl"]
    through_a_bad_network(tmp_path / "run", 60_000, method=methods, cut="1,1")
