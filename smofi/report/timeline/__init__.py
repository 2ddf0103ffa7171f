"""What every client does in one round of a run with a clock.

rounds.py    a round replayed from the run folder      pieces.py     its lines in pieces that can be drawn
text.py      for the terminal                          picture.py    as a file
"""

from __future__ import annotations

from smofi.report.timeline.picture import save_timelines
from smofi.report.timeline.rounds import KINDS, Line, Timeline, read_timelines
from smofi.report.timeline.text import timeline_table

__all__ = ["KINDS", "Line", "Timeline", "read_timelines", "save_timelines", "timeline_table"]
