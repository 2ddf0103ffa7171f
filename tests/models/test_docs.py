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
def test_the_table_is_right(name: str) -> None:
    (row,) = re.findall(rf"^\| `{name}` \| (.*) \|$", PAGE, flags=re.MULTILINE)
    blocks, _, parameters, macs, _ = row.split(" | ")
    counted = outline(name).costs
    assert int(blocks) == len(counted.blocks) - 2
    assert parameters == f"{counted.parameters:,}"
    assert macs == count(counted.macs)
