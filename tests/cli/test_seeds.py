"""`--seeds` on the command line: one command, all runs, one table, one page."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import numpy as np
import pytest

from smofi import data
from smofi.cli import main
from smofi.config import Config
from smofi.runs import RunFolder, whole_of
from smofi.track import trackers_of

FEW = ["--clients", "6", "--participation", "0.5", "--max-train", "240", "--max-test", "60", "--model", "cnn",
       "--width", "2", "--local-epochs", "1", "--batch-size", "16", "--method", "fedavg", "smofi",
       "--executor", "loop", "--workers", "1"]  # fmt: skip


def test_a_run_of_several_seeds_ends_with_its_table_its_picture_and_its_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    arguments = ["--seeds", "0-1", "--rounds", "2", "--track", "tensorboard", "--output", str(folder)]
    assert main(["run", *FEW, *arguments]) == 0
    printed = capsys.readouterr().out
    assert "2 rounds, seeds 0-1, 1 worker" in printed
    assert "run 4 of 4: smofi, seed 1" in printed
    assert "± is the standard deviation over 2 seeds" in " ".join(printed.split())
    assert "each line is the mean of 2 seeds" in printed
    assert printed.splitlines()[-1] == f"Page: {folder / 'report.html'}"
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    assert (folder / "curves.png").exists()
    assert trackers_of(folder) == ["tensorboard"]
    for run in ("seed-0/fedavg", "seed-0/smofi", "seed-1/fedavg", "seed-1/smofi"):
        assert RunFolder(folder / run).tensorboard.is_dir()
        assert whole_of(RunFolder(folder / run)) == folder
    assert whole_of(RunFolder(folder)) == folder

    (folder / "report.html").write_text("mine")  # is not lost, and neither is the run
    assert main(["run", "--resume", str(folder), "--rounds", "3", "--display", "jsonl"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["method"], line["seed"]) for line in found if line["event"] == "RunEnded"] == [
        *(("fedavg", 0), ("smofi", 0), ("fedavg", 1), ("smofi", 1))
    ]
    assert main(["run", "--resume", str(folder), "--track", "none"]) == 0
    assert "The page could not be written: output=" in capsys.readouterr().out
    assert (folder / "report.html").read_text() == "mine"


def test_another_run_cannot_be_divided_as_several_seeds_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "seed-0/smofi").mkdir(parents=True)
    (tmp_path / "seed-0/smofi/partition.safetensors").touch()
    assert main(["run", *FEW, "--partition", f"file:{tmp_path}"]) == 2
    sentence = f"{tmp_path} contains several runs: expected one of them, such as {tmp_path / 'seed-0/smofi'}"
    assert sentence in capsys.readouterr().err


def test_data_is_shown_with_each_seed_and_the_spread(capsys: pytest.CaptureFixture[str]) -> None:
    """Sizes and classes are counted here once more, from the owners of the samples."""
    assert main(["data", "digits", "--seeds", "3,5", "--clients", "20", "--partition", "dirichlet(0.5)"]) == 0
    heading, _, *rows = capsys.readouterr().out.splitlines()
    assert heading == "digits, dirichlet(0.5), 20 clients, seeds 3,5"
    shown = {row.split()[0]: row.split()[1:6] for row in rows[:4]}
    assert list(shown) == ["3", "5", "mean", "±"]
    labels = data.load("digits").train.labels.numpy()
    largest = []
    for seed in (3, 5):
        owners = Config(clients=20, seed=seed, partition="dirichlet(0.5)").owners()
        sizes = np.bincount(owners[owners >= 0], minlength=20)
        classes = np.mean([len(set(labels[owners == client].tolist())) for client in range(20)])
        assert shown[str(seed)] == [f"{sizes.min()}", f"{np.median(sizes):g}", f"{sizes.max()}", "0", f"{classes:.2f}"]
        largest.append(int(sizes.max()))
    assert float(shown["mean"][2]) == pytest.approx(statistics.fmean(largest), abs=0.5)
    assert float(shown["±"][2]) == pytest.approx(statistics.stdev(largest), rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["digits", "--seeds", "0-1", "--seed", "0"], "--seeds 0-1 is not accepted: expected no --seed with it"),
        (["digits", "--seeds", "0-1", "--output", "x.png"], "expected no --output with it"),
        (["digits", "--seeds", "0-1", "--devices"], "expected no --devices with it"),
        (["--seeds", "0-1"], "--seeds 0-1 is not accepted: expected a data set with it"),
        (["digits", "--seeds", "1-0"], "--seeds 1-0 is not accepted: expected seeds such as 0-2"),
    ],
)
def test_what_does_not_go_with_several_seeds(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", *arguments]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_advice_is_that_of_all_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", *FEW[:10], "--rounds", "2", "--method", "smofi", "--seeds", "0-1"]) == 0
    assert "the first 2 rounds with each of the seeds 0-1, planned" in " ".join(capsys.readouterr().out.split())


def test_a_plan_adds_up_all_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    """240 samples among 6 clients are 40 each, so 2 steps of 16."""
    assert main(["plan", *FEW, "--partition", "iid", "--seeds", "0-2", "--rounds", "5"]) == 0
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "5 with each of 3 seeds" in printed
    assert "90 (6.0 per round)" in printed  # 3 seeds x 5 rounds x 3 clients x 2 steps
    assert "all rounds of all" in printed  # and "3 seeds" in the next line
    assert "All methods together take about" in printed
