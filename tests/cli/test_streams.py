"""Standard output that is full or closed: a run goes on without it, another command fails with a sentence at most."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import smofi
from smofi.cli.entry import Lasting
from support.processes import ENVIRONMENT, QUICK

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
FULL = "error: standard output cannot be written: No space left on device\n"
SMOFI = f"{sys.executable} -m smofi"


def shell(line: str, cwd: Path) -> tuple[int, str]:
    """The exit code and standard error of a line of bash."""
    done = subprocess.run(["bash", "-c", line], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_stream_that_does_not_wait_for_its_reader_is_waited_for() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    if not (child := os.fork()):
        os.close(writer)
        read = sum(len(piece) for piece in iter(lambda: os.read(reader, 1000), b""))
        os._exit(read != 300_000)
    with Lasting(writer, "w") as stream:
        left = memoryview(b"." * 300_000)
        while left:
            left = left[stream.write(left) :]
    os.close(reader)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        (f"{SMOFI} --version > /dev/full", 1, FULL),
        (f"{SMOFI} presets > /dev/full", 1, FULL),
        (f"{SMOFI} --version > /dev/full 2> /dev/full", 1, ""),
        (f"{SMOFI} --version >&- 2>&-", 0, ""),
        (f"COLUMNS=1 {SMOFI} presets > /dev/null", 0, ""),
        # the other end of the pipe is closed before anything is written
        (f"(sleep 0.3; exec {SMOFI} --version) | true; exit ${{PIPESTATUS[0]}}", 1, ""),
    ],
)
def test_a_command_that_cannot_print(line: str, code: int, told: str, tmp_path: Path) -> None:
    assert shell(line, tmp_path) == (code, told)


LOST = [
    pytest.param("full", "plain", "> /dev/full", "No space left on device", id="full"),
    *(
        pytest.param(how, display, where, why, id=how, marks=pytest.mark.slow)
        for how, display, where, why in (
            ("live", "live", "> /dev/full", "No space left on device"),
            ("head", "jsonl", "| head -c 1 > /dev/null", "Broken pipe"),
            ("closed", "plain", ">&-", None),
            ("both full", "plain", "> /dev/full 2> /dev/full", None),
            ("both closed", "jsonl", ">&- 2>&-", None),
        )
    ),
]


@pytest.mark.parametrize(("how", "display", "where", "why"), LOST)
def test_a_run_ends_well_whatever_becomes_of_its_output(
    how: str, display: str, where: str, why: str | None, tmp_path: Path
) -> None:
    asked = f"run {' '.join(QUICK[:-2])} --display {display} --rounds 2 --workers 2 --output run"
    code, told = shell(f"{SMOFI} {asked} {where}; exit ${{PIPESTATUS[0]}}", tmp_path)
    remark = f"standard output cannot be written ({why}): the run goes on; see it with: smofi show run"
    assert (code, told) == (0, f"warning: {remark}\n" if why else "")
    assert {"model.safetensors", "result.json"} <= {path.name for path in (tmp_path / "run").iterdir()}
    assert smofi.__version__ in (tmp_path / "run" / "about.json").read_text()
