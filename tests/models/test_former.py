"""Runs of the transformer as it was before it became FedNAR's: they show, and what needs their weights is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from smofi.cli import main
from smofi.config import Config
from smofi.errors import InputError
from smofi.experiment import resume, start
from smofi.export import export_run
from smofi.runs import RunFolder, RunWriter
from smofi.runs.folder import MODEL, ROUND
from support.run_folder import rewritten

WIDTH, LENGTH = 4, 80


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run whose weights are those of the earlier network: no positions, and one more normalisation."""
    texts, path = tmp_path_factory.mktemp("texts"), tmp_path_factory.mktemp("runs") / "run"
    for role in ("ANNA", "BERT"):
        (texts / f"PLAY_{role}.txt").write_text(f"{role}: to be, or not to be, that is the question. " * 12)
    config = Config(
        data="shakespeare", data_folder=str(texts), partition="natural", clients=2, model="transformer", width=WIDTH,
        method="fedavg", participation=1.0, local_epochs=1, batch_size=32, rounds=1, max_train=128, max_test=8,
        executor="loop",
    )  # fmt: skip
    for one in start(config, path):
        one.train()
    folder = RunFolder(path)
    state, checkpoint = folder.model(), folder.checkpoint(1)
    del state["input.positions.weight"]
    state |= {"output.norm.weight": torch.ones(WIDTH), "output.norm.bias": torch.zeros(WIDTH)}
    rewritten(path, MODEL, bytes(save(state)))
    tensors = {**checkpoint.tensors, "weights": checkpoint.tensors["weights"][: (2 - LENGTH) * WIDTH].clone()}
    rewritten(path, ROUND.format(1), replace(checkpoint, tensors=tensors).encode())
    return path


def sentence(path: Path) -> str:
    return (
        f"{path} holds a transformer of an earlier version of smofi, which was another network (normalisation in front "
        "of each sublayer, fixed positions): its weights cannot be used. Train the present one: "
        f"smofi run {path / 'config.yaml'} --output NEW"
    )


def test_it_still_shows(former: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(former)]) == 0
    assert "transformer width 4" in capsys.readouterr().out


def test_it_cannot_go_on(former: Path) -> None:
    with pytest.raises(InputError) as caught:
        resume(former, {"rounds": 2})
    assert str(caught.value) == sentence(former)


def test_it_cannot_be_exported(former: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError) as caught:
        export_run(former, tmp_path / "exported", ["safetensors"])
    assert str(caught.value) == sentence(former)
    assert main(["export", str(former), "--output", str(tmp_path / "exported")]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "exported").exists()


def test_the_other_file_is_refused_as_well(former: Path, tmp_path: Path) -> None:
    """An export without the final model reads the state; a resume without the state reads the final model."""

    def without(name: str) -> Path:
        copy = tmp_path / name.replace("/", "-")
        shutil.copytree(former, copy)
        RunWriter(RunFolder(copy)).forget([name])
        (copy / name).unlink()
        return copy

    unfinished, stateless = without(MODEL), without(ROUND.format(1))
    with pytest.raises(InputError) as caught:
        export_run(unfinished, tmp_path / "exported", ["safetensors"])
    assert str(caught.value) == sentence(unfinished)
    with pytest.raises(InputError) as caught:
        resume(stateless, {})
    assert str(caught.value) == sentence(stateless)
