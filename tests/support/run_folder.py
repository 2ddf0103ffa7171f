"""Run folders as a run leaves them, small and quick."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import save_file
from torch import Tensor, nn

import smofi
from smofi import data, models
from smofi.flat import Layout
from smofi.runs import RunFolder, StoredCheckpoint, write_checkpoint

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


def finished(folder: Path, **changes: Any) -> nn.Sequential:
    """Make `folder` hold a finished run; the model it ended with."""
    settings = SETTINGS | changes
    result = train(settings)
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(asdict(record)) + "\n" for record in result.history))
    save_file({name: t.contiguous() for name, t in result.model.state_dict().items()}, folder / "model.safetensors")
    assert isinstance(result.model, nn.Sequential)
    return result.model.eval()


def unfinished(folder: Path, rounds: Sequence[int] = (1,)) -> nn.Sequential:
    """Make `folder` hold a run with checkpoints only, those of earlier rounds with zeros for weights."""
    model = finished(folder)
    (folder / "model.safetensors").unlink()
    (folder / "checkpoints").mkdir()
    weights, statistics = Layout.of(model).pack(model)
    for round in rounds:
        scale = float(round == max(rounds))
        tensors = {"weights": weights * scale, "statistics": statistics}
        saved = StoredCheckpoint(tensors, [asdict(record) for record in train(SETTINGS).history], {})
        write_checkpoint(RunFolder(folder).checkpoint_file(round), saved)
    return model


def images(count: int) -> Tensor:
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(count))
