"""Learning curves: a panel for each setup, a line for each method, a band for its seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smofi.errors import refuse
from smofi.report.bands import Band, bands
from smofi.report.curves.picture import TARGET, marked
from smofi.report.figures.panels import Key, Panel, keys_of, scale_of
from smofi.report.figures.paper import Drawing, Width, axis_label, frame, grid_of, legend_inches, put_legend, thin
from smofi.report.figures.values import seeds_words
from smofi.report.numbers import TimeUnit, time_unit
from smofi.report.style import FAINT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FAINTNESS = 0.18
HEIGHT = {1: 0.62, 2: 0.6, 3: 0.68, 4: 0.78}  # of a panel over its width, by how many stand in a row


def curves_figure(
    panels: Sequence[Panel], *, over_hours: bool = False, width: Width | None = None, own_axes: bool = False
) -> Drawing:
    """The judged metric over rounds, or over hours of virtual time: the mean over seeds, and a band of one standard
    deviation either side. A panel with a fixed target has a line there. All panels have the same range of values, so
    that heights can be compared, unless they have `own_axes`.

    >>> from smofi.report.history import History
    >>> curves_figure([Panel("IID", [History("fedavg", [0.4, 0.7, 0.8])])]).size
    (3.35, 2.24)
    """
    scale = scale_of(panels)
    keys = keys_of(panels)
    drawn = [bands([one for one in panel.histories if one.measured]) for panel in panels]
    ends = [hours for inside in drawn for one in inside for hours in one.hours[-1:]]
    if over_hours and len(ends) < sum(map(len, drawn)):
        refuse("hours", True, "runs that all have a clock, for example: smofi run --clock paper")
    unit = time_unit(3600 * max(ends)) if over_hours else None
    rows, columns, across = grid_of(len(panels), width)
    names = _legend_names(keys, drawn)
    high = across / columns * HEIGHT[columns] * rows + legend_inches(names, across)

    def compose(figure: Figure) -> None:
        grid = list(figure.subplots(rows, columns, squeeze=False, sharey=not own_axes).flat)
        for number, (axes, panel, inside) in enumerate(zip(grid, panels, drawn, strict=False)):
            _draw(axes, inside, keys, unit)
            if panel.target is not None:
                axes.axhline(panel.target, color=FAINT, linewidth=0.8, linestyle=TARGET, zorder=1)
            frame(axes, scale.share, panel.title)
            if number % columns == 0:
                axes.set_ylabel(axis_label(scale.name, scale.share), parse_math=False)
            axes.set_xlabel("round" if unit is None else f"{unit.name} on the clients' devices")
        for axes in grid[len(panels) :]:
            axes.remove()
        put_legend(figure, _legend(keys, drawn))

    return Drawing(compose, (across, round(high, 2)))


def _draw(axes: Axes, inside: Sequence[Band], keys: Mapping[str, Key], unit: TimeUnit | None) -> None:
    from matplotlib.ticker import MaxNLocator

    last = 1.0
    for number, one in enumerate(inside):
        known = one.points
        places = [place + 1.0 if unit is None else 3600 * one.hours[place] / unit.seconds for place in known]
        mean, low, high = (_numbers(values, known) for values in (one.mean, one.low, one.high))
        look = keys[one.name].look if len(keys) > 1 else keys[one.name].look.alone
        axes.plot(places, mean, **thin(look), markevery=marked(mean, number, len(inside)), zorder=3)
        if one.seeds > 1:
            axes.fill_between(places, low, high, color=look.colour, alpha=FAINTNESS, linewidth=0, zorder=2)
        last = max([last, *places])
    if unit is None:
        axes.set_xlim(1 if last > 1 else 0, last if last > 1 else 2)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10], integer=True))
    else:
        axes.set_xlim(0, last)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))


def _numbers(values: Sequence[float | None], places: Sequence[int]) -> list[float]:
    return [math.nan if (value := values[place]) is None else value for place in places]


def _legend_names(keys: Mapping[str, Key], drawn: Sequence[Sequence[Band]]) -> list[str]:
    words = seeds_words(one.seeds for inside in drawn for one in inside)
    return [*dict.fromkeys(key.title for key in keys.values()), *([words] if words else [])]


def _legend(keys: Mapping[str, Key], drawn: Sequence[Sequence[Band]]) -> list[Any]:
    """A sample of each line, and of the band."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    by_title = {key.title: key.look if len(keys) > 1 else key.look.alone for key in keys.values()}
    handles: list[Any] = [Line2D([], [], label=title, **thin(look)) for title, look in by_title.items()]
    words = seeds_words(one.seeds for inside in drawn for one in inside)
    return handles + ([Patch(color=FAINT, alpha=2 * FAINTNESS, linewidth=0, label=words)] if words else [])
