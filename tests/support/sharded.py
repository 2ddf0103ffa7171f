"""Every method, family of models and circumstance with as many workers as it is started with; the first writes what
came out: the whole state after the last round, and the whole history but for the seconds that rounds took.

Run by tests/engine/, alone, under torchrun, or forked into as many workers as it is told, with a file for
each of these numbers:

    python sharded.py OUTPUT --workers 1 2 4 --dtype float32 --executor vmap --only smofi resnet8
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import smofi
from smofi import Device, ForkedWorkers, Timing, Workers, joined, models
from smofi.methods import parse_method
from smofi.training import Session

Pair = tuple[Tensor, Tensor]

CASES: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedprox(mu=0.1)": {"rounds": 3, "eval_every": 2},
    "fednar(max_norm=0.5)": {},
    "fedavgm(momentum=0.3)": {},
    "slowmo(lr=0.5, momentum=0.4, steps=3)": {},
    "fednag": {},
    'sflv1("step")': {},
    'sflv1("epoch")': {"local_epochs": 2},
    "sflv2": {},
    "sflv2('step')": {},
    "mergesfl": {},
    "smofi": {"cut": "0-1"},
    "smofi(alpha=-1)": {"cut": (0, 1)},
    "fedprox(mu=0.1)+smofi": {"cut": [0, 1, 0, 1, 1, 0, 1]},
    "smofi(global_momentum=0)": {"optimizer": "sgd(lr=0.05, momentum=0.9, nesterov=True)"},
    "smofi(alpha=-0.5)": {"optimizer": "adam(lr=0.01)"},
    "smofi(alpha=-0.2)": {"optimizer": "adamw(lr=0.01, weight_decay=0.1)"},
    "fedavg+clip(max_norm=5)": {"participation": 0.3},  # two clients: of three processes, one has none
    "smofi(alpha=-0.3)": {"participation": 0.3},
    "clip(max_norm=0.2)+sflv2('step')": {"participation": 0.3},
    "fednag+sflv2('step')": {},
    "clip(max_norm=0.3)+sflv2('step')": {"cut": (0, 1)},
    "fedprox(mu=0.1)+mergesfl(steps=4)": {"cut": (0, 1), "speeds": [1, 0.5, 0.25, 1, 2, 1, 0.6]},
}

FAMILIES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "mlp": ((6,), {"width": 5}),
    "cnn": ((1, 8, 8), {"width": 2}),
    "resnet8": ((1, 8, 8), {"width": 2}),
    "resnet18": ((1, 8, 8), {"width": 2, "norm": "group"}),
    "vgg11": ((1, 32, 32), {"width": 2}),
    "mobilenetv2": ((1, 16, 16), {"width": 2}),
    "densenet121": ((1, 8, 8), {"width": 2}),
    "transformer": ((5,), {"width": 4}),
}
"""Each with SMoFi; its input and how small it is."""

SPLIT = "split "
"""In front of a case: executed for real, over a wire that changes nothing."""

SIZES = (4, 9, 21, 5, 13, 8, 30)
MANY = (4, 9, 21, 5, 13, 8, 30, 6, 17, 4, 12, 25, 5, 9, 13, 7, 20, 11, 4)
CROWD = 4 * MANY
"""More clients than are computed at once."""


def deadline(*lengths: float) -> Timing:
    """Devices that take so long for a sample, and who is not done after 40 s is late for the next step."""
    return Timing("paper", [Device(length, 1e15, 1e15) for length in lengths], step_deadline=40.0)


LATE = deadline(1.0, 4.3, 1.5, 9.0, 2.5, 1.1, 3.4)


class Contiguous(nn.Module):
    """Its output lies in memory channel after channel, not channels-last."""

    def forward(self, x: Tensor) -> Tensor:
        return x.contiguous()


def in_double(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss of another type than the weights."""
    return nn.functional.cross_entropy(outputs.double(), targets)


CIRCUMSTANCES: dict[str, dict[str, Any]] = {
    "contiguous, sflv2": {"method": "sflv2('step')", "layer": Contiguous},
    "contiguous, mergesfl": {"method": "mergesfl", "layer": Contiguous},
    "random, sflv2": {"method": "sflv2('step')", "layer": nn.RReLU},
    "random, mergesfl": {"method": "mergesfl", "layer": nn.RReLU, "cut": (0, 1)},
    "random, smofi": {"method": "smofi", "layer": nn.RReLU, "cut": 1},
    "loss in double": {"method": "fedavg", "loss": in_double},
    "late": {"method": "smofi(alpha=-1)", "clock": LATE, "participation": 1.0},
    "late, own cuts, adam": {
        "method": "smofi", "clock": LATE, "cut": [0, 1, 0, 1, 1, 0, 1], "optimizer": "adam(lr=0.01)",
    },
    "late, sflv1": {"method": "sflv1", "clock": LATE, "participation": 1.0, "local_epochs": 2},
    "late, U shape": {"method": "smofi(alpha=-0.5)", "clock": LATE, "cut": (0, 1)},
    "own U shapes": {"method": "smofi", "cut": [(0, 1), 1, (0, 1), (1, 0), 0, 1, (0, 1)]},
    "own cuts, sflv1": {"method": "sflv1", "cut": [0, 1, 0, 1, 1, 0, 1], "participation": 1.0},
    "many": {"method": "smofi", "sizes": MANY, "participation": 1.0},
    "many, fedavg": {"method": "fedavgm(momentum=0.3)", "sizes": MANY, "participation": 1.0},
    "many, sflv1": {"method": "sflv1", "sizes": MANY, "participation": 0.7},
    "many, fednag, adam": {"method": "fednag", "sizes": MANY, "optimizer": "adam(lr=0.01)"},
    "many, mergesfl": {"method": "mergesfl", "sizes": MANY},
    "one client": {"method": "fedavg", "participation": 0.1},
    "one client, smofi": {"method": "smofi", "participation": 0.1},
    "wire": {"method": "smofi", "wire": "int8"},
    "wire, U shape": {"method": "fedprox(mu=0.1)+smofi", "wire": "float16", "cut": (0, 1)},
    "wire, sflv2": {"method": "sflv2('step')", "wire": "bf16"},
    "wire, late": {"method": "smofi(alpha=-1)", "wire": "float16", "clock": LATE},
    "nesterov, fednar, sflv1": {
        "method": "fednar(max_norm=0.5)+sflv1", "optimizer": "sgd(lr=0.05, momentum=0.9, nesterov=True)",
    },
    "momentum carried by client-wise sflv2": {"method": "fednag+sflv2"},
    "augmented": {"method": "smofi", "augment": "crop(1)+flip"},
    "mixed precision": {"method": "smofi", "precision": "bf16"},
    "diverging": {"method": "smofi", "optimizer": "sgd(lr=10, momentum=0.9)", "rounds": 3},
    "validated": {"method": "sflv1", "validated": True, "patience": 1, "rounds": 4},
    "at least three": {"method": "smofi", "executor": "vmap(at_least=3)", "sizes": MANY, "participation": 0.5},
    "at least three, late": {"method": "sflv1", "executor": "vmap(at_least=3)", "clock": LATE},
    "crowd": {"method": "smofi", "sizes": CROWD, "participation": 1.0},
    "crowd, fedavg": {"method": "fedavg", "sizes": CROWD, "participation": 1.0},
}  # fmt: skip
"""What else rounds may be like; the first few are quick to tell."""


def direct(tensor: Tensor, direction: str, client: int) -> Tensor:
    """A wire that changes nothing."""
    return tensor


def model(dtype: torch.dtype = torch.float64, layer: type[nn.Module] = nn.Identity) -> nn.Sequential:
    """Convolutions with BatchNorm, dropout and a linear layer, and one more layer of a kind in each block."""
    torch.manual_seed(0)
    block = [nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2)]
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), layer()),
        nn.Sequential(*block, layer()),
        nn.Sequential(layer(), nn.Flatten(), nn.Linear(4 * 16, 3)),
    ).to(dtype)


def federation(dtype: torch.dtype = torch.float64, sizes: tuple[int, ...] = SIZES) -> tuple[list[Pair], Pair]:
    """Clients of very different size, seven or as many as one likes, and test data for several batches."""
    draw = torch.Generator().manual_seed(1)

    def samples(count: int) -> Pair:
        x = torch.randn(count, 1, 4, 4, generator=draw, dtype=torch.float64)
        return x.to(dtype), torch.randint(3, (count,), generator=draw)

    return [samples(size) for size in sizes], samples(1203)


def family(name: str, dtype: torch.dtype = torch.float64) -> tuple[nn.Sequential, list[Pair]]:
    """A model of this family and three clients for it."""
    shape, options = FAMILIES[name]
    draw = torch.Generator().manual_seed(0)

    def samples(count: int) -> Pair:
        targets = torch.randint(3, (count,), generator=draw)
        if name == "transformer":
            return torch.randint(3, (count, *shape), generator=draw), targets
        return torch.randn(count, *shape, generator=draw, dtype=torch.float64).to(dtype), targets

    built = models.build(name, seed=0, input_shape=shape, classes=3, **options)
    return built.to(dtype), [samples(count) for count in (4, 9, 5)]


def prepared(case: str, dtype: torch.dtype, **how: Any) -> Session:
    """Two rounds of a method or of a circumstance, or as many as it says, or one of a family."""
    how = {"batch_size": 4, "local_epochs": 1, **how}
    if case.startswith(SPLIT):
        case, how = case.removeprefix(SPLIT), how | {"wire": direct}
    name, _, method = case.partition(" with ")
    if name in FAMILIES:
        built, few = family(name, dtype)
        how |= {"rounds": 1, "participation": 1.0, "method": method or "smofi"}
        return smofi.prepare(built, few, few[0], **how)
    changes = {"method": case, **CASES[case]} if case in CASES else dict(CIRCUMSTANCES[case])
    clients, test = federation(dtype, changes.pop("sizes", SIZES))
    settings: dict[str, Any] = {"rounds": 2, "participation": 0.8, "seed": 3}
    settings |= {"metrics": ("top1", "macro_f1", "per_client")}
    if changes.pop("validated", False):
        settings["validation"] = test
    layer = changes.pop("layer", nn.Identity)
    return smofi.prepare(model(dtype, layer), clients, test, **settings | how | changes)


def outcome(session: Session) -> dict[str, Tensor]:
    """Train; the state by its names, the history and why it ended as text, and its most important numbers."""
    result = session.train()
    history = result.history
    records = [{key: value for key, value in asdict(one).items() if key != "seconds"} for one in history]
    text = json.dumps([*records, result.stopped])
    evaluated = [record for record in history if record.evaluated]
    numbers = [(r.accuracy, r.loss, r.train_loss, *r.metrics.get("per_client", [])) for r in evaluated]
    return {
        **session.run.state.tensors(),
        "history": torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8),
        "numbers": torch.tensor(numbers, dtype=torch.float64),
    }


def outcomes(asked: argparse.Namespace, workers: Workers) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """Case by case; workers are forked when all is prepared. Every worker must end in the state of the first."""
    how: dict[str, Any] = {"workers": workers, "executor": asked.executor}
    how |= {"wire": direct} if asked.direct else {}
    how |= {} if asked.seed is None else {"seed": asked.seed}
    sessions = {case: prepared(case, getattr(torch, asked.dtype), **how) for case in asked.only}
    if isinstance(workers, ForkedWorkers):
        workers.fork()
    for case, session in sessions.items():
        found = outcome(session)
        own = torch.tensor(list(digest(session.run.state.tensors())))
        others = workers.sum((own != workers.copy(own.clone())).any().long())
        if others:
            raise SystemExit(f"{case}: {int(others)} workers ended in another state than the first")
        yield case, found


def digest(tensors: dict[str, Tensor]) -> bytes:
    """A hash of their bits."""
    return hashlib.sha256(b"".join(tensor.cpu().numpy().tobytes() for tensor in tensors.values())).digest()


def one_server(case: str) -> bool:
    """Whether a case has a single server model, so that its clients are never computed at once."""
    named = CIRCUMSTANCES.get(case, {}).get("method", case)
    return case not in FAMILIES and parse_method(named).where.one_server


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--workers", nargs="+", type=int, default=[1])
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--executor", default="loop")
    parser.add_argument("--direct", action="store_true", help="execute the split, over a wire that changes nothing")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", nargs="+", default=[*CASES, *FAMILIES])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.workers == [1]:
        write(asked, joined(torch.device("cpu")), asked.output)
        return
    # each is forked from here, so that what torch does only once is done once
    outcome(prepared("fedavg", getattr(torch, asked.dtype), executor=asked.executor))
    for size in asked.workers:
        first = os.fork()
        if not first:
            write(asked, ForkedWorkers(size), f"{asked.output}-{size}")
            return
        if os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]):
            raise SystemExit(f"{size} workers failed")


def write(asked: argparse.Namespace, workers: Workers, output: str) -> None:
    """Everything that comes out, into one file."""
    found = {
        f"{case}: {name}": tensor.clone()
        for case, tensors in outcomes(asked, workers)
        for name, tensor in tensors.items()
    }
    if workers.rank == 0:
        save_file(found, output)


if __name__ == "__main__":
    main()
