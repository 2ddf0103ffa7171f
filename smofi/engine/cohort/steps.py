"""A client's steps in a round: their batches, what is random in them, and how far it has come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager

import torch
from torch import Tensor

from smofi.data.augment import Augment
from smofi.data.batches import Ahead, Gathered, batch_order
from smofi.data.samples import Samples, TensorSamples, batches
from smofi.engine.plan import ClientPlan
from smofi.errors import ClientError, SmofiError
from smofi.models.dropout import step_keys
from smofi.seeds import generator


class Steps:
    """The steps of a client in a round, as the server knows them too: what is random in each, and how many are done.

    Everything is drawn at the beginning, by (seed, round, client), so that no step draws anything.
    """

    def __init__(self, plan: ClientPlan, device: torch.device, dropout: bool) -> None:
        self.plan, self.device, self.dropout = plan, device, dropout
        drawn = generator(plan.seed, "noise", plan.round, plan.client).integers(2**63, size=plan.steps)
        self.seeds: list[int] = drawn.tolist()
        self.done = 0
        self.losses: list[Tensor] = []

    @property
    def client(self) -> int:
        return self.plan.client

    @property
    def batch_size(self) -> int:
        return self.plan.batch_size

    @property
    def seed(self) -> int:
        """The seed of all that is random in the next step."""
        return self.seeds[self.done]

    @property
    def keys(self) -> Tensor | None:
        """Dropout's keys for the next step, None for a model without dropout."""
        return step_keys(self.seed, self.batch_size, self.device) if self.dropout else None

    def advance(self, loss: Tensor | None) -> None:
        """A step is done; this was its loss, None if another process knows it."""
        self.done += 1
        if loss is not None:
            self.losses.append(loss)


class ClientSteps(Steps):
    """The same where the client's samples are.

    `pool` reads samples ahead, where they can be read ahead; of samples in memory, up to `gathered` bytes are gathered
    in one go.
    """

    def __init__(
        self,
        plan: ClientPlan,
        samples: Samples,
        device: torch.device,
        dropout: bool,
        augment: Augment | None = None,
        pool: Executor | None = None,
        gathered: int = 0,
    ) -> None:
        super().__init__(plan, device, dropout)
        steps, size = plan.steps, plan.batch_size
        keys = {"seed": plan.seed, "round": plan.round, "client": plan.client}
        self.samples, self.augment = samples, augment
        self.order = torch.from_numpy(batch_order(len(samples), size, steps, **keys)).to(device)
        self.variations = augment.draw(steps, size, **keys) if augment else None
        self.ahead: Ahead | Gathered | None = Ahead(samples, self.order, pool) if pool else None
        if isinstance(samples, TensorSamples) and gathered:
            self.ahead = Gathered(samples, self.order, gathered)

    def targets(self) -> Tensor:
        """The targets of the next batch."""
        return self.samples.targets(self.order[self.done])

    def batch(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets of the next step."""
        inputs, targets = self.ahead.batch(self.done) if self.ahead else self.samples.batch(self.order[self.done])
        if self.augment and self.variations is not None:
            inputs = self.augment.apply(inputs, self.variations[self.done])
        return inputs, targets


def stacked_batches(clients: Sequence[ClientSteps]) -> tuple[Tensor, Tensor, Tensor | None]:
    """The next batches of several clients, `[clients, batch, ...]`: inputs, targets and dropout's keys."""
    inputs, targets = batches([one.samples for one in clients], [one.order[one.done] for one in clients])
    augment = clients[0].augment
    if augment:
        varied = torch.cat([one.variations[one.done] for one in clients if one.variations is not None])
        inputs = augment.apply(inputs.flatten(0, 1), varied).unflatten(0, inputs.shape[:2])
    keys = [key for one in clients if (key := one.keys) is not None]
    return inputs, targets, torch.stack(keys) if keys else None


@contextmanager
def naming_clients(clients: Sequence[Steps]) -> Iterator[None]:
    """If a step fails, raise an error that names its clients."""
    try:
        yield
    except Exception as error:
        raise failure(clients, error) from error


def failure(clients: Sequence[Steps], error: Exception) -> Exception:
    """What to raise when a step of these clients has failed: an error that names them, unless it says enough."""
    if isinstance(error, SmofiError):
        return error
    who = ", ".join(str(one.client) for one in clients)
    when = f"round {clients[0].plan.round + 1}, step {clients[0].done + 1}"
    return ClientError(f"client {who} failed in {when}: {error}")
