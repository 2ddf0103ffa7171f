"""Clients that send what cannot be used: after a few times they are kept out."""

from __future__ import annotations

from collections import OrderedDict

from smofi.net.transport.gate import Refused

MOST = 3
"""After this many unusable messages a client is kept out, for as long as the server runs."""

REMEMBERED = 1000
"""How many names are remembered. With certificates, there are no more than the authority has issued."""


class Offences:
    """How often each name has sent what cannot be used, and the sentence that it is refused with in the end.

    >>> offences = Offences()
    >>> [offences.add("a", "kind is 7").final for _ in range(3)]
    [False, False, True]
    >>> offences.check("b")
    >>> offences.check("a")
    Traceback (most recent call last):
    smofi.net.transport.gate.Refused: kind is 7; after 3 unusable messages, a is kept out until the server starts again
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[int, str]] = OrderedDict()

    def add(self, name: str, sentence: str) -> Refused:
        """Once more; what to tell the client, final if that was once too often."""
        times = self._known.pop(name, (0, ""))[0] + 1
        if times >= MOST:
            sentence += f"; after {MOST} unusable messages, {name} is kept out until the server starts again"
        self._known[name] = times, sentence
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return Refused(sentence, final=times >= MOST, name=name)

    def check(self, name: str) -> None:
        """Refuse a name that is kept out."""
        times, sentence = self._known.get(name, (0, ""))
        if times >= MOST:
            raise Refused(sentence, final=True, name=name)
