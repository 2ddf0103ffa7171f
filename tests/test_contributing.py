"""CONTRIBUTING.md is followed step by step, in a copy of the project; the hooks it speaks of run what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from support.guide import Section, changed, sections

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
        [sys.executable, "tests/support/guide.py", *commands, "make test ARGS=tests/test_shape.py"],
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


def test_an_edit_that_fits_nowhere_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="file has this 0 times, not once:\nz"):
        changed("a\nb\n", " z\n+c\n", "file")
    with pytest.raises(ValueError, match="2 times"):
        changed("a\na\n", " a\n+c\n", "file")
    (tmp_path / "here.py").touch()
    with pytest.raises(ValueError, match=r"here\.py is there already"):
        Section("```python\n# here.py\nx = 1\n```\n").apply(tmp_path)


# ---------------------------------------------------------------------------------------------------------------- hooks


def hooks() -> list[str]:
    """The commands of the hooks, without the folder of the environment."""
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert local["repo"] == "local"  # so that nothing is fetched from elsewhere
    for hook in local["hooks"]:
        assert hook["language"] == "system"
        assert {"id", "name", "entry"} <= set(hook)
    return [hook["entry"].removeprefix(".venv/bin/") for hook in local["hooks"]]


def make_target(name: str) -> list[str]:
    found = re.search(rf"^{name}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert found
    return [line.strip().lstrip("@").removeprefix("$(BIN)/") for line in found[1].splitlines()]


def test_hooks_run_what_make_check_runs() -> None:
    def words(commands: list[str]) -> list[list[str]]:
        wanted = [
            command.replace("$(wildcard benchmarks examples paper)", "benchmarks examples paper").split()
            for command in commands
        ]
        return [[word for word in command if word not in (".", "--check", "--force-exclude")] for command in wanted]

    assert words(hooks()) == words(make_target("check"))
