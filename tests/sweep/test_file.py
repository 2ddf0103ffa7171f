"""A sweep's file: what it stands for, and what is wrong with it, before anything is started."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from smofi.errors import InputError
from smofi.sweep.file import SweepFile, read_sweep


def swept(folder: Path, text: str) -> SweepFile:
    path = folder / "s.yaml"
    path.write_text(text)
    return read_sweep(path)


def titles(folder: Path, text: str) -> list[str]:
    return [cell.title for cell in swept(folder, text).cells]


def test_a_grid_stands_for_every_combination_seed_by_seed(tmp_path: Path) -> None:
    text = "grid:\n  seed: [0, 2]\n  method: [fedavg, smofi]\n  cut: [0, 1]\n"
    assert titles(tmp_path, text) == [
        f"{method}, cut {cut}, seed {seed}" for seed in (0, 2) for method in ("fedavg", "smofi") for cut in (0, 1)
    ]


def test_a_preset_gives_what_the_file_does_not_and_methods_have_their_executors(tmp_path: Path) -> None:
    text = "preset: fashion-mnist\nscale: small\nmethod: [fedavg, smofi]\nexecutor: [loop, vmap]\nseeds: 3-4\n"
    found = [cell.config for cell in swept(tmp_path, text).cells]
    assert {(one.data, one.batch_size) for one in found} == {("fashion-mnist", 16)}
    assert [(one.method, one.executor, one.each_seed) for one in found] == [
        *[(("fedavg",), ("loop",), (3,)), (("smofi",), ("vmap",), (3,))],
        *[(("fedavg",), ("loop",), (4,)), (("smofi",), ("vmap",), (4,))],
    ]


def test_the_page_has_files_that_stand_for_the_cells_it_speaks_of(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/sweeps.md").read_text()
    files = dict(re.findall(r"```yaml\n# (\S+)\n(.*?)```", page, flags=re.DOTALL))
    cells = {name: swept(tmp_path, text).cells for name, text in files.items()}
    assert {name: len(found) for name, found in cells.items()} == {"mine.yaml": 18, "pairs.yaml": 12}
    assert {cell.config.model for cell in cells["pairs.yaml"]} == {"cnn", "resnet8"}


MANY = list(range(1, 200))
REFUSED = {
    "rouns: 5\ngrid: {seed: [0]}": "line 1: 'rouns' is not accepted: there is no such setting, did you mean 'rounds'?",
    "list:\n- {seed: 0}\n- {zzz: 1}": "list, entry 2: 'zzz' is not accepted: there is no such setting; smofi",
    "grid: {seed: 3}": "grid: seed: 3 is not accepted: expected a list with at least one value",
    "grid: []": "grid: [] is not accepted: expected settings, each with a list of values",
    "list: []": "list: [] is not accepted: expected at least one entry of settings",
    "list: [3]": "list, entry 1: 3 is not accepted: expected settings",
    "grid: {seed: [0, 1, 0]}": "has the same cell twice (fedavg, seed 0)",
    "grid: {seed: [0]}\nlist: [{seed: 1}]": "has seed in grid and in list: expected it in one of them",
    "rounds: 0\ngrid: {seed: [0, 1]}": "line 1: rounds=0 is not accepted",
    "method: fedavg\ngrid: {seed: [0, 1], rounds: [3, -1]}": "cell 2 of 4 (seed 0, rounds -1): rounds=-1 is not",
    "grid: {method: [smofi+sflv2]}": "cell 1 of 1 (method smofi+sflv2): method='smofi+sflv2'",
    "model: mlp\ngrid: {norm: [batch]}": "cell 1 of 1 (norm batch): norm='batch' is not accepted: model mlp",
    "method: [smofi, smofi(alpha=-0.1)]": "method=['smofi', 'smofi'] is not accepted: expected each of them once",
    "grid: {method: [fedavgm(0.3), fedavgm(momentum=0.3)]}": "has the same cell twice (fedavgm(momentum=0.3), seed 0)",
    "method: smofi\ngrid: {threads: [1, 2]}": "has the same cell twice (smofi, threads 1, seed 0; smofi, threads 2",
    "preset: cifar11\ngrid: {seed: [0]}": "preset='cifar11' is not accepted: expected one of",
    "preset: digits\nscale: tiny": "scale='tiny' is not accepted",
    f"grid: {{seed: {MANY}, rounds: {MANY}, clients: {MANY}}}": "stands for 7,880,599 cells: expected at most 10,000",
    "grid: {seed: [0": "cannot be read as YAML",
    "": "is empty",
}


@pytest.mark.parametrize(("text", "sentence"), REFUSED.items(), ids=range(len(REFUSED)))
def test_what_is_wrong_is_said_and_where(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        swept(tmp_path, text)
    assert sentence in str(refused.value)
    assert str(tmp_path / "s.yaml") in str(refused.value)
