"""Bars: a group for each setup, a bar for each method, its spread over seeds on top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smofi.report.figures.panels import Key, Panel, keys_of, scale_of
from smofi.report.figures.paper import Drawing, Width, axis_label, frame, grid_of, legend_inches, put_legend
from smofi.report.figures.values import ERROR_BAR, Number, Value, check_values, error_sample, spread_words
from smofi.report.names import folded
from smofi.report.numbers import one_decimal, three_digits
from smofi.report.style import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROUP = 0.84  # of the room of a group, for its bars
HEIGHT = 1.55  # inches, of the bars of one value
LONGEST = 14  # characters in a line below a group
MISSED = "////"
MOST_LABELLED = 8  # bars that have their number on top


def bars_figure(
    panels: Sequence[Panel], values: Sequence[str] = ("accuracy",), *, width: Width | None = None
) -> Drawing:
    """A group of bars for each panel, for each of the values: accuracy (the best), mean (over rounds), rounds or hours
    (to the target). Error bars are one standard deviation over seeds; a method that misses the target has a hatched
    bar as high as its budget, and a > on top.

    >>> from smofi.report.history import History
    >>> bars_figure([Panel("IID", [History("fedavg", [0.4, 0.7, 0.8])])], ["accuracy", "rounds"]).size
    (7.0, 1.71)
    """
    scale = scale_of(panels)
    shown = check_values(values, panels)
    keys = keys_of(panels)
    words = spread_words(panels)
    rows, columns, across = grid_of(len(shown), width or ("page" if len(panels) > 3 else None))
    names = [*dict.fromkeys(key.title for key in keys.values()), *([words] if words else [])]

    def compose(figure: Figure) -> None:
        for axes, value in zip(figure.subplots(rows, columns, squeeze=False).flat, shown, strict=False):
            share = value.metric and scale.share
            _draw(axes, value, share, panels, keys)
            frame(axes, share)
            axes.set_ylabel(axis_label(value.label(scale), share), parse_math=False)
            axes.tick_params(axis="x", length=0)
        put_legend(figure, [*_samples(keys), *error_sample(words)])

    return Drawing(compose, (across, round(rows * HEIGHT + legend_inches(names, across), 2)))


def _draw(axes: Axes, value: Value, share: bool, panels: Sequence[Panel], keys: Mapping[str, Key]) -> None:
    """Bars begin at 0, so that their lengths can be compared."""
    slots = list(dict.fromkeys(key.title for key in keys.values()))
    wide = GROUP / len(slots)
    labelled = sum(len(panel.rows) for panel in panels) <= MOST_LABELLED
    for group, panel in enumerate(panels):
        for row in panel.rows:
            if (number := value.number(row)) is not None:
                key = keys[row.name]
                place = group + wide * (slots.index(key.title) - (len(slots) - 1) / 2)
                text = (one_decimal(100 * number.value) if share else three_digits(number.value)) * labelled
                _bar(axes, place, 0.9 * wide, number, key.look.colour)
                _label(axes, place, number, text)
    axes.set_xticks(range(len(panels)), ["\n".join(folded(panel.title, LONGEST)) for panel in panels])
    axes.set_xlim(-0.5, len(panels) - 0.5)


def _bar(axes: Axes, place: float, wide: float, number: Number, colour: str) -> None:
    inside: dict[str, Any] = {"facecolor": "white", "hatch": MISSED} if number.missed else {"facecolor": colour}
    axes.bar(place, number.value, wide, zorder=2, edgecolor=colour, linewidth=0.6, **inside)
    if number.deviation:
        axes.errorbar(place, number.value, number.deviation, fmt="none", zorder=3, **ERROR_BAR)


def _label(axes: Axes, place: float, number: Number, text: str) -> None:
    axes.annotate(
        ">" * number.missed + text,
        (place, number.value + number.deviation),
        xytext=(0, 1.5),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=6,
        color=INK,
    )


def _samples(keys: Mapping[str, Key]) -> list[Any]:
    from matplotlib.patches import Patch

    return [
        Patch(color=colour, label=title) for title, colour in {k.title: k.look.colour for k in keys.values()}.items()
    ]
