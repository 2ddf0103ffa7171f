"""Who takes part: numbers that last, also of clients that come late."""

from __future__ import annotations

from pathlib import Path

from smofi.serving.roster import Roster


def test_numbers_last(tmp_path: Path) -> None:
    roster = Roster()
    for name in ("site-10", "site-2", "site-1"):
        assert not roster.add(name, 50, 5), "there is nothing to save yet"
    roster.remove("site-1")
    roster.close()
    assert roster.names == ["site-2", "site-10"]
    assert roster.add("another", 7, 0)
    assert not roster.add("site-2", 50, 5), "it has come back as it was"
    assert roster.add("site-2", 60, 5)
    roster.save(tmp_path)
    found = Roster.read(tmp_path)
    assert (found.names, found.sizes, found.tests) == (["site-2", "site-10", "another"], [60, 50, 7], [5, 5, 0])
    assert found.closed


def test_numbered_as_listed() -> None:
    roster = Roster(order=("late", "b"))
    for name in ("a", "b", "late"):
        roster.add(name, 1, 1)
    roster.close()
    assert roster.names == ["late", "b", "a"]


def test_a_run_that_had_no_clients_yet(tmp_path: Path) -> None:
    """Its server was killed while it waited: whoever comes first is numbered by name, as in a new run."""
    Roster().save(tmp_path)
    assert not Roster.read(tmp_path).closed
