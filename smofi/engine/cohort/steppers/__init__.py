"""The ways to take a step: one small class each, chosen once per round.

whole        client by client, each through its whole model
split        the halves of one client, or of a group whose batches the server merges, with a wire between them
at_once      clients in neighbouring rows in one pass, the last few by one of the two above
one_server   one server model with the first process, its clients with all of them
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from smofi.engine.cohort.chunk import Chunk
from smofi.engine.cohort.context import RoundContext
from smofi.engine.cohort.steppers.at_once import AtOnceStepper
from smofi.engine.cohort.steppers.one_server import OneServerStepper
from smofi.engine.cohort.steppers.split import SplitStepper
from smofi.engine.cohort.steppers.whole import WholeStepper


class Stepper(Protocol):
    """One way to take a step."""

    def step(self, chunk: Chunk, groups: Sequence[Sequence[int]]) -> None:
        """One step of each group of rows: gradient, momentum and weights of each of its clients."""


def stepper_for(context: RoundContext) -> Stepper:
    """The way to take the steps of a round."""
    if context.simulation.shares_server:
        return OneServerStepper(context)
    one_by_one = SplitStepper(context) if context.executes_split else WholeStepper(context)
    return AtOnceStepper(context, one_by_one) if context.simulation.execution.at_once else one_by_one
