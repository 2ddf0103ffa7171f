"""What a server and a client say to each other in a round.

    server   Begin                  [Output]              CutGradient   ...             Rest (you are left out)
    client          Activation            [Returned]                    ...   Finished

Messages in brackets are those of the U shape. A client that has its cut gradient goes on with its next activation, or,
after its last step, with `Finished`. `Evaluate` and `Evaluated` come between rounds.

Where a limit is on the norm of the whole model, each side tells the other the square of its own: the server with the
cut gradient, the client with its next message.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from smofi.cut import Cut
from smofi.engine.plan import ClientPlan


@dataclass(frozen=True)
class Begin:
    """A round begins: the client's line of the plan, its cut, and where its columns start from.

    `moments` are those that FedNAG carries on, `[K, columns]`, and `updates` how many updates those of each of the
    client's blocks have seen; both are empty where nothing is carried. `onednn` says which kernels suit the round.
    """

    plan: ClientPlan
    lr: float
    cut: Cut
    onednn: bool
    weights: Tensor
    statistics: Tensor
    moments: Tensor
    updates: tuple[float, ...]

    @property
    def round(self) -> int:
        return self.plan.round


@dataclass(frozen=True)
class Activation:
    """A step up to the cut, with its targets; None in the U shape, where they stay. `square` is |g|² of the client's
    columns in the step before, where the server needs it."""

    round: int
    step: int
    activation: Tensor
    targets: Tensor | None = None
    square: float | None = None


@dataclass(frozen=True)
class Output:
    """U shape: the server's output. `share` is the client's share of the samples that the server merges."""

    round: int
    step: int
    output: Tensor
    share: float = 1.0


@dataclass(frozen=True)
class Returned:
    """U shape: the loss on the client's own labels, and the gradient of the server's output."""

    round: int
    step: int
    loss: float
    gradient: Tensor


@dataclass(frozen=True)
class CutGradient:
    """The gradient at the cut; `square` is |g|² of the server's columns, where the client needs it."""

    round: int
    step: int
    gradient: Tensor
    square: float | None = None


@dataclass(frozen=True)
class Finished:
    """The client's columns after its last step; `moments` are empty where nothing is carried on."""

    round: int
    weights: Tensor
    statistics: Tensor
    moments: Tensor
    square: float | None = None


@dataclass(frozen=True)
class Rest:
    """The client is no longer part of this round, for this reason; it may be part of the next."""

    round: int
    reason: str


@dataclass(frozen=True)
class Evaluate:
    """Judge the global model on the samples that the client holds out."""

    round: int
    weights: Tensor
    statistics: Tensor


@dataclass(frozen=True)
class Evaluated:
    """What came of it: counts, and nothing that tells more of the samples."""

    round: int
    samples: int
    correct: int


Down = Begin | Output | CutGradient | Rest | Evaluate
"""From the server to a client."""

Up = Activation | Returned | Finished | Evaluated
"""From a client to the server."""
