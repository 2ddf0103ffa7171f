"""Real runs from the command line: what is printed, what is left behind, and how they end early."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

import smofi
from smofi.cli import main
from smofi.cli.program import SECTIONS
from smofi.config import Config
from smofi.experiment import start
from smofi.methods import METHODS
from smofi.track import trackers_of
from support.processes import ENVIRONMENT, QUICK

SMALL = {"model": "cnn", "width": 4, "clients": 4, "batch_size": 64, "local_epochs": 1, "participation": 0.5}
FLAGS = [text for name, value in SMALL.items() for text in (f"--{name.replace('_', '-')}", str(value))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Lists and help


def test_what_needs_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == smofi.__version__
    assert main(["methods"]) == 0
    listed = " ".join(capsys.readouterr().out.split())
    assert all(f"{name}(" in listed for name in METHODS)
    for arguments in (["--help"], ["-h"], []):
        assert main(arguments) == 0
        out, err = capsys.readouterr()
        assert all(command in out for command in ("run", "methods", "models", "Start with: smofi run"))
        assert err == ""


def test_help_names_every_setting_and_its_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["run", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert all(f"--{name.replace('_', '-')} " in text for name in Config.model_fields)
    assert all(f"─ {section} ─" in text for section in SECTIONS.values())
    assert "[default: sgd(lr=0.05, momentum=0.9, weight_decay=0.0005, lr_decay=0.998)]" in text
    assert "[default: fedavg fedavgm(momentum=0.3) smofi]" in text
    assert "--method STR... one or more" in text
    assert not re.search(r"default: (None|False|\()", text)


# A run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Two methods for two rounds with a clock, from the shell, and what they printed."""
    cwd = tmp_path_factory.mktemp("cli")
    command = [sys.executable, "-m", "smofi", "run", *FLAGS, "--rounds", "2", "--method", "fedavg", "smofi"]
    environment = {name: value for name, value in ENVIRONMENT.items() if name not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    environment["PYTHONIOENCODING"] = "utf-8"
    clock = ["--clock", "full", "--executor", "loop"]
    done = subprocess.run([*command, *clock], cwd=cwd, env=environment, capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in cwd.iterdir()] == ["runs"]
    (made,) = (cwd / "runs").iterdir()
    assert re.fullmatch(r"\d{8}-\d{6}-digits", made.name)
    return made, done.stdout


def test_a_run_prints_its_table_and_leaves_its_history_as_python_gives_them(finished: tuple[Path, str]) -> None:
    made, out = finished
    lines = out.splitlines()
    assert "\x1b" not in out
    assert "\r" not in out
    # two convolutions of 40 and 296 parameters, two linear layers of 1,056 and 330
    assert "4 clients, 2 a round, 1,722 parameters" in out
    arguments = Config(**SMALL, rounds=2, clock="full", executor="loop").arguments()
    results = {name: smofi.train(**arguments, method=name) for name in ("fedavg", "smofi")}
    target = 0.9 * max(record.accuracy for record in results["fedavg"].history)
    assert f"The target is {100 * target:.1f}%: 90% of fedavg's best accuracy." in " ".join(out.split())
    for name, result in results.items():
        accuracies = [record.accuracy for record in result.history]
        row = next(line for line in lines if line.startswith(f"│ {name} "))
        for number in (max(accuracies), np.mean(accuracies)):
            assert f"{100 * number:.1f}%" in row
        assert f" {result.history[-1].virtual_end:.3g} │" in row  # a second or less
        left = [json.loads(line) for line in (made / name / "metrics.jsonl").read_text().splitlines()]
        for record, wanted in zip(left, result.history, strict=True):
            assert record.pop("seconds") > 0
            assert record == {key: value for key, value in vars(wanted).items() if key != "seconds"}


def test_a_run_leaves_pictures_and_a_page(finished: tuple[Path, str]) -> None:
    made, out = finished
    for name in ("curves.png", "curves-hours.png"):
        pixels = matplotlib.image.imread(made / name)
        assert min(pixels.shape[:2]) > 400
        assert len(np.unique(pixels[..., 0])) > 10, "nothing is drawn"
        assert f"runs/{made.name}/{name}" in out
    assert out.splitlines()[-1] == f"Page: runs/{made.name}/report.html"


def test_a_picture_that_cannot_be_saved_does_not_hide_the_results_and_no_run_is_written_over(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    command = ["run", *FLAGS, "--rounds", "1", "--method", "fedavg", "--output", "here"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "mean over rounds" in out
    assert "here/curves.png cannot be written: No space left on device" in out
    before = contents(folder)
    assert main(command) == 2
    assert "it already contains a run; expected a new folder, or: smofi run --resume here" in capsys.readouterr().err
    assert contents(folder) == before


def test_several_seeds_have_one_table_and_resume_with_their_trackers(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--method", "fedavg", "smofi", "--seeds", "0-1", "--workers", "1", "--executor", "loop"]
    assert main(["run", *FLAGS, *flags, "--rounds", "1", "--track", "tensorboard", "--output", "here"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "run 4 of 4: smofi, seed 1" in printed
    assert "± is the standard deviation over 2 seeds" in printed
    assert trackers_of(Path("here")) == ["tensorboard"]
    logs = {path: path.stat().st_size for path in Path("here").rglob("events.*")}
    assert {path.parent.parent.as_posix() for path in logs} == {
        f"here/seed-{seed}/{method}" for seed in (0, 1) for method in ("fedavg", "smofi")
    }
    Path("here/report.html").write_text("mine")  # is not lost, and neither is the run
    assert main(["run", "--resume", "here", "--rounds", "2", "--display", "jsonl"]) == 0
    ended = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"RunEnded"' in line]
    assert [(line["method"], line["seed"]) for line in ended] == [
        *(("fedavg", 0), ("smofi", 0), ("fedavg", 1), ("smofi", 1))
    ]
    recorded = len(list(Path("here").rglob("events.*")))
    assert recorded > len(logs)
    assert main(["run", "--resume", "here", "--rounds", "3", "--track", "none"]) == 0
    assert "The page could not be written: output=" in capsys.readouterr().out
    assert Path("here/report.html").read_text() == "mine"
    assert len(list(Path("here").rglob("events.*"))) == recorded


# Runs that end early


def test_a_run_that_diverges_says_where_and_the_others_are_still_reported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Clipped, a huge learning rate is harmless; FedAvg is gone in its first round, and with it the usual baseline."""
    arguments = ["run", *FLAGS, "--rounds", "2", "--optimizer", "sgd(lr=1e20)"]
    assert main([*arguments, "--method", "fedavg", "clip(max_norm=1e-21)"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert "fedavg: the training loss became" in out
    assert "in round 1, step" in " ".join(out.split())
    assert "clip(max_norm=1e-21)" in out
    assert list(folder.rglob("curves.png"))


def test_a_run_that_is_refused_leaves_no_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--clients", "100000"]) == 2
    assert list(folder.iterdir()) == []
    (folder / "runs/earlier").mkdir(parents=True)
    assert main(["run", "--clients", "100000"]) == 2
    assert [path.name for path in (folder / "runs").iterdir()] == ["earlier"]
    (folder / "runs/earlier").rmdir()
    (folder / "runs").rmdir()
    (folder / "runs").write_text("mine")
    capsys.readouterr()
    assert main(["run", *FLAGS]) == 2
    assert capsys.readouterr().err.startswith("error: runs")


@pytest.mark.slow
def test_three_runs_started_at_once_have_three_folders(tmp_path: Path) -> None:
    asked = [sys.executable, "-m", "smofi", "run", *QUICK, "--rounds", "1"]
    together = [subprocess.Popen(asked, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [one.wait(timeout=120) for one in together] == [0, 0, 0]
    assert len([path for path in (tmp_path / "runs").iterdir() if (path / "model.safetensors").exists()]) == 3


def test_a_run_folder_that_may_not_be_written_is_not_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        (run,) = start(Config(**SMALL, executor="loop", method="fedavg"), folder)
        run.close()
        Path(place).chmod(0o755)
        folder.chmod(0o555)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            assert main(["run", "--resume", str(folder)]) == 2
        finally:
            if root:
                os.seteuid(0)
        folder.chmod(0o755)
    assert "the folder cannot be written; copy it to where you may write" in capsys.readouterr().err


# Before a run


def test_data_is_shown_with_each_seed_and_the_spread(capsys: pytest.CaptureFixture[str]) -> None:
    """Sizes and classes are counted here once more, from the owners of the samples."""
    assert main(["data", "digits", "--seeds", "3,5", "--clients", "20", "--partition", "dirichlet(0.5)"]) == 0
    heading, _, *rows = capsys.readouterr().out.splitlines()
    assert heading == "digits, dirichlet(0.5), 20 clients, seeds 3,5"
    shown = {row.split()[0]: row.split()[1:6] for row in rows[:4]}
    assert list(shown) == ["3", "5", "mean", "±"]
    labels = smofi.data.load("digits").train.labels.numpy()
    largest = []
    for seed in (3, 5):
        owners = Config(clients=20, seed=seed, partition="dirichlet(0.5)").owners()
        sizes = np.bincount(owners[owners >= 0], minlength=20)
        classes = np.mean([len(set(labels[owners == client].tolist())) for client in range(20)])
        assert shown[str(seed)] == [f"{sizes.min()}", f"{np.median(sizes):g}", f"{sizes.max()}", "0", f"{classes:.2f}"]
        largest.append(int(sizes.max()))
    assert float(shown["mean"][2]) == pytest.approx(np.mean(largest), abs=0.5)
    assert float(shown["±"][2]) == pytest.approx(np.std(largest, ddof=1), rel=0.01)


def test_plan_and_advice_are_those_of_all_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    """256 samples among 4 clients are 64 each, a step, and 2 of them take part."""
    flags = [*FLAGS, "--max-train", "256", "--partition", "iid", "--method", "smofi", "--workers", "1"]
    assert main(["plan", *flags, "--seeds", "0-2", "--rounds", "5", "--executor", "loop"]) == 0
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "5 with each of 3 seeds" in printed
    assert "30 (2.0 per round)" in printed  # 3 seeds x 5 rounds x 2 clients x 1 step
    assert main(["advise", *flags, "--seeds", "0-1", "--rounds", "2"]) == 0
    assert "the first 2 rounds with each of the seeds 0-1, planned" in " ".join(capsys.readouterr().out.split())
