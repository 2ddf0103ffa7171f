"""The short form of `make fuzz`: a thousand messages of attackers, or three, while honest clients train."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostile.fuzz import fuzz
from support.attacks import FRAMES, OPENINGS


@pytest.mark.parametrize("messages", [1000, pytest.param(3000, marks=pytest.mark.slow)])
def test_attackers_change_nothing(messages: int, tmp_path: Path) -> None:
    found = fuzz(tmp_path, messages=messages, seed=7)
    assert not found.problems, "\n".join(found.problems)
    assert found.tally.sent >= messages
    assert len(found.tally.answers.keys() & {*OPENINGS, *FRAMES}) > 10
