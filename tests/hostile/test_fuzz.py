"""The short form of `make fuzz`: some hundred messages of attackers, or thousands, while honest clients train."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostile.fuzz import SIEGES, Siege, fuzz
from support.attacks import FRAMES, OPENINGS


@pytest.mark.parametrize(
    ("messages", "sieges"),
    [(600, SIEGES[:2]), pytest.param(3000, SIEGES, marks=pytest.mark.slow)],
    ids=["few", "more"],
)
def test_attackers_change_nothing(messages: int, sieges: list[Siege], tmp_path: Path) -> None:
    found = fuzz(tmp_path, messages, seed=7, sieges=sieges)
    assert not found.problems, "\n".join(found.problems)
    assert found.tally.sent >= messages
    assert len(found.tally.answers.keys() & {*OPENINGS, *FRAMES}) > 10
    assert sum(name.startswith("forged: ") for name in found.tally.answers) > 10
