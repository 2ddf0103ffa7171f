"""CONTRIBUTING.md is followed step by step, in a copy of the project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.guide import sections

ROOT = Path(__file__).parent.parent
GUIDE = sections()
EXPECTED = {
    "Add a method": [
        r"\d+ passed",
        r"fedadagrad\(lr, tau=0.001\)",
        r"fedprox\(mu=0.01\)\+fedadagrad\(lr=0.1\) +round 1/1",
    ],
    "Add a model": [r"\d+ passed", "allconv", "allconv cut at 2", "smofi +round 1/1"],
    "Add a data set": [r"\d+ passed", "stl10, iid", "round 1/1"],
    "Add a setting": [r"\d+ passed", "--min-rounds", "reached the target accuracy .* in round 2", r"\nmin_rounds: 2\n"],
}
"""What the commands of each section print."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The project, to be edited; what is compiled comes along, so that only edited files are compiled."""
    made = tmp_path / "project"
    for name in ("smofi", "tests", "docs"):
        shutil.copytree(ROOT / name, made / name)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, made / name)
    return made


def write_stl10(folder: Path) -> None:
    """Official files of 40 and 20 pictures."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for split, count in (("train", 40), ("test", 20)):
        (folder / f"{split}_X.bin").write_bytes(rng.integers(256, size=(count, 3, 96, 96), dtype=np.uint8).tobytes())
        (folder / f"{split}_y.bin").write_bytes(bytes(1 + k % 10 for k in range(count)))


@pytest.mark.slow
def test_the_guide_is_followed(copy: Path, tmp_path: Path) -> None:
    """All sections in one process, for most of the time is that of importing torch."""
    data, commands = tmp_path / "data", [command for section in GUIDE.values() for command in section.commands]
    edited = [str(path) for section in GUIDE.values() for path in section.apply(copy) if path.suffix == ".py"]
    write_stl10(data / "stl10" / "stl10_binary")
    for style in (["check"], ["format", "--check"]):
        tried = subprocess.run(
            [sys.executable, "-m", "ruff", *style, *edited], cwd=copy, capture_output=True, text=True
        )
        assert tried.returncode == 0, tried.stdout
    done = subprocess.run(
        [sys.executable, "tests/support/guide.py", *commands],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "SMOFI_DATA": str(data), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    everything = done.stdout + done.stderr
    assert done.returncode == 0, everything
    assert "failed with" not in done.stdout, everything
    _, *printed = re.split(r"^\$ (.*)\n", done.stdout, flags=re.MULTILINE)
    by_command = dict(zip(printed[::2], printed[1::2], strict=True))
    for heading, section in GUIDE.items():
        words = "".join(by_command[command] for command in section.commands)
        for expected in EXPECTED[heading]:
            assert re.search(expected, words), everything
