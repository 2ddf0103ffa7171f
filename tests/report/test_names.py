from __future__ import annotations

import re

import pytest
from rich.console import Console

from smofi.report import History, measure, results_table
from smofi.report.comparing.blocks import Block
from smofi.report.comparing.writing import as_text, sheets_of
from smofi.report.names import folded

NAMES = ["fedavg", "smofi(alpha=-1)", "fedprox(mu=0.01)+smofi(alpha=-0.5)", "fedavgm(lr=1.0, momentum=0.3)", "mergesfl"]
HEADINGS = ["method", "best", "mean", "of", "rounds", "to", "speed-up", "seconds"]


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("hours", [[], [1.0, 2.0, 3.0]])
@pytest.mark.parametrize("seeds", [1, 2])
def test_the_results_break_no_word(width: int, hours: list[float], seeds: int) -> None:
    histories = [
        History(name, [0.5, 0.7, 0.8 + seed / 50], seconds=[100.0] * 3, hours=hours, seed=seed)
        for name in NAMES
        for seed in range(seeds)
    ]
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(results_table(measure(histories)))
    text = captured.get()
    words = text.replace("│", " ").replace("┃", " ").split()
    assert max(map(len, text.splitlines())) <= width
    for name in NAMES:
        assert all(any(part in word for word in words) for part in re.split(r"(?<=[(+])|, ", name))
    assert all(heading in words for heading in HEADINGS)
    assert "81.0 ± 1.4%" in text or seeds == 1


def test_headings_stay_whole_where_figures_must_be_broken() -> None:
    names = ["fedavg", "mergesfl(steps=29, reference='slowest')"]
    hours = [0.001, 0.0123]
    block = Block.of("", [History(name, [0.5, 0.8 + s / 50], hours=hours, seed=s) for name in names for s in (0, 1)])
    console = Console(width=80, color_system=None)
    with console.capture() as captured:
        console.print(as_text(sheets_of([block])[:1]))
    words = captured.get().split()
    assert "…" not in captured.get()
    for heading in ("accuracy", "rounds", "target", "speed-up", "seconds", "seeds"):
        assert heading in words


def test_a_name_is_broken_after_plus_comma_and_bracket_only() -> None:
    name = "fedavgm(lr=1e+20, momentum=0.9)+smofi"
    for width in range(1, 50):
        lines = folded(name, width)
        assert "".join(lines).replace(" ", "") == name.replace(" ", "")
        assert all(line[-1] in "+,(" for line in lines[:-1])
