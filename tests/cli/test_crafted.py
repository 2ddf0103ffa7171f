"""`show`, `export` and `timeline` on files that are anything: each ends at once, with a sentence that names it."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

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
CRAFTED = [
    ("config.yaml", b"a: &a [x, x]\nb: [*a, *a]\n", "line 2: expected the value itself, not an alias (*name)"),
    ("config.yaml", b"rounds: " + b"[" * 600, "cannot be read as YAML: it is nested too deeply"),
    ("config.yaml", b"rounds: many", "rounds='many' is not accepted: expected a whole number >= 1"),
    ("config.yaml", b"\xff", "is not text: byte 1 is not UTF-8; expected a YAML file"),
    ("about.json", b"\xff", "cannot be read: 'utf-8' codec can't decode byte 0xff in position 0"),
    ("about.json", b"[]", "cannot be read: expected keys and values"),
    ("about.json", b"[" * 100_000, "cannot be read: maximum recursion depth exceeded"),
    ("metrics.jsonl", b"\xff\n", "cannot be read: line 1 is not the record of round 1"),
    ("metrics.jsonl", b"[]\n", "cannot be read: line 1 is not the record of round 1"),
    ("metrics.jsonl", {"round": 2}, "cannot be read: line 1 is not the record of round 1"),
    ("metrics.jsonl", {"accuracy": "high"}, "cannot be read: accuracy in line 1 is 'high'"),
    ("metrics.jsonl", {"idle": ["x"]}, "cannot be read: idle in line 1 is \"['x']\""),
    ("metrics.jsonl", {"diagnostics": [1]}, "cannot be read: diagnostics in line 1 is '[1]'"),
    ("metrics.jsonl", {"cut": 3}, "cannot be read: cut in line 1 is '3'"),
]
READ = ("config.yaml", "about.json", "metrics.jsonl", "manifest.json")
SUMMED = ("model.safetensors", "partition.safetensors", "checkpoints/round-000001.safetensors")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with a clock, on which every command works: otherwise the refusals would prove nothing."""
    folder = tmp_path_factory.mktemp("crafted") / "run"
    for one in experiment.start(SETTINGS, folder):
        one.train()
    assert main(["export", str(folder), str(folder.parent / "out"), "--format", "safetensors"]) == 0
    assert [main([command, str(folder)]) for command in ("show", "timeline")] == [0, 0]
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of the run; what waits for a pipe is ended."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("still waiting"))
    signal.alarm(30)
    yield shutil.copytree(made, tmp_path / "run")
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def refused(run: Path, capsys: pytest.CaptureFixture[str], *sentences: str) -> None:
    """Each command is refused in one line with these words, and does nothing else."""
    for command in COMMANDS:
        target = [str(run.parent / "out")] if command == "export" else []
        before = {path: path.stat().st_mtime_ns for path in run.parent.rglob("*")}
        assert main([command, str(run), *target]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert all(sentence in err for sentence in sentences)
        assert {path: path.stat().st_mtime_ns for path in run.parent.rglob("*")} == before


@pytest.mark.parametrize(("name", "content", "sentence"), CRAFTED, ids=lambda value: str(value)[:30])
def test_damage_and_forgery_are_told(
    name: str, content: bytes | dict[str, object], sentence: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the checksum; and where that fits, by what the file contains."""
    if isinstance(content, dict):
        content = f"{json.dumps(json.loads((run / 'metrics.jsonl').read_text()) | content)}\n".encode()
    (run / name).write_bytes(content)
    refused(run, capsys, f"{run / name} {CHANGED}")
    rewritten(run, name, content)
    refused(run, capsys, f"error: {run / name}", sentence)


@pytest.mark.parametrize("name", [*READ, *SUMMED])
def test_a_pipe_is_not_waited_for_and_a_huge_file_not_read(
    name: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for put, said in ((os.mkfifo, "is not a regular file"), (Path.touch, CHANGED if name in SUMMED else "")):
        (run / name).unlink()
        put(run / name)
        if put is Path.touch:
            os.truncate(run / name, 2**40)
        if name in READ:
            refused(run, capsys, f"{run / name} {said}".rstrip())
        else:  # which is not shown, only checked
            assert main(["show", str(run)]) == 2
            assert f"{run / name} {said}" in capsys.readouterr().err


def test_a_lock_that_is_a_pipe_is_nobodys(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / ".lock").unlink()
    os.mkfifo(run / ".lock")
    assert main(["show", str(run)]) == 0
    assert "finished, round 1 of 1" in capsys.readouterr().out
