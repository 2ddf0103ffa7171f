"""The server's end, over real sockets."""

from __future__ import annotations

import gc
import socket
import threading

import pytest

from smofi.errors import InputError
from smofi.net.certs.names import acceptable
from smofi.net.transport.events import Dismissed
from smofi.net.transport.limits import Limits
from smofi.net.transport.listener import Listener
from smofi.net.transport.times import Times
from support.ends import (
    QUICK,
    SOON,
    Arrived,
    Ends,
    Joined,
    Left,
    Received,
    Restarted,
    Waiting,
    Welcomed,
    echoing,
    eventually,
    heard,
    open_files,
    quiet,
    threads,
    told,
    welcome,
)
from support.proxy import Proxy


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


def test_eight_clients_each_get_their_own(ends: Ends) -> None:
    listener = ends.listen()
    with echoing(listener) as seen:
        dialers = {name: ends.dial(name, hello=name.encode()) for name in "abcdefgh"}
        for dialer in dialers.values():
            heard(dialer, Welcomed)
        assert {(one.name, one.hello) for one in seen if isinstance(one, Joined)} == {
            (name, name.encode()) for name in "abcdefgh"
        }
        for number in range(20):
            for name, dialer in dialers.items():
                dialer.send(f"{name} {number}".encode())
        for name, dialer in dialers.items():
            expected = [Received(f"{name} {number}".encode()) for number in range(20)]
            assert [heard(dialer, Received) for _ in range(20)] == expected


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


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [str(getattr(record, "fields", {}).get("reason")) for record in caplog.records]


def test_what_was_sent_before_arrives_before_the_end(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "smofi.net")
    listener, dialer = ends.pair()
    for _ in range(5):
        listener.send("a", bytes(10**6))
    stopping = threading.Thread(target=listener.stop, args=("training is over",), kwargs={"grace": SOON})
    stopping.start()
    for _ in range(5):
        assert heard(dialer, Received).payload == bytes(10**6)
    assert isinstance(dialer.receive(SOON), Waiting)
    stopping.join()
    # in the log, for what is said while waiting is soon replaced by what follows
    told_why = eventually(lambda: any("says: training is over" in reason for reason in reasons(caplog)))
    assert told_why, reasons(caplog)


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


def test_a_payload_that_is_too_large_is_not_sent(ends: Ends) -> None:
    listener, dialer = ends.pair(limits=Limits(payload=1000))
    with pytest.raises(InputError, match="a payload has 1001 bytes; at most 1000 are accepted"):
        listener.send("a", [bytes(1000), b"1"])
    listener.send("a", bytes(1000))
    assert len(heard(dialer, Received).payload) == 1000


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


def test_sending_to_one_who_is_not_here_is_no_error(ends: Ends) -> None:
    listener = ends.listen()
    listener.send("b", b"x")
    listener.dismiss("b", "go", final=True)
    listener.stop("over")
    listener.send("b", b"x")
    listener.stop("over")
    assert listener.peers() == {}


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "example.org:7443", "10.0.0.1:0"])
def test_plain_text_stays_on_this_machine(address: str) -> None:
    with pytest.raises(InputError, match=r"without certificates, a server listens on 127\.0\.0\.1 only"):
        Listener(address, None, None, Limits(), Times())


def test_a_taken_port_is_an_error_in_words(ends: Ends) -> None:
    ends.listen()
    with pytest.raises(InputError, match=r"cannot listen at .*: another program has this port"):
        Listener(f"127.0.0.1:{ends.port}", None, None, Limits(), Times()).start()


def test_a_server_with_certificates_needs_a_gate() -> None:
    with pytest.raises(InputError, match="needs a gate"):
        Listener("0.0.0.0:0", object(), None, Limits(), Times())


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


def test_other_times_are_refused() -> None:
    with pytest.raises(InputError, match="patience"):
        Times(patience=0)
    with pytest.raises(InputError, match="waiting_bytes"):
        Limits(payload=100, waiting_bytes=99)
    assert QUICK.patience < Times().patience


@pytest.mark.parametrize("name", ["_a", "A.b-c_9", "9"])
def test_whoever_can_be_issued_a_certificate_can_join(ends: Ends, name: str) -> None:
    assert acceptable(name)
    ends.pair(name)
