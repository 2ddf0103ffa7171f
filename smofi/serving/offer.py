"""What a server asks of its clients, as they are told when they come, and what a client says when it accepts."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from pydantic import ValidationError

from smofi.config import Config, sentence_of
from smofi.data import Source
from smofi.engine.remote.links import Shape
from smofi.net.fields import Fields
from smofi.net.frames import BadFrame, Frame, Parsed, encode
from smofi.net.messages import take
from smofi.net.transport.times import SANE, Times
from smofi.serving.setups import refuse_offer

OFFER, ACCEPTED, COUNTS = "offer", "accepted", "counts"
LONGEST, MOST = 2**24, 2**40

TOLD = (
    *("model", "width", "norm", "method", "optimizer", "cut", "precision", "wire", "augment", "image_size"),
    *("rounds", "participation", "local_epochs", "batch_size", "seed", "clients", "partition", "max_train"),
)
"""The settings that a client needs, or wants to see before it takes part."""

CODE, FILE = "python:", "file:"
"""What begins the name of something in a module, and of a file: a server cannot make a client load either."""

OWN = ("model", "method")
"""Where a client's user may name code of its own."""


@dataclass(frozen=True)
class Offer:
    """A run: its settings, what its data is (`Source.task`), the hash of its model's layout, who evaluates:
    "server", "clients" or "none", the seconds of `Times` that a client keeps to, and how many `runs` the server still
    has, with this one."""

    settings: dict[str, Any]
    task: dict[str, Any]
    layout: str
    evaluates: str = "server"
    clients: int = 0
    keepalive: float = Times.keepalive
    connect: float = Times.connect
    runs: int = 1

    @classmethod
    def of(
        cls, config: Config, source: Source, layout: str, evaluates: str, clients: int, times: Times | None = None
    ) -> Offer:
        """What is told of a configuration with one method and one seed."""
        times = times or Times()
        settings = {name: getattr(config, name) for name in TOLD}
        task = {name: value for name, value in source.task().items() if name != "preparation"}
        return cls(
            settings | {"method": list(config.method)}, task, layout, evaluates, clients, times.keepalive, times.connect
        )

    def config(self, own: dict[str, str] | None = None) -> Config:
        """The settings, checked; where the server names code, `own` has the names that the client's user gave."""
        given = dict(self.settings)
        for name in ("model", "method", "optimizer", "augment", "partition"):
            for text in given[name] if isinstance(given[name], list) else [given[name]]:
                if CODE not in str(text):
                    continue
                named = (own or {}).get(name)
                if named is None or ("+" in text and named != text):  # of a composition, one part is not the whole
                    how = f"; if you have it and trust it, say so with --{name} {text}" if name in OWN else ""
                    raise refuse_offer(f"its {name} is {text}, and no server may name code of yours{how}")
                given[name] = named
        if str(given["partition"]).strip().startswith(FILE):
            raise refuse_offer(f"its partition is {given['partition']}, and no server may name a file of yours")
        try:
            return Config(**given)
        except ValidationError as error:
            raise refuse_offer(sentence_of(error)) from None

    def pack(self) -> bytes:
        """As bytes."""
        return pack_offer(json.dumps(asdict(self), default=list))

    @classmethod
    def read(cls, parsed: Parsed) -> Offer:
        """From bytes, each part of the type it has to be."""
        Fields(parsed.fields).end()
        length = math.prod(parsed.tensors["offer"].shape) if "offer" in parsed.tensors else 0
        if length > LONGEST:
            raise refuse_offer(f"it has {length:,} bytes, more than {LONGEST:,}")
        text = take(parsed, {"offer": Shape(torch.uint8, (length,))})["offer"]
        try:
            found = json.loads(text.numpy().tobytes())
            offer = cls(**found)
        except (ValueError, TypeError, RecursionError):
            raise refuse_offer("it cannot be read; is the server of another version?") from None
        kinds = {"settings": dict, "task": dict, "layout": str, "evaluates": str, "clients": int, "runs": int}
        if any(type(getattr(offer, name)) is not kind for name, kind in kinds.items()):
            raise refuse_offer("it cannot be read; is the server of another version?")
        if set(offer.settings) != set(TOLD):
            raise refuse_offer("it has other settings than this version of smofi knows")
        for name in ("keepalive", "connect"):
            seconds = getattr(offer, name)
            if type(seconds) not in (int, float) or not SANE[0] <= seconds <= SANE[1]:
                raise refuse_offer(f"its {name} is no number of seconds from {SANE[0]:g} to {SANE[1]:g}")
        _check_task(offer.task)
        return offer


def pack_offer(text: str) -> bytes:
    """An offer's JSON as a message: as a tensor, for a task may have thousands of classes, and columns with a mean."""
    return encode(Frame(OFFER, {}, {"offer": torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)}))


def _check_task(task: dict[str, Any]) -> None:
    """Refuse a description of data that is none."""
    shape, classes = task.get("input_shape"), task.get("classes")
    whole = isinstance(shape, list) and all(type(one) is int and 0 < one < 2**20 for one in shape)
    named = isinstance(classes, list) and len(classes) > 0 and all(type(one) is str for one in classes)
    moments = [task.get(name) for name in ("mean", "deviation")]
    if not whole or not named or type(task.get("kind")) is not str:
        raise refuse_offer("its task has no kind, input_shape or classes")
    if any(one is not None and not _numbers(one) for one in moments):
        raise refuse_offer("the mean or deviation of its inputs is no list of numbers")


def _numbers(values: object) -> bool:
    """A number, or lists of them, all of the same length."""
    try:
        return not isinstance(values, str | dict) and torch.tensor(values).isfinite().all().item() is True
    except (ValueError, TypeError, RuntimeError, OverflowError):
        return False


@dataclass(frozen=True)
class Accepted:
    """A client takes part: how many samples it trains on, how many it holds out, and the layout of its model; where the
    method selects clients by it, how many samples of each class it trains on."""

    samples: int
    tests: int
    layout: str
    counts: tuple[int, ...] = ()

    def pack(self) -> bytes:
        """As bytes."""
        tensors = {COUNTS: torch.tensor(self.counts, dtype=torch.int64)} if self.counts else {}
        return encode(Frame(ACCEPTED, {name: getattr(self, name) for name in ("samples", "tests", "layout")}, tensors))

    @classmethod
    def read(cls, parsed: Parsed, classes: int = 0) -> Accepted:
        """From bytes; with the counts of this many classes, 0 where none are wanted."""
        given = Fields(parsed.fields)
        samples, tests = given.whole("samples", 1, MOST), given.whole("tests", 0, MOST)
        layout = given.text("layout", 64)
        given.end()
        taken = take(parsed, {COUNTS: Shape(torch.int64, (classes,))} if classes else {})
        counts = tuple(taken[COUNTS].tolist()) if classes else ()
        if classes and (min(counts) < 0 or sum(counts) != samples):
            raise BadFrame(f"tensors.{COUNTS}", f"is no division of {samples} samples")
        return cls(samples, tests, layout, counts)
