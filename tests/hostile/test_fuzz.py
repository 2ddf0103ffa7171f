"""The short form of `make fuzz`: a few thousand messages of attackers while honest clients train."""

from __future__ import annotations

from pathlib import Path

from hostile.fuzz import fuzz
from support.attacks import FRAMES, OPENINGS


def test_attackers_change_nothing(tmp_path: Path) -> None:
    found = fuzz(tmp_path, messages=3000, seed=7)
    assert not found.problems, "\n".join(found.problems)
    assert found.tally.sent >= 3000
    assert len(found.tally.answers.keys() & {*OPENINGS, *FRAMES}) > 10
