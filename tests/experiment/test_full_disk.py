"""A disk that is nearly full, for real: a small one in memory, which only root may mount."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from smofi.runs import RunFolder

pytestmark = pytest.mark.slow
MODEL = ["--clients", "6", "--participation", "0.5", "--model", "resnet8", "--width", "26", "--local-epochs", "1",
         "--batch-size", "16", "--display", "quiet", "--workers", "1", "--rounds", "6"]  # fmt: skip
AVGM = "fedavgm(momentum=0.3)"
"""Its model has 825 KB, its state 1,636 KB."""


@contextmanager
def disk(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"a disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def smofi(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "smofi", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done


def test_a_method_that_cannot_be_saved_does_not_end_the_others(tmp_path: Path) -> None:
    """The first method leaves no room for the model of the second; the third has its turn all the same."""
    with disk(tmp_path / "disk", "4950k") as place:
        methods = ("--method", AVGM, "--method", "fedavg", "--method", "fedprox(mu=0.01)")
        done = smofi("run", *MODEL, *methods, "--checkpoint-every", 1, "--output", place / "run")
        assert done.returncode == 2
        assert f"the result could not be written to {place / 'run/fedavg'}: No space left on device" in done.stderr
        assert len(RunFolder(place / "run/fedprox-mu=0.01").records()) == 6
        assert RunFolder(place / f"run/{AVGM.replace('(', '-').rstrip(')')}").result() is not None


def test_no_room_at_the_start_is_a_sentence_and_the_folder_can_be_used_later(tmp_path: Path) -> None:
    with disk(tmp_path / "disk", "12k") as place:
        refused = smofi("run", "--rounds", 1, "--display", "quiet", "--output", place / "run")
        assert refused.returncode == 2
        assert refused.stderr.startswith("error: ")
        assert str(place / "run") in refused.stderr
        assert refused.stderr.endswith(": No space left on device\n")
        assert refused.stderr.count("\n") == 1
        subprocess.run(["mount", "-o", "remount,size=20m", place], check=True)
        assert smofi("run", "--rounds", 1, "--display", "quiet", "--output", place / "run").returncode == 0
