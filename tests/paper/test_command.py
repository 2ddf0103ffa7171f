"""`make paper`: from runs in a folder to a table beside the paper's, a figure, files and a page."""

from pathlib import Path

import numpy as np
import pytest

from paper.__main__ import main
from paper.items import ITEMS
from smofi.sweep.store import Cell
from support.small_runs import write_finished

CURVES = {
    "FedAvg": [0.2, 0.4, 0.6, 0.8],
    "FedAvg + FedAvgM": [0.2, 0.5, 0.72, 0.8],
    "FedAvg + SMoFi": [0.4, 0.75, 0.9],
    "FedProx": [0.2, 0.4, 0.5, 0.6, 0.7, 0.76],
    "FedProx + SMoFi": [0.3, 0.6, 0.74, 0.8],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of table1 with two seeds, but for FedNAR; SMoFi on FedProx has one."""
    folder = tmp_path_factory.mktemp("paper") / "runs"
    (panel,) = ITEMS["table1"].at("small")
    for (line, seed), cell in panel.cells([0, 1]).items():
        if "FedNAR" not in line.label and (line.label, seed) != ("FedProx + SMoFi", 1):
            write_finished(folder, cell, CURVES.get(line.label, CURVES["FedAvg"]))
    return folder


@pytest.fixture(scope="module")
def files(store: Path) -> Path:
    """The same runs as files."""
    folder = store.parent / "docs/results"
    assert main(["--collect", str(folder), "--output", str(store)]) == 0
    return folder


@pytest.fixture(autouse=True)
def _wide_and_without_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("paper.__main__.console.width", 200)


def test_the_list_has_runs_done_and_time_left(files: Path, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run took 40 rounds of half a second: the eleven that are left take 220 s. A model of which there is no run is
    timed, but not without its data."""
    assert main(["--seeds", "0,1", "--output", str(store)]) == 0
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()}
    assert rows["table1"][-4:] == ["30", "19", "4", "min"]
    assert rows["cifar10-depth"][-3:] == ["24", "0", "?"]


def test_a_table_beside_the_papers_from_finished_runs(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table1", "--show", "--seeds", "0,1", "--output", str(store)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    # target 0.9 * 0.8 = 0.72: FedAvg in round 4, FedAvgM in 3, SMoFi in 2; FedProx in 6, with SMoFi in 3
    assert "FedAvg + SMoFi 90.0 ± 0.0 % 88.4 ± 0.0 % 2.0 2, 2 2.00x 81.82 %, R 56, 4.61x" in printed
    assert "FedProx + SMoFi 80.0 % 78.1 % 3.0 3 2.00x 81.99 %, R 54, 3.09x" in printed
    assert "Of these 5 methods, FedAvg + SMoFi reaches the target first in 2" in printed
    assert (
        "The paper: SMoFi has the highest accuracy on each base. Here it cannot be told: its runs are not complete yet."
        in printed
    )
    missing = "With every seed: FedNAR; FedNAR + FedAvgM; FedNAR + SlowMo; FedNAR + FedNAG; FedNAR + SMoFi."
    assert f"11 runs missing. {missing} With seed 1: FedProx + SMoFi." in printed
    assert (store / "table1.svg").exists()


def test_files_become_a_page(files: Path, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = (files / "fashion-mnist.csv").read_text()
    assert main(["--collect", str(files), "--output", str(store)]) == 0
    assert (files / "fashion-mnist.csv").read_text() == first, "runs are added once"
    assert first.splitlines()[0] == "method,seed,version,seconds,accuracy,virtual_seconds"
    assert "model: resnet8\n" in (files / "fashion-mnist.yaml").read_text()
    (files / "parts").mkdir()
    (files / "parts/table1.md").write_text("A sentence by hand.\n")
    readme, page = store.parent / "README.md", store.parent / "docs/results.md"
    readme.write_text("# x\n<!-- results: made by make paper -->\nold\n<!-- end of results -->\nrest\n")
    assert main(["--page", str(page), "--seeds", "0,1"]) == 0
    text = page.read_text()
    assert "| FedAvg + SMoFi | **90.0 ± 0.0 %** | **88.4 ± 0.0 %** | **2.0** | 2, 2 | 2.00x | 81.82 %, R 56" in text
    assert "A sentence by hand." in text
    assert "- `fig-momentum`, Local momentum on and off: 0 of 8 runs" in text.partition("## Not finished yet")[2]
    assert "old" not in readme.read_text()
    assert readme.read_text().endswith("<!-- end of results -->\nrest\n")
    assert "| FedAvg + SMoFi |" in readme.read_text()
    page.write_text("mine")
    assert main(["--page", str(page)]) == 2
    assert "exists and was not made by this" in capsys.readouterr().err
    assert page.read_text() == "mine"


def test_known_results_are_shown_and_not_run_again(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """19 of table1's 30 runs are known from files; one of these, and another, are in the folder of runs."""
    other = ["--known", str(files), "--output", str(tmp_path)]
    assert main(["table1", "--dry-run", "--seeds", "0,1", *other]) == 0
    printed = capsys.readouterr().out
    assert "table1: 11 runs, all can be run; 19 known results" in printed
    assert "FedProx + SMoFi, seed 1:" in printed
    assert "FedProx + SMoFi, seed 0:" not in printed
    (panel,) = ITEMS["table1"].at("small")
    by_label = {(line.label, seed): cell for (line, seed), cell in panel.cells([0, 1]).items()}
    write_finished(tmp_path, by_label["FedProx + SMoFi", 1], [0.7, 0.8])
    write_finished(tmp_path, by_label["FedAvg + SMoFi", 1], [0.5, 0.7, 0.9])
    assert main(["table1", "--show", "--seeds", "0,1", *other]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "FedProx + SMoFi 80.0 ± 0.0 % 78.9 ± 1.2 % 2.5 3, 2 2.40x" in printed
    assert "FedAvg + SMoFi 90.0 ± 0.0 % 88.4 ± 0.1 % 2.5 2, 3 1.60x" in printed, "our own run of seed 1 goes first"


SAME = {"many-classes": "python:smofi.reproduce.turned:fashion_80", "table-text-audio": "npz:{}/words.npz"}


@pytest.mark.parametrize("name", SAME)
def test_results_on_data_that_counts_as_the_same_are_not_run_again(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fashion-MNIST in 80 classes by its former name; words of our own for Google Speech, without their folder."""
    panel = ITEMS[name].at("small")[-1]
    data = SAME[name].format(tmp_path)
    for (line, _), cell in panel.cells([0]).items():
        mine = Cell(cell.config.model_copy(update={"data": data}), line.label)
        write_finished(tmp_path / "runs", mine, [0.3, 0.5])
    found = ["--seeds", "0", "--output", str(tmp_path / "runs")]
    if name == "many-classes":
        assert main([name, *found]) == 0, "nothing is left to run"
        assert "FedAvg + SMoFi against FedAvg, seed by seed:" in capsys.readouterr().out
    assert main(["--collect", str(tmp_path / "files"), *found]) == 0
    stem = data.rpartition(":")[2].rpartition("/")[2].removesuffix(".npz")
    assert {path.name for path in (tmp_path / "files").iterdir()} == {f"{stem}.csv", f"{stem}.yaml"}
    assert str(tmp_path) not in (tmp_path / f"files/{stem}.yaml").read_text()
    capsys.readouterr()
    assert main([name, "--dry-run", "--seeds", "0", "--known", str(tmp_path / "files")]) == 0
    assert f"; {len(panel.lines)} known results" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tabel1"], "item='tabel1' is not accepted: expected one of fig-momentum, table1"),
        (["table1", "--scale", "full"], "scale='full' is not accepted: expected one of small, paper"),
        (["table1", "--seeds", "2-0"], "seeds='2-0' is not accepted: expected seeds such as 0-2 or 0,3,5"),
        (["table1", "--jobs", "0"], "jobs=0 is not accepted"),
        (["--page", "nowhere/page.md"], "nowhere/page does not exist"),
        (["--page", "page.html"], "page='page.html' is not accepted: expected a file name that ends in .md"),
        (["table1", "--known", "nowhere"], "nowhere does not exist: expected a folder with CSV files"),
        (["table1", "--known", "tests"], "tests has no results: expected a folder with CSV files"),
        (["table1", "--collect", "x"], "items=['table1'] is not accepted: expected no items"),
        (["--collect", "x", "--output", "nowhere"], "nowhere has no finished run to add"),
        (["ablation", "--output", "x", "--device", "cuda:7"], "cuda:7"),
        (["ablation", "--output", "x"], "smofi data fashion-mnist --fetch"),
    ],
)
def test_what_is_refused_before_anything_is_written(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "tests").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["tests"]


@pytest.mark.slow
def test_an_item_is_run_by_real_processes_and_then_found_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On made-up pictures in Fashion-MNIST's files: 17 samples for each of 100 clients."""
    data = tmp_path / "data/fashion-mnist"
    data.mkdir(parents=True)
    draw = np.random.default_rng(0)
    for name, samples in (("train", 1_700), ("t10k", 200)):
        labels = draw.integers(0, 10, samples, dtype=np.uint8)
        images = draw.integers(0, 60, (samples, 28, 28), dtype=np.uint8) + 19 * labels[:, None, None]
        for kind, content in (("images-idx3", images), ("labels-idx1", labels)):
            shape = b"".join(size.to_bytes(4, "big") for size in content.shape)
            header = b"\x00\x00\x08" + bytes([content.ndim])
            (data / f"{name}-{kind}-ubyte").write_bytes(header + shape + content.astype(np.uint8).tobytes())
    command = ["ablation", "--seeds", "0", "--jobs", "2", "--output", str(tmp_path / "runs")]
    assert main(command) == 0, capsys.readouterr().err
    assert "SMoFi without global momentum" in capsys.readouterr().out
    runs = sorted(path for path in (tmp_path / "runs").iterdir() if (path / "result.json").exists())
    assert len(runs) == 4
    before = {path: (path / "result.json").stat().st_mtime_ns for path in runs}
    assert main(command) == 0
    assert {path: (path / "result.json").stat().st_mtime_ns for path in runs} == before
