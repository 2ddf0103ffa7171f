"""Points over a setting, such as alpha or the cut: a line for each method, the spread over seeds as error bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smofi.report.figures.panels import Key, Panel, keys_of, scale_of
from smofi.report.figures.paper import Drawing, Width, axis_label, frame, grid_of, legend_inches, put_legend, thin
from smofi.report.figures.values import ERROR_BAR, Number, Value, check_values, error_sample, spread_words
from smofi.report.measures import USUAL_BASELINE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHED: Any = (0, (4, 2))
OPEN: dict[str, Any] = {"marker": "^", "markersize": 5, "markerfacecolor": "white", "linestyle": "none"}
APART = 0.05  # of the distance between points, from method to method
HEIGHT = {1: 0.6, 2: 0.5, 3: 0.65, 4: 0.8}  # of a panel over its width, by how many stand in a row


def points_figure(
    panels: Sequence[Panel],
    values: Sequence[str] = ("accuracy",),
    *,
    setting: str = "",
    reference: str = USUAL_BASELINE,
    width: Width | None = None,
) -> Drawing:
    """The values of each method over a setting: each panel is one value of it, its title stands below. Points are at
    even distances, in the order of the panels, with error bars of one standard deviation over seeds. The reference
    is dashed; a method that misses the target is an open triangle at its budget.

    >>> from smofi.report.history import History
    >>> panels = [Panel(cut, [History("fedavg", [0.5]), History("smofi", [0.6])]) for cut in ("0", "1")]
    >>> points_figure(panels, setting="cut").size
    (3.35, 2.17)
    """
    scale = scale_of(panels)
    shown = check_values(values, panels)
    keys = keys_of(panels)
    words = spread_words(panels)
    rows, columns, across = grid_of(len(shown), width)
    names = [*(key.title for key in keys.values()), *([words] if words else [])]
    high = across / columns * HEIGHT[columns] * rows + legend_inches(names, across)

    def compose(figure: Figure) -> None:
        for axes, value in zip(figure.subplots(rows, columns, squeeze=False).flat, shown, strict=False):
            share = value.metric and scale.share
            for number, (name, key) in enumerate(keys.items()):
                aside = APART * (number - (len(keys) - 1) / 2)
                _draw(axes, _numbers(panels, name, value), aside, _look(key, name, reference))
            frame(axes, share)
            axes.set_ylabel(axis_label(value.label(scale), share), parse_math=False)
            axes.set_xlabel(setting, parse_math=False)
            axes.set_xticks(range(len(panels)), [panel.title for panel in panels])
            axes.margins(x=0.06, y=0.1)
        put_legend(figure, [*_samples(keys, reference), *error_sample(words)])

    return Drawing(compose, (across, round(high, 2)))


def _numbers(panels: Sequence[Panel], name: str, value: Value) -> dict[int, Number]:
    """The numbers of a method, by the place of their panel."""
    rows = ((place, panel.row(name)) for place, panel in enumerate(panels))
    known = ((place, value.number(row)) for place, row in rows if row is not None)
    return {place: number for place, number in known if number is not None}


def _draw(axes: Axes, numbers: Mapping[int, Number], aside: float, look: dict[str, Any]) -> None:
    """A method's points, moved aside so that its error bars do not hide those of others."""
    places = [place + aside for place in numbers]
    axes.plot(places, [number.value for number in numbers.values()], **look, zorder=2)
    for place, number in zip(places, numbers.values(), strict=True):
        if number.deviation:
            bar = ERROR_BAR | {"ecolor": look["color"]}
            axes.errorbar(place, number.value, number.deviation, fmt="none", zorder=2, **bar)
        if number.missed:
            axes.plot([place], [number.value], color=look["color"], **OPEN, zorder=3)


def _look(key: Key, name: str, reference: str) -> dict[str, Any]:
    look = thin(key.look)
    return look | ({"linestyle": DASHED, "marker": ""} if name == reference else {"linestyle": "-"})


def _samples(keys: Mapping[str, Key], reference: str) -> list[Any]:
    from matplotlib.lines import Line2D

    return [Line2D([], [], label=key.title, **_look(key, name, reference)) for name, key in keys.items()]
