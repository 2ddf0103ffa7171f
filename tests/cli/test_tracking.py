"""A resumed run keeps its trackers."""

from __future__ import annotations

from pathlib import Path

import pytest

from smofi.cli import main
from support.processes import QUICK

pytest.importorskip("tensorboard")


def rounds_recorded(folder: Path) -> list[int]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    return [one.step for one in events.Scalars("accuracy")]


def test_a_resumed_run_keeps_its_tracker_unless_told_otherwise(tmp_path: Path) -> None:
    run = tmp_path / "run"
    begin = ["run", *QUICK, "--executor", "loop", "--workers", "1", "--rounds", "1", "--output", str(run)]
    go_on = ["run", "--resume", str(run), "--display", "quiet", "--rounds"]
    assert main([*begin, "--track", "tensorboard"]) == 0
    assert main([*go_on, "2"]) == 0
    assert rounds_recorded(run) == [1, 2]
    assert main([*go_on, "3", "--track", "none"]) == 0
    assert rounds_recorded(run) == [1, 2]


def test_no_tracker_beside_others_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["run", "--output", str(tmp_path / "run"), "--track", "none", "--track", "tensorboard"]
    assert main(asked) == 2
    assert "expected none alone, or trackers without it" in capsys.readouterr().err
