"""The figures of an item, from its measured panels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from smofi.report.figures.bars import bars_figure
from smofi.report.figures.curves import curves_figure
from smofi.report.figures.panels import Panel as Drawn
from smofi.report.figures.paper import Drawing
from smofi.report.figures.points import points_figure
from smofi.report.history import History
from smofi.reproduce.items import Item, Line
from smofi.reproduce.items.parts import BARS, CURVES, HOURS, POINTS
from smofi.reproduce.measured import Measured, name_of


def drawings(item: Item, panels: Sequence[Measured]) -> dict[str, Drawing]:
    """Each figure by the end of its file's name, empty for the first. Panels without runs are left out."""
    measured = [one for one in panels if one.all_histories]
    if not measured:
        return {}
    found = {}
    if POINTS in item.draw:
        for number, one in enumerate(measured):
            if points := _over_values(one):
                setting = item.title.rpartition(" ")[2]
                found["" if number == 0 else f"-{_plain(one.panel.title)}"] = points_figure(
                    points, ("accuracy", "rounds"), setting=setting, width="page"
                )
    own_axes = len({one.panel.task.title for one in measured}) > 1  # accuracies on other data are not to be compared
    if CURVES in item.draw:
        found[""] = curves_figure([part for one in measured for part in _by_base(one)], own_axes=own_axes)
    if HOURS in item.draw:
        found["-hours"] = curves_figure([_drawn(one) for one in measured], over_hours=True, own_axes=own_axes)
    if BARS in item.draw:
        found["-bars"] = bars_figure([_drawn(one) for one in measured], ("accuracy", "rounds"), width="page")
    return found


def overview(measured: Measured) -> Drawing:
    """The curves of the first base alone."""
    return curves_figure(_by_base(measured)[:1], width="page")


def save_pictures(folder: Path, item: Item, scale: str, panels: Sequence[Measured]) -> list[Path]:
    """Draw an item's figures into a folder, as SVG; it is made if need be."""
    stem, drawn = picture_stem(item, scale), drawings(item, panels)
    if drawn:
        folder.mkdir(parents=True, exist_ok=True)
    return [drawing.save(folder / f"{stem}{end}.svg") for end, drawing in drawn.items()]


def picture_stem(item: Item, scale: str) -> str:
    """What the files of an item's figures are called."""
    return item.name if scale == "small" else f"{item.name}-{scale}"


def _drawn(measured: Measured, title: str = "", histories: Sequence[History] | None = None) -> Drawn:
    return Drawn(
        title or measured.panel.title,
        measured.all_histories if histories is None else histories,
        name_of(measured.baseline, measured.panel),
        measured.panel.target.share,
        measured.target,
    )


def _by_base(measured: Measured) -> list[Drawn]:
    """A panel for each base that has plugins, as in the paper's figure of Table 1."""
    bases: dict[str, list[Line]] = {}
    for line in measured.panel.lines:
        if measured.histories[line]:
            bases.setdefault(measured.rows[line].base or "", []).append(line)
    if len(bases) < 2:
        return [_drawn(measured)]
    return [
        _drawn(
            measured,
            f"{measured.panel.title}, {lines[0].label}",
            [history for line in lines for history in measured.histories[line]],
        )
        for lines in bases.values()
    ]


def _over_values(measured: Measured) -> list[Drawn]:
    """A panel for each value of what varies: the reference, and each method at that value."""
    reference = [replace(history, name="fedavg") for history in measured.histories[measured.baseline]]
    values = dict.fromkeys(line.value for line in measured.panel.lines if line.value and measured.histories[line])
    found = []
    for value in values:
        own = [line for line in measured.panel.lines if line.value == value]
        histories = [
            replace(history, name=line.method.partition("(")[0]) for line in own for history in measured.histories[line]
        ]
        found.append(_drawn(measured, value, [*reference, *histories]))
    return [replace(one, baseline="fedavg") for one in found]


def _plain(title: str) -> str:
    return re.sub(r"[^\w.]+", "-", title).strip("-").lower()
