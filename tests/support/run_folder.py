"""Run folders as a run leaves them, small and quick."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch import Tensor, nn

import smofi
from smofi import data, models
from smofi.flat import Layout
from smofi.runs import RunFolder, RunWriter, StoredCheckpoint
from smofi.runs.folder import MANIFEST, METRICS, Checksum, Manifest, SavedRounds

SETTINGS: dict[str, Any] = {
    "data": "digits",
    "clients": 4,
    "partition": "iid",
    "model": "resnet8",
    "width": 8,
    "norm": "batch",
    "method": ["fedprox(mu=0.01)+smofi"],
    "optimizer": "sgd(lr=0.05, momentum=0.9)",
    "cut": "1",
    "rounds": 1,
    "participation": 0.5,
    "local_epochs": 1,
    "batch_size": 16,
    "seed": 3,
}
_TRAINED: dict[Any, smofi.Result] = {}  # by settings: the folders of many tests hold the same run


def train(settings: dict[str, Any]) -> smofi.Result:
    key = tuple((name, str(value)) for name, value in settings.items())
    if key not in _TRAINED:
        source = data.load(settings["data"])
        parts = data.partition(
            source.train.labels.numpy(), settings["clients"], settings["partition"], min_size=16, seed=settings["seed"]
        )
        _TRAINED[key] = smofi.train(
            initial(settings),
            [source.train[part] for part in parts],
            source.test,
            method=settings["method"][0],
            optimizer=settings["optimizer"],
            **{
                name: settings[name]
                for name in ("cut", "rounds", "participation", "local_epochs", "batch_size", "seed")
            },
        )
    return _TRAINED[key]


def initial(settings: dict[str, Any]) -> nn.Sequential:
    names = ("seed", "width", "norm")
    return models.build(settings["model"], input_shape=(1, 8, 8), classes=10, **{n: settings[n] for n in names})


def write_run(
    path: Path, settings: str, records: Iterable[Mapping[str, Any]] = (), about: Mapping[str, Any] | None = None
) -> RunWriter:
    """Make `path` hold a run with these settings and rounds, as a run writes them; the writer can add more."""
    path.mkdir(parents=True)
    writer = RunWriter(RunFolder(path))
    writer.describe(settings, about or {}, np.array([0, 1, 0], dtype=np.int32), np.array([4, 5, 6]))
    writer.write_records(records)
    return writer


def write_comparison(path: Path, settings: str, runs: Sequence[str]) -> None:
    """Make `path` compare these runs, which are in folders below it."""
    compared = {name: RunFolder(path / name).manifest().run for name in runs}
    RunWriter(RunFolder(path)).describe_comparison(settings, compared)


def rewritten(path: Path, name: str, content: bytes) -> None:
    """Change a file of a run and list it in the manifest as if the run had saved it: a forgery, to see what follows."""
    manifest = Manifest.read(path / MANIFEST)
    if name == METRICS:
        manifest = replace(manifest, saved=[SavedRounds(content.count(b"\n"), Checksum.of(content))])
    else:
        manifest = replace(manifest, files={**manifest.files, name: [Checksum.of(content)]})
    (path / name).write_bytes(content)
    (path / MANIFEST).write_bytes(manifest.encode())


def going_on(path: Path) -> RunWriter:
    """The writer of the run in a folder, with all its rounds on record."""
    writer = RunWriter(RunFolder(path))
    writer.write_records(writer.folder.records())
    return writer


def finished(folder: Path, **changes: Any) -> nn.Sequential:
    """Make `folder` hold a finished run; the model it ended with."""
    result, writer = _begun(folder, SETTINGS | changes)
    writer.write_end(result.model.state_dict(), {"rounds": len(result.history), "stopped": None, "diverged": False})
    assert isinstance(result.model, nn.Sequential)
    return result.model.eval()


def unfinished(folder: Path, rounds: Sequence[int] = (1,)) -> nn.Sequential:
    """Make `folder` hold a run with checkpoints only, those of earlier rounds with zeros for weights."""
    result, writer = _begun(folder, SETTINGS, repeat=max(rounds))
    assert isinstance(result.model, nn.Sequential)
    model = result.model.eval()
    weights, statistics = Layout.of(model).pack(model)
    for round in rounds:
        scale = float(round == max(rounds))
        tensors = {"weights": weights * scale, "statistics": statistics}
        writer.save(StoredCheckpoint(round, tensors, {}), keep=2)
    return model


def _begun(folder: Path, settings: dict[str, Any], repeat: int = 1) -> tuple[smofi.Result, RunWriter]:
    result, source = train(settings), data.load(settings["data"])
    records = [asdict(result.history[0]) | {"round": number} for number in range(1, repeat + 1)]
    return result, write_run(folder, yaml.safe_dump(settings), records, {"task": source.task()})


def images(count: int) -> Tensor:
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(count))
