"""Gather the names that `smofi` offers, each from where it is defined."""

from smofi import data, methods, models
from smofi.clock import Device, Presence, Timing
from smofi.composition import compose
from smofi.cut import CutSpec
from smofi.data.augment import Augment
from smofi.engine.evaluate import Metric
from smofi.engine.events import (
    Callback,
    Event,
    Record,
    RoundDone,
    RoundStarted,
    RunEnded,
    RunStarted,
    TickDone,
    Warned,
)
from smofi.engine.passes import Loss, Wire
from smofi.engine.processes.forked import ForkedWorkers
from smofi.engine.processes.workers import Workers, joined
from smofi.errors import (
    CacheWarning,
    ClientError,
    CompositionError,
    DataWarning,
    InputError,
    SmofiError,
    TrainingWarning,
)
from smofi.method import (
    BatchSizes,
    Candidates,
    Decay,
    Draw,
    Fuse,
    Limit,
    Method,
    Outer,
    Placement,
    Pull,
    Schedule,
    Select,
    Tick,
    Turnout,
)
from smofi.models.blocks import Piece, blocks
from smofi.optim import Optimizer, adam, adamw, sgd
from smofi.serving import join, serve
from smofi.training import Result, Session, prepare, train

__all__ = [
    "Augment",
    "BatchSizes",
    "CacheWarning",
    "Callback",
    "Candidates",
    "ClientError",
    "CompositionError",
    "CutSpec",
    "DataWarning",
    "Decay",
    "Device",
    "Draw",
    "Event",
    "ForkedWorkers",
    "Fuse",
    "InputError",
    "Limit",
    "Loss",
    "Method",
    "Metric",
    "Optimizer",
    "Outer",
    "Piece",
    "Placement",
    "Presence",
    "Pull",
    "Record",
    "Result",
    "RoundDone",
    "RoundStarted",
    "RunEnded",
    "RunStarted",
    "Schedule",
    "Select",
    "Session",
    "SmofiError",
    "Tick",
    "TickDone",
    "Timing",
    "TrainingWarning",
    "Turnout",
    "Warned",
    "Wire",
    "Workers",
    "adam",
    "adamw",
    "blocks",
    "compose",
    "data",
    "join",
    "joined",
    "methods",
    "models",
    "prepare",
    "serve",
    "sgd",
    "train",
]
