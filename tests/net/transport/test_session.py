"""A conversation over a link that loses everything under way, again and again: once, and in order."""

from __future__ import annotations

import threading
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smofi.net.transport.envelope import LARGE_PIECE, PIECE, Kind, Message, ProtocolError, pack, unpack
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


def arrive(sink: Side) -> None:
    """All that is under way arrives."""
    while sink.under_way:
        sink.take()


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
            arrive(there)
            acknowledge(there, here)
            arrive(here)
    assert (a.got, b.got) == (b.sent, a.sent)
    for here, there in ((a, b), (b, a)):
        acknowledge(here, there)
        arrive(there)
    assert (a.session.kept, b.session.kept) == (0, 0)


def carried(here: Session, there: Session) -> Message:
    """The next message arrives, and is acknowledged at once."""
    message = there.take(here.next() or b"")
    assert message is not None
    here.take(there.acknowledgement())
    return message


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
    arrived = []
    while here.has_next():
        arrived.append(carried(here, there))
        if len(arrived) == 2:  # a blink: the other two pieces are enough
            here.resume(there.received)
    assert [message.kind for message in arrived] == [Kind.PIECE, Kind.PIECE, Kind.PIECE, Kind.PAYLOAD]
    assert bytes(arrived[-1].body) == payload


def test_pieces_are_large_on_a_fast_network_and_small_again_after_a_blink() -> None:
    here, there = Session(b"", 4, 10**8), Session(b"", 4, 10**8)
    payload = bytes(range(256)) * (3 * PIECE // 256)

    def sent() -> list[Kind]:
        arrived = []
        while here.has_next():
            arrived.append(carried(here, there))
        assert bytes(arrived[-1].body) == payload
        return [message.kind for message in arrived]

    here.put(Kind.PAYLOAD, payload)
    assert sent() == [Kind.PIECE, Kind.PIECE, Kind.PAYLOAD]
    here.put(Kind.PAYLOAD, payload)
    assert sent() == [Kind.PAYLOAD]
    here.put(Kind.PAYLOAD, payload)
    assert here.next() is not None  # lost
    here.resume(there.received)
    assert sent() == [Kind.PIECE, Kind.PIECE, Kind.PAYLOAD]
    assert here.kept == 0


def test_on_a_fast_network_pieces_do_not_wait_for_each_other() -> None:
    here, there = Session(b"", 4, 10**8), Session(b"", 4, 10**8)
    here.put(Kind.PAYLOAD, bytes(2 * PIECE))
    while here.has_next():
        carried(here, there)
    here.put(Kind.PAYLOAD, bytes(3 * LARGE_PIECE))
    assert [unpack(here.next() or b"").kind for _ in range(3)] == [Kind.PIECE, Kind.PIECE, Kind.PAYLOAD]


def test_small_messages_are_under_way_together_also_before_a_network_has_proved_fast() -> None:
    here = Session(b"", 100, 10**8)
    for _ in range(50):
        here.put(Kind.PAYLOAD, bytes(PIECE // 100))
    assert all(here.next() for _ in range(50))


def test_pieces_are_small_on_a_slow_network_and_one_is_under_way_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("smofi.net.transport.session.monotonic", lambda: clock[0])
    here, there = Session(b"", 4, 10**8), Session(b"", 4, 10**8)
    for _ in range(3):
        here.put(Kind.PAYLOAD, bytes(2 * PIECE))
        for kind in (Kind.PIECE, Kind.PAYLOAD):
            message = there.take(here.next() or b"")
            assert message is not None
            assert message.kind == kind
            assert here.next() is None
            clock[0] += 1.25  # about 430 kB a second
            here.take(there.acknowledgement())


def test_a_piece_may_be_sent_while_the_next_one_is_copied() -> None:
    here, there = Session(b"", 4, 10**8), Session(b"", 4, 10**8)
    got = []

    def sent() -> None:
        got.append(carried(here, there))

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
    taken = [carried(here, there) for _ in range(3 * len(threads))]
    whole = [bytes(one.body) for one in taken if one.kind == Kind.PAYLOAD]
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
