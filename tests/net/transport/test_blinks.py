"""A network that blinks: nothing above the session notices, and every payload arrives once and in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from smofi.net.transport.events import Arrived, Joined, Left, Received, Restarted, Waiting, Welcomed
from smofi.net.transport.times import Times
from support.ends import QUICK, SOON, Ends, echoing, eventually, heard, quiet, told, welcome
from support.own_time import own_time
from support.proxy import Proxy

CLIENT = Path(__file__).parents[2] / "support" / "a_client.py"


def payload(number: int, size: int) -> bytes:
    return number.to_bytes(8, "little") * (size // 8)


def exchange(ends: Ends, *, count: int, size: int, cut_after: int) -> int:
    """Send payloads through a network that cuts every connection after so many bytes; returns how often it did."""
    listener = ends.listen()
    with echoing(listener) as seen, Proxy(ends.port) as proxy:
        dialer = ends.dial(port=proxy.port)
        heard(dialer, Welcomed)
        proxy.cut_after = cut_after
        proxy.cut()
        under_way = 4
        for number in range(count + under_way):
            if number < count:
                dialer.send(payload(number, size))
            if number >= under_way:
                found = heard(dialer, Received, 30)
                assert found.payload == payload(number - under_way, size), number
        assert [type(one) for one in seen] == [Joined]
        dialer.close()
        return proxy.accepted - 1


def test_connections_that_are_cut_in_the_middle_of_payloads_lose_nothing(ends: Ends) -> None:
    # Five payloads go up and down before a connection is cut: eight of 200 kB both ways are two cuts at least.
    assert exchange(ends, count=12, size=200_000, cut_after=1_500_000) >= 2


@pytest.mark.slow
def test_hundreds_of_cuts_lose_nothing(ends: Ends) -> None:
    assert exchange(ends, count=400, size=300_000, cut_after=3_000_000) >= 60


def test_small_payloads_survive_cuts_at_any_moment(ends: Ends) -> None:
    listener = ends.listen()
    with echoing(listener) as seen, Proxy(ends.port) as proxy:
        dialer = ends.dial(port=proxy.port)
        heard(dialer, Welcomed)
        for number in range(300):
            dialer.send(payload(number, 80))
            if number % 20 == 10:
                proxy.cut()
            assert heard(dialer, Received).payload == payload(number, 80)
        assert proxy.accepted > 10
        assert [type(one) for one in seen] == [Joined]


def test_a_server_keeps_payloads_for_a_client_that_is_away(ends: Ends) -> None:
    listener = ends.listen(times=Times(patience=20, keepalive=0.5, connect=2))
    with Proxy(ends.port) as proxy:
        dialer = ends.dial(port=proxy.port)
        welcome(listener, "a")
        heard(dialer, Welcomed)
        proxy.stall()
        assert eventually(lambda: not listener.peers()["a"].connected)
        for number in range(10):
            listener.send("a", payload(number, 800))
        proxy.cut()
        proxy.flow()
        for number in range(10):
            assert heard(dialer, Received).payload == payload(number, 800)
        assert quiet(listener, 0.1)


def test_a_network_that_is_cut_for_long_is_noticed_and_found_again(ends: Ends) -> None:
    listener = ends.listen()
    with Proxy(ends.port) as proxy:
        dialer = ends.dial(port=proxy.port)
        welcome(listener, "a")
        heard(dialer, Welcomed)
        proxy.stall()
        start = monotonic()
        with own_time() as taken:
            assert told(listener, Left) == Left("a", "it was away for 1.5 s")
            assert taken() < QUICK.patience + 3.5 * QUICK.keepalive + 1.5
        assert monotonic() - start > QUICK.patience
        assert isinstance(dialer.receive(SOON), Waiting)
        dialer.send(b"void: the server has given up on this conversation")
        proxy.cut()
        proxy.flow()
        heard(dialer, Restarted, 20)
        dialer.send(b"new")
        welcome(listener, "a")
        assert told(listener, Arrived).payload == b"new"


def test_a_server_that_restarts_is_found_again(ends: Ends) -> None:
    listener, dialer = ends.pair()
    port = ends.port
    dialer.send(b"one")
    told(listener, Arrived)
    for round_ in range(3):
        listener.stop("restart")
        listener = ends.listen(port=port)
        heard(dialer, Restarted)
        assert welcome(listener, "a").hello == b"hello"
        heard(dialer, Welcomed)
        dialer.send(f"again {round_}".encode())
        assert told(listener, Arrived).payload == f"again {round_}".encode()


def test_what_is_sent_before_the_restart_is_seen_is_void(ends: Ends) -> None:
    listener, dialer = ends.pair()
    port = ends.port
    listener.stop("restart")
    listener = ends.listen(port=port)
    welcome(listener, "a")
    dialer.send(b"meant for the server that was")
    heard(dialer, Restarted)
    dialer.send(b"meant for the server that is")
    assert told(listener, Arrived).payload == b"meant for the server that is"


# ------------------------------------------------------------------------------------------------------ real processes


def client(port: int, *words: str) -> subprocess.Popen[str]:
    """A client in a process of its own; it echoes until it is told otherwise."""
    command = [sys.executable, str(CLIENT), str(port), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_client_that_is_killed_is_missed(ends: Ends) -> None:
    listener = ends.listen()
    process = client(ends.port, "a")
    try:
        welcome_within(ends, listener)
        process.kill()
        with own_time() as taken:
            told(listener, Left)
            assert taken() < QUICK.patience + 1
    finally:
        end(process)


def test_a_client_that_is_started_again_takes_its_place_at_once(ends: Ends) -> None:
    listener = ends.listen(times=Times(patience=60, keepalive=0.5, connect=2))
    process = client(ends.port, "a")
    try:
        welcome_within(ends, listener)
        process.kill()
        process.wait()
        dialer = ends.dial()
        assert told(listener, Left) == Left("a", "another process took its place")
        welcome(listener, "a")
        heard(dialer, Welcomed)
    finally:
        end(process)


@pytest.mark.slow
def test_a_client_that_is_stopped_is_missed(ends: Ends) -> None:
    listener = ends.listen()
    process = client(ends.port, "a")
    try:
        welcome_within(ends, listener)
        os.kill(process.pid, signal.SIGSTOP)
        with own_time() as taken:
            told(listener, Left)
            assert taken() < QUICK.patience + 3.5 * QUICK.keepalive + 1.5
    finally:
        end(process)


@pytest.mark.slow
def test_a_client_that_computes_for_long_is_not_missed(ends: Ends) -> None:
    """Its Python does nothing but compute, for longer than patience and keepalive; gRPC's own threads answer."""
    listener = ends.listen()
    process = client(ends.port, "a", "compute", "4")
    try:
        welcome_within(ends, listener)
        assert quiet(listener, 3.5)
        listener.send("a", b"still there?")
        assert told(listener, Arrived).payload == b"still there?"
    finally:
        end(process)


def welcome_within(ends: Ends, listener: object) -> None:
    """A process takes a while to start."""
    from smofi.net.transport.listener import Listener

    assert isinstance(listener, Listener)
    assert told(listener, Joined, 30) == Joined("a", b"hello")
    listener.welcome("a", b"welcome")
    listener.send("a", b"echo")
    assert told(listener, Arrived).payload == b"echo"


# ------------------------------------------------------------------------------------------------------- slow networks


@pytest.mark.slow
def test_a_slow_network_is_not_taken_for_a_dead_one(ends: Ends) -> None:
    """A payload takes longer than keepalive and patience together, each way, and fills the network."""
    listener = ends.listen()
    with Proxy(ends.port) as proxy:
        dialer = ends.dial(port=proxy.port)
        welcome(listener, "a")
        heard(dialer, Welcomed)
        proxy.rate = 4_000_000
        size = 6_000_000
        dialer.send(bytes(size))
        assert len(told(listener, Arrived, 60).payload) == size
        listener.send("a", bytes(size))
        assert len(heard(dialer, Received, 60).payload) == size
        assert proxy.passed < 3 * size  # connections that break by mistake do not send all of it again


@pytest.mark.slow
def test_a_line_of_1_megabit_is_not_taken_for_a_dead_one_at_default_settings(ends: Ends) -> None:
    """Signs of life wait behind data, for longer than the keepalive."""
    listener = ends.listen(times=Times())
    with Proxy(ends.port) as proxy:
        dialer = ends.dial(port=proxy.port, times=Times())
        welcome(listener, "a")
        heard(dialer, Welcomed)
        proxy.rate = 125_000
        dialer.send(bytes(3_000_000))
        assert len(told(listener, Arrived, 80).payload) == 3_000_000
        assert proxy.accepted == 1


def test_a_network_with_long_ways_carries_many_payloads_at_once(ends: Ends) -> None:
    listener = ends.listen()
    with echoing(listener), Proxy(ends.port) as proxy:
        proxy.delay = 0.1
        dialer = ends.dial(port=proxy.port)
        heard(dialer, Welcomed)
        with own_time() as taken:
            for number in range(40):
                dialer.send(payload(number, 80))
            for number in range(40):
                assert heard(dialer, Received).payload == payload(number, 80)
            assert taken() < 2  # one after the other, they would take 8 seconds
