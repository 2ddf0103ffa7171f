"""What is known about runs, for people: tables and curves on the terminal, pictures in files.

numbers.py       numbers as text                           style.py        how methods look: colours, glyphs, lines
names.py         methods' names where room is short        heading.py      what stands above a picture
history.py       what a run measured, round by round       saving.py       the one way to save a picture
measures.py      the paper's measures of several runs      table.py        the same as a table
setups.py        finished runs, by what was trained        clients.py      how each client fares
curves/          learning curves                           canvas.py       drawing with characters
live.py          runs while they train                     screen.py       the same redrawn in place on a terminal
progress.py      how far a run has come                    show/           runs as their folders tell
plan.py          a dry run                                 advice/         which cut suits the clients' devices
page/            runs as one HTML page
heterogeneity/   how the clients' data differ              devices.py      how their devices differ
timeline/        what clients do in a round                models.py       what models and their cuts cost
catalogue.py     the data sets and the presets             inline.py       live.py for Python: terminal, notebook, file
comparing/       the paper's table from finished runs      titles.py       what methods are called there
figures/         figures for a paper                       bands.py        the mean over seeds and its spread

Internal: may change without notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.report.curves import NARROWEST, draw_curves, save_curves
    from smofi.report.history import History
    from smofi.report.measures import Row, compare, measure
    from smofi.report.table import results_table
else:
    load_later(
        __name__,
        curves="NARROWEST draw_curves save_curves",
        history="History",
        measures="Row compare measure",
        table="results_table",
    )

__all__ = ["NARROWEST", "History", "Row", "compare", "draw_curves", "measure", "results_table", "save_curves"]
