"""Flower's client app. A module of its own: Ray then sends it by name, so that an actor keeps what it has read."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict  # type: ignore[import-not-found]
from flwr.clientapp import ClientApp  # type: ignore[import-not-found]
from torch import nn
from workload import Workload, train

WORKLOAD, CHANNELS_LAST = "PEERS_WORKLOAD", "PEERS_CHANNELS_LAST"
"""Environment variables by which the actors know what to read."""

app = ClientApp()


@cache
def work() -> Workload:
    """The workload, read once by each process."""
    return Workload(Path(os.environ[WORKLOAD]), os.environ[CHANNELS_LAST] == "1")


@cache
def model() -> nn.Sequential:
    """The model that an actor trains for all its clients."""
    torch.set_num_threads(1)
    return work().model()


@app.train()  # type: ignore[untyped-decorator]
def train_client(message: Message, context: Context) -> Message:
    """One client's round: the global weights in, its own weights and the number of its samples out."""
    config = message.content["config"]
    share = work().share(int(config["server-round"]) - 1, int(config["place"]))
    model().load_state_dict(message.content["arrays"].to_torch_state_dict())
    train(model(), work(), share.order)
    content = {"arrays": ArrayRecord(model().state_dict()), "metrics": MetricRecord({"num-examples": share.size})}
    return Message(content=RecordDict(content), reply_to=message)
