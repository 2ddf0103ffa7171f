"""A client's round in pieces that can be drawn, however many steps it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from smofi.report.timeline.rounds import KINDS, Line

ALONE, TOGETHER = 1.5, 24.0
"""Pixels: what is broader than the first is drawn by itself; what is not, together with others up to the second."""


@dataclass
class DrawnPiece:
    """From `start` to `end` a client spent these `seconds` on each kind of work, and waited for the rest."""

    start: float
    end: float
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))

    def share(self, kind: str) -> float:
        """The share of its time."""
        return self.seconds[kind] / (self.end - self.start)


def pieces(line: Line, pixel: float) -> Iterator[DrawnPiece]:
    """The line from left to right, where a pixel is `pixel` seconds wide. A gap of more than a pixel stays a gap.

    >>> from smofi.clock.jobs import Span
    >>> spans = [Span(0, "compute", 0.0, 3.0), Span(0, "up", 3.0, 4.0), Span(0, "down", 4.0, 5.0)]
    >>> [(one.start, one.end, one.share("up")) for one in pieces(Line(0, 1, 1, 9.0, 5.0, "", spans), pixel=1.0)]
    [(0.0, 3.0, 0.0), (3.0, 5.0, 0.5)]
    """
    piece = None
    for span in line.spans:
        alone = span.end - span.start > ALONE * pixel
        apart = piece is None or span.start - piece.end > pixel or span.end - piece.start > TOGETHER * pixel
        if piece and (alone or apart):
            yield piece
            piece = None
        piece = piece or DrawnPiece(span.start, span.end)
        piece.end = span.end
        piece.seconds[span.kind] += span.end - span.start
        if alone:
            yield piece
            piece = None
    if piece:
        yield piece
