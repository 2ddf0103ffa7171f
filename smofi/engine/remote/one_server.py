"""Steps where all clients share a server model, which visits them in the order of the schedule, one by one or merged.

A step that cannot be used changes nothing: the client whose numbers are the largest is left out, and the step is taken
again with the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from smofi.engine.remote.messages import Activation, Returned
from smofi.engine.remote.row import TOO_LARGE, RemoteRow
from smofi.engine.remote.stepper import RemoteStepper
from smofi.errors import ClientError


class OneServer(RemoteStepper):
    """`sent` and `returned` are the messages of the step that is being taken, by row, and `statistics` what it began
    with. `spoilt` tells that it came to nothing, `void` that it did for the server alone: its clients are answered."""

    sent: dict[int, Activation]
    returned: dict[int, Returned]
    statistics: Tensor
    spoilt = void = False

    def _step(self, groups: Sequence[list[RemoteRow]]) -> None:
        for group in groups:
            self._visit(group)

    def _arrived(self, rows: Sequence[RemoteRow]) -> None:
        """They wait for the server's visit."""

    def _visit(self, group: list[RemoteRow]) -> None:
        """The server model's pass on the activations of a group, and its update."""
        self._wait_until(lambda: all(one.activation for one in self._of(group)))
        if not (group := self._forth(group)):
            return
        if group[0].cut.u_shaped:
            self._wait_until(lambda: all(one.returned for one in self._of(group)))
            if not self._of(group):
                return  # nothing has come back
            self._back(group)
            if self.spoilt:
                return  # and none of them is left
        if self.squares:
            self._wait_until(lambda: all(one.square is not None for one in self._of(group)))
        first = group[0]
        if self.void or (self.squares and first.square is None):
            first.void()
        else:
            first.update()
        for one in group:
            one.updates = one.steps.done

    def _forth(self, group: list[RemoteRow]) -> list[RemoteRow]:
        """The pass up to the clients' answers, in the U shape to the server's output; those it was made with."""
        self.sent, self.returned = {one.row: one.activation for one in group if one.activation}, {}
        if group:
            self.statistics = group[0].server_statistics.clone()
        while group := self._of(group):
            for one in group:
                one.activation = self.sent[one.row]
            self._take_pass(group)
            if not self.spoilt:
                break
            self._restore(group)
        return group

    def _back(self, group: list[RemoteRow]) -> None:
        """U shape: the pass from the gradients that the clients return; of one that is lost, they are zero."""
        self.returned = {one.row: one.returned for one in group if one.returned}
        self._take_pass(group)
        while self.spoilt and self._of(group):
            self._restore(group)
            activations = [self.sent[one.row].activation.to(one.device) for one in group]
            with self.context.kernels():
                self._forward(group, activations, self.weights_later)
            for one in self._of(group):
                one.returned = self.returned[one.row]
            self._take_pass(group)

    def _take_pass(self, group: Sequence[RemoteRow]) -> None:
        self.spoilt = self.void = False
        with self.context.kernels():
            try:
                answer = self._pass(group, answer_first=self.weights_later)
            except ClientError as error:
                self._refuse(group, f"the server's pass failed ({error})")
                return
            answer()
            if not self.spoilt and not group[0].compute_weights():
                self._leave_out(group, TOO_LARGE)
                self.void = True

    def _refuse(self, group: Sequence[RemoteRow], why: str) -> None:
        self.spoilt = True
        self._leave_out(group, why)

    def _leave_out(self, group: Sequence[RemoteRow], why: str) -> None:
        """The server model does without the client with the largest numbers, and has no gradient from this step."""
        group[0].later.discard()
        group[0].void()
        self._drop(max(self._of(group), key=self._largest), why, diverged=True)

    def _restore(self, group: Sequence[RemoteRow]) -> None:
        """The statistics are as they were before the step."""
        group[0].server_statistics.copy_(self.statistics)

    def _largest(self, one: RemoteRow) -> float:
        """How large the numbers are that a client has sent for this step."""
        tensors = [self.sent[one.row].activation]
        if one.row in self.returned:
            tensors.append(self.returned[one.row].gradient)
        return max(float(tensor.detach().abs().max()) for tensor in tensors)
