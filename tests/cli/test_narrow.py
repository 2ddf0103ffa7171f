"""A terminal may be as narrow as it likes: nothing that is drawn fails."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
from pathlib import Path

import pytest

from smofi.cli import main
from smofi.cli.program import console
from support.processes import ENVIRONMENT, QUICK

RUN = [*QUICK[:-2], "--rounds", "1", "--executor", "loop"]
SLOW = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["1", "20"])
def test_a_run_and_what_is_shown_of_it(
    columns: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    folder = str(tmp_path / "run")
    assert main(["run", *RUN, "--display", "plain", "--clock", "full", "--output", folder]) == 0
    for asked in (["show", folder], ["methods"], ["data", "digits"], ["data", "--devices"]):
        assert main(asked) == 0
    assert main(["timeline", folder]) == 0
    assert "smofi" in capsys.readouterr().out


@pytest.mark.parametrize("columns", [pytest.param("1", marks=SLOW), pytest.param("10", marks=SLOW), "20"])
def test_the_live_picture(columns: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(console, "_force_terminal", True)
    assert main(["run", *RUN, "--display", "live", "--output", str(tmp_path / "run")]) == 0
    assert main(["show", str(tmp_path / "run")]) == 0


def test_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "1")
    assert main(["show", "--help"]) == 0
    assert "Show a run" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 10, 20, 40])
@pytest.mark.parametrize(
    "asked", [["run", *RUN, "--output", "here"], ["plan", *RUN], ["advise", *RUN], ["models"], ["presets"], ["data"]]
)
def test_a_real_terminal(asked: list[str], columns: int, tmp_path: Path) -> None:
    child, terminal = pty.fork()
    if not child:
        os.chdir(tmp_path)
        os.execve(sys.executable, [sys.executable, "-m", "smofi", *asked], ENVIRONMENT | {"TERM": "xterm"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    shown = b""
    try:
        while piece := os.read(terminal, 4096):
            shown += piece
    except OSError:  # so Linux says that it is closed
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, shown.decode()
    assert b"Traceback" not in shown
