"""What a server tells the users of its clients, in a sentence that wants no answer."""

from __future__ import annotations

from smofi.net.fields import Fields
from smofi.net.frames import Frame, Parsed, encode
from smofi.net.messages import take
from smofi.net.plain import plain_text

NOTICE, OVER = "notice", "over"
"""How the run goes: that it pauses, or goes on; and that it has ended, which is the last message of all."""

LONGEST = 500


def pack_told(kind: str, sentence: str) -> bytes:
    """As bytes.

    >>> from smofi.net.frames import read
    >>> read_told(read(pack_told(NOTICE, "the run goes on")))
    'the run goes on'
    """
    return encode(Frame(kind, {"sentence": sentence[:LONGEST]}))


def read_told(parsed: Parsed) -> str:
    """The sentence, printable."""
    given = Fields(parsed.fields)
    sentence = given.text("sentence", LONGEST)
    given.end()
    take(parsed, {})
    return plain_text(sentence)
