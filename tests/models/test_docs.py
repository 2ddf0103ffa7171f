"""The page on models is run as shown, and its table is what the models say of themselves."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from smofi.cli import main
from smofi.models import MODELS
from smofi.report.lists import outline
from smofi.report.numbers import count

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL) for line in block.splitlines()]

# For 3 channels and 10 classes, as published for these forms on CIFAR-10; MobileNetV2's is torchvision's for 1,000
# classes with the last layer, 1,281 parameters for a class, cut down to 10.
PUBLISHED = {
    "resnet18": 11_173_962,
    "resnet34": 21_282_122,
    "vgg11": 9_231_114,
    "vgg16": 14_728_266,
    "mobilenetv2": 3_504_872 - 990 * 1_281,
    "densenet121": 6_956_298,
    "densenet169": 12_493_322,
}


@pytest.mark.parametrize("code", PYTHON)
def test_examples_run(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(code, {})


def test_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    own = next(code for code in PYTHON if code.startswith("# mine.py"))
    Path("mine.py").write_text(own)
    assert len(COMMANDS) == 5
    monkeypatch.setattr(
        "smofi.cli.choices.MODELS", {"cnn": MODELS["cnn"]}
    )  # all take seconds, and are tested with the commands
    for line in COMMANDS:
        assert main(shlex.split(line)[1:]) == 0, line
        assert capsys.readouterr().out


@pytest.mark.parametrize("name", MODELS)
def test_the_table_is_right_and_sizes_are_the_published_ones(name: str) -> None:
    (row,) = re.findall(rf"^\| `{name}` \| (.*) \|$", PAGE, flags=re.MULTILINE)
    blocks, _, parameters, macs, _ = row.split(" | ")
    counted = outline(name).costs
    assert int(blocks) == len(counted.blocks) - 2
    assert parameters == f"{counted.parameters:,}"
    assert counted.parameters == PUBLISHED.get(name, counted.parameters)
    assert macs == count(counted.macs)
