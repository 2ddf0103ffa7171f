"""What every client does in one round of a run with a clock, as text or as a picture."""

from __future__ import annotations

from smofi.report.timeline.picture import save_timelines
from smofi.report.timeline.rounds import KINDS, Line, Timeline, read_timelines
from smofi.report.timeline.text import timeline_table

__all__ = ["KINDS", "Line", "Timeline", "read_timelines", "save_timelines", "timeline_table"]
