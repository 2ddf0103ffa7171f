"""The short form of `make damage`: nothing of a damaged run folder is believed."""

from __future__ import annotations

from pathlib import Path

from hostile.damage import try_damages


def test_nothing_damaged_is_believed(tmp_path: Path) -> None:
    found = list(try_damages(tmp_path, 12, seed=7))
    assert [how for _, _, how in found if how.startswith("FAILED")] == []
    assert len(found) == 12 * 4
    assert {"refused", "unaffected"} <= {how for _, _, how in found}
