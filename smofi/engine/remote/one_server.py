"""Steps where all clients share a server model, which visits them in the order of the schedule, one by one or merged.

A step that cannot be used changes nothing: the client whose numbers are the largest is left out, and the step is taken
again with the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from smofi.engine.remote.messages import Activation, Returned
from smofi.engine.remote.row import TOO_LARGE, RemoteRow
from smofi.engine.remote.stepper import RemoteStepper, Unusable


class OneServer(RemoteStepper):
    """`sent` and `returned` are the messages of the step that is being taken, by row, and `statistics` what it began
    with."""

    sent: dict[int, Activation]
    returned: dict[int, Returned]
    statistics: Tensor

    def _step(self, groups: Sequence[list[RemoteRow]]) -> None:
        for group in groups:
            self._visit(group)

    def _arrived(self, rows: Sequence[RemoteRow]) -> None:
        """They wait for the server's visit."""

    def _visit(self, group: list[RemoteRow]) -> None:
        """The server model's pass on the activations of a group, and its update, unless the step comes to nothing."""
        self._wait_until(lambda: all(one.activation for one in self._of(group)))
        if not (group := self._of(group)):
            return
        first = group[0]
        self.statistics = first.server_statistics.clone()
        if taken := self._taken(group):
            taken[0].update()
        else:
            self._undo(first)
        for one in group:
            one.updates = one.steps.done

    def _taken(self, group: list[RemoteRow]) -> list[RemoteRow]:
        """The clients that the server's gradient is of, which is complete; none, if there is no gradient to be used."""
        if not (group := self._forth(group)):
            return []
        if group[0].cut.u_shaped:
            self._wait_until(lambda: all(one.returned for one in self._of(group)))
            if not self._back(group):
                return []
        with self.context.kernels():
            if not self._usable(group[0]):  # its clients are answered
                self._leave_out(group, Unusable(TOO_LARGE))
                return []
        if self.squares:
            self._wait_until(lambda: all(one.square is not None for one in self._of(group)))
            return self._of(group)
        return group

    def _forth(self, group: list[RemoteRow]) -> list[RemoteRow]:
        """The pass up to the clients' answers, in the U shape to the server's output; those it was made with."""
        self.sent, self.returned = {one.row: one.activation for one in group if one.activation}, {}
        while group and not self._try_pass(group):
            group = self._of(group)
            for one in group:
                one.activation = self.sent[one.row]
        return group

    def _back(self, group: list[RemoteRow]) -> bool:
        """U shape: the pass from the gradients that the clients return; of one that is lost, they are zero."""
        self.returned = {one.row: one.returned for one in group if one.returned}
        while self._of(group):
            if self._try_pass(group):
                return True
            if not self._of(group):
                break
            activations = [self.sent[one.row].activation.to(one.device) for one in group]
            with self.context.kernels():
                self._forward(group, activations, self.weights_later)
            for one in self._of(group):
                one.returned = self.returned[one.row]
        return False

    def _try_pass(self, group: Sequence[RemoteRow]) -> bool:
        """Whether the clients have their answers; if not, one of them is left out, and nothing has changed."""
        with self.context.kernels():
            try:
                self._pass(group, answer_first=self.weights_later)()
            except Unusable as problem:
                self._undo(group[0])
                self._leave_out(group, problem)
                return False
        return True

    def _undo(self, one: RemoteRow) -> None:
        """The server model is as it was before the step, and has no gradient from it."""
        one.later.discard()
        one.void()
        one.server_statistics.copy_(self.statistics)

    def _leave_out(self, group: Sequence[RemoteRow], problem: Unusable) -> None:
        """The step is taken without the client with the largest numbers."""
        self._drop(max(self._of(group), key=self._largest), problem.reason, diverged=True, details=problem.details)

    def _largest(self, one: RemoteRow) -> float:
        """How large the numbers are that a client has sent for this step."""
        tensors = [self.sent[one.row].activation]
        if one.row in self.returned:
            tensors.append(self.returned[one.row].gradient)
        return max(float(tensor.detach().abs().max()) for tensor in tensors)
