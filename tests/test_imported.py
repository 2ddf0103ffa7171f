from __future__ import annotations

import sys
from pathlib import Path

import pytest

from smofi.errors import InputError
from smofi.imported import import_function


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory whose modules are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    known = set(sys.modules)
    yield tmp_path  # type: ignore[misc]
    for name in set(sys.modules) - known:
        del sys.modules[name]


def test_a_function_of_the_working_directory_is_found_before_others(here: Path) -> None:
    (here / "their_helper.py").write_text("VALUE = 7\n")
    (here / "their_data.py").write_text("def load():\n    import their_helper\n    return their_helper.VALUE\n")
    assert import_function("data", "python:their_data:load")() == 7


def test_a_function_in_a_package(here: Path) -> None:
    (here / "their_package").mkdir()
    (here / "their_package" / "inner.py").write_text("def load(): return 3\n")
    assert import_function("data", "python:their_package.inner:load")() == 3


@pytest.mark.parametrize(
    "text", ["math:sqrt", "python:", "python:math", "python:math:", "python::sqrt", "python:.math:sqrt", "python:a b:c",
             "python:math:sqrt:x", "python:../math:sqrt", "python:math:__import__('os')", "python:math:a.b"]
)  # fmt: skip
def test_what_is_not_a_module_and_a_function_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"data=.* is not accepted: expected a module and a function in it"):
        import_function("data", text)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("raise KeyError('lost')", "importing broken failed with KeyError: 'lost'"),
        ("def (", "importing broken failed with SyntaxError"),
        ("import sys; sys.exit(3)", "importing broken failed with SystemExit: 3"),
        ("import nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("load = 3", "a function, but 'load' of module broken is of type int"),
        ("def loud(): pass", r"a function of module broken, which has no 'load' \(did you mean 'loud'\?\)"),
    ],
)
def test_failures_are_told_with_their_cause(here: Path, content: str, said: str) -> None:
    (here / "broken.py").write_text(content)
    with pytest.raises(InputError, match=f"^model='python:broken:load' is not accepted: .*{said}") as refused:
        import_function("model", "python:broken:load")
    if "failed with" in said:
        assert refused.value.__cause__ is not None


def test_interrupting_an_import_interrupts(here: Path) -> None:
    (here / "slow.py").write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        import_function("data", "python:slow:load")
