"""`show`, `export` and `timeline` on files that are anything: each ends at once, with a sentence that names it."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from smofi import experiment
from smofi.cli import main
from smofi.config import Config
from support.run_folder import rewritten

COMMANDS = ("show", "export", "timeline")
SETTINGS = Config(
    model="cnn", width=4, max_train=512, clients=4, participation=1.0, partition="iid", batch_size=64, local_epochs=1,
    rounds=1, executor="loop", clock="full", method=("smofi",),
)  # fmt: skip
CHANGED = "is not what the run saved (its checksum differs): it is damaged, edited or from another run. Put the"
LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcde", "bcdef", strict=True)
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with a clock."""
    folder = tmp_path_factory.mktemp("crafted") / "run"
    for one in experiment.start(SETTINGS, folder):
        one.train()
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "run")


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    """What waits for a pipe is ended."""

    def end(number: int, frame: FrameType | None) -> None:
        pytest.fail("still waiting")  # no OSError, which would be taken for one of the file

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def refused(command: str, run: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence of a command that does nothing else."""
    target = [str(run.parent / "out")] if command == "export" else []
    before = {path: path.stat().st_mtime_ns for path in run.parent.rglob("*")}
    assert main([command, str(run), *target]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert {path: path.stat().st_mtime_ns for path in run.parent.rglob("*")} == before
    return err


def record(run: Path, **changes: object) -> bytes:
    return f"{json.dumps(json.loads((run / 'metrics.jsonl').read_text()) | changes)}\n".encode()


def test_every_command_works_on_the_run_itself(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise the refusals here would prove nothing."""
    assert main(["export", str(run), str(run.parent / "out"), "--format", "safetensors"]) == 0
    assert [main([command, str(run)]) for command in ("show", "timeline")] == [0, 0]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "config.yaml",
            LAUGHS.encode(),
            "cannot be read as YAML: line 2: expected the value itself, not an alias (*name)",
        ),
        ("config.yaml", b"rounds: " + b"[" * 600, "cannot be read as YAML: it is nested too deeply"),
        ("config.yaml", b"rounds: many", "rounds='many' is not accepted: expected a whole number >= 1"),
        ("config.yaml", b"\xff", "is not text: byte 1 is not UTF-8; expected a YAML file"),
        ("about.json", b"\xff", "cannot be read: 'utf-8' codec can't decode byte 0xff in position 0"),
        ("about.json", b"[]", "cannot be read: expected keys and values"),
        ("about.json", b"null", "cannot be read: expected keys and values"),
        ("about.json", b"[" * 100_000, "cannot be read: maximum recursion depth exceeded"),
        ("metrics.jsonl", b"\xff\n", "cannot be read: line 1 is not the record of round 1"),
        ("metrics.jsonl", b"[]\n", "cannot be read: line 1 is not the record of round 1"),
        ("metrics.jsonl", {"round": 2}, "cannot be read: line 1 is not the record of round 1"),
        ("metrics.jsonl", {"accuracy": "high"}, "cannot be read: accuracy in line 1 is 'high'"),
        ("metrics.jsonl", {"seconds": []}, "cannot be read: seconds in line 1 is '[]'"),
        ("metrics.jsonl", {"idle": ["x"]}, "cannot be read: idle in line 1 is \"['x']\""),
        ("metrics.jsonl", {"diagnostics": [1]}, "cannot be read: diagnostics in line 1 is '[1]'"),
        ("metrics.jsonl", {"cut": 3}, "cannot be read: cut in line 1 is '3'"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_damage_and_forgery_are_told(
    name: str, content: bytes | dict[str, object], sentence: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the checksum; and where that fits, by what the file contains."""
    content = record(run, **content) if isinstance(content, dict) else content
    (run / name).write_bytes(content)
    for command in COMMANDS:
        assert f"{run / name} {CHANGED}" in refused(command, run, capsys)
    rewritten(run, name, content)
    for command in COMMANDS:
        message = refused(command, run, capsys)
        assert message.startswith(f"error: {run / name}")
        assert sentence in message


@pytest.mark.parametrize("name", ["config.yaml", "about.json", "metrics.jsonl", "manifest.json"])
def test_a_pipe_is_not_waited_for(name: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / name).unlink()
    os.mkfifo(run / name)
    for command in COMMANDS:
        assert f"{run / name} is not a regular file" in refused(command, run, capsys)


@pytest.mark.parametrize("name", ["config.yaml", "about.json", "manifest.json", "metrics.jsonl"])
def test_a_huge_file_is_not_read(name: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open(run / name, "wb") as file:
        file.truncate(300 * 2**20)
    for command in COMMANDS:
        assert str(run / name) in refused(command, run, capsys)


@pytest.mark.parametrize("name", ["model.safetensors", "partition.safetensors", "checkpoints/round-000001.safetensors"])
def test_of_files_that_are_not_shown_neither_is_waited_for(
    name: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / name).unlink()
    os.mkfifo(run / name)
    assert main(["show", str(run)]) == 2
    assert f"{run / name} is not a regular file. Put the original back" in capsys.readouterr().err
    (run / name).unlink()
    with open(run / name, "wb") as file:
        file.truncate(2**40)
    assert main(["show", str(run)]) == 2
    assert f"{run / name} {CHANGED}" in capsys.readouterr().err


def test_a_lock_that_is_a_pipe_is_nobodys(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / ".lock").unlink()
    os.mkfifo(run / ".lock")
    assert main(["show", str(run)]) == 0
    assert "finished, round 1 of 1" in capsys.readouterr().out
