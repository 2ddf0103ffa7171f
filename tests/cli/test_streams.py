"""Standard output that is full or closed: a run goes on without it, another command fails with a sentence at most."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import smofi
from smofi.cli import main
from smofi.cli.streams import LastingStream
from support.processes import ENVIRONMENT, QUICK

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
FULL = "error: standard output cannot be written: No space left on device\n"
SMOFI = f"{sys.executable} -m smofi"


def shell(line: str, cwd: Path) -> tuple[int, str]:
    """The exit code and standard error of a line of bash."""
    done = subprocess.run(["bash", "-c", line], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_stream_that_is_lost_leads_nowhere_from_then_on() -> None:
    lost: list[OSError] = []
    with open("/dev/full", "wb", buffering=0) as full:
        stream = io.TextIOWrapper(io.BufferedWriter(LastingStream(full, lost.append)))
        for _ in range(2):
            stream.write("unheard\n")
            stream.flush()
        os.write(full.fileno(), b"others that write to the same file do not fail either")
    assert [error.errno for error in lost] == [errno.ENOSPC]


def test_a_stream_that_does_not_wait_for_its_reader_is_waited_for() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    if not (child := os.fork()):
        os.close(writer)
        read = sum(len(piece) for piece in iter(lambda: os.read(reader, 1000), b""))
        os._exit(read != 300_000)
    with os.fdopen(writer, "wb", buffering=0) as file, io.BufferedWriter(LastingStream(file, lambda _: None)) as stream:
        stream.write(b"." * 300_000)
    os.close(reader)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_run_goes_on_without_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/full", "w") as full:
        for name in ("stdout", "__stdout__"):
            monkeypatch.setattr(sys, name, full)
        assert main(["run", *QUICK, "--executor", "loop", "--rounds", "1", "--output", str(tmp_path / "run")]) == 0
        sys.stdout = full
    assert capsys.readouterr().err == (
        "warning: standard output cannot be written (No space left on device): the run goes on; see it with: "
        f"smofi show {tmp_path / 'run'}\n"
    )
    assert (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        (f"{SMOFI} --version > /dev/full", 1, FULL),
        (f"{SMOFI} --version > /dev/full 2> /dev/full", 1, ""),
        (f"{SMOFI} --version >&- 2>&-", 0, ""),
        # the other end of the pipe is closed before anything is written
        (f"(sleep 0.3; exec {SMOFI} --version) | true; exit ${{PIPESTATUS[0]}}", 1, ""),
    ],
)
def test_a_command_that_cannot_print(line: str, code: int, told: str, tmp_path: Path) -> None:
    assert shell(line, tmp_path) == (code, told)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["methods", "models cnn", "config", "--help", "run --help", "show run", "data digits"]
)
def test_every_command_says_that_it_cannot_print(command: str, tmp_path: Path) -> None:
    if command == "show run":
        assert main(["run", *QUICK, "--rounds", "1", "--output", str(tmp_path / "run")]) == 0
    assert shell(f"{SMOFI} {command} > /dev/full", tmp_path) == (1, FULL)
    assert shell(f"(sleep 0.3; exec {SMOFI} {command}) | true; exit ${{PIPESTATUS[0]}}", tmp_path) == (1, "")
    assert shell(f"{SMOFI} {command} >&-", tmp_path) == (0, "")


LOST = {
    "full": ("> /dev/full", "No space left on device"),
    "head": ("| head -c 1 > /dev/null", "Broken pipe"),
    "closed": (">&-", None),
    "both full": ("> /dev/full 2> /dev/full", None),
    "both closed": (">&- 2>&-", None),
}


@pytest.mark.slow
@pytest.mark.parametrize(("display", "workers"), [("plain", 2), ("live", 1), ("quiet", 1), ("jsonl", 2)])
@pytest.mark.parametrize("how", LOST)
def test_a_run_ends_well_whatever_becomes_of_its_output(how: str, display: str, workers: int, tmp_path: Path) -> None:
    where, why = LOST[how]
    asked = f"run {' '.join(QUICK[:-2])} --display {display} --rounds 3 --workers {workers} --track tensorboard"
    code, told = shell(f"{SMOFI} {asked} --output run {where}; exit ${{PIPESTATUS[0]}}", tmp_path)
    remark = f"standard output cannot be written ({why}): the run goes on; see it with: smofi show run"
    expected = f"warning: {remark}\n" if why and display != "quiet" else ""
    assert (code, told) == (0, expected)
    assert {"model.safetensors", "result.json", "tensorboard"} <= {path.name for path in (tmp_path / "run").iterdir()}
    assert smofi.__version__ in (tmp_path / "run" / "about.json").read_text()


def test_a_caller_gets_its_own_streams_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with open(tmp_path / "out", "w", encoding="ascii", errors="strict") as own:
        monkeypatch.setattr(sys, "stdout", own)
        monkeypatch.setattr(sys, "__stdout__", own)
        assert main(["--version"]) == 0
        assert sys.stdout is own
        assert own.errors == "strict"
    assert (tmp_path / "out").read_text() == f"{smofi.__version__}\n"
