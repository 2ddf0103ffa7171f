"""What is counted is written as people write it: "1 round", "2 rounds"."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from smofi.cli import main
from smofi.plural import between, plural


def test_one_and_many() -> None:
    assert [plural(number, "round") for number in (0, 1, 2, 1000)] == [
        "0 rounds",
        "1 round",
        "2 rounds",
        "1,000 rounds",
    ]
    assert (plural(2, "class"), plural(2, "batch")) == ("2 classes", "2 batches")
    assert (between(2, 2), between(2, 10)) == ("2", "2 to 10")


def test_a_run_with_one_of_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--clients", "1", "--participation", "1", "--rounds", "1", "--local-epochs", "1", "--partition", "iid"]
    small += ["--max-train", "40", "--max-test", "20", "--model", "cnn", "--executor", "loop", "--workers", "1"]
    folder = str(tmp_path / "one")
    for command in (
        ["run", *small, "--clock", "full", "--method", "fedavg", "--display", "plain", "--output", folder],
        ["show", folder],
        ["timeline", folder],
        ["data", "digits", "--clients", "1", "--partition", "iid", "--devices", "phones"],
    ):
        assert main(command) == 0
        text = capsys.readouterr().out
        assert not re.findall(r"\b1 (?:rounds|clients|workers|epochs|local epochs|steps|samples|classes)\b", text), text
        assert not re.findall(r"\b(\d+) to \1\b", text), text
