"""The tables of models, and the command that prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from smofi.cli import main
from smofi.errors import InputError
from smofi.models import MODELS
from smofi.report.lists import outline


def test_input_classes_width_and_norm_are_the_models() -> None:
    given = outline("resnet8", "3, 16, 16", 7, 4, "group")
    assert (given.input_shape, given.classes) == ((3, 16, 16), 7)
    assert given.costs.blocks[0].shape == (4, 16, 16)
    assert given.costs.blocks[-1].shape == (7,)
    assert outline("mlp", "(5,)").input_shape == (5,)
    for text in ("", "3x8x8", "3,,8", "-3,8,8"):
        with pytest.raises(InputError, match="input_shape="):
            outline("resnet8", text)


def test_the_command_lists_them_within_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Listing all, which takes seconds, is tested with the other commands.
    names = ["mobilenetv2", "resnet18", "transformer"]
    monkeypatch.setattr("smofi.cli.choices.MODELS", {name: MODELS[name] for name in names})
    assert main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    listed = {line.split()[0]: line.split() for line in lines if line.split() and line.split()[0] in MODELS}
    assert list(listed) == names
    assert listed["resnet18"] == ["resnet18", "8", "11,173,962", "555.4M", "3,32,32", "1.3%", "27.5%", "262.1", "kB"]


def test_the_command_shows_every_cut_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "cnn", "--input-shape", "3,16,16", "--classes", "7", "--width", "4"]) == 0
    out = capsys.readouterr().out
    assert "for inputs of 3,16,16 and 7 classes" in out
    rows = [line.split()[0] for line in out.splitlines() if line.strip()[:1].isdigit()]
    assert rows[-3:] == ["0", "1", "2"]


def test_a_model_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("listed_model.py").write_text(
        "from torch import nn\n"
        "def net(input_shape, classes):\n"
        "    return nn.Sequential(nn.Embedding(classes, 4), nn.Flatten(), nn.Linear(4 * input_shape[0], classes))\n"
    )
    assert main(["models", "python:listed_model:net", "--input-shape", "5", "--classes", "6"]) == 0
    out = capsys.readouterr().out
    assert "python:listed_model:net" in out
    assert "150 parameters" in out  # 6 * 4 + 20 * 6 + 6


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("models resnet9", "did you mean 'resnet8'?"),
        ("models --width 4", "is not accepted: expected the name of a model"),
        ("models mlp --norm batch", "mlp has no such option"),
        ("models cnn --input-shape 3,x", "input_shape='3,x'"),
        ("models vgg11 --input-shape 3,16,16", "height and width >= 32"),
        ("models python:nosuchmodule:net", "there is no nosuchmodule in the current folder"),
        ("models cnn --classes many", "many"),
    ],
)
def test_mistakes(line: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    assert sentence in capsys.readouterr().err
