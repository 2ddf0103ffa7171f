"""The bytes before a payload."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smofi.net.transport.envelope import (
    HEAD,
    Kind,
    Opening,
    ProtocolError,
    pack,
    pack_opening,
    pack_sentence,
    sentence_in,
    unpack,
    unpack_opening,
)

NUMBERS = st.integers(0, 2**64 - 1)


@given(st.sampled_from(Kind), NUMBERS, NUMBERS, st.lists(st.binary(max_size=20), max_size=4))
def test_a_message_comes_back(kind: Kind, number: int, acknowledged: int, parts: list[bytes]) -> None:
    found = unpack(pack(kind, number, acknowledged, parts))
    assert (found.kind, found.number, found.acknowledged) == (kind, number, acknowledged)
    assert bytes(found.body) == b"".join(parts)


@given(st.binary(min_size=16, max_size=16), st.booleans(), NUMBERS, st.text(max_size=40), st.binary(max_size=50))
def test_an_opening_comes_back(session: bytes, resumed: bool, received: int, name: str, hello: bytes) -> None:
    opening = Opening(session, resumed, received, name, hello)
    assert unpack_opening(pack_opening(opening), 50) == opening


@given(st.binary(max_size=80))
def test_any_bytes_are_taken_or_refused(data: bytes) -> None:
    for opening in (data, b"smofi\0\1\0" + data):
        with contextlib.suppress(ProtocolError):
            assert len(unpack_opening(opening, 10).hello) <= 10
    with contextlib.suppress(ProtocolError):
        assert len(unpack(data).body) == len(data) - HEAD


def test_a_sentence_is_printable_and_not_too_long() -> None:
    assert sentence_in(unpack(pack_sentence(Kind.GOODBYE, "a\x1b[31mb\n"))) == "a [31mb"
    assert len(sentence_in(unpack(pack_sentence(Kind.GOODBYE, "ä" * 5000)))) <= 1001
    assert sentence_in(unpack(pack(Kind.GOODBYE, 0, 0, b"\xff\xfe"))) == "\ufffd\ufffd"


@pytest.mark.parametrize("kind", [0, 9, 2**64 - 1])
def test_other_kinds_are_refused(kind: int) -> None:
    with pytest.raises(ProtocolError, match=f"there is no kind {kind} of messages"):
        unpack(kind.to_bytes(8, "little") + bytes(HEAD - 8))
