"""The advice as a picture, PNG, SVG or PDF by the file's suffix: the time of a round over the cut, and the load."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from smofi.planning.advice import Advice, Outlook, recommended
from smofi.report.advice.words import basis, heading, unit
from smofi.report.heading import details, put_heading
from smofi.report.saving import save_picture
from smofi.report.style import COLOURS, FAINT, GRID, Look, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAND, LOAD = "#f2f4f6", COLOURS[4]
APART = 0.12  # from the dots of one method to those of the next
RING: dict[str, Any] = {
    "marker": "o",
    "markersize": 13,
    "markerfacecolor": "none",
    "markeredgewidth": 1.8,
    "linestyle": "none",
}
TITLE: dict[str, Any] = {"loc": "left", "fontsize": 10.5, "color": FAINT}
MOST_TICKS = 14
MOST_SHARES = 10  # cuts whose shares of the MACs fit above the bars
UNEVEN = 30  # a logarithmic axis is better where the longest round takes more than this many times the shortest

Outlooks = Sequence[Outlook | None]
Values = npt.NDArray[np.float64]


def save_advice(path: str | Path, advice: Advice) -> Path:
    """Draw the advice into a file; the same advice gives the same bytes.

    >>> import tempfile
    >>> from smofi.config import Config
    >>> from smofi.planning.advice import advise
    >>> found = advise(Config(clients=4, participation=1.0, partition="iid", method="smofi", rounds=2))
    >>> save_advice(Path(tempfile.mkdtemp()) / "cuts.svg", found).name
    'cuts.svg'
    """
    return save_picture(path, lambda figure: _compose(figure, advice))


def _compose(figure: Figure, advice: Advice) -> None:
    panels = figure.subplot_mosaic([["time", "compute"], ["time", "bytes"]], width_ratios=[1.6, 1])
    put_heading(figure, heading(advice), details(advice.config))
    _time(panels["time"], advice)
    _compute(panels["compute"], advice)
    _bytes(panels["bytes"], advice)
    best = {recommended(outlooks) for outlooks in advice.alike}
    for axes in panels.values():
        _across(axes, [side.cut for side in advice.sides])
        if len(best) == 1:
            axes.axvspan(min(best) - 0.5, min(best) + 0.5, color=BAND, zorder=0)
    panels["compute"].tick_params(labelbottom=False)
    for name in ("time", "bytes"):
        panels[name].set_xlabel("cut: core blocks on the client")
    legend = figure.legend(
        *panels["time"].get_legend_handles_labels(),
        loc="outside lower left",
        ncols=3,
        frameon=False,
        fontsize=10,
        title=f"mean ± standard deviation of {basis(advice)}",
        title_fontsize=10,
        alignment="left",
    )
    for text in (*legend.get_texts(), legend.get_title()):
        text.set_parse_math(False)
    legend.get_title().set_color(FAINT)


def _time(axes: Axes, advice: Advice) -> None:
    from matplotlib.ticker import FuncFormatter

    groups = [_values(outlooks, lambda one: one.mean) for outlooks in advice.alike]
    shortest, longest = float(np.nanmin(groups)), float(np.nanmax(groups))
    name, size = unit([longest])
    if longest > UNEVEN * shortest:
        axes.set_yscale("log", nonpositive="clip")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    keys = _looks(advice)
    for number, ((outlooks, names), means) in enumerate(zip(advice.alike.items(), groups, strict=True)):
        colour, spread = keys[number].colour, _values(outlooks, lambda one: one.spread)
        places = np.arange(len(means)) + min(APART, 0.6 / len(groups)) * (number - (len(groups) - 1) / 2)
        axes.vlines(places, (means - spread) / size, (means + spread) / size, color=colour, alpha=0.3, linewidth=2)
        axes.plot(places, means / size, **keys[number].line, label="\n".join(names))
        best = recommended(outlooks)
        axes.plot(places[best], means[best] / size, color=colour, clip_on=False, **RING)
    axes.plot([], [], color=FAINT, label="recommended", **RING)
    if advice.configured is not None:
        dashes = (0, (4, 3))
        axes.axvline(advice.configured, color=FAINT, linewidth=1, linestyle=dashes, zorder=1, label="as configured")
    if axes.get_yscale() == "linear":
        axes.set_ylim(0, None)
    axes.set_title(f"time per round, {name}", **TITLE)


def _compute(axes: Axes, advice: Advice) -> None:
    series = _by_method(advice, lambda one: one.compute)
    name, size = unit(float(np.nanmax(values)) for values, _ in series)
    _bars(axes, [(values / size, colour) for values, colour in series])
    axes.set_title(f"computing per client, {name}", **TITLE)
    if len(advice.sides) <= MOST_SHARES:
        axes.set_title(f"computing per client, {name} (share of MACs)", **TITLE)
        tops = np.fmax.reduce([values / size for values, _ in series])
        axes.set_ylim(0, 1.15 * float(np.nanmax(tops)) or 1.0)
        for place, (side, top) in enumerate(zip(advice.sides, np.nan_to_num(tops), strict=True)):
            share = f"{side.macs:.0%}" if side.macs >= 0.01 else "<1%"
            axes.annotate(share, (place, top), (0, 3), textcoords="offset points", ha="center", fontsize=9)


def _bytes(axes: Axes, advice: Advice) -> None:
    from matplotlib.ticker import StrMethodFormatter

    both = _by_method(advice, lambda one: (one.down + one.up) / 1e6)
    colours = [colour for _, colour in both]
    received = [_values(outlooks, lambda one: one.down / 1e6) for outlooks in advice.alike]
    _bars(axes, both, alpha=0.45)
    _bars(axes, list(zip(received, colours, strict=False)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.set_title("traffic per client, MB (dark: received, light: sent)", **TITLE)


def _by_method(advice: Advice, measure: Callable[[Outlook], float]) -> list[tuple[Values, str]]:
    """The measure at every cut, and a colour: one series if it is the same for all methods."""
    series = [_values(outlooks, measure) for outlooks in advice.alike]
    if all(np.array_equal(one, series[0], equal_nan=True) for one in series):
        return [(series[0], LOAD)]
    return [(values, look.colour) for values, look in zip(series, _looks(advice), strict=True)]


def _looks(advice: Advice) -> list[Look]:
    """Of those methods that take the same, the first one's."""
    found = dict(zip(advice.outlooks, looks(list(advice.outlooks)), strict=True))
    keys = [found[names[0]] for names in advice.alike.values()]
    return [keys[0].alone] if len(keys) == 1 else keys


def _bars(axes: Axes, series: Sequence[tuple[Values, str]], alpha: float = 1.0) -> None:
    """The bars of all series, side by side at each cut."""
    width = 0.8 / len(series)
    for number, (values, colour) in enumerate(series):
        places = np.arange(len(values)) + (number + 0.5) * width - 0.4
        axes.bar(places, values, 0.94 * width, color="white", linewidth=0)
        axes.bar(places, values, 0.94 * width, color=colour, alpha=alpha, linewidth=0)


def _values(outlooks: Outlooks, measure: Callable[[Outlook], float]) -> Values:
    return np.array([measure(outlook) if outlook else math.nan for outlook in outlooks])


def _across(axes: Axes, cuts: Sequence[str]) -> None:
    """A place for each cut, and the names of as many as can be read."""
    every = math.ceil(len(cuts) / MOST_TICKS)
    axes.set_xlim(-0.6, len(cuts) - 0.4)
    axes.set_xticks(range(0, len(cuts), every), cuts[::every])
    axes.grid(axis="y", color=GRID, linewidth=1)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(which="both", length=0, pad=5)
