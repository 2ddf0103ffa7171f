"""A signal ends a command at any moment without a traceback, and leaves nothing half-written behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from smofi.cli import main
from support.processes import ENVIRONMENT, QUICK

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals are not the same there")
SLOW = pytest.mark.slow


def started(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "smofi", *arguments]
    return subprocess.Popen(
        command, cwd=cwd, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def catches(process: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    (caught,) = re.findall(r"^SigCgt:\s+(\w+)$", Path(f"/proc/{process}/status").read_text(), flags=re.MULTILINE)
    return bool(int(caught, 16) >> (number - 1) & 1)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=SLOW), pytest.param(signal.SIGHUP, marks=SLOW)]
)
def test_a_signal_while_torch_is_being_loaded_is_answered(number: signal.Signals, tmp_path: Path) -> None:
    for _ in range(5):  # on a busy machine, the signal may come when the list is printed already
        process = started("models", cwd=tmp_path)
        until = time.monotonic() + 60
        while "/torch/" not in Path(f"/proc/{process.pid}/maps").read_text():
            assert process.poll() is None
            assert time.monotonic() < until
        process.send_signal(number)
        out, said = process.communicate(timeout=60)
        if process.returncode != 0:
            break
    assert (out, said) == ("", "Interrupted.\n")
    assert process.returncode == 128 + number


@pytest.mark.parametrize("where", ["new", "given"])
def test_a_run_that_is_stopped_before_it_starts_leaves_nothing(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MISBEHAVIOUR", "stop")
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    asked = ["run", "--model", "python:support.misbehaving:network", "--cut", "0", "--method", "fedavg"]
    assert main([*asked, *(["--output", "here"] if where == "given" else [])]) == 128 + signal.SIGTERM
    assert capsys.readouterr() == ("", "Interrupted.\n")
    assert list(tmp_path.iterdir()) == []
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "plan", "export", "data"])
def test_ctrl_c_at_any_moment_ends_a_command_without_a_traceback(command: str, tmp_path: Path) -> None:
    finished, asked = tmp_path / "finished", {"data": ["digits", "--output", "picture.png"], "plan": QUICK[:-2]}
    if command == "export":
        assert main(["run", *QUICK, "--rounds", "1", "--output", str(finished)]) == 0
        asked["export"] = [str(finished), "exported"]
    asked["run"] = [*QUICK, "--rounds", "2"]
    for tenths in range(0, 40, 4):
        folder = tmp_path / f"{tenths}"
        folder.mkdir()
        process = started(command, *asked[command], cwd=folder)
        while not catches(process.pid, signal.SIGTERM):  # before that, Python itself answers
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(tenths / 10)
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=60)[1]
        if process.returncode == 130 and "continue with" not in err:
            assert err == "Interrupted.\n"
            assert list(folder.iterdir()) == []
        else:  # a run that has begun is saved; a command that has ended may still be leaving
            assert process.returncode in (0, 130, -signal.SIGINT), err
            assert "Traceback" not in err


@pytest.mark.slow
def test_a_closed_terminal_does_not_end_a_run_started_with_nohup(tmp_path: Path) -> None:
    asked = ["nohup", sys.executable, "-m", "smofi", "run", *QUICK, "--rounds", "40", "--output", "here"]
    with subprocess.Popen(asked, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.DEVNULL) as process:
        while not (tmp_path / "here" / "metrics.jsonl").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGHUP)
    assert process.returncode == 0
    assert (tmp_path / "here" / "model.safetensors").exists()
