"""smofi: split federated learning that works on heterogeneous data.

>>> import smofi
>>> smofi.compose(smofi.methods.fedprox(mu=0.01), smofi.methods.smofi()).name
'fedprox(mu=0.01)+smofi'
"""

from smofi import methods
from smofi.clock import Device, Presence, Timing
from smofi.engine.events import Record
from smofi.engine.processes.crew import joined
from smofi.errors import CompositionError, InputError, SmofiError, TrainingWarning
from smofi.method import Decay, Limit, Method, Outer, Placement, Tick, Turnout, compose
from smofi.models.blocks import blocks
from smofi.optim import adam, adamw, sgd
from smofi.training import Result, Session, prepare, train

__version__ = "0.1.0"

__all__ = [
    "CompositionError",
    "Decay",
    "Device",
    "InputError",
    "Limit",
    "Method",
    "Outer",
    "Placement",
    "Presence",
    "Record",
    "Result",
    "Session",
    "SmofiError",
    "Tick",
    "Timing",
    "TrainingWarning",
    "Turnout",
    "adam",
    "adamw",
    "blocks",
    "compose",
    "joined",
    "methods",
    "prepare",
    "sgd",
    "train",
]
