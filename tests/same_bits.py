"""Whether a change leaves every result the same to the bit: many tiny runs, and a hash of what each of them gives.

    python tests/same_bits.py record before.json              before the change
    python tests/same_bits.py compare before.json             after it: says which runs differ, and exits 1 if any do
    python tests/same_bits.py compare before.json --only cut  only the runs with "cut" in their name

A run's hashes are one of its final weights and one of its history without wall-clock times. They depend on the machine,
on its processor and on the build of torch, so none are kept with the code: record and compare on one machine, in one
environment. Only the public interface is used, `smofi.train` and the command `smofi run`, for what lies behind it may
move. All of it takes about three minutes on one core.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import Dataset

import smofi
from smofi import models

ROOT = Path(__file__).parent.parent
Hashes = dict[str, str]
"""Of one case: {"weights": ..., "history": ...}, or {"error": ...} if it could not be run."""

Pair = tuple[Tensor, Tensor]

# -------------------------------------------------------------------------------------------------- what is hashed

FIELDS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    name: itemgetter(name)
    for name in (
        *("round", "accuracy", "loss", "train_loss", "selected", "steps", "learning_rate", "cut", "metrics"),
        *("validation", "diagnostics", "virtual_seconds", "virtual_end", "bytes_up", "bytes_down", "idle", "left_out"),
    )
}
"""How to find each field in a record, as a dictionary. If one is renamed, only its entry here changes, not its hash."""


def hash_of_weights(state: Mapping[str, Tensor]) -> str:
    """Of all tensors in their order: type, shape and bytes. Their names are left out."""
    found = hashlib.sha256()
    for tensor in state.values():
        found.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def hash_of_history(records: Sequence[Mapping[str, Any]], *more: object) -> str:
    """Of all fields of all records, every digit of every number."""
    values = [[plain(of(record)) for of in FIELDS.values()] for record in records]
    return hashlib.sha256(repr([values, *more]).encode()).hexdigest()


def plain(value: Any) -> Any:
    """A value whose `repr` does not depend on the kind of sequence or number, nor on the order of a dictionary.

    >>> plain({"b": (1, 2.5), "a": torch.tensor([1.0])})
    [('a', [1.0]), ('b', [1, 2.5])]
    """
    if isinstance(value, Mapping):
        return sorted((str(key), plain(one)) for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return plain(value.tolist()) if hasattr(value, "tolist") else value


# ---------------------------------------------------------------------------------------------- data and models

SIZES = (5, 9, 3, 17, 13, 8)
"""Samples of each client; with batches of four, the third has too few to take part."""

IMAGE, VECTOR, TOKENS, CLASSES = (1, 8, 8), (6,), (5,), 3


def samples(size: int, shape: Sequence[int], draw: torch.Generator) -> Pair:
    """Inputs with an offset of their own, and labels from a mix of their own; shape `TOKENS` gives whole numbers."""
    labels = torch.multinomial(torch.rand(CLASSES, generator=draw) + 0.05, size, replacement=True, generator=draw)
    if tuple(shape) == TOKENS:
        return torch.randint(CLASSES, (size, *shape), generator=draw), labels
    offset = 0.5 * torch.randn(tuple(shape), generator=draw)
    inputs = torch.randn((size, *shape), generator=draw) + offset + 0.5 * labels.view(-1, *[1] * len(shape))
    return inputs, labels


class Rows(Dataset[Any]):
    """A client whose samples are read one at a time."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    def __len__(self) -> int:
        return len(self.pair[0])

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.pair[0][index], int(self.pair[1][index])


def normed(norm: str = "batch", dropout: float = 0.0) -> nn.Sequential:
    """Convolutions with a normalisation in all blocks but the last; three core blocks."""
    torch.manual_seed(2)

    def block(inputs: int, outputs: int) -> nn.Sequential:
        layer = nn.BatchNorm2d(outputs) if norm == "batch" else nn.GroupNorm(2, outputs)
        last = [nn.Dropout(dropout)] if dropout else []
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), layer, nn.ReLU(), *last)

    output = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, CLASSES))
    return nn.Sequential(block(1, 4), block(4, 4), block(4, 4), block(4, 4), output)


def double_network(input_shape: Sequence[int], classes: int) -> nn.Sequential:
    """A model in double precision with dropout and BatchNorm, for the command: `python:same_bits:double_network`."""
    torch.manual_seed(2)
    middle = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2))
    output = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, classes))
    return nn.Sequential(nn.Conv2d(input_shape[0], 3, 3, padding=1), middle, output).double()


def built(name: str, shape: Sequence[int] = IMAGE, **options: Any) -> nn.Sequential:
    return models.build(name, seed=1, input_shape=shape, classes=CLASSES, **options)


NETWORKS: dict[str, tuple[Callable[[], nn.Sequential], Sequence[int]]] = {
    "mlp": (partial(built, "mlp", VECTOR, width=5), VECTOR),
    "cnn": (partial(built, "cnn", width=2), IMAGE),
    "batchnorm": (normed, IMAGE),
    "groupnorm": (partial(normed, "group"), IMAGE),
    "dropout": (partial(normed, "group", 0.3), IMAGE),
    "float64": (lambda: normed().double(), IMAGE),
    "transformer": (partial(built, "transformer", TOKENS, width=4), TOKENS),
    "resnet8": (partial(built, "resnet8", width=2), IMAGE),
    "resnet8-group": (partial(built, "resnet8", width=2, norm="group"), IMAGE),
    "mobilenetv2": (partial(built, "mobilenetv2", (1, 16, 16), width=4), (1, 16, 16)),
    "vgg11": (partial(built, "vgg11", (1, 32, 32), width=2), (1, 32, 32)),
    "densenet121": (partial(built, "densenet121", width=2), IMAGE),
}


# ------------------------------------------------------------------------------------------- runs in this process


def with_lr_decay(kind: str, factor: float, **settings: Any) -> Any:
    """An optimizer whose learning rate decays: the argument is `lr_decay`, and was `decay` in older versions."""
    make = getattr(smofi, kind)
    try:
        return make(lr_decay=factor, **settings)
    except TypeError:
        return make(decay=factor, **settings)


OPTIMIZERS: dict[str, Any] = {
    "sgd": smofi.sgd(lr=0.1),
    "momentum": smofi.sgd(lr=0.05, momentum=0.9),
    "nesterov": smofi.sgd(lr=0.05, momentum=0.8, nesterov=True),
    "weight decay": smofi.sgd(lr=0.05, momentum=0.9, weight_decay=0.02),
    "lr decay": with_lr_decay("sgd", 0.8, lr=0.05, momentum=0.9),
    "adam": with_lr_decay("adam", 0.8, lr=0.02, betas=(0.8, 0.95), weight_decay=0.02),
    "adamw": with_lr_decay("adamw", 0.8, lr=0.02, betas=(0.8, 0.95), weight_decay=0.2),
}


def trained(
    network: str = "mlp",
    optimizer: str = "weight decay",
    *,
    as_dataset: bool = False,
    validated: bool = False,
    **settings: Any,
) -> Hashes:
    """One run in this process: six clients, three of them a round, three rounds unless `settings` say otherwise."""
    make, shape = NETWORKS[network]
    draw = torch.Generator().manual_seed(3)
    clients: list[Any] = [samples(size, shape, draw) for size in SIZES]
    test, validation = samples(40, shape, draw), samples(20, shape, draw)
    if as_dataset:
        clients = [Rows(pair) for pair in clients]
    usual = {"rounds": 3, "participation": 0.5, "local_epochs": 2, "batch_size": 4, "seed": 5, "cut": 1}
    settings = usual | settings | ({"validation": validation} if validated else {})
    result = smofi.train(make(), clients, test, optimizer=OPTIMIZERS[optimizer], **settings)
    records = [dataclasses.asdict(record) for record in result.history]
    ending = result.stopped is not None, result.diverged, result.interrupted
    return {"weights": hash_of_weights(result.model.state_dict()), "history": hash_of_history(records, *ending)}


SEPARATE = ("smofi", "fedavg", "sflv1")  # a server model per client: these can be computed many at once
ONE_SERVER = ("sflv2(turns='step')", "mergesfl")
MAIN = SEPARATE + ONE_SERVER

BASES = ("fedavg", "fedprox(0.5)", "fednar(max_norm=0.4)", "fednar(max_norm=0.2, scope='part')", "fednar(0.3, 0.4)")
CLIPS = ("clip(0.3)", "clip(0.15, scope='part')")
PLUGINS = (
    *("smofi(alpha=-0.5, global_momentum=0.3)", "smofi(alpha=-1, global_momentum=0)", "smofi(align=False)"),
    *("fedavgm(0.5)", "slowmo(0.6, 0.4)", "slowmo(0.6, 0.4, steps=5)", "fednag", "fednag(steps=3)"),
)
SURROGATES = ("sflv1('step')", "sflv1('epoch')", "sflv1('round')")
SHARED = ("sflv2('step')", "sflv2('client')", "mergesfl", "mergesfl(steps=7)")
COMPOSED = (
    *("fedprox(0.5)+smofi", "fednar(max_norm=0.4)+smofi", "fedprox(0.5)+fednar(max_norm=0.4)", "clip(0.3)+smofi"),
    *("fedprox(0.5)+clip(0.15, scope='part')+smofi", "fednar(max_norm=0.4)+clip(0.15, scope='part')"),
    *("fedprox(0.5)+fedavgm(0.5)", "fednar(max_norm=0.4)+slowmo(0.6, 0.4)", "fedprox(0.5)+fednag"),
    *("fedprox(0.5)+sflv1", "fednar(max_norm=0.2, scope='part')+sflv1('epoch')", "fedavgm(0.5)+sflv1"),
    "slowmo(0.6, 0.4, steps=5)+sflv1",
)
COMPOSED_SHARED = (
    *("fedprox(0.5)+sflv2('step')", "fednar(max_norm=0.4)+sflv2('client')", "fedavgm(0.5)+sflv2('step')"),
    *("clip(0.3)+sflv2('step')", "fednag+sflv2('step')", "slowmo(0.6, 0.4, steps=5)+sflv2('step')"),
    *("fedprox(0.5)+mergesfl", "slowmo(0.6, 0.4)+mergesfl"),
    *("fednar(max_norm=0.2, scope='part')+mergesfl", "clip(0.15, scope='part')+mergesfl", "fedavgm(0.5)+mergesfl"),
)

OWN_CUTS = [0, 2, 1, (1, 1), 3, (0, 2)]
CUTS: dict[str, Any] = {"0": 0, "3": 3, "U(0,1)": (0, 1), "U(1,2)": (1, 2), "drawn": "0-2", "own": OWN_CUTS}


def as_it_is(tensor: Tensor, direction: str, client: int) -> Tensor:
    """A wire that changes nothing."""
    return tensor.clone()


def fleet() -> list[smofi.Device]:
    """Devices of very different speed, two of which come and go."""
    comes = smofi.Presence([(0.0, 60.0), (90.0, 200.0)], period=240.0)
    leaves = smofi.Presence([(0.0, 25.0), (100.0, 130.0)], period=150.0)
    steady = [smofi.Device(seconds, 500.0 / seconds, 900.0) for seconds in (0.1, 0.25, 0.3, 0.8)]
    return [*steady, smofi.Device(0.2, 1e3, 2e3, comes), smofi.Device(0.4, 400.0, 800.0, leaves)]


STEADY = [smofi.Device(seconds, 500.0 / seconds, 900.0) for seconds in (0.1, 0.25, 0.3, 0.8, 0.2, 0.4)]
CLOCKS: dict[str, Any] = {
    "paper": "paper",
    "full": "full",
    "phones that come and go": smofi.Timing("full", availability="phones"),
    "own devices that come and go": smofi.Timing("paper", devices=fleet()),
    "narrow server": smofi.Timing("full", devices=STEADY, server_parallel=1, server_speedup=2.0),
    "deadline": smofi.Timing("full", devices=STEADY, step_deadline=4.0),
    "deadline and leaving": smofi.Timing("paper", devices=fleet(), step_deadline=3.0),
}


def methods_and_optimizers() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every method and composition, every optimizer, by both executors where there are two."""
    for method in (*BASES, *CLIPS, *PLUGINS, *SURROGATES, *COMPOSED):
        for executor in ("loop", "vmap"):
            yield f"method/{method}/{executor}", dict(method=method, network="batchnorm", executor=executor)
    for method in (*SHARED, *COMPOSED_SHARED):
        yield f"method/{method}", dict(method=method, network="batchnorm")
    for optimizer in OPTIMIZERS:
        for method in (*MAIN, "fednag", "clip(0.3)", "fednar(max_norm=0.4)"):
            yield f"optimizer/{optimizer}/{method}", dict(method=method, optimizer=optimizer)
        for method in (*SEPARATE, "fednag"):
            yield f"optimizer/{optimizer}/{method}/vmap", dict(method=method, optimizer=optimizer, executor="vmap")


def cuts_and_wires() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every kind of cut, by both executors, and with a wire, so that the split is real."""
    for name, cut in CUTS.items():
        for method in SEPARATE if name == "own" else MAIN:
            yield f"cut/{name}/{method}", dict(method=method, cut=cut, network="batchnorm")
        for method in ("smofi", "sflv1"):
            yield f"cut/{name}/{method}/vmap", dict(method=method, cut=cut, network="batchnorm", executor="vmap")
        for method in ("smofi", "fednag") if name in ("drawn", "own") else ():
            yield f"cut/{name}/{method}/adam", dict(method=method, cut=cut, network="batchnorm", optimizer="adam")
    for method in MAIN:
        for name, wire in {"int8": "int8", "float16": "float16", "function": as_it_is}.items():
            yield f"wire/{name}/{method}", dict(method=method, wire=wire, network="cnn")
        yield f"wire/function/U(1,1)/{method}", dict(method=method, wire=as_it_is, network="cnn", cut=(1, 1))
    yield "wire/function/own/smofi", dict(method="smofi", wire=as_it_is, network="batchnorm", cut=OWN_CUTS)


def networks_and_data() -> Iterator[tuple[str, dict[str, Any]]]:
    """Kinds of models, precision, images that are varied, data sets, clients of different speeds."""
    for network in NETWORKS:
        deep = network in ("resnet8-group", "mobilenetv2", "vgg11", "densenet121")
        for method in ("smofi",) if deep else MAIN:
            yield f"model/{network}/{method}", dict(method=method, network=network, rounds=2)
        for method in () if network in ("vgg11", "densenet121") else ("smofi", "fedavg"):
            yield f"model/{network}/{method}/vmap", dict(method=method, network=network, rounds=2, executor="vmap")
    for method in MAIN:
        yield f"bf16/{method}", dict(method=method, network="cnn", precision="bf16")
        yield f"augment/{method}", dict(method=method, network="cnn", augment="crop(1)+flip")
        yield f"dataset/{method}", dict(method=method, network="cnn", as_dataset=True)
    for method in ("smofi", "fedavg"):
        yield f"bf16/{method}/vmap", dict(method=method, network="cnn", precision="bf16", executor="vmap")
        yield f"augment/{method}/vmap", dict(method=method, network="cnn", augment="crop(1)+flip", executor="vmap")
        yield f"dataset/{method}/vmap", dict(method=method, network="cnn", as_dataset=True, executor="vmap")
    speeds = [1.0, 0.7, 5.0, 0.4, 0.3, 0.05]
    for method in ("mergesfl", "mergesfl(steps=6)", "mergesfl(bandwidth=200)"):
        yield f"speeds/{method}", dict(method=method, speeds=speeds, participation=1.0)


def rounds_and_clocks() -> Iterator[tuple[str, dict[str, Any]]]:
    """What is measured and when, when a run stops, how many take part, virtual time."""
    for method in MAIN:
        yield f"all clients/{method}", dict(method=method, participation=1.0)
        yield f"one client/{method}", dict(method=method, participation=0.1)
        yield f"diagnose/{method}", dict(method=method, network="batchnorm", diagnose=True)
        yield f"metrics/{method}", dict(method=method, metrics=["top1", "macro_f1", "per_client", "worst_client"])
    for method in ("smofi", "fedavg"):
        stopping = dict(validated=True, patience=1, rounds=8)
        yield f"validation/{method}", dict(method=method, validated=True)
        yield f"patience/{method}", dict(method=method, network="cnn", **stopping)
        yield f"target/{method}", dict(method=method, target_accuracy=0.3)
        yield f"eval_every/{method}", dict(method=method, eval_every=2)
        yield f"eval_every/validation/{method}", dict(method=method, eval_every=2, rounds=4, validated=True)
        # whether a smaller one would do depends on the memory that this process has by then
        for executor in ("loop", "vmap"):
            yield f"memory_limit/{method}/{executor}", dict(method=method, memory_limit="64GB", executor=executor)
    for name, clock in CLOCKS.items():
        for method in (*MAIN, "sflv1('epoch')", "sflv2('client')"):
            shared: dict[str, Any] = dict(method=method, clock=clock, network="cnn", participation=0.8)
            yield f"clock/{name}/{method}", shared
        yield f"clock/{name}/smofi/vmap", shared | dict(method="smofi", executor="vmap")


# ------------------------------------------------------------------------------------------ runs of the command

TINY = "--max-train 240 --max-test 60 --clients 10 --partition dirichlet(0.5) --participation 0.5 --local-epochs 1"
TINY += " --batch-size 8 --rounds 2 --seed 3 --display quiet"
SMALL = "--model cnn --width 2"
CNN = f"{SMALL} --cut 1"
DOUBLE = "--model python:same_bits:double_network --cut 0"
OTHERS = ("fedprox(mu=0.5)", "slowmo(lr=0.6, momentum=0.4)", "fednag", "sflv1(period='epoch')", "sflv2(turns='client')")
"""Written out, as the run folder's configuration has them."""


@dataclasses.dataclass(frozen=True)
class Command:
    """One `smofi run`, with as many workers as it says; each of its methods is a case. `then` resumes it."""

    name: str
    flags: str
    methods: Sequence[str] = MAIN
    workers: int = 2
    start: str = "fork"
    then: str = ""

    @property
    def cases(self) -> list[str]:
        return [f"command/{self.name}/{method}" for method in self.methods]

    def run(self) -> dict[str, Hashes]:
        with tempfile.TemporaryDirectory() as folder:
            asked = [word for method in self.methods for word in ("--method", method)]
            self._smofi([*TINY.split(), *self.flags.split(), *asked, "--output", folder])
            if self.then:
                self._smofi(["--resume", folder, "--display", "quiet", *self.then.split()])
            found = dict(map(method_and_hashes, Path(folder).rglob("model.safetensors")))
        return {case: found[method] for case, method in zip(self.cases, self.methods, strict=True)}

    def _smofi(self, arguments: Sequence[str]) -> None:
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        environment = {**os.environ, "PYTHONPATH": paths, "SMOFI_START": self.start, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "smofi", "run", *arguments, "--workers", str(self.workers)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise RuntimeError(f"smofi run ended with {done.returncode}: {done.stderr.strip()}")


def method_and_hashes(weights: Path) -> tuple[str, Hashes]:
    """Of a run's folder, from the file with its weights."""
    config = yaml.safe_load((weights.parent / "config.yaml").read_text())
    records = [json.loads(line) for line in (weights.parent / "metrics.jsonl").read_text().splitlines()]
    hashes = {"weights": hash_of_weights(load_file(weights)), "history": hash_of_history(records)}
    (method,) = [config["method"]] if isinstance(config["method"], str) else config["method"]
    return method, hashes


COMMANDS = (
    Command("one worker", f"{CNN} --executor loop", (*MAIN, *OTHERS), workers=1),
    Command("forked", f"{CNN} --executor loop", (*MAIN, *OTHERS)),
    Command(
        "forked, drawn cuts",
        f"{SMALL} --executor vmap --cut 0-2",
        ("smofi", "fedavg", "fednag", "sflv1", "sflv2(turns='step')"),
    ),
    Command("forked, U shape", f"{SMALL} --executor loop --cut 1,1 --optimizer adam(lr=0.01)"),
    Command("forked, float64", f"{DOUBLE} --executor loop"),
    Command("forked, vmap, float64", f"{DOUBLE} --executor vmap", SEPARATE),
    Command("forked, int8", f"{CNN} --executor loop --wire int8 --augment crop(1)+flip"),
    Command("forked, clock", f"{CNN} --executor loop --clock full --step-deadline 0.0005 --validation 0.2"),
    Command(
        "forked, resumed",
        f"{CNN} --executor loop --checkpoint-every 1",
        ("smofi", "sflv2(turns='step')"),
        then="--rounds 3",
    ),
    Command("one worker, resumed", f"{CNN} --executor loop", ("smofi", "fednag"), workers=1, then="--rounds 3"),
    Command("spawned", f"{CNN} --executor loop", (*MAIN, "fednag"), start="spawn"),
    Command("spawned, vmap, float64", f"{DOUBLE} --executor vmap", SEPARATE, start="spawn"),
)

# ------------------------------------------------------------------------------------------- record and compare


@dataclasses.dataclass(frozen=True)
class Job:
    """What is run in one go, and the cases that it gives the hashes of."""

    cases: Sequence[str]
    run: Callable[[], dict[str, Hashes]]


def jobs(only: str) -> list[Job]:
    """Those with a case that matches the pattern."""
    found = [Job([name], partial(alone, name, settings)) for name, settings in settings_of_cases()]
    found += [Job(command.cases, command.run) for command in COMMANDS]
    return [job for job in found if any(matches(case, only) for case in job.cases)]


def settings_of_cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of every run in this process, and the arguments of `trained`."""
    for family in (methods_and_optimizers, cuts_and_wires, networks_and_data, rounds_and_clocks):
        yield from family()


def alone(name: str, settings: dict[str, Any]) -> dict[str, Hashes]:
    return {name: trained(**settings)}


def matches(case: str, only: str) -> bool:
    """Whether a name is asked for: by a part of it, or by a pattern with * for anything.

    >>> matches("cut/0/smofi", "smofi"), matches("cut/0/smofi", "cut/*/sflv1"), matches("cut/0/smofi", "")
    (True, False, True)
    """
    return only in case or fnmatch.fnmatchcase(case, only)


def run_all(only: str) -> dict[str, Hashes]:
    """The hashes of all cases that match. One that fails has its error instead, and the others go on."""
    found: dict[str, Hashes] = {}
    with own_surroundings():
        for job in jobs(only):
            began = time.perf_counter()
            try:
                hashes = job.run()
            except Exception as error:  # whatever it is, it is a difference to be told of
                hashes = {case: {"error": f"{type(error).__name__}: {error}"} for case in job.cases}
            found |= {case: one for case, one in hashes.items() if matches(case, only)}
            sys.stderr.write(f"{time.perf_counter() - began:6.2f} s  {', '.join(job.cases)}\n")
    return found


@contextmanager
def own_surroundings() -> Iterator[None]:
    """One thread, and nothing remembered from other runs."""
    before, threads = dict(os.environ), torch.get_num_threads()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(SMOFI_DATA=folder, OMP_NUM_THREADS="1")
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            os.environ.clear()
            os.environ.update(before)


def record(file: Path, only: str) -> int:
    """Write the hashes to a file; 1 if a case could not be run."""
    found = run_all(only)
    file.write_text(json.dumps(found, indent=1) + "\n")
    failed = [f"{case}: {hashes['error']}" for case, hashes in found.items() if "error" in hashes]
    report([*failed, f"{len(found)} cases recorded in {file}, {len(failed)} of them failed"])
    return 1 if failed else 0


def compare(file: Path, only: str) -> int:
    """Say which cases differ from those of the file; 1 if any do."""
    before = {case: hashes for case, hashes in json.loads(file.read_text()).items() if matches(case, only)}
    after = run_all(only)
    told = [line for case in before | after if (line := difference(case, before.get(case), after.get(case)))]
    report([*told, f"{len(before | after)} cases compared, {len(told)} differ"])
    return 1 if told else 0


def difference(case: str, before: Hashes | None, after: Hashes | None) -> str:
    """What has become of a case, in a line; empty if it is the same.

    >>> difference("cut/0/smofi", {"weights": "a", "history": "b"}, {"weights": "a", "history": "c"})
    'cut/0/smofi: history differs'
    """
    if before is None or after is None:
        return f"{case}: {'not in the file' if before is None else 'in the file, but no longer run'}"
    if "error" in before or "error" in after:
        return f"{case}: failed {'before' if 'error' in before else 'now'}: {(before | after)['error']}"
    changed = [what for what in before if before[what] != after[what]]
    return f"{case}: {' and '.join(changed)} {'differs' if changed == ['history'] else 'differ'}" if changed else ""


def report(lines: Sequence[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; returns its exit code."""
    about, _, usage = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=about, epilog=usage, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("record", "compare"), help="write the hashes to FILE, or compare with it")
    parser.add_argument("file", type=Path, metavar="FILE", help="a JSON file with the hashes of every case")
    parser.add_argument("--only", default="", metavar="PATTERN", help="only cases with this in their name, or as cut/*")
    asked = parser.parse_args(arguments)
    return (record if asked.what == "record" else compare)(asked.file, asked.only)


if __name__ == "__main__":
    sys.exit(main())
