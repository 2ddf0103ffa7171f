"""A client's end: what it says while it waits, and how it ends."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import sleep

import grpc
import pytest

from smofi.errors import InputError
from smofi.net.transport.dialer import Dialer
from smofi.net.transport.envelope import Kind, pack
from smofi.net.transport.events import Arrived, Dismissed, Joined, Left, Received, Waiting, Welcomed
from smofi.net.transport.gate import Refused
from smofi.net.transport.limits import Limits
from smofi.net.transport.line import Resumed
from smofi.net.transport.times import Times
from support.ends import QUICK, SOON, Ends, eventually, heard, quiet, told, welcome
from support.ports import free_port
from support.proxy import Proxy
from support.small_authority import Authority, name_in


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


def test_a_better_explanation_is_preferred(ends: Ends) -> None:
    asked: list[tuple[str, int]] = []

    def explain(host: str, port: int) -> str | None:
        asked.append((host, port))
        return "its certificate has expired" if len(asked) > 1 else None

    port = free_port()
    dialer = ends.dial(port=port, explain=explain)
    assert "nothing listens there" in waiting(dialer)
    assert "its certificate has expired; trying again" in waiting(dialer)
    assert set(asked) == {("localhost", port)}


def test_an_explanation_may_end_it(ends: Ends) -> None:
    def explain(host: str, port: int) -> str | None:
        raise Refused("your certificate has expired", final=True)

    dialer = ends.dial(port=free_port(), explain=explain)
    with pytest.raises(Dismissed, match="your certificate has expired"):
        dialer.receive(SOON)


def test_an_explanation_that_fails_is_none(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    dialer = ends.dial(port=free_port(), explain=lambda host, port: str(1 // 0))
    with caplog.at_level(logging.CRITICAL):
        assert "nothing listens there" in waiting(dialer)


def test_a_host_that_does_not_exist_is_named(ends: Ends) -> None:
    authority = Authority()
    dialer = Dialer(
        "no-such-host.invalid:7443", authority.client("a"), lambda: b"", Limits(), Times(1, 1, 3), explain=None
    )
    dialer.start()
    try:
        assert waiting(dialer).startswith("no-such-host.invalid:7443 ")
    finally:
        dialer.close()


def test_a_server_of_something_else_is_told_apart(ends: Ends) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        stop = threading.Event()

        def answer() -> None:
            other.settimeout(0.1)
            while not stop.is_set():
                try:
                    one, _ = other.accept()
                except TimeoutError:
                    continue
                one.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                one.close()

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            dialer = ends.dial(port=other.getsockname()[1])
            assert "; trying again in" in waiting(dialer)
        finally:
            stop.set()
            thread.join()


def test_sentences_do_not_pile_up(ends: Ends) -> None:
    dialer = ends.dial(port=free_port())
    assert eventually(lambda: dialer._line._backoff._tries > 3)
    waiting(dialer)
    with pytest.raises(queue.Empty):
        dialer.receive(0)


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


def test_a_connection_that_is_back_is_told_to_whom_waits(ends: Ends) -> None:
    listener = ends.listen(times=Times(patience=SOON, keepalive=0.5, connect=2))
    port = ends.port
    with Proxy(port) as proxy:
        dialer = ends.dial(port=proxy.port)
        welcome(listener, "a")
        heard(dialer, Welcomed)
        proxy.cut()
        listener.send("a", b"a blink: no word of it")
        assert isinstance(dialer.receive(SOON), Received)
        proxy.target = free_port()
        proxy.cut()
        waiting(dialer)
        proxy.target = port
        heard(dialer, Resumed)


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


def test_a_hello_that_is_too_long_is_not_sent(ends: Ends) -> None:
    ends.listen()
    dialer = ends.dial(hello=bytes(2000), limits=Limits(hello=1000))
    with pytest.raises(Dismissed, match="the hello has 2000 bytes; at most 1000 are accepted"):
        dialer.receive(SOON)


def test_closing_wakes_who_receives_and_who_sends(ends: Ends) -> None:
    limits = Limits(payload=1000, waiting=2, waiting_bytes=10_000)
    ends.listen(limits=limits)
    dialer = ends.dial(limits=limits)
    found: list[str] = []

    def receive() -> None:
        try:
            dialer.receive()
        except RuntimeError as error:
            found.append(str(error))

    def send() -> None:
        with contextlib.suppress(RuntimeError):
            for _ in range(5):
                dialer.send(bytes(1000))
        found.append("no longer waits")

    threads = [threading.Thread(target=receive), threading.Thread(target=send)]
    for thread in threads:
        thread.start()
    assert eventually(lambda: dialer._line.session.kept == 2)
    dialer.close()
    for thread in threads:
        thread.join(SOON)
    assert sorted(found) == ["no longer waits", "the connection is closed"]
    with pytest.raises(RuntimeError, match="the connection is closed"):
        dialer.send(b"x")


# ------------------------------------------------------------------------------------------------------------------ TLS


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


# ------------------------------------------------------------------------------------------------------- a process


def test_who_is_sent_away_again_and_again_comes_back_later_and_later(ends: Ends) -> None:
    listener = ends.listen()
    dialer = ends.dial()
    pauses = []
    for _ in range(4):
        told(listener, Joined)
        listener.dismiss("a", "the run is full", final=False)
        sentence = waiting(dialer)
        assert "says: the run is full; trying again in" in sentence
        pauses.append(float(sentence.split()[-2]))
        told(listener, Left)
    assert pauses[-1] >= 0.4  # of 0.8 s at most, and half of that at least


def test_a_gate_that_fails_lets_no_one_in(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def name_of(self, pem: bytes | None) -> str:
            raise OSError("the list cannot be read")

    authority = Authority()
    listener = ends.listen(credentials=authority.server(), gate=Broken())
    with caplog.at_level(logging.CRITICAL):
        assert "the server could not check the certificate" in waiting(ends.dial(credentials=authority.client("a")))
    assert quiet(listener, 0.1)


def test_without_grpc_there_is_a_sentence() -> None:
    code = "import sys; sys.modules['grpc'] = None; import smofi, smofi.net.transport.listener"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert 'grpcio is not installed; it comes with: pip install "smofi[net]"' in done.stderr


BEFORE_GRPC = """
import os, sys
class Look:
    def find_spec(self, name, path=None, target=None):
        if name == "grpc":
            print(os.environ.get("GRPC_VERBOSITY"), os.environ.get("GRPC_ENABLE_FORK_SUPPORT"))
sys.meta_path.insert(0, Look())
import smofi.net.{room}
"""


@pytest.mark.parametrize("room", ["certs.credentials", "transport.channels"])
def test_grpc_is_told_to_write_nothing_before_it_is_imported(room: str) -> None:
    """Whatever is imported first: it looks once."""
    code = BEFORE_GRPC.replace("{room}", room)
    fresh = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    done = subprocess.run([sys.executable, "-c", code], env=fresh, capture_output=True, text=True, check=True)
    assert set(done.stdout.splitlines()) == {"NONE 0"}


FORGETFUL = """
from smofi.net.transport.dialer import Dialer; from smofi.net.transport.listener import Listener
from smofi.net.transport.limits import Limits; from smofi.net.transport.times import Times
listener = Listener("127.0.0.1:0", None, None, Limits(), Times())
dialer = Dialer(f"127.0.0.1:{listener.start()}", None, lambda: b"", Limits(), Times(), "a")
dialer.start()
listener.events.get(10)
listener.welcome("a", b"")
dialer.receive(10)
dialer.send(bytes(10**6))
"""


def test_a_program_that_closes_nothing_ends_without_noise() -> None:
    done = subprocess.run([sys.executable, "-c", FORGETFUL], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_others_say_is_printable(ends: Ends) -> None:
    """A certificate that is not trusted may have any name, and it comes to the terminal."""
    dialer = ends.dial(port=free_port(), explain=lambda host, port: "it is signed by CN=\x1b[2J\nTraining is over")
    assert waiting(dialer).startswith(r"it is signed by CN=\x1b[2J\nTraining is over; trying again in ")


def test_a_server_that_knows_no_session_is_not_asked_again_at_once(ends: Ends) -> None:
    opened = []

    def join(messages: Iterator[bytes], context: object) -> Iterator[bytes]:
        opened.append(next(messages))
        yield pack(Kind.UNKNOWN)

    handler = grpc.method_handlers_generic_handler(
        "smofi.Training", {"Join": grpc.stream_stream_rpc_method_handler(join)}
    )
    server = grpc.server(ThreadPoolExecutor(1), handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        dialer = ends.dial(port=port)
        assert "it answers with a message of kind UNKNOWN; trying again in 0." in waiting(dialer)
        sleep(0.5)
        assert len(opened) < 8
    finally:
        server.stop(0)


def test_plain_text_takes_no_way_over_a_proxy(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is for this machine alone, and a proxy is another one as a rule."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        ends.pair()
        proxy.settimeout(0.1)
        with pytest.raises(TimeoutError):
            proxy.accept()
