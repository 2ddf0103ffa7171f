"""`smofi reproduce`: from runs in a folder to a table beside the paper's, a figure, files and a page."""

from pathlib import Path

import numpy as np
import pytest

from smofi.cli import main
from smofi.reproduce.items import ITEMS
from support.small_runs import write_finished

CURVES = {
    "FedAvg": [0.2, 0.4, 0.6, 0.8],
    "FedAvg + FedAvgM": [0.2, 0.5, 0.72, 0.8],
    "FedAvg + SMoFi": [0.4, 0.75, 0.9],
    "FedProx": [0.2, 0.4, 0.5, 0.6, 0.7, 0.76],
    "FedProx + SMoFi": [0.3, 0.6, 0.74, 0.8],
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The runs of table1 with two seeds, but for FedNAR; SMoFi on FedProx has one."""
    (panel,) = ITEMS["table1"].at("small").panels
    for (line, seed), cell in panel.cells([0, 1]).items():
        if "FedNAR" not in line.label and (line.label, seed) != ("FedProx + SMoFi", 1):
            write_finished(tmp_path / "runs", cell, CURVES.get(line.label, CURVES["FedAvg"]))
    return tmp_path / "runs"


def test_a_table_beside_the_papers_from_finished_runs(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smofi.cli.program.console.width", 200)
    assert main(["reproduce", "table1", "--show", "--seeds", "0,1", "--output", str(store)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    # target 0.9 * 0.8 = 0.72: FedAvg in round 4, FedAvgM in 3, SMoFi in 2; FedProx in 6, with SMoFi in 3
    assert "FedAvg + SMoFi 90.0 ± 0.0 % 88.4 ± 0.0 % 2.0 2, 2 2.00x 81.82 %, R 56, 4.61x" in printed
    assert "FedProx + SMoFi 80.0 % 78.1 % 3.0 3 2.00x 81.99 %, R 54, 3.09x" in printed
    assert "Of these 5 methods, FedAvg + SMoFi reaches the target first in 2" in printed
    missing = "With every seed: FedNAR; FedNAR + FedAvgM; FedNAR + SlowMo; FedNAR + FedNAG; FedNAR + SMoFi."
    assert f"11 runs missing. {missing} With seed 1: FedProx + SMoFi." in printed
    assert (store / "table1.svg").exists()


def test_runs_become_files_and_files_a_page(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = store.parent / "docs/results"
    (results / "parts").mkdir(parents=True)
    (results / "parts/table1.md").write_text("A sentence by hand.\n")
    (store.parent / "README.md").write_text(
        "# x\n<!-- results: made by smofi reproduce -->\nold\n<!-- end of results -->\nrest\n"
    )
    assert main(["reproduce", "--collect", str(results), "--output", str(store)]) == 0
    first = (results / "fashion-mnist.csv").read_text()
    assert main(["reproduce", "--collect", str(results), "--output", str(store)]) == 0
    assert (results / "fashion-mnist.csv").read_text() == first  # added once
    assert first.splitlines()[0] == "method,seed,version,seconds,accuracy,virtual_seconds"
    assert "model: resnet8\n" in (results / "fashion-mnist.yaml").read_text()
    page = store.parent / "docs/results.md"
    assert main(["reproduce", "--page", str(page), "--seeds", "0,1"]) == 0
    text = page.read_text()
    assert "| FedAvg + SMoFi | **90.0 ± 0.0 %** | **88.4 ± 0.0 %** | **2.0** | 2, 2 | 2.00x | 81.82 %, R 56" in text
    assert "A sentence by hand." in text
    assert "- `fig-momentum`, Local momentum on and off: 0 of 8 runs" in text.partition("## Not finished yet")[2]
    readme = (store.parent / "README.md").read_text()
    assert "old" not in readme
    assert readme.endswith("<!-- end of results -->\nrest\n")
    assert "| FedAvg + SMoFi |" in readme
    capsys.readouterr()
    page.write_text("mine")
    assert main(["reproduce", "--page", str(page)]) == 2
    assert "was not made by smofi reproduce" in capsys.readouterr().err


def test_known_results_are_shown_and_not_run_again(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """19 of table1's 30 runs are known from files; one of these, and another, are in the folder of runs."""
    monkeypatch.setattr("smofi.cli.program.console.width", 200)
    assert main(["reproduce", "--collect", str(store.parent / "files"), "--output", str(store)]) == 0
    other = ["--known", str(store.parent / "files"), "--output", str(store.parent / "others")]
    capsys.readouterr()
    assert main(["reproduce", "table1", "--dry-run", "--seeds", "0,1", *other]) == 0
    printed = capsys.readouterr().out
    assert f"table1: 19 results in {store.parent}/files, 11 runs, all can be run" in printed
    assert "FedProx + SMoFi, seed 1:" in printed
    assert "FedProx + SMoFi, seed 0:" not in printed
    (panel,) = ITEMS["table1"].at("small").panels
    by_label = {(line.label, seed): cell for (line, seed), cell in panel.cells([0, 1]).items()}
    write_finished(store.parent / "others", by_label["FedProx + SMoFi", 1], [0.7, 0.8])
    write_finished(store.parent / "others", by_label["FedAvg + SMoFi", 1], [0.5, 0.7, 0.9])
    assert main(["reproduce", "table1", "--show", "--seeds", "0,1", *other]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "FedProx + SMoFi 80.0 ± 0.0 % 78.9 ± 1.2 % 2.5 3, 2 2.40x" in printed
    assert "FedAvg + SMoFi 90.0 ± 0.0 % 88.4 ± 0.1 % 2.5 2, 3 1.60x" in printed  # our own run of seed 1 goes first


def test_with_all_results_known_nothing_is_run(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for cell in ITEMS["ablation"].at("small").panels[0].cells([0]).values():
        write_finished(store, cell, [0.2, 0.4, 0.6])
    files, empty = store.parent / "files", store.parent / "empty"
    assert main(["reproduce", "--collect", str(files), "--output", str(store)]) == 0
    capsys.readouterr()
    assert main(["reproduce", "ablation", "--seeds", "0", "--known", str(files), "--output", str(empty)]) == 0
    assert "SMoFi against FedAvg, seed by seed:" in capsys.readouterr().out
    assert [path.name for path in empty.iterdir()] == ["ablation.svg"]


def test_a_dry_run_lists_every_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "ablation", "--scale", "paper", "--dry-run"]) == 0
    printed = " ".join(capsys.readouterr().out.split())  # lines are folded at 80 characters
    assert "ablation: 36 runs, all can be run" in printed
    assert "Tiny-ImageNet, SMoFi without global momentum, seed 2: smofi(global_momentum=0)" in printed


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["tabel1"], "'tabel1' is not accepted: expected one of fig-momentum, table1"),
        (["table1", "--scale", "full"], "is not accepted: expected one of small, paper"),
        (["table1", "--seeds", "2-0"], "is not accepted: expected seeds such as 0-2 or 0,3,5"),
        (["table1", "--seeds", "0,1,0"], "is not accepted: expected seeds such as 0-2 or 0,3,5, each a"),
        (["table1", "--jobs", "0"], "jobs=0"),
        (["--show", "--dry-run"], "show=True is not accepted: expected one at a time, not together with --dry-run"),
        (["--page", "nowhere/page.md"], "nowhere/page does not exist"),
        (["table1", "--known", "nowhere"], "nowhere does not exist: expected a folder with CSV files that smofi"),
        (["table1", "--known", "tests"], "tests has no results: expected a folder with CSV files that smofi reproduce"),
        (["table1", "--collect", "x"], "is not accepted: expected no names of items with it"),
        (["--collect", "x", "--output", "nowhere"], "nowhere has no finished run to add"),
        (["--known", "docs/results", "--collect", "x"], "is not accepted: expected no --collect"),
    ],
)
def test_what_is_refused(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", *arguments]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_what_would_fail_in_every_run_is_refused_before_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path / "data"))
    command = ["reproduce", "ablation", "--seeds", "0", "--output", str(tmp_path / "runs")]
    assert main(command) == 2
    assert "smofi data fashion-mnist --fetch" in capsys.readouterr().err
    assert main([*command, "--device", "cuda:7"]) == 2
    assert "is not accepted: expected a device that torch can use" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_an_item_is_run_by_real_processes_and_then_found_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path / "data"))
    command = ["reproduce", "ablation", "--seeds", "0", "--jobs", "2", "--output", str(tmp_path / "runs")]
    assert main(command) == 0, capsys.readouterr().err
    assert "SMoFi without global momentum" in capsys.readouterr().out
    runs = sorted(path for path in (tmp_path / "runs").iterdir() if (path / "result.json").exists())
    assert len(runs) == 4
    before = {path: (path / "result.json").stat().st_mtime_ns for path in runs}
    assert main(command) == 0
    assert {path: (path / "result.json").stat().st_mtime_ns for path in runs} == before
