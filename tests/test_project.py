"""What holds for the project as a whole: its layers and its version."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

import smofi

ROOT = Path(__file__).resolve().parent.parent


def test_imports_point_downwards(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    code = lint_imports(config_filename="pyproject.toml", no_cache=True)
    assert code == 0, capsys.readouterr().out


def test_version_is_the_same_everywhere() -> None:
    (declared,) = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert smofi.__version__ == version("smofi") == declared
    assert f"\nversion: {declared}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{declared}]" in (ROOT / "CHANGELOG.md").read_text()
