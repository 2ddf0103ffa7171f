"""The page on sweeps: its files are read, its commands are run, its table of values is the code's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from smofi.cli import main
from smofi.config import Config
from smofi.sweep.file import read_sweep
from smofi.sweep.store import Cell
from smofi.sweep.tuning import GRIDS, variants
from support.cells import ran

PAGE = (Path(__file__).parents[2] / "docs/sweeps.md").read_text()
FILES = dict(re.findall(r"```yaml\n# (\S+)\n(.*?)```", PAGE, flags=re.DOTALL))
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL) for line in block.splitlines()]
SWEEPS, TUNES = ([line for line in COMMANDS if line.startswith(f"smofi {word} ")] for word in ("sweep", "tune"))


def test_the_files_stand_for_the_cells_that_the_page_speaks_of(tmp_path: Path) -> None:
    cells = {}
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
        cells[name] = read_sweep(tmp_path / name).cells
    assert {name: len(found) for name, found in cells.items()} == {"mine.yaml": 18, "pairs.yaml": 12}
    assert {cell.config.model for cell in cells["pairs.yaml"]} == {"cnn", "resnet8"}


@pytest.mark.parametrize("commands", [SWEEPS, *([one] for one in TUNES)], ids=lambda commands: commands[0])
def test_the_commands_run(
    commands: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On cells that are done: how one is trained, other tests see."""
    monkeypatch.chdir(tmp_path)
    _, word, what, *flags = shlex.split(commands[0])
    if word == "sweep":
        (tmp_path / what).write_text(FILES[what])
        cells, more = list(read_sweep(Path(what)).cells), []
    else:
        given = flags[flags.index("--grid") + 1 :] if "--grid" in flags else []
        shared = {"rounds": 10, "validation": 0.1, "seed": 0}
        cells, more = [Cell(Config(method=one.method, **shared)) for one in variants(what, given)], ["--seed", "0"]
    for cell in cells:
        ran(tmp_path / "done" / cell.name, cell.config, [0.5] * 10, validation=[0.5] * 10 if word == "tune" else [])
    for command in commands:
        assert main([*shlex.split(command)[1:], *more, "--output", "done"]) == 0, capsys.readouterr().err
        assert capsys.readouterr().out


def test_all_commands_are_run() -> None:
    assert len(SWEEPS) + len(TUNES) == len(COMMANDS) == 4


@pytest.mark.parametrize("method", GRIDS)
def test_the_page_lists_the_values_that_are_tried(method: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{method}` |"))
    listed = row.split("|")[2]
    for name, values in GRIDS[method].items():
        assert f"{name} {', '.join(f'{value:g}' for value in values)}" in listed
