"""What a run is: every setting with its type, its default and a line about it."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from smofi import data, models
from smofi.data import Source
from smofi.data.clients import as_samples
from smofi.engine.check import check_device
from smofi.optim import parse_optimizer

FIRST_RUN = ("fedavg", "fedavgm(momentum=0.3)", "smofi")


class Config(BaseModel):
    """The settings of a run; the defaults are the first run, on embedded data.

    >>> Config(rounds=5).rounds
    5
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str = Field("digits", description="data set")
    clients: int = Field(50, description="number of clients the data is divided among")
    partition: str = Field("dirichlet(0.2)", description="how: dirichlet(gamma) or iid")
    model: str = Field("resnet8", description="model; `smofi models` lists them")
    width: int | None = Field(8, description="width of the model's first block")
    norm: str | None = Field(None, description="batch or group")
    method: tuple[str, ...] = Field(
        FIRST_RUN, min_length=1, description='as smofi or "fedprox(mu=0.01)+smofi"; several are compared side by side'
    )
    optimizer: str = Field("sgd(lr=0.05, momentum=0.9)", description="local optimizer: sgd, adam or adamw")
    cut: str = Field("1", description='core blocks on the client; "L,H" U shape; "0-2" drawn; "[0,1,...]" per client')
    rounds: int = Field(30, description="rounds of training")
    participation: float = Field(0.2, description="share of the clients that take part in a round")
    local_epochs: int = Field(5, description="epochs a client trains per round")
    batch_size: int = Field(8, description="samples per step")
    seed: int = Field(0, description="seed of everything random")
    device: str = Field("cpu", description="torch device, as cpu or cuda")

    def arguments(self) -> dict[str, Any]:
        """What these settings stand for as arguments of `smofi.train`, all but the method: data loaded, model built."""
        source = data.load(self.data)
        inputs, targets = source.train
        parts = data.partition(targets.numpy(), self.clients, self.partition, min_size=self.batch_size, seed=self.seed)
        kind = (torch.float32, check_device(self.device))
        same = ("cut", "rounds", "participation", "local_epochs", "batch_size", "seed", "device")
        return {
            "model": self.build_model(source),
            "clients": [as_samples((inputs[part], targets[part]), "clients", *kind) for part in parts],
            "test": as_samples(source.test, "test", *kind),
            "optimizer": parse_optimizer(self.optimizer),
            **{name: getattr(self, name) for name in same},
        }

    def build_model(self, source: Source) -> nn.Sequential:
        """The initial model, a function of the seed."""
        return models.build(
            self.model,
            seed=self.seed,
            input_shape=source.input_shape,
            classes=source.classes,
            width=self.width,
            norm=self.norm,
        )
