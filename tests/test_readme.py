"""What README and docs show is run, as shown; but `make test` trains one local epoch where none are said."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from smofi.cli import main

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / name
    for name in (
        "README.md",
        "docs/surviving.md",
        "docs/partitions.md",
        "docs/clock.md",
        "docs/watching.md",
        "docs/comparing.md",
        "docs/report.md",
        "docs/reproducing.md",
        "docs/certificates.md",
    )
]


def blocks(language: str) -> list[str]:
    return [
        code for page in PAGES for code in re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)
    ]


@pytest.mark.parametrize("code", blocks("python"))
def test_python_example_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process too, unless it leaves something behind."""
    monkeypatch.chdir(tmp_path)
    if "register" not in code:
        exec(code, {})
        return
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def trains(line: str) -> bool:
    """Whether a line starts a run for as many local epochs as it has by default."""
    return line.startswith("smofi run ") and "--resume" not in line and "--local-epochs" not in line


TRAINING = [commands for commands in blocks("sh") if any(map(trains, commands.splitlines()))]


@pytest.mark.parametrize(
    ("commands", "shorter"),
    [
        *((commands, True) for commands in blocks("sh")),
        *(pytest.param(commands, False, marks=pytest.mark.slow) for commands in TRAINING),
    ],
)
def test_commands_run_one_after_the_other(
    commands: str, shorter: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process: to start Python and torch anew for each would take longer than what they do."""
    monkeypatch.chdir(tmp_path)
    for line in commands.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "smofi"
        if shorter and trains(line):
            arguments += ["--local-epochs", "1"]
        assert main(arguments) == 0, f"{line}: {capsys.readouterr().err}"
        assert capsys.readouterr().out
