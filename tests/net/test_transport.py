"""The connection between a server and its clients over real sockets: every payload arrives once and in order,
whatever the network does, and nothing is left behind."""

from __future__ import annotations

import gc
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from time import monotonic

import pytest

from smofi.errors import InputError
from support.certificates import Authority, name_in
from support.ends import (
    QUICK,
    SOON,
    Arrived,
    Dialer,
    Dismissed,
    Ends,
    Joined,
    Left,
    Limits,
    Received,
    Refused,
    Restarted,
    Times,
    Waiting,
    Welcomed,
    dialer_to,
    echoing,
    eventually,
    heard,
    listener_at,
    open_files,
    own_time,
    quiet,
    threads,
    told,
    welcome,
)  # fmt: skip
from support.network import Proxy
from support.ports import free_port
from support.processes import ENVIRONMENT


def test_payloads_go_both_ways_in_order(ends: Ends) -> None:
    listener, dialer = ends.pair("hospital-a")
    for number in range(30):
        dialer.send(f"up {number}".encode())
        listener.send("hospital-a", [b"down ", str(number).encode()])
    assert [told(listener, Arrived) for _ in range(30)] == [
        Arrived("hospital-a", f"up {number}".encode()) for number in range(30)
    ]
    assert [heard(dialer, Received).payload for _ in range(30)] == [f"down {number}".encode() for number in range(30)]
    status = listener.peers()["hospital-a"]
    assert status.connected
    assert status.welcomed
    sizes = sum(len(f"up {number}") for number in range(30))
    assert status.traffic.payloads_in == sizes
    assert sizes + 30 * 24 <= status.traffic.bytes_in <= sizes + 60 * 24
    assert status.address.startswith("127.0.0.1:")
    dialer.close()
    assert told(listener, Left) == Left("hospital-a", "it said goodbye")
    assert listener.peers() == {}


def test_nothing_is_sent_before_the_welcome(ends: Ends) -> None:
    listener = ends.listen()
    dialer = ends.dial()
    joined = told(listener, Joined)
    assert joined == Joined("a", b"hello")
    dialer.send(b"early")
    assert quiet(listener, 0.2)
    listener.welcome("a", b"now")
    assert told(listener, Arrived).payload == b"early"
    assert heard(dialer, Welcomed).payload == b"now"


def test_what_a_client_sent_before_its_goodbye_arrives(ends: Ends) -> None:
    listener, dialer = ends.pair()
    for _ in range(5):
        dialer.send(bytes(10**6))
    dialer.close()
    for _ in range(5):
        assert told(listener, Arrived).payload == bytes(10**6)
    told(listener, Left)


def test_a_client_is_dismissed_for_good(ends: Ends) -> None:
    listener = ends.listen()
    dialer = ends.dial()
    told(listener, Joined)
    listener.dismiss("a", "this server trains resnet18, not digits", final=True)
    with pytest.raises(Dismissed, match="this server trains resnet18, not digits"):
        heard(dialer, Welcomed)
    with pytest.raises(Dismissed):
        dialer.send(b"but")
    assert told(listener, Left) == Left("a", "this server trains resnet18, not digits", refused=True)
    assert quiet(listener, 0.3)


def test_a_client_is_dismissed_for_now(ends: Ends) -> None:
    listener, dialer = ends.pair()
    listener.send("a", b"before")
    listener.dismiss("a", "the round goes on without you", final=False)
    assert dialer.receive(SOON) == Received(b"before")
    assert dialer.receive(SOON) == Restarted(refused=True)
    waiting = dialer.receive(SOON)
    assert isinstance(waiting, Waiting)
    assert "says: the round goes on without you" in waiting.sentence
    assert told(listener, Left) == Left("a", "the round goes on without you", refused=True)
    welcome(listener, "a")
    heard(dialer, Welcomed)


def test_a_client_that_was_away_hears_later_that_it_was_dismissed(ends: Ends) -> None:
    listener = ends.listen()
    with Proxy(ends.port) as proxy:
        dialer = ends.dial(port=proxy.port)
        welcome(listener, "a")
        heard(dialer, Welcomed)
        proxy.stall()
        assert eventually(lambda: not listener.peers()["a"].connected)
        listener.dismiss("a", "you are not needed any more", final=True)
        told(listener, Left)
        proxy.flow()
        with pytest.raises(Dismissed, match="you are not needed any more"):
            heard(dialer, Received)


def test_a_client_that_takes_nothing_is_dismissed(ends: Ends) -> None:
    listener = ends.listen(limits=Limits(payload=10**6, waiting=4, waiting_bytes=4 * 10**6))
    dialer = ends.dial(limits=Limits(payload=10**6, waiting=4, waiting_bytes=4 * 10**6))
    welcome(listener, "a")
    for _ in range(200):
        listener.send("a", bytes(10**6))
    assert told(listener, Left).reason == "it does not take what is sent to it"
    dialer.close(goodbye=False)


def test_an_answer_to_an_old_conversation_is_not_sent_to_the_new_one(ends: Ends) -> None:
    listener, dialer = ends.pair()
    dialer.close()
    second = ends.dial()
    assert eventually(lambda: "a" in listener.peers() and listener.peers()["a"].connected)
    listener.send("a", b"for the first process")  # the application has not seen that it left
    told(listener, Left)
    welcome(listener, "a")
    listener.send("a", b"for the second process")
    assert heard(second, Welcomed).payload == b"welcome"
    assert heard(second, Received).payload == b"for the second process"


def waiting(dialer: Dialer) -> str:
    return heard(dialer, Waiting).sentence


def test_a_client_that_comes_first_waits_for_its_server(ends: Ends) -> None:
    port = free_port()
    dialer = ends.dial(port=port)
    sentence = waiting(dialer)
    assert sentence.startswith(f"localhost:{port} does not answer: nothing listens there; trying again in 0.")
    listener = ends.listen(port=port)
    welcome(listener, "a")
    heard(dialer, Welcomed)


def test_other_times_hold_from_the_next_connection_on_which_is_made_at_once(ends: Ends) -> None:
    """How often a connection asks for signs of life cannot be changed while it lasts; nothing that is said is lost."""
    listener = ends.listen()
    with Proxy(ends.port) as proxy:
        dialer = ends.dial(port=proxy.port)
        welcome(listener, "a")
        heard(dialer, Welcomed)
        dialer.send(b"before")
        dialer.keep_to(replace(QUICK, connect=3.0))
        assert told(listener, Arrived).payload == b"before"
        assert proxy.accepted == 1
        dialer.keep_to(replace(QUICK, keepalive=0.6))
        dialer.send(bytes(10**6))
        listener.send("a", b"to a")
        assert told(listener, Arrived).payload == bytes(10**6)
        assert heard(dialer, Received).payload == b"to a"
        assert eventually(lambda: proxy.accepted == 2)
        dialer.send(b"after")
        assert told(listener, Arrived).payload == b"after"
        assert proxy.accepted == 2
        assert quiet(listener, 0.1)


def test_a_hello_that_fails_is_raised(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    ends.listen()

    def hello() -> bytes:
        raise OSError("no such data")

    dialer = Dialer(f"localhost:{ends.port}", None, hello, Limits(), QUICK, "a")
    dialer.start()
    with pytest.raises(OSError, match="no such data"):
        dialer.receive(SOON)
    dialer.close()
    with pytest.raises(InputError, match="without certificates, a client connects to 127"):
        Dialer("example.org:7443", None, hello, Limits(), QUICK)


@pytest.mark.parametrize(
    ("start", "sentence"),
    [
        *(
            (
                lambda address=address: listener_at(address),
                r"without certificates, a server listens on 127\.0\.0\.1 only",
            )
            for address in ("0.0.0.0:0", "[::]:0", "example.org:7443", "10.0.0.1:0")
        ),
        (lambda: listener_at("0.0.0.0:0", credentials=object()), "needs a gate"),
        (lambda: dialer_to("example.org:7443"), "without certificates, a client connects to 127"),
        (lambda: Times(patience=0), "patience"),
        (lambda: Limits(payload=100, waiting_bytes=99), "waiting_bytes"),
    ],
)
def test_what_is_refused(start: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        start()


def test_a_taken_port_is_an_error_in_words(ends: Ends) -> None:
    ends.listen()
    with pytest.raises(InputError, match=r"cannot listen at .*: another program has this port"):
        listener_at(f"127.0.0.1:{ends.port}").start()


# -------------------------------------------------------------------------------------------------- networks that blink


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


# --------------------------------------------------------------------------------------------------------- certificates


class Guard:
    """A gate that names clients by their certificates, but for those who are not wanted."""

    def __init__(self) -> None:
        self.unwanted: dict[str, Refused] = {}

    def name_of(self, pem: bytes | None) -> str:
        name = name_in(pem or b"")
        if name in self.unwanted:
            raise self.unwanted[name]
        return name


def test_with_certificates_the_name_is_that_of_the_certificate(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smofi.net.transport.reception.RECHECK", 0.05)
    authority, guard = Authority(), Guard()
    listener = ends.listen(credentials=authority.server(), gate=guard)
    dialer = ends.dial("another-name", credentials=authority.client("hospital-a"))
    welcome(listener, "hospital-a")
    heard(dialer, Welcomed)
    dialer.send(bytes(10**6))
    assert told(listener, Arrived) == Arrived("hospital-a", bytes(10**6))
    assert quiet(listener, 0.2)

    guard.unwanted["hospital-a"] = Refused("the certificate of hospital-a was revoked", final=True)
    assert told(listener, Left) == Left("hospital-a", "the certificate of hospital-a was revoked", refused=True)
    with pytest.raises(Dismissed, match="the certificate of hospital-a was revoked"):
        heard(dialer, Received)


def test_who_is_not_allowed_yet_keeps_trying(ends: Ends) -> None:
    authority, guard = Authority(), Guard()
    guard.unwanted["b"] = Refused("b is not on the list of allowed clients")
    listener = ends.listen(credentials=authority.server(), gate=guard)
    dialer = ends.dial(credentials=authority.client("b"))
    assert "says: b is not on the list of allowed clients; trying again in" in waiting(dialer)
    guard.unwanted.clear()
    assert told(listener, Joined).name == "b"
    (asking,) = (one for one in threading.enumerate() if one.name.startswith("smofi-net-gate"))
    listener.stop("the test is over")
    assert not asking.is_alive()


def test_without_a_good_certificate_there_is_no_way_in(ends: Ends) -> None:
    authority, stranger = Authority(), Authority()
    listener = ends.listen(credentials=authority.server(), gate=Guard())
    for credentials in (stranger.client("hospital-a"), None):
        dialer = ends.dial(credentials=credentials)
        assert "trying again" in waiting(dialer)
        dialer.close()
    assert quiet(listener, 0.1)


def test_a_gate_that_fails_lets_no_one_in(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def name_of(self, pem: bytes | None) -> str:
            raise OSError("the list cannot be read")

    authority = Authority()
    listener = ends.listen(credentials=authority.server(), gate=Broken())
    with caplog.at_level(logging.CRITICAL):
        assert "the server could not check the certificate" in waiting(ends.dial(credentials=authority.client("a")))
    assert quiet(listener, 0.1)


# -------------------------------------------------------------------------------------------------------------- the end


def test_nothing_is_left_after_the_end() -> None:
    """No thread, no file, no port; also after many times."""
    counts = []
    for _ in range(4):
        made = Ends()
        listener = made.listen()
        with echoing(listener):
            dialers = [made.dial(name) for name in "abc"]
            for dialer in dialers:
                heard(dialer, Welcomed)
                dialer.send(b"x")
                heard(dialer, Received)
        made.close()
        del listener, dialers, dialer
        gc.collect()
        with socket.socket() as one:
            assert one.connect_ex(("127.0.0.1", made.port)) != 0
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("smofi-net")]
        counts.append((threads(), open_files()))
    # gRPC keeps a few threads of its own for later; their number goes up and down, but does not grow.
    assert len({files for _, files in counts[1:]}) == 1, counts
    assert max(number for number, _ in counts) <= counts[0][0] + 2, counts


FORGETFUL = """
from support.ends import Dialer, Limits, Listener, Times
listener = Listener("127.0.0.1:0", None, None, Limits(), Times())
dialer = Dialer(f"127.0.0.1:{listener.start()}", None, lambda: b"", Limits(), Times(), "a")
dialer.start()
listener.events.get(10)
listener.welcome("a", b"")
dialer.receive(10)
dialer.send(bytes(10**6))
"""


def test_a_program_that_closes_nothing_ends_without_noise() -> None:
    program = [sys.executable, "-c", FORGETFUL]
    done = subprocess.run(program, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_others_say_is_printable(ends: Ends) -> None:
    """A certificate that is not trusted may have any name, and it comes to the terminal."""
    dialer = ends.dial(port=free_port(), explain=lambda host, port: "it is signed by CN=\x1b[2J\nTraining is over")
    assert waiting(dialer).startswith(r"it is signed by CN=\x1b[2J\nTraining is over; trying again in ")


def test_plain_text_takes_no_way_over_a_proxy(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is for this machine alone, and a proxy is another one as a rule."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        ends.pair()
        proxy.settimeout(0.1)
        with pytest.raises(TimeoutError):
            proxy.accept()
