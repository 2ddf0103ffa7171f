"""The short form of `make chaos`: blinks, clients stopped, killed and cut off, the server killed; the run completes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from support.chaos import Fleet, Nursery, differing, make_pki, rounds_in, until
from support.network import SERVER, Network, Proxy, missing
from support.ports import free_port

CLIENTS, ROUNDS = 4, 3
MODEL = ["--model", "python:support.sleepy:network"]
SLEEP = "0.1"
"""Seconds of each client's step: a round is not over before anything can happen to it."""

QUICK = ["--keepalive", "0.3"]
"""A connection that says nothing for about a second is given up."""

SETTINGS = ["--data", "digits", *MODEL, "--cut", "1", "--clients", str(CLIENTS)]
SETTINGS += ["--max-train", "192", "--max-test", "50", "--partition", "iid", "--local-epochs", "1"]
SETTINGS += ["--batch-size", "8", "--participation", "1", "--method", "smofi", "--seed", "1", "--rounds", str(ROUNDS)]


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pki(tmp_path_factory.mktemp("certs") / "pki", CLIENTS, SERVER)


@pytest.fixture(scope="module")
def clean(nursery: Nursery, pki: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing happens to."""
    one = fleet(nursery, pki, tmp_path_factory.mktemp("clean") / "clean", CLIENTS)
    one.serve()
    one.join_all(*MODEL)
    one.finish(300)
    return one.output


def fleet(nursery: Nursery, pki: Path, folder: Path, least: int, proxy: Proxy | None = None) -> Fleet:
    """With `proxy`, clients find the server through it."""
    port = proxy.target if proxy else free_port()
    patience = ["--away", "60", "--deadline", "120", "--min-clients", str(least)]
    address = f"127.0.0.1:{proxy.port if proxy else port}"
    return Fleet(nursery, pki, folder, SETTINGS, CLIENTS, address, f"127.0.0.1:{port}", patience=patience)


def passed(proxy: Proxy, more: int) -> None:
    """Wait until so many bytes have passed through."""
    then = proxy.passed
    until(lambda: proxy.passed > then + more, 300, f"{proxy.passed - then} bytes passed of {more}")


def test_blinks_and_a_killed_server_change_no_bit(nursery: Nursery, pki: Path, clean: Path, tmp_path: Path) -> None:
    with Proxy(free_port()) as proxy:
        proxy.delay = 0.002
        one = fleet(nursery, pki, tmp_path / "shaken", CLIENTS, proxy)
        one.serve()
        one.join_all(*MODEL, SLEEP=SLEEP)
        for _ in range(3):  # in the middle of the first round
            passed(proxy, 20_000)
            assert proxy.cut() > 0
        one.wait_for_round(1, 300)
        passed(proxy, 20_000)
        one.kill_server()
        one.finish(300)
        assert one.kills == 1
        assert proxy.accepted > 2 * CLIENTS
    assert len(rounds_in(one.output)) == ROUNDS
    assert not differing(one.output, clean)


@pytest.mark.slow
def test_a_client_that_is_stopped_for_a_while_changes_no_bit(
    nursery: Nursery, pki: Path, clean: Path, tmp_path: Path
) -> None:
    """For so long that the server gives up its connection, but not the client."""
    with Proxy(free_port()) as proxy:
        one = fleet(nursery, pki, tmp_path / "paused", CLIENTS, proxy)
        one.patience += QUICK
        one.serve()
        one.join_all(*MODEL, SLEEP=SLEEP)
        server = one.server
        assert server
        until(lambda: "RoundStarted" in server.text() and proxy.connections == CLIENTS, 300, "no round begins")
        before = proxy.accepted
        one.stop_client(1, 2)
        until(lambda: proxy.connections < CLIENTS, 60, "the server does not notice")
        one.resume_client(1)
        one.finish(300)
        assert proxy.accepted > before
    assert [json.loads(line)["left_out"] for line in rounds_in(one.output)] == [[]] * ROUNDS
    assert not differing(one.output, clean)


@pytest.mark.slow
def test_clients_that_are_cut_off_and_unplugged_for_a_while_change_no_bit(
    nursery: Nursery, pki: Path, clean: Path, tmp_path: Path
) -> None:
    """Each is on a machine of its own. The packets of one are dropped, the cable of another is out."""
    if why := missing():
        pytest.skip(why)
    port = free_port()
    with Network(CLIENTS) as network:
        one = fleet(nursery, pki, tmp_path / "cut", CLIENTS)
        one.address, one.listen, one.network = f"{SERVER}:{port}", f"0.0.0.0:{port}", network
        one.patience += QUICK
        one.serve()
        one.join_all(*MODEL, SLEEP=SLEEP)
        server = one.server
        assert server
        until(lambda: "RoundStarted" in server.text() and one.connections() == CLIENTS, 300, "no round begins")
        network.cut(1)
        network.unplug(2)
        until(lambda: one.connections() == CLIENTS - 2, 60, "the server does not notice")
        for number in (1, 2):
            network.heal(number)
        one.finish(300)
    assert [json.loads(line)["left_out"] for line in rounds_in(one.output)] == [[]] * ROUNDS
    assert not differing(one.output, clean)


def test_a_killed_client_is_left_out_and_comes_back(nursery: Nursery, pki: Path, tmp_path: Path) -> None:
    with Proxy(free_port()) as proxy:
        one = fleet(nursery, pki, tmp_path / "run", CLIENTS, proxy)
        one.serve()
        one.join_all(*MODEL, SLEEP=SLEEP)
        server = one.server
        assert server
        until(lambda: "RoundStarted" in server.text(), 300, "no round begins")
        one.kill_client(2)
        one.join(2, *MODEL, SLEEP=SLEEP)
        one.finish(300)
    assert len(rounds_in(one.output)) == ROUNDS
    assert [json.loads(line)["left_out"] for line in rounds_in(one.output)] == [[2], [], []]
    assert "client-2 is not part of round 1: another process took its place" in server.text()


def test_a_server_that_is_told_to_stop_finishes_its_round_and_goes_on_later(
    nursery: Nursery, pki: Path, tmp_path: Path
) -> None:
    """By SIGTERM, as systemd does. The clients stay; one of them is told to stop, too, and is not waited for."""
    one = fleet(nursery, pki, tmp_path / "stopped", CLIENTS - 1)
    one.serve()
    one.join_all(*MODEL, SLEEP=SLEEP)
    server = one.server
    assert server
    until(lambda: "RoundStarted" in server.text(), 300, "no round begins")
    server.signal(signal.SIGTERM)
    assert server.wait(120) == 128 + signal.SIGTERM
    assert f"Interrupted; go on with: smofi serve --resume {one.output}" in server.text()
    assert "Traceback" not in server.text()
    (record,) = rounds_in(one.output)
    assert json.loads(record)["left_out"] == []
    assert all(client.alive for client in one.joined.values())
    leaving = one.joined.pop(3)
    leaving.signal(signal.SIGTERM)
    assert leaving.wait(60) == 128 + signal.SIGTERM
    one.serve()
    one.finish(300)
    assert len(rounds_in(one.output)) == ROUNDS


@pytest.mark.slow
def test_a_client_that_is_stopped_for_too_long_is_left_out_and_not_blamed(
    nursery: Nursery, pki: Path, tmp_path: Path
) -> None:
    """What it was asked for arrives in the next round, or in the same one begun anew: that is no offence."""
    one = fleet(nursery, pki, tmp_path / "late", CLIENTS)
    one.patience[3] = "4"  # enough for the others on a busy machine
    one.serve()
    one.join_all(*MODEL, SLEEP=SLEEP)
    server, late = one.server, one.joined[2]
    assert server
    until(lambda: "RoundStarted" in server.text(), 300, "no round begins")
    one.stop_client(2, 6)
    until(lambda: "client-2 is not part of round" in server.text(), 120, "it is not left out")
    one.resume_client(2)
    one.finish(300)
    assert "client-2 is not part of round 1: it did not answer within 4 s" in server.text()
    assert [json.loads(line)["left_out"] for line in rounds_in(one.output)] == [[2], [], []]
    assert "not accepted" not in late.text()
