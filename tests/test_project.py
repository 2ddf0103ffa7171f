"""What holds for the project as a whole: its layers, its version, its files."""

import ast
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

import smofi

ROOT = Path(__file__).resolve().parent.parent
# An absolute path on a machine: not part of a longer path, an address or a word.
MACHINE_PATH = re.compile(r"(?<![\w.~$}/-])/(?:work|root|home|tmp|Users)/\w")


def declared_version() -> str:
    found = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found
    return found[1]


def project_files() -> list[Path]:
    """Tracked files, and those that the next commit could add."""
    try:
        top = subprocess.run(["git", "rev-parse", "--show-toplevel"], cwd=ROOT, capture_output=True, text=True)
        if top.returncode or Path(top.stdout.strip()).resolve() != ROOT:
            pytest.skip("not a git checkout")
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip("git is not installed")
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).is_file()]


def test_imports_point_downwards(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    code = lint_imports(config_filename="pyproject.toml", no_cache=True)
    assert code == 0, capsys.readouterr().out


def test_version_is_the_same_everywhere() -> None:
    declared = declared_version()
    assert smofi.__version__ == declared
    assert version("smofi") == declared
    assert f"\nversion: {declared}\n" in (ROOT / "CITATION.cff").read_text()


def test_changelog_names_the_version() -> None:
    assert f"\n## [{declared_version()}]" in (ROOT / "CHANGELOG.md").read_text()


def test_no_file_names_a_path_on_a_machine() -> None:
    found = []
    for path in project_files():
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="ignore").splitlines(), start=1):
            if MACHINE_PATH.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("see /" + "work/main", True),
        ('open("/' + 'tmp/x")', True),
        ("https://example.org/home/page", False),
        ("runs/home/a, ./tmp/a, ~/work/a, $HOME/work/a", False),
    ],
)
def test_machine_paths_are_recognised(line: str, expected: bool) -> None:
    assert bool(MACHINE_PATH.search(line)) is expected


TALKING = {"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__", "print", "Console"}
TALKING |= {f"traceback.{name}" for name in ("print_exc", "print_exception", "print_last", "print_stack", "print_tb")}


def talking(code: str) -> list[int]:
    """The lines that print, use the standard streams or make a console; a doctest is not code."""
    found = []
    for node in ast.walk(ast.parse(code)):
        called = node.func if isinstance(node, ast.Call) else None
        used = node if isinstance(node, ast.Attribute) else called
        imported = [f"{node.module}.{one.name}" for one in node.names] if isinstance(node, ast.ImportFrom) else []
        if (used is not None and ast.unparse(used) in TALKING) or TALKING & set(imported):
            found.append(node.lineno)
    return sorted(set(found))


def test_only_the_command_line_talks() -> None:
    """And the display that `smofi.train(progress=True)` asks for, and a file that is copied into exports."""
    package = ROOT / "smofi"
    others = {package / "report/live.py", package / "export/standalone/predict.py"}
    modules = {path for path in package.rglob("*.py") if path.relative_to(package).parts[0] != "cli"} - others
    assert len(modules) > 100
    found = [f"{path.relative_to(ROOT)}:{line}" for path in sorted(modules) for line in talking(path.read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("code", "talks"),
    [
        ("print('x')", True),
        ("import sys\nsys.stderr.write('x')", True),
        ("import sys\nlog(file=sys.stdout)", True),
        ("from sys import stderr", True),
        ("import traceback\ntraceback.print_exc()", True),
        ("from traceback import print_exc", True),
        ("from rich.console import Console\nConsole().bell()", True),
        ("def draw(console: Console) -> None:\n    console.print('x')", False),
        ("import sys, traceback\nsys.exit(traceback.format_exc())", False),
        ("def one() -> int:\n    'One: print(1)'", False),
    ],
)
def test_talking_is_recognised(code: str, talks: bool) -> None:
    assert bool(talking(code)) is talks
