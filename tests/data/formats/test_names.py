"""Names from outside, fit to be shown."""

from __future__ import annotations

from smofi.data.formats.arrays import printable


def test_names_shown_are_short_and_printable() -> None:
    assert printable("HAMLET: Königin") == "HAMLET: Königin"
    assert printable("\x1b[2J\ud800") == "?[2J?"
    assert len(printable("x" * 10_000)) == 200
