"""Clients that mean harm: each gets a sentence or is cut off, the server goes on, and the others notice nothing."""

from __future__ import annotations

import contextlib
import queue
import random
import resource
import socket
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from time import monotonic, sleep

import grpc
import pytest

from support.certificates import Authority, Named
from support.ends import (
    HEAD,
    QUICK,
    SOON,
    Arrived,
    Dialer,
    Dismissed,
    Ends,
    Joined,
    Kind,
    Left,
    Limits,
    Message,
    Opening,
    Received,
    Times,
    Waiting,
    Welcomed,
    echoing,
    eventually,
    heard,
    open_files,
    opened_stream,
    own_time,
    pack,
    pack_opening,
    quiet,
    sentence_in,
    told,
    unpack,
    welcome,
)  # fmt: skip
from support.network import Proxy

SMALL = Limits(payload=100_000, hello=1000, waiting=8, waiting_bytes=400_000)


OPENING = pack_opening(Opening(bytes(16), False, 0, "bad", b"hello"))


def said(port: int, messages: Iterable[bytes], **options: object) -> list[Message]:
    """What the server answers to these messages on one stream, until it ends the stream."""
    own = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=own) as channel:
        call = channel.stream_stream("/smofi.Training/Join")(iter(messages), timeout=SOON, **options)
        return [unpack(answer) for answer in call]


def said_after_welcome(port: int, *messages: bytes) -> list[Message]:
    """The same of one who joins properly, and sends these messages when it is welcomed."""
    welcomed, answers = threading.Event(), []

    def sent() -> Iterator[bytes]:
        yield OPENING
        welcomed.wait(10)
        yield from messages

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        for answer in channel.stream_stream("/smofi.Training/Join")(sent(), timeout=SOON):
            answers.append(unpack(answer))
            if answers[-1].kind == Kind.WELCOME:
                welcomed.set()
    return answers


def refusal(port: int, messages: Iterable[bytes]) -> tuple[str, bool]:
    """The sentence of a refusal, and whether it is final."""
    return refused(said(port, messages))


def refused(answers: list[Message]) -> tuple[str, bool]:
    answer = next(one for one in reversed(answers) if one.kind != Kind.ACKNOWLEDGED)
    assert answer.kind == Kind.REFUSED, answer
    return sentence_in(answer), answer.number == 1


def held(*messages: bytes, until: threading.Event) -> Iterator[bytes]:
    """Messages, and then a stream that stays open."""
    yield from messages
    until.wait(20)


@pytest.fixture
def honest(ends: Ends) -> Iterator[tuple[int, Dialer]]:
    """A server with an honest client, which works as before when the test ends."""
    listener = ends.listen(limits=SMALL)
    with echoing(listener):
        dialer = ends.dial("good")
        heard(dialer, Welcomed)
        yield ends.port, dialer
        dialer.send(b"still here")
        assert dialer.receive(SOON) == Received(b"still here")


@pytest.mark.parametrize(
    ("first", "sentence"),
    [
        (b"", "the first message is not one of smofi's"),
        (b"GET / HTTP/1.1", "the first message is not one of smofi's"),
        (b"smofi\0\x02\0", "the server speaks version 1 of the protocol and the client version 2: install the same"),
        (OPENING[:30], "the first message is cut off"),
        (OPENING + bytes(1000), "the hello has 1005 bytes; at most 1000 are accepted"),
        (pack_opening(Opening(bytes(16), False, 0, "b" * 201, b"")), "the name has 201 bytes; at most 200"),
        (OPENING[:-8], "the name has 3 bytes; at most 200 are accepted, and all have to be there"),
        (pack_opening(Opening(bytes(16), False, 0, "../etc", b"")), "a client's name has up to 100 letters, digits"),
        (OPENING.replace(b"bad", b"b\xff\0"), "the name is not UTF-8"),
        (pack_opening(Opening(bytes(16), False, 7, "bad", b"")), "payload 7 was acknowledged, but only 0 were sent"),
    ],
)
def test_a_bad_opening_is_answered_with_a_sentence(honest: tuple[int, Dialer], first: bytes, sentence: str) -> None:
    found, final = refusal(honest[0], [first])
    assert sentence in found
    assert final


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (b"garbage", "a message has 7 bytes; the shortest has 24"),
        (bytes(24), "there is no kind 0 of messages"),
        (pack(Kind.PAYLOAD, 5, 0, b"x"), "payload 5 came after payload 0"),
        (pack(Kind.PAYLOAD, 1, 9, b"x"), "payload 9 was acknowledged, but only 1 were sent"),
        (pack(Kind.WELCOME, 1, 0, b"x"), "a client cannot welcome a server"),
        (pack(Kind.OPENED), "a message of kind OPENED came in the middle of a stream"),
        (pack(Kind.PAYLOAD, 2**64 - 1, 2**64 - 1), "was acknowledged, but only 1 were sent"),
    ],
)
def test_a_bad_message_ends_that_conversation(honest: tuple[int, Dialer], message: bytes, sentence: str) -> None:
    found, final = refused(said_after_welcome(honest[0], message))
    assert sentence in found
    assert final


def test_random_bytes_do_no_harm(honest: tuple[int, Dialer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smofi.net.transport.offences.MOST", 1000)
    chance = random.Random(0)
    for _ in range(60):
        junk = chance.randbytes(chance.choice([1, 24, 30, 500]))
        if chance.random() < 0.5:
            junk = chance.choice(list(Kind)).to_bytes(8, "little") + junk
        answers = said(
            honest[0], [OPENING, junk] if chance.random() < 0.7 else [OPENING[: chance.randrange(40)] + junk]
        )
        assert all(answer.kind in (Kind.OPENED, Kind.REFUSED, Kind.WELCOME) for answer in answers)


def test_a_payload_that_is_too_large_is_not_taken_into_memory(honest: tuple[int, Dialer]) -> None:
    with pytest.raises(grpc.RpcError) as error:
        said(honest[0], [OPENING, pack(Kind.PAYLOAD, 1, 0, bytes(10**7))])
    assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_payload_that_is_too_large_in_pieces_is_refused(honest: tuple[int, Dialer]) -> None:
    pieces = [pack(Kind.PIECE, number, 0, bytes(60_000)) for number in (1, 2)]
    assert refused(said_after_welcome(honest[0], *pieces)) == ("a payload has more than 100000 bytes", True)


def test_a_few_compressed_bytes_do_not_become_many(honest: tuple[int, Dialer]) -> None:
    before = peak()
    bomb = pack(Kind.PAYLOAD, 1, 0, bytes(90_000_000))
    grown = peak() - before
    with pytest.raises(grpc.RpcError) as error:
        said(honest[0], [OPENING, bomb], compression=grpc.Compression.Gzip)
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert peak() - before < grown + 250_000_000


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_messages_that_bring_nothing_end_the_conversation(honest: tuple[int, Dialer]) -> None:
    answers = said_after_welcome(honest[0], *[pack(Kind.ACKNOWLEDGED)] * 3000)
    assert "1000 messages in a row brought nothing new" in sentence_in(answers[-1])


def test_who_says_no_hello_is_cut_off(ends: Ends) -> None:
    listener = ends.listen(times=Times(patience=1, keepalive=0.5, connect=0.3))
    stop = threading.Event()
    try:
        assert refusal(ends.port, held(until=stop)) == ("no hello came within 0.3 s", False)
    finally:
        stop.set()
    assert quiet(listener, 0.1)


def test_bytes_that_are_no_http_do_no_harm(honest: tuple[int, Dialer]) -> None:
    for junk in (b"\0" * 1000, b"GET / HTTP/1.1\r\n\r\n", random.Random(1).randbytes(5000), b""):
        with socket.create_connection(("127.0.0.1", honest[0])) as raw:
            raw.settimeout(10)
            raw.sendall(junk)
            try:
                while raw.recv(1000):  # until the server closes: at once, or when nothing comes in time
                    pass
            except ConnectionResetError:
                pass


def status(port: int) -> str:
    """How a stream with a bad opening ends."""
    try:
        return str(refusal(port, [b"?"]))
    except grpc.RpcError as error:
        return str(error.details())


def test_there_are_only_so_many_strangers_and_streams(ends: Ends) -> None:
    listener = ends.listen(limits=Limits(streams=2, strangers=3), times=replace(QUICK, connect=20.0))
    stop = threading.Event()

    def insist() -> None:
        """Say nothing on a stream; on another one, if the one that asks below took the last place."""
        while not stop.is_set():
            with contextlib.suppress(grpc.RpcError):
                said(ends.port, held(until=stop))

    silent = [threading.Thread(target=insist) for _ in range(3)]
    for one in silent:
        one.start()
    try:
        full = "the server has as many connections as it takes"
        assert eventually(lambda: full in status(ends.port))
        dialer = ends.dial()
        waiting = dialer.receive(SOON)
        assert isinstance(waiting, Waiting)
        assert full in waiting.sentence
    finally:
        stop.set()
        for one in silent:
            one.join()
    welcome(listener, "a")
    heard(dialer, Welcomed)


def test_two_processes_with_one_name(ends: Ends) -> None:
    listener, first = ends.pair("hospital-a")
    second = ends.dial("hospital-a")
    waiting = second.receive(SOON)
    assert isinstance(waiting, Waiting)
    assert "another process is connected as hospital-a" in waiting.sentence
    assert quiet(listener, 0.3)
    first.send(b"mine")
    assert told(listener, Arrived).payload == b"mine"
    first.close()
    told(listener, Left)
    welcome(listener, "hospital-a")
    heard(second, Welcomed)


def test_an_application_that_takes_nothing_holds_up_one_client_only(ends: Ends) -> None:
    """And what waits is bounded: the client waits, and nothing is lost."""
    listener = ends.listen(limits=SMALL)
    dialer = ends.dial(limits=SMALL)
    welcome(listener, "a")
    heard(dialer, Welcomed)
    sent = []

    def flood() -> None:
        for number in range(200):
            dialer.send(number.to_bytes(4, "little") + bytes(90_000))
            sent.append(number)

    thread = threading.Thread(target=flood)
    thread.start()
    sleep(1)
    count = len(sent)
    received = listener.peers()["a"].traffic.payloads_in
    assert received <= SMALL.waiting_bytes + 100_000
    assert count < 40  # what waits here and there, and what the network holds
    sleep(0.3)
    assert len(sent) == count
    for number in range(200):
        assert told(listener, Arrived).payload[:4] == number.to_bytes(4, "little")
    thread.join()


def test_a_client_that_sends_too_fast_is_slowed_down(ends: Ends) -> None:
    listener = ends.listen(limits=Limits(messages_per_second=60))
    dialer = ends.dial()
    welcome(listener, "a")
    start = monotonic()
    with own_time() as taken:
        for _ in range(100):
            dialer.send(b"x")
        for _ in range(100):
            told(listener, Arrived)
        assert monotonic() - start > 0.5
        assert taken() < 5  # 60 at once, and 40 at 60 a second


def test_a_client_that_sends_too_much_is_slowed_down(ends: Ends) -> None:
    listener = ends.listen(limits=Limits(bytes_per_second=1_000_000))
    dialer = ends.dial()
    welcome(listener, "a")
    start = monotonic()
    for _ in range(20):
        dialer.send(bytes(100_000))
    for _ in range(20):
        assert len(told(listener, Arrived).payload) == 100_000
    assert 0.7 < monotonic() - start < 10  # half of it at once, and half within a second


def test_hellos_that_the_application_does_not_take_do_not_pile_up(ends: Ends) -> None:
    listener = ends.listen(limits=SMALL)
    kinds = []
    for number in range(20):
        opening = pack_opening(Opening(number.to_bytes(16, "little"), False, 0, "bad", bytes(900)))
        stop = threading.Event()
        with grpc.insecure_channel(f"127.0.0.1:{ends.port}") as channel:
            call = channel.stream_stream("/smofi.Training/Join")(held(opening, until=stop), timeout=SOON)
            kinds.append(unpack(next(call)).kind)
            stop.set()
            call.cancel()
        assert eventually(lambda: not listener.peers()["bad"].connected)
    assert kinds == [Kind.OPENED] + [Kind.REFUSED] * 19
    told(listener, Joined)
    told(listener, Left)
    assert quiet(listener, 0.1)


def test_payloads_before_the_welcome_are_refused(ends: Ends) -> None:
    listener = ends.listen()
    assert refusal(ends.port, [OPENING, pack(Kind.PAYLOAD, 1, 0, b"x")]) == ("a payload came before the welcome", True)
    told(listener, Joined)
    assert told(listener, Left).reason == "a payload came before the welcome"


def test_one_that_takes_no_answer_keeps_nobody_else_out(ends: Ends) -> None:
    """It joins and breaks the protocol again and again, and its refusals cannot be delivered."""
    listener = ends.listen(limits=Limits(streams=3), times=Times(patience=1, keepalive=0.5, connect=0.3))
    held_open = []
    try:
        for _ in range(3):
            opening = pack_opening(Opening(random.randbytes(16), False, 0, "bad", b""))
            opened = 5 + HEAD
            held_open.append(opened_stream(ends.port, opened, opening, pack(Kind.PAYLOAD, 1, 0, b"too early")))
            told(listener, Joined)
            told(listener, Left)
        dialer = ends.dial("good")
        welcome(listener, "good")
        heard(dialer, Welcomed)
    finally:
        for one in held_open:
            one.close()


def test_there_are_only_so_many_connections(ends: Ends) -> None:
    """Of those who say nothing at all, too: each takes a file descriptor, which a checkpoint may need."""
    ends.listen(limits=Limits(connections=24))
    before = open_files()
    silent = [socket.create_connection(("127.0.0.1", ends.port)) for _ in range(60)]
    try:
        sleep(0.3)
        assert open_files() - before - len(silent) <= 24
    finally:
        for one in silent:
            one.close()


def opened(channel: grpc.Channel, *, name: str = "", session: bytes | None = None) -> tuple[str, bool]:
    """How the server answers to an opening: "" if it takes it, or a sentence; and whether that is final."""
    opening = pack_opening(Opening(session or random.randbytes(16), False, 0, name, b""))
    call = channel.stream_stream("/smofi.Training/Join")(iter([opening]), timeout=SOON)
    try:
        answer = unpack(next(call))
    except grpc.RpcError as error:
        return str(error.details()), False
    finally:
        call.cancel()
    return (sentence_in(answer), answer.number == 1) if answer.kind == Kind.REFUSED else ("", False)


TOO_FAST = "too many connections with this certificate in a short time: at most 5 a second are taken"


def test_a_certificate_opens_only_so_many_streams_in_a_second(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others notice nothing, and after a while it may try again."""
    monkeypatch.setattr("smofi.net.transport.door.HOLD", 0.05)
    authority, gate = Authority(), Named()
    listener = ends.listen(credentials=authority.server(), gate=gate)
    target = f"localhost:{ends.port}"
    with echoing(listener), grpc.secure_channel(target, authority.client("bad")) as channel:
        start = monotonic()
        answers = [opened(channel) for _ in range(60)]
        most = 20 + 5 * (monotonic() - start) + 1
        assert (TOO_FAST, False) in answers
        assert gate.asked.count("bad") <= most
        heard(ends.dial("good", credentials=authority.client("good")), Welcomed)
        assert eventually(lambda: opened(channel)[0] != TOO_FAST)


def test_a_method_that_is_not_there_is_answered_as_slowly(ends: Ends) -> None:
    ends.listen()
    with grpc.insecure_channel(f"127.0.0.1:{ends.port}") as channel:
        start = monotonic()
        with pytest.raises(grpc.RpcError, match="there is no such method"):
            channel.unary_unary("/smofi.Training/Leave")(b"", timeout=SOON)
        assert monotonic() - start >= QUICK.connect / 5


def test_a_client_that_blinks_is_not_too_fast(ends: Ends) -> None:
    """Its connection is cut as soon as it is there, again and again."""
    authority = Authority()
    with echoing(ends.listen(credentials=authority.server(), gate=Named())), Proxy(ends.port) as proxy:
        dialer = ends.dial("a", port=proxy.port, credentials=authority.client("a"))
        heard(dialer, Welcomed)
        for number in range(15):
            dialer.send(str(number).encode())
            assert heard(dialer, Received) == Received(str(number).encode())
            assert proxy.cut() > 0
        said = [event.sentence for event in drained(dialer) if isinstance(event, Waiting)]
        assert not any("in a short time" in one for one in said)


def drained(dialer: Dialer) -> Iterator[object]:
    with contextlib.suppress(queue.Empty):
        while True:
            yield dialer.receive(0.5)


KEPT_OUT = "; after 3 unusable messages, bad is kept out until the server starts again"


def test_who_breaks_the_protocol_again_and_again_is_kept_out(honest: tuple[int, Dialer]) -> None:
    broken = pack(Kind.PAYLOAD, 5, 0, b"x")
    said = [refused(said_after_welcome(honest[0], broken)) for _ in range(4)]
    reason = "payload 5 came after payload 0"
    assert said == [(reason, True)] * 2 + [(reason + KEPT_OUT, True)] * 2


def test_a_name_is_kept_out_of_the_conversation_that_it_has_begun_meanwhile(ends: Ends) -> None:
    """The application sees an unusable message of the one before when the next has begun."""
    listener = ends.listen()
    for _ in range(2):
        listener.offended("bad", "kind is 7")
    dialer = ends.dial("bad")
    told(listener, Joined)
    dialer.close()
    told(listener, Left)
    second = ends.dial("bad")
    assert eventually(lambda: "bad" in listener.peers())
    listener.offended("bad", "kind is 7")
    with pytest.raises(Dismissed, match="kind is 7" + KEPT_OUT):
        heard(second, Welcomed)
    with pytest.raises(Dismissed, match="kind is 7" + KEPT_OUT):
        heard(ends.dial("bad"), Welcomed)


def test_who_is_dismissed_for_good_may_mend_it_and_come_again(ends: Ends) -> None:
    listener = ends.listen()
    for _ in range(5):
        dialer = ends.dial("a")
        told(listener, Joined)
        listener.dismiss("a", "it has 3 training samples, fewer than a batch", final=True)
        with pytest.raises(Dismissed):
            heard(dialer, Welcomed)
        told(listener, Left)
    dialer = ends.dial("a")
    welcome(listener, "a")
    heard(dialer, Welcomed)
