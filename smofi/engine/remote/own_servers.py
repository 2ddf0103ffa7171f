"""Steps where each client has a server row of its own.

A client may be a step ahead of the slowest; where clients meet only at the end of the round, any number of steps. A
pool computes the passes of several at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import as_completed, wait
from functools import partial

from smofi.engine.remote.row import TOO_LARGE, RemoteRow
from smofi.engine.remote.stepper import RemoteStepper, Unusable


class OwnServers(RemoteStepper):
    """Whatever can be done for a client is done as soon as its message is there."""

    @property
    def may_go_ahead(self) -> bool:
        """An average of server rows is a barrier for those that are ahead."""
        return self.setup.method.placement is None

    def _step(self, groups: Sequence[list[RemoteRow]]) -> None:
        due = [one for group in groups for one in group]
        self._arrived(due)
        self._wait_until(lambda: all(one.updates >= one.target for one in self._of(due)))

    def _arrived(self, rows: Sequence[RemoteRow]) -> None:
        while True:
            rows = self._of(rows)
            for one in rows:
                if one.updates < one.steps.done and self._may_update(one):
                    one.update()
            due = [one for one in rows if one.returned or (one.activation and self._may_pass(one))]
            if not due:
                return
            self._passes(due)

    def _may_pass(self, one: RemoteRow) -> bool:
        return one.updates == one.steps.done and (one.steps.done < one.target or self.may_go_ahead)

    def _may_update(self, one: RemoteRow) -> bool:
        in_time = self.context.fusion is None or one.steps.done <= one.target
        return in_time and (not self.squares or one.square is not None)

    def _passes(self, rows: Sequence[RemoteRow]) -> None:
        """A pass of each, and what follows from it as soon as it is done; of several at a time in a pool."""
        with self.context.kernels():
            if self.pool is None or len(rows) == 1:
                for one in rows:
                    self._complete(one, partial(self._pass, [one], answer_first=self.weights_later and self.idle))
                return
            computing = {self.pool.submit(self._pass, [one]): one for one in rows}
            try:
                for computed in as_completed(computing):
                    self._complete(computing[computed], computed.result)
            finally:
                wait(computing)  # if one fails, the others still write to their rows

    def _complete(self, one: RemoteRow, computed: Callable[[], Callable[[], None]]) -> None:
        """Answer, and compute the gradients of the server's weights; no update is made from what cannot be used."""
        try:
            computed()()
            if one.updates < one.steps.done and not self._usable(one):  # otherwise the output is sent, in the U shape
                raise Unusable(TOO_LARGE)
        except Unusable as problem:
            self._drop(one, problem.reason, diverged=True, details=problem.details)
