"""The page of results is what the command makes of the files beside it."""

import shutil
from pathlib import Path

import matplotlib
import pytest

from paper.page import Page
from paper.results import collect, read_results
from smofi.errors import InputError

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_and_readme_are_made_from_the_committed_files() -> None:
    page = Page(ROOT / "docs/results.md", None)
    remade = 'run: make paper ARGS="--page docs/results.md"'
    assert page.path.read_text(encoding="utf-8") == page.text(), remade
    made = page.readme()
    assert made is not None
    path, text = made
    assert path.read_text(encoding="utf-8") == text, remade


def test_files_are_read_as_they_were_written(tmp_path: Path) -> None:
    collect(tmp_path, read_results(ROOT / "docs/results").runs.values())
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (ROOT / "docs/results" / path.name).read_bytes()


def test_a_row_that_makes_no_sense_is_refused_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("data: digits\n")
    header = "method,seed,version,seconds,accuracy,virtual_seconds\n"
    (tmp_path / "x.csv").write_text(f"{header}fedavg,0,1,1,0.5,\nnope,0,1,1,0.5,\n")
    with pytest.raises(InputError, match=r"x\.csv, line 3: method='nope'"):
        read_results(tmp_path)
    (tmp_path / "x.csv").write_text(f"{header}fedavg,0,1,1,half,\n")
    with pytest.raises(InputError, match=r"x\.csv, line 2: could not convert string to float: 'half'"):
        read_results(tmp_path)


@pytest.mark.slow
def test_the_committed_figures_are_those_of_the_page(tmp_path: Path) -> None:
    """Byte for byte, where the version of matplotlib that we develop with draws them."""
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copytree(ROOT / "docs/results", tmp_path / "docs/results", ignore=shutil.ignore_patterns("*.svg"))
    written = Page(tmp_path / "docs/results.md", None).save()
    drawn = {path.name: path.read_bytes() for path in written if path.suffix == ".svg"}
    committed = {path.name: path.read_bytes() for path in (ROOT / "docs/results").glob("*.svg")}
    assert drawn.keys() == committed.keys()
    if f"matplotlib=={matplotlib.__version__} " in (ROOT / "constraints.txt").read_text():
        assert [name for name, content in committed.items() if drawn[name] != content] == []
