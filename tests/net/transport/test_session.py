"""A conversation over a link that loses everything under way, again and again: once, and in order."""

from __future__ import annotations

import threading
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smofi.net.transport.envelope import PIECE, Kind, ProtocolError, pack, unpack
from smofi.net.transport.session import Session


class Side:
    """One end: a session, what the application got, and what is under way to it."""

    def __init__(self) -> None:
        self.session = Session(b"", most=10, most_bytes=10_000)
        self.got: list[bytes] = []
        self.sent: list[bytes] = []
        self.under_way: deque[bytes] = deque()

    def put(self) -> None:
        payload = f"{len(self.sent)}".encode() * (1 + len(self.sent) % 9)
        if self.session.put(Kind.PAYLOAD, payload):
            self.sent.append(payload)

    def take(self) -> None:
        if self.under_way:
            message = self.session.take(self.under_way.popleft())
            if message is not None and message.kind == Kind.PAYLOAD:
                self.got.append(bytes(message.body))


def transmit(source: Side, sink: Side) -> None:
    if (message := source.session.next()) is not None:
        sink.under_way.append(message)


def acknowledge(source: Side, sink: Side) -> None:
    if source.session.owed:
        sink.under_way.append(source.session.acknowledgement())


def cut(a: Side, b: Side) -> None:
    """All that is under way is lost, and there is a new stream."""
    a.under_way.clear()
    b.under_way.clear()
    received = a.session.received, b.session.received
    a.session.resume(received[1])
    b.session.resume(received[0])


STEPS = st.lists(st.sampled_from(["put", "transmit", "take", "acknowledge", "cut"]).flatmap(
    lambda step: st.tuples(st.just(step), st.booleans())
), max_size=300)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_payloads_arrive_once_and_in_order_whatever_is_lost(steps: list[tuple[str, bool]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("smofi.net.transport.session.PIECE", 4)  # so that payloads come in one to three pieces
        patch.setattr("smofi.net.transport.session.LARGE_PIECE", 7)
        exchange(steps)


def exchange(steps: list[tuple[str, bool]]) -> None:
    a, b = Side(), Side()
    for step, swapped in steps:
        here, there = (b, a) if swapped else (a, b)
        if step == "put":
            here.put()
        elif step == "take":
            here.take()
        elif step == "transmit":
            transmit(here, there)
        elif step == "acknowledge":
            acknowledge(here, there)
        else:
            cut(a, b)
        assert a.got == b.sent[: len(a.got)]
        assert b.got == a.sent[: len(b.got)]
        assert a.session.kept <= 10 * 5
    cut(a, b)
    for here, there in ((a, b), (b, a)):
        while here.session.has_next():
            transmit(here, there)
        while there.under_way:
            there.take()
    assert (a.got, b.got) == (b.sent, a.sent)
    for here, there in ((a, b), (b, a)):
        acknowledge(here, there)
        while there.under_way:
            there.take()
    assert (a.session.kept, b.session.kept) == (0, 0)


def test_a_payload_that_comes_twice_is_dropped() -> None:
    session = Session(b"", 4, 100)
    message = pack(Kind.PAYLOAD, 1, 0, b"once")
    assert session.take(message) is not None
    assert session.take(message) is None
    assert session.received == 1


def test_a_payload_in_pieces_is_whole_when_the_last_has_come() -> None:
    here, there = Session(b"", 4, 10**7), Session(b"", 4, 10**7)
    payload = bytes(range(256)) * (4 * PIECE // 256 - 10)
    here.put(Kind.PAYLOAD, [payload[:5], payload[5:]])
    kinds = []
    while (data := here.next()) is not None:
        message = there.take(data)
        assert message is not None
        kinds.append(message.kind)
        if len(kinds) == 2:  # a blink: the other two pieces are enough
            here.resume(there.received)
    assert kinds == [Kind.PIECE, Kind.PIECE, Kind.PIECE, Kind.PAYLOAD]
    assert message is not None
    assert bytes(message.body) == payload


def test_pieces_are_large_on_a_fast_network_and_small_again_after_a_blink() -> None:
    here, there = Session(b"", 4, 10**8), Session(b"", 4, 10**8)
    payload = bytes(range(256)) * (3 * PIECE // 256)

    def sent() -> list[Kind]:
        kinds = []
        while (data := here.next()) is not None:
            message = there.take(data)
            assert message is not None
            kinds.append(message.kind)
        assert bytes(message.body) == payload
        return kinds

    here.put(Kind.PAYLOAD, payload)
    assert sent() == [Kind.PIECE, Kind.PIECE, Kind.PAYLOAD]
    here.take(there.acknowledgement())  # at once: the network is fast
    here.put(Kind.PAYLOAD, payload)
    assert sent() == [Kind.PAYLOAD]
    here.take(there.acknowledgement())
    here.put(Kind.PAYLOAD, payload)
    assert here.next() is not None  # lost
    here.resume(there.received)
    assert sent() == [Kind.PIECE, Kind.PIECE, Kind.PAYLOAD]
    here.take(there.acknowledgement())
    assert here.kept == 0


def test_pieces_are_small_on_a_slow_network(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("smofi.net.transport.session.monotonic", lambda: clock[0])
    here, there = Session(b"", 4, 10**8), Session(b"", 4, 10**8)
    for _ in range(3):
        here.put(Kind.PAYLOAD, bytes(2 * PIECE))
        taken = [there.take(here.next() or b"") for _ in range(2)]
        assert [one.kind for one in taken if one] == [Kind.PIECE, Kind.PAYLOAD]
        clock[0] += 2.5  # about 430 kB a second
        here.take(there.acknowledgement())


def test_a_piece_may_be_sent_while_the_next_one_is_copied() -> None:
    here, there = Session(b"", 4, 10**8), Session(b"", 4, 10**8)
    got = []

    def sent() -> None:
        message = there.take(here.next() or b"")
        assert message is not None
        got.append(message)

    here.put(Kind.PAYLOAD, [b"begins", bytes(3 * PIECE)], kept=sent)
    assert [message.kind for message in got] == [Kind.PIECE, Kind.PIECE, Kind.PIECE, Kind.PAYLOAD]
    assert bytes(got[-1].body) == b"begins" + bytes(3 * PIECE)


def test_payloads_of_two_threads_do_not_mix() -> None:
    here, there = Session(b"", 100, 10**9), Session(b"", 100, 10**9)
    payloads = [bytes([letter]) * (2 * PIECE + 10) for letter in b"ab"]
    threads = [threading.Thread(target=here.put, args=(Kind.PAYLOAD, one)) for one in payloads for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = [there.take(here.next() or b"") for _ in range(3 * len(threads))]
    whole = [bytes(one.body) for one in taken if one is not None and one.kind == Kind.PAYLOAD]
    assert sorted(whole) == sorted(payloads * 5)


def test_pieces_of_a_payload_that_is_too_large_are_refused() -> None:
    session = Session(b"", 4, 100, largest=10)
    session.take(pack(Kind.PIECE, 1, 0, bytes(6)))
    with pytest.raises(ProtocolError, match="a payload has more than 10 bytes"):
        session.take(pack(Kind.PIECE, 2, 0, bytes(5)))


def test_a_gap_and_an_acknowledgement_of_the_future_are_refused() -> None:
    session = Session(b"", 4, 100)
    with pytest.raises(ProtocolError, match="payload 2 came after payload 0"):
        session.take(pack(Kind.PAYLOAD, 2, 0, b""))
    with pytest.raises(ProtocolError, match="payload 1 was acknowledged, but only 0 were sent"):
        session.take(pack(Kind.ACKNOWLEDGED, 0, 1))
    with pytest.raises(ProtocolError, match="payload 9 was acknowledged"):
        session.resume(9)


@pytest.mark.parametrize(("most", "most_bytes"), [(3, 10**6), (100, 3 * 34)])
def test_only_so_much_is_kept(most: int, most_bytes: int) -> None:
    session = Session(b"", most, most_bytes)
    assert [session.put(Kind.PAYLOAD, bytes(10)) for _ in range(5)] == [True, True, True, False, False]
    session.take(pack(Kind.ACKNOWLEDGED, 0, 0))
    assert not session.put(Kind.PAYLOAD, b"")
    assert session.next() is not None
    session.take(pack(Kind.ACKNOWLEDGED, 0, 1))
    assert session.put(Kind.PAYLOAD, bytes(10))


def test_waiting_for_room_ends_with_an_acknowledgement_or_with_the_session() -> None:
    session = Session(b"", 1, 100)
    for end in (lambda: session.take(pack(Kind.ACKNOWLEDGED, 0, 1)), session.end):
        session.put(Kind.PAYLOAD, b"first")
        waiting = threading.Thread(target=session.put, args=(Kind.PAYLOAD, b"second"), kwargs={"wait": True})
        waiting.start()
        waiting.join(0.05)
        assert waiting.is_alive()
        end()
        waiting.join(40)
        assert not waiting.is_alive()
    assert session.next() is None


def test_an_answer_carries_the_acknowledgement() -> None:
    here, there = Session(b"", 4, 100), Session(b"", 4, 100)
    here.put(Kind.PAYLOAD, b"question")
    there.take(here.next() or b"")
    assert there.owed == 1
    there.put(Kind.PAYLOAD, b"answer")
    answer = there.next() or b""
    assert unpack(answer).acknowledged == 1
    assert there.owed == 0
    here.take(answer)
    assert here.kept == 0


def test_pieces_of_nothing_are_not_kept_without_end() -> None:
    session = Session(b"", most=10, most_bytes=100_000, largest=100_000)
    taken = (session.take(pack(Kind.PIECE, number, 0, b"")) for number in range(1, 200))
    with pytest.raises(ProtocolError, match="a payload has more than 100000 bytes"):
        list(taken)


class Receiving(Session):
    """Something arrives whenever one looks."""

    arrived = 0

    @property
    def received(self) -> int:  # type: ignore[override]
        self.arrived += 1
        return self.arrived

    @received.setter
    def received(self, number: int) -> None:
        pass


def test_what_arrives_while_a_message_is_packed_is_still_acknowledged() -> None:
    """The message tells of so much, and no more counts as told."""
    session = Receiving(b"", most=10, most_bytes=10_000)
    session.put(Kind.PAYLOAD, b"payload")
    sent = session.next()
    assert sent is not None
    assert session.owed == session.arrived - unpack(sent).acknowledged
