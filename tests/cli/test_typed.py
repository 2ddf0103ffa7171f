"""Lists and flags as people type them, and what is said about those that cannot be used."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from smofi.cli import main
from smofi.cli.arguments import SECTIONS
from smofi.config import Config
from smofi.experiment import start


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with a file of settings."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.yaml").write_text("rounds: 3\n")
    (tmp_path / "smofi").mkdir()  # a folder named like a method is not taken for a misplaced one
    return tmp_path


def configured(line: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `smofi config` makes of these flags."""
    assert main(["config", *line.split()]) == 0, capsys.readouterr().err
    settings: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return settings


def refusal(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err.removeprefix("error: ").rstrip("\n")


@pytest.mark.parametrize(
    "line", ["--method fedavg smofi", "--method fedavg --method smofi", "--method=fedavg --method=smofi"]
)
def test_a_list_is_written_in_one_go_or_flag_by_flag(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = configured(f"my.yaml --metrics top1 macro_f1 {line} --executor loop vmap --seed 2", capsys)
    assert (found["method"], found["metrics"]) == (["fedavg", "smofi"], ["top1", "macro_f1"])
    assert (found["executor"], found["seed"], found["rounds"]) == (["loop", "vmap"], 2, 3)


@pytest.mark.parametrize(
    ("line", "on"),
    [
        ("--compile", True), ("--compile true", True), ("--compile YES", True), ("--compile on", True),
        ("--compile 1", True), ("--compile=on", True), ("--compile=Yes", True),
        ("--compile false", False), ("--compile no", False), ("--compile off", False), ("--compile 0", False),
        ("--compile=off", False), ("--no-compile", False),
    ],
)  # fmt: skip
def test_a_flag_is_on_or_off(line: str, on: bool, capsys: pytest.CaptureFixture[str]) -> None:
    for asked in (f"my.yaml {line}", f"{line} my.yaml", f"{line} --rounds 3"):
        found = configured(asked, capsys)
        assert (found["compile"], found["rounds"]) == (on, 3)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("run --method fedavg my.yaml", "my.yaml follows --method, so it is read as one of its values; write it first: "
         "smofi run my.yaml --method fedavg"),
        ("run --method fedavg smofi cifar10", "cifar10 follows --method, so it is read as one of its values; "
         "write it first: smofi run cifar10 --method fedavg smofi"),
        ("export --format onnx there", "there follows --format, so it is read as one of its values; write it first: "
         "smofi export there --format onnx"),
        ("run --method fedavg fedavgg", "--method fedavgg is not accepted: expected one of"),
        ("run --method smofi(alpha=hello)", "--method 'smofi(alpha=hello)': smofi: alpha='hello' is not accepted: "
         "expected a number <= 0"),
        ("run --method --rounds 3", "--method needs a value, but --rounds follows"),
        ("run --rounds", "--rounds needs a value"),
        ("run --rounds 2 --rounds=3", "--rounds is given twice"),
        ("run --compile maybe", "--compile maybe is not accepted: expected true or false"),
        ("run --compile=maybe", "--compile maybe is not accepted: expected true or false"),
        ("run my.yaml other.yaml", "other.yaml is one argument too many: smofi run takes one SOURCE, a YAML file or "
         "the name of a preset"),
        ("methods all", "smofi methods takes no arguments, but all is given"),
        ("timeline", "smofi timeline needs FOLDER, the folder of a run"),
        ("run --batch-size 0", "--batch-size 0 is not accepted: expected a whole number >= 1"),
        ("run --display fancy", "--display fancy is not accepted: expected one of auto, live, plain, quiet, jsonl"),
        ("timeline there --round x", "--round x is not accepted: expected a whole number"),
        ("timeline there --output x.gif", "--output x.gif is not accepted: expected a file name that ends in .png, "
         ".svg or .pdf"),
        ("run --local-epoch 3", "smofi run has no option --local-epoch (did you mean --local-epochs?)"),
        ("run -q", "smofi run has no option -q; smofi run --help lists them"),
        ("shwo there", "there is no command shwo (did you mean show?); the commands are run, plan, advise, sweep, "),
        ("--rounds 3", "--rounds stands before the command; write smofi run --rounds"),
        ("run --method fedavg,smofi", "--method fedavg,smofi is not accepted: write --method fedavg smofi"),
        ("run --diagnose --workers 2", "--diagnose is not accepted: expected False with 2 workers"),
        ("run --resume . my.yaml", "--resume . is not accepted with a file, --scale or --output: the run's folder has"),
        ("config --output here", "smofi config has no option --output; smofi config --help lists them"),
        ("help", "there is no command help: write smofi --help"),
        ("--quick", "smofi has no option --quick; smofi --help lists the commands"),
    ],
)  # fmt: skip
def test_what_was_typed_is_named(line: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(line, capsys).startswith(sentence)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("run {}", "x"), ("run {}.yaml", "x"), ("run --output {}", "--output x"), ("run --resume {}", "--resume x"),
        ("timeline {}", "x"), ("advise --output {}.png", "--output x"),
    ],
)  # fmt: skip
def test_a_name_that_is_too_long(line: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(line.format("x" * 300), capsys)
    assert said.startswith(named)
    assert said.endswith("File name too long")


def test_a_run_folder_that_may_not_be_written_is_not_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        (run,) = start(Config(model="cnn", width=4, clients=4, batch_size=64, executor="loop", method="fedavg"), folder)
        run.close()
        Path(place).chmod(0o755)
        folder.chmod(0o555)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            said = refusal(f"run --resume {folder}", capsys)
        finally:
            if root:
                os.seteuid(0)
        folder.chmod(0o755)
    assert said == (
        f"--resume {folder} is not accepted: the folder cannot be written; copy it to where you may write, and resume "
        "the copy"
    )


def test_the_help_says_how_options_are_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["run", "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    text = " ".join(" ".join(lines).replace("│", "").split())
    assert max(map(len, lines)) <= 80
    assert all(f"─ {section} ─" in text for section in SECTIONS.values())
    assert "Options marked with dots take one or more values: --method fedavg smofi." in text
    assert "--method STR... one or more" in text
    assert "[default: fedavg fedavgm(momentum=0.3) smofi]" in text
    assert "--compile --no-compile" in text
    assert "Examples: smofi run --method fedavg smofi" in text
    assert not re.search(r"default: (None|False|\()", text)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("run --hlep", "smofi run has no option --hlep (did you mean --help?)"),
        ("show nowhere", "nowhere is not accepted: expected the folder of a run, but there is none"),
        ("show my.yaml", "my.yaml is not accepted: expected the folder of a run, but it is a file"),
        ("run --resume nowhere", "--resume nowhere is not accepted: expected the folder of a run, but there is none"),
        ("models resnet19", "resnet19 is not accepted: expected one of "),
        ("config --data mine.csv", "(did you mean 'csv:mine.csv'?)"),
        ("config --data smofi", "(did you mean 'folder:smofi'?)"),
        ("config --step-deadline 1", "--step-deadline 1.0 is not accepted: it needs a clock, paper or full"),
        ("plan --method python:math:sin", "--method python:math:sin: python:math:sin is not accepted: missing "),
    ],
)
def test_what_was_typed_is_what_is_named(line: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says in refusal(line, capsys)
