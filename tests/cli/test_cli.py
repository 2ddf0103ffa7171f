"""The command line: one sentence for every mistake, and a real run from the shell with everything it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

import smofi
from smofi.cli import main
from smofi.config import Config
from smofi.methods import METHODS
from smofi.models import MODELS

SMALL = {"model": "cnn", "width": 4, "clients": 4, "batch_size": 64, "local_epochs": 1, "participation": 0.5}
FLAGS = [text for name, value in SMALL.items() for text in (f"--{name.replace('_', '-')}", str(value))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def smofi_process(*arguments: str, cwd: Path, **options: Any) -> subprocess.Popen[str]:
    """The real thing, in a process of its own, its output piped."""
    environment = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    return subprocess.Popen(
        [sys.executable, "-m", "smofi", *arguments],
        cwd=cwd,
        env={**environment, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        **options,
    )


# Mistakes

MISTAKES = [
    # commands and flags that do not exist
    ("frobnicate", 'there is no command frobnicate', "run"),
    ("rum", "did you mean run?"),
    ("--foo", "--foo"),
    ("run --rouds 3", "--rouds", "--rounds"),
    ("run --rounds", "--rounds needs a value"),
    ("run --rounds 2 --rounds 3", "--rounds is given twice"),
    ("run --no-cut", "--no-cut"),
    ("run nosuch.yaml too-much", "too-much"),
    ("methods foo", "foo"),
    ("methods --foo", "--foo"),
    ("models foo", "foo"),
    # numbers
    *((f"run --{flag} {value}", f"--{flag} {value} is not accepted", "a whole number >= 1")
      for flag in ("rounds", "local-epochs", "batch-size", "clients", "width", "threads") for value in ("0", "-1")),
    ("run --rounds 1.5", "--rounds ", "1.5", "is not accepted"),
    ("run --rounds many", "--rounds ", "many", "is not accepted"),
    ("run --rounds ''", "--rounds ''", "is not accepted"),
    ("run --seed -1", "--seed ", "-1", "a whole number >= 0"),
    ("run --threads two", "threads", "two"),
    *((f"run --participation {value}", f"--participation {value} is not accepted") for value in ("0", "2", "nan", "x")),
    ("run --clients 100000", "--clients 100000", "samples"),
    ("run --batch-size 100", "clients=50", "100", "samples"),
    # names
    ("run --data mnist", "--data mnist", "digits"),
    ("run --model resnet9", "--model resnet9", "did you mean 'resnet8'?"),
    ("run --norm layer", "--norm layer", "batch, group"),
    ("run --model mlp --norm batch", "--norm batch", "mlp has no such option"),
    ("run --norm group(3)", "--norm 'group(3)'", "divides the channels of every layer, but one has 8"),
    ("run --norm group(0)", "--norm 'group(0)'", "n=0", "a whole number >= 1"),
    ("run --partition even", "--partition even", "dirichlet, iid"),
    ("run --partition dirichlet(0)", "gamma=0", "a number > 0"),
    ("run --partition dirichlet", "it is written dirichlet(gamma, "),
    ("run --partition iid+iid", "--partition iid+iid", "a single one"),
    ("run --device toaster", "--device toaster", "is not accepted"),
    ("run --device meta", "--device meta", "is not accepted"),
    # methods and optimizers
    ("run --method fedavgg", "--method fedavgg", "did you mean 'fedavg'?"),
    ("run --method ''", "--method ''", "is not accepted"),
    ("run --method smofi --method smofi", "--method smofi smofi", "once"),
    ("run --method fedprox(mu=-1)", "mu=-1", "a number >= 0"),
    ("run --method fedavg --method fedprox(mu=", "--method 'fedprox(mu='", "is not accepted"),
    ("run --method smofi+sflv2", "smofi and sflv2 cannot be combined"),
    ("run --method __import__('os').mkdir('x')", "is not accepted"),
    ("run --optimizer sdg(lr=1)", "--optimizer sdg", "did you mean 'sgd'?"),
    ("run --optimizer sgd", "missing a required argument: 'lr'"),
    ("run --optimizer sgd(lr=-1)", "lr=-1", "a number > 0"),
    ("run --optimizer sgd(lr=1)+adam", "a single one"),
    # cuts
    ("run --cut 9", "--cut 9", "0=input, 1=core1, 2=core2, 3=core3, 4=output"),
    ("run --cut 0-9", "--cut 0-9", "4=output"),
    ("run --cut 0,9", "--cut 0,9", "4=output"),
    ("run --cut -1", "--cut -1", "is not accepted"),
    ("run --cut deep", "--cut deep", "L (such as 2)"),
    ("run --cut [0,1]", "--cut '[0,1]'", "one cut for each of the 50 clients, but it has 2"),
    ("run --clients 2 --cut [0,1] --method sflv2", "--cut '[0,1]'", "sflv2 keeps a single server model"),
    # how it is computed
    ("run --executor gpu", "--executor gpu", "one of auto, loop, vmap"),
    ("run --executor loop+vmap", "--executor loop+vmap", "a single one"),
    ("run --executor vmap(", "--executor 'vmap('", 'such as "vmap(at_least=3)"'),
    ("run --executor vmap(at_least=0)", "--executor 'vmap(at_least=0)'", "at_least=0", "a whole number >= 1"),
    ("run --executor vmap(at_most=3)", "--executor 'vmap(at_most=3)'", "it is written vmap(at_least=1)"),
    ("run --executor loop(3)", "--executor 'loop(3)'", "it is written loop()"),
    ("run --executor loop --executor vmap", "--executor loop vmap", "or one for each of the 3"),
    # places
    ("run --output file", "--output ", "file", "is not accepted"),
    ("run --output file/below", "--output ", "file", "is not accepted"),
    ("run nosuch.yaml", "nosuch.yaml"),
    ("run --resume nowhere", "nowhere"),
]  # fmt: skip


def words(line: str) -> list[str]:
    return ["" if word == "''" else word for word in line.split(" ")]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake[0])
def test_a_mistake_is_one_sentence_and_exit_code_2(
    mistake: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "file").write_text("in the way")
    line, *pieces = mistake
    assert main(words(line)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert "Traceback" not in err
    for piece in pieces:
        assert piece in err
    assert [path.name for path in folder.iterdir()] == ["file"], "something was left behind"
    assert (folder / "file").read_text() == "in the way"


def test_a_number_that_no_machine_has_threads_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--threads", "9" * 20]) == 2
    assert capsys.readouterr().err.startswith("error: --threads 9")


def test_a_mistake_from_the_shell(tmp_path: Path) -> None:
    process = smofi_process("run", "--rounds", "0", "--output", "here", cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert out == ""
    assert err.startswith("error: --rounds 0 ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


# Lists and help


def test_the_methods_are_listed_as_they_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    listed = " ".join(capsys.readouterr().out.split())
    for name in METHODS:
        assert f"{name}(" in listed
    assert "fedprox(mu)" in listed
    assert "sflv1(period='step')" in listed
    assert "Average the clients' weights" in listed


@pytest.mark.slow
def test_the_models_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    listed = " ".join(capsys.readouterr().out.split())
    assert all(name in listed for name in MODELS)
    assert "two convolutions and two linear layers" in listed


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == smofi.__version__


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help_names_the_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert all(command in out for command in ("run", "methods", "models", "Start with: smofi run"))
    assert err == ""


def test_help_names_every_setting_and_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    shown = capsys.readouterr().out
    for name, field in Config.model_fields.items():
        assert f"--{name.replace('_', '-')}" in shown
        assert field.description
    assert "[default: 50]" in shown
    shown = " ".join(shown.replace("│", " ").split())  # without the frame
    assert "[default: sgd(lr=0.05, momentum=0.9, weight_decay=0.0005, lr_decay=0.998)]" in shown


# A run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str, int]:
    """Two methods for two rounds, from the shell: the folder they ran in, what they printed, and the exit code."""
    cwd = tmp_path_factory.mktemp("cli")
    process = smofi_process("run", *FLAGS, "--rounds", "2", "--method", "fedavg", "--method", "smofi", cwd=cwd)
    out, err = process.communicate(timeout=120)
    return cwd, out, err, process.returncode


@pytest.fixture(scope="module")
def expected() -> dict[str, smofi.Result]:
    """The same two runs from Python."""
    arguments = Config(**SMALL, rounds=2).arguments()
    return {name: smofi.train(**arguments, method=name) for name in ("fedavg", "smofi")}


def results(cwd: Path) -> Path:
    """The one folder below runs/."""
    (made,) = (cwd / "runs").iterdir()
    return made


def test_a_run_ends_well(finished: tuple[Path, str, str, int]) -> None:
    cwd, _, err, code = finished
    assert (code, err) == (0, "")
    assert [path.name for path in cwd.iterdir()] == ["runs"]
    assert results(cwd).name.endswith("-digits")


def test_output_that_goes_into_a_pipe_is_plain(finished: tuple[Path, str, str, int]) -> None:
    out = finished[1]
    assert "\x1b" not in out
    assert "\r" not in out
    # two convolutions of 40 and 296 parameters, two linear layers of 1,056 and 330
    assert "4 clients, 2 a round, 1,722 parameters" in out
    for name in ("fedavg", "smofi"):
        assert any(line.startswith(name) and "round 2/2" in line for line in out.splitlines())


def test_a_run_prints_the_table_and_the_curves(
    finished: tuple[Path, str, str, int], expected: dict[str, smofi.Result]
) -> None:
    lines = finished[1].splitlines()
    legend = next(line for line in lines if "⠄ target " in line and "%" in line)
    target = 0.9 * max(record.accuracy for record in expected["fedavg"].history)
    assert f"target {100 * target:.1f}%" in legend
    assert any(f"The target is {100 * target:.1f}%: 90% of fedavg's best accuracy." in line for line in lines)
    for name, result in expected.items():
        accuracies = [record.accuracy for record in result.history]
        row = next(line for line in lines if line[:1] in "│|" and line[1:].strip().startswith(f"{name} "))
        assert f"{100 * max(accuracies):.1f}%" in row
        assert f"{100 * np.mean(accuracies):.1f}%" in row
        assert f"{name} {100 * accuracies[-1]:.1f}%" in legend
    assert any("round 1" in line and line.strip()[0] in "└+" for line in lines)


def test_a_run_leaves_a_picture(finished: tuple[Path, str, str, int]) -> None:
    picture = results(finished[0]) / "curves.png"
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    pixels = matplotlib.image.imread(picture)
    assert min(pixels.shape[:2]) > 400
    assert len(np.unique(pixels[..., 0])) > 10, "nothing is drawn"
    assert str(Path("runs") / results(finished[0]).name / "curves.png") in finished[1]


def test_a_picture_that_cannot_be_saved_does_not_hide_the_results(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    assert main(["run", *FLAGS, "--rounds", "1", "--method", "fedavg", "--output", "here"]) == 0
    out = capsys.readouterr().out
    assert "mean over rounds" in out
    assert "The picture could not be saved: here/curves.png cannot be written: No space left on device" in out


def test_a_run_leaves_its_history(finished: tuple[Path, str, str, int], expected: dict[str, smofi.Result]) -> None:
    for name, result in expected.items():
        lines = (results(finished[0]) / name / "metrics.jsonl").read_text().splitlines()
        left = [json.loads(line) for line in lines]
        assert len(left) == 2
        for record, wanted in zip(left, result.history, strict=True):
            assert record.pop("seconds") > 0
            assert record == {key: value for key, value in vars(wanted).items() if key != "seconds"}


def test_a_folder_given_twice_is_not_written_over(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", *FLAGS, "--rounds", "1", "--method", "fedavg", "--output", "here"]
    assert main(command) == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "error: --output here is not accepted: it already contains a run; expected a new folder, or: "
        "smofi run --resume here\n"
    )
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


# Virtual time


def test_a_run_with_a_clock_says_hours_and_draws_over_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    methods = ["--method", "fedavg", "--method", "smofi", "--executor", "loop"]
    assert main(["run", *FLAGS, *methods, "--rounds", "2", "--clock", "full", "--output", "here"]) == 0
    out = capsys.readouterr().out
    assert "Pictures: here/curves.png and here/curves-hours.png" in out
    heading = out[out.index("┏") : out.index("┡")]
    assert heading.count("virtual") == 2
    for name in ("fedavg", "smofi"):
        left = [json.loads(line) for line in (folder / "here" / name / "metrics.jsonl").read_text().splitlines()]
        row = next(line for line in out.splitlines() if line.startswith(f"│ {name} "))
        assert f" {left[-1]['virtual_end']:.3g} │" in row  # a second or less
    assert matplotlib.image.imread(folder / "here" / "curves-hours.png").shape[0] > 400


# Runs that end early


def test_a_run_that_diverges_says_where_and_exits_with_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", *FLAGS, "--rounds", "2", "--method", "fedavg", "--optimizer", "sgd(lr=1e20)"]
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert "fedavg: the training loss became" in out
    assert "in round 1, step" in " ".join(out.split())
    assert "Traceback" not in out


def test_when_the_baseline_diverges_at_once_the_others_are_still_reported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Clipped, a huge learning rate is harmless; FedAvg is gone in its first round, and with it the usual baseline."""
    arguments = ["run", *FLAGS, "--rounds", "2", "--optimizer", "sgd(lr=1e20)"]
    assert main([*arguments, "--method", "fedavg", "--method", "clip(max_norm=1e-21)"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert "clip(max_norm=1e-21)" in out
    assert "best" in out
    assert list(folder.rglob("curves.png"))


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals are not the same there")
def test_an_interrupted_run_exits_with_130_and_without_a_traceback(tmp_path: Path) -> None:
    process = smofi_process("run", *FLAGS, "--rounds", "1000000", "--method", "smofi", "--output", "here", cwd=tmp_path)
    assert process.stdout is not None
    for line in process.stdout:
        if "1,722 parameters" in line:  # it is announced when training starts
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.startswith("Interrupted")
    assert err.count("\n") == 1
    assert "Traceback" not in out
