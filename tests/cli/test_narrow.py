"""A terminal may be as narrow as it likes: nothing that is drawn fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from smofi.cli import main
from smofi.cli.program import console
from support.processes import QUICK

RUN = [*QUICK[:-2], "--rounds", "1", "--executor", "loop", "--clock", "full"]


@pytest.mark.parametrize("columns", ["1", pytest.param("20", marks=pytest.mark.slow)])
def test_on_a_terminal_of_so_many_columns(
    columns: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    folder = str(tmp_path / "run")
    assert main(["run", *RUN, "--display", "plain", "--output", folder]) == 0
    monkeypatch.setattr(console, "_force_terminal", True)
    assert main(["run", "--resume", folder, "--rounds", "2", "--display", "live"]) == 0
    more = (["show", folder], ["timeline", folder], ["plan", *RUN], ["advise", *RUN])
    for asked in (*more, ["methods"], ["presets"], ["data", "digits"], ["data", "--devices"], ["show", "--help"]):
        assert main(asked) == 0
    assert "smofi" in capsys.readouterr().out
