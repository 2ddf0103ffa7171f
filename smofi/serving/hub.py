"""The connections of a served run: messages to and from clients by number, and who is there."""

from __future__ import annotations

import logging
import queue
import time
from collections import Counter, deque
from collections.abc import Callable, Collection
from contextlib import suppress

from smofi.engine.cohort.wire import Compression
from smofi.engine.remote.links import Expected, Lost
from smofi.engine.remote.messages import Activation, Begin, Down, Evaluate, Evaluated, Finished, Up
from smofi.net.fields import NotFinite
from smofi.net.frames import BadFrame, read
from smofi.net.logs import log
from smofi.net.messages import pack, read_up
from smofi.net.status import Arrivals, Board, listed_names
from smofi.net.transport.events import Arrived, Joined, Left
from smofi.net.transport.listener import Listener
from smofi.net.transport.sizes import size
from smofi.serving.offer import ACCEPTED, Accepted, Offer
from smofi.serving.roster import Roster
from smofi.serving.told import NOTICE, OVER, pack_told

logger = logging.getLogger("smofi.serving")

LOOK_EVERY = 0.5
"""Seconds in which a signal is answered."""

WORTH_SAYING = 1.0
"""Seconds of waiting at the end that need no explanation."""


class Stopped(Exception):
    """The server is to stop, and there is no round to finish; why, in a sentence."""


class Hub:
    """Links to clients, over a listener. `offer` is the run that they are asked to take part in.

    `here` are those that take part in this run, `known` those that took part in any since they are connected.
    A client answers every message but `Rest` with one message, in order: `owed` has what is expected of each that is
    connected, None for an answer that no longer matters. `fits` says why a client cannot take part, and `changed` is
    called when the roster of a run that has begun is another one. `say` tells people who comes while the run waits, and
    when a run that is `going` pauses. The board is told by the listener, at once, whose connection is lost.
    """

    def __init__(self, listener: Listener, roster: Roster, board: Board) -> None:
        self.listener, self.roster, self.board = listener, roster, board
        listener.observer = board
        self.arrivals = Arrivals()
        self.offer: Offer | None = None
        self.wire: Compression | None = None
        self.classes = 0
        """Of how many classes clients tell their numbers of samples, where the method selects by them."""
        self.fits: Callable[[str, int], str | None] = lambda name, samples: None
        self.changed: Callable[[], object] = lambda: None
        self.here: set[str] = set()
        self.known: set[str] = set()
        self.owed: dict[str, deque[Expected | Offer | None]] = {}
        self.steps: dict[str, int] = {}
        self.up: Counter[str] = Counter()
        self.down: Counter[str] = Counter()
        self.say: Callable[[str], object] = lambda sentence: None
        self.stopping = self.going = False
        self.over: bytes | None = None
        """What clients are told once all runs are over, and `told` are those that it was sent to."""
        self.told: set[str] = set()

    # What a round needs

    def send(self, client: int, message: Down, expected: Expected | None = None) -> None:
        """Pass a message on, and expect one in return; none where the client is left out of the round."""
        name = self.roster.names[client]
        if expected is None:
            self.forget(client)
        if isinstance(message, Begin):
            self.steps[name] = message.plan.steps
        if name in self.here:
            if expected is not None:
                self.owed[name].append(expected)
            payload = pack(message, self.wire)
            self.down[name] += size(payload)
            if isinstance(message, Evaluate):
                self.board.state(name, "evaluating")
            self.listener.send(name, payload)

    def receive(self, timeout: float | None) -> tuple[int, Up | Lost] | None:
        """The next message of a client that takes part; whoever else comes is dealt with. None after the time, but not
        while there are messages: this machine may have been too busy to look."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = LOOK_EVERY if end is None else min(LOOK_EVERY, max(0.0, end - time.monotonic()))
            try:
                if found := self._next(left):
                    return found
            except queue.Empty:
                if end is not None and time.monotonic() >= end:
                    return None

    def forget(self, client: int) -> None:
        """What this client still owes of a round no longer matters: it may come too late. One that has come back since,
        and has an offer to accept, is asked that still."""
        name = self.roster.names[client]
        if name in self.owed:
            self.owed[name] = deque(one if isinstance(one, Offer) else None for one in self.owed[name])

    # Who is there

    def present(self) -> list[int]:
        """The numbers of the clients that could take part now."""
        found = (self.roster.number_of(name) for name in self.here)
        return sorted(number for number in found if number is not None)

    def wait_for(self, enough: Callable[[], str | None]) -> None:
        """Deal with clients until `enough` has no more to say about what is missing."""
        missing, told = enough(), ""
        self.arrivals.want(True)
        while missing:
            if missing != told:
                self._tell_wait(missing, first=not told)
                told = missing
            if self.stopping:
                raise Stopped(f"stopped while it waited: {missing}")
            with suppress(queue.Empty):
                self._next(LOOK_EVERY)
            missing = enough()
            self.arrivals.tell(self.say, missing or "enough clients are here", at_once=not missing)
        self.arrivals.want(False)
        if told:
            if self.going:
                self.say("Going on")
                self._notify("the run goes on")
            self.board.resumed()
            log(logger, "resumed" if self.going else "ready", clients=len(self.here))
        self.going = True

    def _tell_wait(self, missing: str, first: bool) -> None:
        """The first wait of a run is no pause: it has lost no client."""
        if not self.going:
            self.board.waiting(missing)
            log(logger, "waiting", reason=missing)
            return
        if first:
            self.say(f"Paused: {missing}")
            self._notify(f"the run is paused: {missing}")
        self.board.paused(missing)
        log(logger, "paused", level="warning", reason=missing)

    def _notify(self, sentence: str) -> None:
        """Tell the users of all clients that take part."""
        for name in self.here:
            self.listener.send(name, pack_told(NOTICE, sentence))

    def begin(self, offer: Offer, wire: Compression | None) -> None:
        """A run begins: all clients are asked anew, and are there again when they have accepted."""
        self.offer, self.wire, self.here, self.going = offer, wire, set(), False
        for name, before in self.owed.items():
            self.owed[name] = deque([*[None] * len(before), offer])
            self.listener.send(name, offer.pack())

    def end(self, reason: str, patience: float = 0.0, awaited: Collection[str] = ()) -> None:
        """All runs are over, and clients may go: those that are here, and those that come while this waits. It waits
        until all of them have heard it, and those `awaited` have come, but not longer than `patience` seconds."""
        self.over, began = pack_told(OVER, reason), time.monotonic()
        for name in self.owed:
            self.listener.send(name, self.over)
        self.told, said = set(self.owed), False
        while True:
            with suppress(queue.Empty):
                while True:
                    self._next(0.0)
            missing = self._unheard() | (set(awaited) - self.told)
            waited = time.monotonic() - began
            if not missing or self.stopping or waited >= patience:
                return
            if waited > WORTH_SAYING and not said:
                self.say(f"Waiting up to {patience:g} s to tell {listed_names(sorted(missing))} that the run is over")
                said = True
            time.sleep(0.1)

    def _unheard(self) -> set[str]:
        """The clients that may not have received all that was sent to them."""
        return {name for name, peer in self.listener.peers().items() if peer.unheard or not peer.connected}

    # Events of the connections

    def _next(self, timeout: float) -> tuple[int, Up | Lost] | None:
        """Deal with the next event; raises queue.Empty if there is none in time."""
        event = self.listener.events.get(timeout)
        if isinstance(event, Joined):
            self._joined(event)
        elif isinstance(event, Left):
            return self._left(event.name, event.reason, event.refused)
        elif isinstance(event, Arrived):
            self.up[event.name] += len(event.payload)
            try:
                return self._arrived(event)
            except BadFrame as error:
                return self._offended(event.name, str(error))
        return None

    def _joined(self, event: Joined) -> None:
        if self.over:
            self.owed[event.name] = deque()
            self.listener.welcome(event.name, self.over)
            self.told.add(event.name)
            return
        assert self.offer is not None
        self.owed[event.name] = deque([self.offer])
        self.listener.welcome(event.name, self.offer.pack())

    def _left(self, name: str, reason: str, refused: bool = False) -> tuple[int, Lost] | None:
        """A client is gone, or was sent away; once, though that it was dismissed comes back as an event."""
        if self.owed.pop(name, None) is None:
            return None
        self.arrivals.left(name, reason)
        joined = name in self.known
        self.known.discard(name)
        level = "warning" if refused or joined else "info"
        log(logger, "refused" if refused else "left", level=level, client=name, reason=reason, joined=joined)
        if joined or refused:
            self.board.left(name, reason, refused)
        else:
            self.board.event(f"{name} left without joining: {reason}")
        if name not in self.here:
            return None
        self.here.discard(name)
        self.roster.remove(name)
        number = self.roster.number_of(name)
        return None if number is None else (number, Lost(reason))

    def _arrived(self, event: Arrived) -> tuple[int, Up | Lost] | None:
        if event.name not in self.owed:
            return None  # sent before it knew that it was dismissed
        parsed = read(event.payload, shared=True)
        if not self.owed[event.name]:
            raise BadFrame("kind", f"is {parsed.kind}: nothing is expected now")
        due = self.owed[event.name].popleft()
        if due is None:
            return None
        if isinstance(due, Offer):
            if parsed.kind != ACCEPTED:
                raise BadFrame("kind", f"is {parsed.kind}: expected {ACCEPTED} first")
            self._accepted(event.name, due, Accepted.read(parsed, self.classes))
            return None
        number = self.roster.number_of(event.name)
        assert number is not None
        try:
            message = read_up(parsed, due, self.wire)
        except NotFinite as error:
            return number, Lost(f"its model has diverged: {error}", diverged=True)
        if isinstance(message, Activation | Finished):
            self.board.step(event.name, due.step, self.steps[event.name])
        if isinstance(message, Finished | Evaluated):
            self.board.state(event.name, "waiting")
        self.board.bytes(event.name, self.up[event.name], self.down[event.name])
        return number, message

    def _accepted(self, name: str, offer: Offer, accepted: Accepted) -> None:
        problem = self.fits(name, accepted.samples)
        if accepted.layout != offer.layout:
            problem = "its model has other tensors than the server's: is its smofi of another version?"
        if problem:
            self.listener.dismiss(name, problem, final=True)
            self._left(name, problem, refused=True)
            return
        self.roster.counts[name] = accepted.counts
        if self.roster.add(name, accepted.samples, accepted.tests):
            self.changed()
        self.here.add(name)
        if name in self.known:
            self.board.state(name, "waiting")
            return
        self.known.add(name)
        number = self.roster.number_of(name)
        status = self.listener.peers().get(name)
        self.board.joined(name, number, accepted.samples, str(getattr(status, "address", "")))
        if status is None or not status.connected:  # it was lost meanwhile, when the board did not know it
            self.board.away(name)
        self.arrivals.came(name)
        log(logger, "joined", client=name, samples=accepted.samples)

    def _offended(self, name: str, sentence: str) -> tuple[int, Lost] | None:
        """A message that cannot be used: its sender is told why, and dropped."""
        reason = f"its message was not accepted: {sentence}"
        self.listener.offended(name, reason)
        return self._left(name, reason, refused=True)
