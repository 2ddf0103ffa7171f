"""smofi: split federated learning that works on heterogeneous data.

A run       train, prepare: the arguments of a run; Session, Result, Record: what they return
            blocks: any module as a model that can be cut, from a Piece a block; CutSpec: the ways to write a cut
            sgd, adam, adamw: the local Optimizer; Loss, Metric, Wire, Augment: your own in place of ours
            Workers, ForkedWorkers, joined: the processes that share a run
A method    compose, Method, and what fills its slots: Pull, Decay, Limit, Fuse, Outer, Placement, BatchSizes, Select
            Turnout, Draw, Tick, Schedule: the ticks of a round; Candidates: the clients to select from
A callback  Callback, Event: RunStarted, RoundStarted, TickDone, RoundDone, Warned, RunEnded
A clock     Timing, Device, Presence
Errors      SmofiError: InputError, CompositionError, ClientError; TrainingWarning, CacheWarning
Packages    data, methods, models

Public are these names; the names in `__all__` of the packages `smofi.config`, `smofi.data`, `smofi.experiment`,
`smofi.export`, `smofi.methods`, `smofi.models` and `smofi.track`; and the `smofi` command. Everything else is internal:
it may change without notice.

>>> import smofi
>>> smofi.compose(smofi.methods.fedprox(mu=0.01), smofi.methods.smofi()).name
'fedprox(mu=0.01)+smofi'
"""

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
from smofi.errors import CacheWarning, ClientError, CompositionError, InputError, SmofiError, TrainingWarning
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
from smofi.training import Result, Session, prepare, train

__version__ = "0.1.0"

__all__ = [
    "Augment",
    "BatchSizes",
    "CacheWarning",
    "Callback",
    "Candidates",
    "ClientError",
    "CompositionError",
    "CutSpec",
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
    "joined",
    "methods",
    "models",
    "prepare",
    "sgd",
    "train",
]
