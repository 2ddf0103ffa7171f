"""Figures for a paper: curves with bands, points over what varies, and bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from smofi.errors import check_choice, refuse
from smofi.report.curves import TARGET, marked
from smofi.report.history import Band, History, Scale, bands
from smofi.report.measures import USUAL_BASELINE, Row, measure
from smofi.report.names import PLAIN, folded, label, plugins_of, titles
from smofi.report.numbers import TimeUnit, one_decimal, three_digits, time_unit
from smofi.report.saving import save_picture
from smofi.report.style import FAINT, GRID, INK, Look, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# --------------------------------------------------------------------------------------------------------------------
# The page that a figure is made for: its widths, its type, and saving.


Width: TypeAlias = Literal["column", "page"]
WIDTHS: dict[Width, float] = {"column": 3.35, "page": 7.0}
"""Inches, of one column of a two-column paper and of its text."""
SMALL = 7  # points: readable in print
STYLE: dict[str, Any] = {
    "font.size": SMALL,
    "axes.titlesize": SMALL + 1,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.fontsize": SMALL,
    "hatch.linewidth": 0.5,
}
PADDING: dict[str, Any] = {"w_pad": 0.03, "h_pad": 0.03, "wspace": 0.02, "hspace": 0.04}
DPI = 300
PER_ROW = 4  # panels
LINE, MARKER = 1.2, 0.5  # points; of the size that a marker has elsewhere
LETTER, SAMPLE = 0.06, 0.45  # inches that a letter, and a sample of a line with its gaps, take in the legend


@dataclass(frozen=True)
class Drawing:
    """A figure that is ready to be saved, the same bytes each time: as .svg, .pdf or .png, by the file's name."""

    compose: Callable[[Figure], None]
    size: tuple[float, float]

    def save(self, path: str | Path) -> Path:
        """Draw it into a file."""
        return save_picture(path, self.compose, self.size, PADDING, DPI, STYLE)


def grid_of(count: int, width: Width | None) -> tuple[int, int, float]:
    """Rows, columns and inches across for this many panels; a single one takes a column of the page.

    >>> grid_of(1, None), grid_of(3, None), grid_of(6, "page"), grid_of(2, "column")
    ((1, 1, 3.35), (1, 3, 7.0), (2, 3, 7.0), (2, 1, 3.35))
    """
    across = WIDTHS[width or ("column" if count == 1 else "page")]
    most = PER_ROW if across == WIDTHS["page"] else 1
    rows = math.ceil(count / most)
    return rows, math.ceil(count / rows), across


def thin(look: Look) -> dict[str, Any]:
    """The line of a method at the size of a page."""
    line = look.line
    edge = 0.8 if look.hollow else 0.4
    return line | {"linewidth": LINE, "markersize": MARKER * line["markersize"], "markeredgewidth": edge}


def frame(axes: Axes, share: bool, title: str = "") -> None:
    """Axes with a light grid, without a box."""
    from matplotlib.ticker import FuncFormatter

    if share:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}"))
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(length=2, width=0.6, color=FAINT, pad=2)
    if title:
        axes.set_title(title, color=INK, pad=4, parse_math=False)


def axis_label(name: str, share: bool) -> str:
    """What stands beside an axis.

    >>> axis_label("accuracy", share=True), axis_label("rounds", share=False)
    ('accuracy (%)', 'rounds')
    """
    return f"{name} (%)" if share else name


def put_legend(figure: Figure, handles: Sequence[Any]) -> None:
    """One legend above all panels, in as many columns as fit."""
    names = [str(handle.get_label()) for handle in handles]
    columns = legend_columns(names, figure.get_figwidth())
    legend = figure.legend(
        handles=list(handles),
        loc="outside upper center",
        ncols=columns,
        frameon=False,
        handlelength=2.6,
        columnspacing=1.2,
        borderpad=0.1,
        labelcolor=INK,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def legend_columns(names: Sequence[str], across: float) -> int:
    """The most columns that fit; entries stand below each other first.

    >>> legend_columns(["FedAvg", "SMoFi"], 3.35), legend_columns(["a method with a long name"] * 4, 3.35)
    (2, 1)
    """
    for columns in range(len(names), 1, -1):
        least, longer = divmod(len(names), columns)  # matplotlib gives the first columns one entry more
        ends = list(accumulate([least + (place < longer) for place in range(columns)], initial=0))
        widest = [max(map(len, names[first:end])) for first, end in pairwise(ends)]
        if sum(SAMPLE + LETTER * letters for letters in widest) <= across:
            return columns
    return 1


def legend_inches(names: Sequence[str], across: float) -> float:
    """The height of the legend."""
    return 0.16 * math.ceil(len(names) / legend_columns(names, across))


# --------------------------------------------------------------------------------------------------------------------
# What a figure shows: panels, each with the histories of one setup, and how their methods look and are called.


@dataclass(frozen=True)
class Panel:
    """The histories of one setup, and the target: a `share` of the best of the baseline with the same seed, or fixed.

    >>> Panel("IID", [History("fedavg", [0.2, 0.8]), History("smofi", [0.8, 0.9])]).row("smofi").speed_up
    2.0
    """

    title: str
    histories: Sequence[History]
    baseline: str = USUAL_BASELINE
    share: float = 0.9
    target: float | None = None

    @cached_property
    def rows(self) -> list[Row]:
        """The measures of each method, with a target out of reach if the baseline is not there."""
        known = any(history.name == self.baseline for history in self.histories)
        target = math.inf if self.target is None and not known else self.target
        return measure(self.histories, self.baseline, share=self.share, target=target)

    def row(self, name: str) -> Row | None:
        """Those of one method; None if it is not in this panel."""
        return next((row for row in self.rows if row.name == name), None)

    @property
    def names(self) -> list[str]:
        """The methods, in the order of the histories."""
        return list(dict.fromkeys(history.name for history in self.histories))


@dataclass(frozen=True)
class Key:
    """How a method looks, and what it is called."""

    look: Look
    title: str


def keys_of(panels: Sequence[Panel]) -> dict[str, Key]:
    """The look and the title of every method of a figure.

    Where each panel has one base, a method looks the same on each of them, and a base alone as FedAvg.

    >>> one, other = Panel("", [History("fedavg"), History("smofi")]), Panel("", [History("clip(1)+smofi")])
    >>> [(name, key.title, key.look.glyph) for name, key in keys_of([one, other]).items()]
    [('fedavg', 'base alone', 'o'), ('smofi', '+ SMoFi', '*'), ('clip(1)+smofi', '+ SMoFi', '*')]
    """
    names = list(dict.fromkeys(name for panel in panels for name in panel.names))
    called = titles(names)
    own = {name: "+".join(plugins_of(name)) or PLAIN for name in names}
    apart = all(len({own[name] for name in panel.names}) == len(panel.names) for panel in panels)
    if apart and len(set(own.values())) < len(names):
        shared = dict(zip(names, looks([own[name] for name in names]), strict=True))
        alone = {name: "base alone" if own[name] == PLAIN else label(name, called[name]) for name in names}
        return {name: Key(shared[name], alone[name]) for name in names}
    return {name: Key(look, called[name]) for name, look in zip(names, looks(names), strict=True)}


def scale_of(panels: Sequence[Panel]) -> Scale:
    """The metric by which all panels are judged."""
    histories = [history for panel in panels for history in panel.histories]
    if not any(history.measured for history in histories):
        refuse("histories", histories, "at least one history with a number in it")
    if len({history.judged for history in histories}) > 1:
        refuse("metrics", sorted({history.judged for history in histories}), "runs judged by the same metric")
    return Scale.of(histories)


# --------------------------------------------------------------------------------------------------------------------
# The numbers that bars and points show: one per method and panel, with the spread over its seeds.

ERROR_BAR: dict[str, Any] = {"ecolor": INK, "elinewidth": 0.7, "capsize": 1.5, "capthick": 0.7}


@dataclass(frozen=True)
class Number:
    """A value and its standard deviation, 0 of a single seed. A target that was missed is `missed`: the value is then
    the budget, which was not enough."""

    value: float
    deviation: float
    missed: bool = False


@dataclass(frozen=True)
class Value:
    """What is shown of a row, and what the axis is called."""

    label: Callable[[Scale], str]
    of: Callable[[Row], float | None]
    deviation: Callable[[Row], float | None]
    budget: Callable[[Row], float | None] = lambda row: None
    metric: bool = False  # in the unit of the judged metric

    def number(self, row: Row) -> Number | None:
        """Of a method; None if it was not measured, as hours without a clock."""
        value, budget = self.of(row), self.budget(row)
        if value is None:
            return None if budget is None or math.isinf(row.target) else Number(budget, 0.0, missed=True)
        return Number(value, self.deviation(row) or 0.0)


VALUES = {
    "accuracy": Value(lambda scale: f"best {scale.short}", lambda r: r.best, lambda r: r.best_std, metric=True),
    "mean": Value(lambda scale: f"mean {scale.short}", lambda r: r.mean, lambda r: r.mean_std, metric=True),
    "rounds": Value(
        lambda scale: "rounds to target", lambda r: r.rounds, lambda r: r.rounds_std, lambda r: float(r.budget)
    ),
    "hours": Value(lambda scale: "hours to target", lambda r: r.hours_to, lambda r: r.hours_to_std, lambda r: r.hours),
}


def seeds_words(counts: Iterable[int]) -> str:
    """What a band or an error bar shows, given the number of seeds of each method; nothing of single seeds.

    >>> seeds_words([3, 2]), seeds_words([1])
    ('± std, 2 to 3 seeds', '')
    """
    found = sorted(set(counts))
    if not found or found[-1] == 1:
        return ""
    return f"± std, {found[0]} seeds" if len(found) == 1 else f"± std, {found[0]} to {found[-1]} seeds"


def check_values(values: Sequence[str], panels: Sequence[Panel]) -> list[Value]:
    """The values by their names; hours only of runs with a clock, rounds and hours only if there is a target."""
    found = [VALUES[check_choice("value", name, VALUES)] for name in values]
    if "hours" in values and not any(history.hours for panel in panels for history in panel.histories):
        refuse("value", "hours", "runs with a clock, for example: smofi run --clock paper")
    for name, value in zip(values, found, strict=True):
        if not any(value.number(row) for panel in panels for row in panel.rows):
            refuse(
                "value", name, f"runs of {panels[0].baseline} too, from which the target is taken, or a fixed target"
            )
    return found


def spread_words(panels: Sequence[Panel]) -> str:
    """What the error bars are; empty if no method has several seeds.

    >>> from smofi.report.history import History
    >>> spread_words([Panel("", [History("fedavg", [0.5], seed=seed) for seed in (0, 1)])])
    '± std, 2 seeds'
    """
    return seeds_words([row.seeds for panel in panels for row in panel.rows])


def error_sample(words: str) -> list[Any]:
    """A sample of an error bar for the legend, if there are any."""
    from matplotlib.lines import Line2D

    sample: dict[str, Any] = {"color": INK, "marker": "|", "markersize": 5, "markeredgewidth": 0.8, "linestyle": "none"}
    return [Line2D([], [], label=words, **sample)] if words else []


# --------------------------------------------------------------------------------------------------------------------
# Bars: a group for each setup, a bar for each method, its spread over seeds on top.

GROUP = 0.84  # of the room of a group, for its bars
BAR_HEIGHT = 1.55  # inches, of the bars of one value
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
            _draw_bars(axes, value, share, panels, keys)
            frame(axes, share)
            axes.set_ylabel(axis_label(value.label(scale), share), parse_math=False)
            axes.tick_params(axis="x", length=0)
        put_legend(figure, [*_bar_samples(keys), *error_sample(words)])

    return Drawing(compose, (across, round(rows * BAR_HEIGHT + legend_inches(names, across), 2)))


def _draw_bars(axes: Axes, value: Value, share: bool, panels: Sequence[Panel], keys: Mapping[str, Key]) -> None:
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


def _bar_samples(keys: Mapping[str, Key]) -> list[Any]:
    from matplotlib.patches import Patch

    return [
        Patch(color=colour, label=title) for title, colour in {k.title: k.look.colour for k in keys.values()}.items()
    ]


# --------------------------------------------------------------------------------------------------------------------
# Learning curves: a panel for each setup, a line for each method, a band for its seeds.

FAINTNESS = 0.18
CURVE_HEIGHTS = {1: 0.62, 2: 0.6, 3: 0.68, 4: 0.78}  # of a panel over its width, by how many stand in a row


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
    high = across / columns * CURVE_HEIGHTS[columns] * rows + legend_inches(names, across)

    def compose(figure: Figure) -> None:
        grid = list(figure.subplots(rows, columns, squeeze=False, sharey=not own_axes).flat)
        for number, (axes, panel, inside) in enumerate(zip(grid, panels, drawn, strict=False)):
            _draw_curves(axes, inside, keys, unit)
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


def _draw_curves(axes: Axes, inside: Sequence[Band], keys: Mapping[str, Key], unit: TimeUnit | None) -> None:
    from matplotlib.ticker import MaxNLocator

    last = 1.0
    for number, one in enumerate(inside):
        known = one.points
        places = [place + 1.0 if unit is None else 3600 * one.hours[place] / unit.seconds for place in known]
        mean, low, high = (_curve_numbers(values, known) for values in (one.mean, one.low, one.high))
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


def _curve_numbers(values: Sequence[float | None], places: Sequence[int]) -> list[float]:
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


# --------------------------------------------------------------------------------------------------------------------
# Points over a setting, such as alpha or the cut: a line for each method, the spread over seeds as error bars.

DASHED: Any = (0, (4, 2))
OPEN: dict[str, Any] = {"marker": "^", "markersize": 5, "markerfacecolor": "white", "linestyle": "none"}
APART = 0.05  # of the distance between points, from method to method
POINT_HEIGHTS = {1: 0.6, 2: 0.5, 3: 0.65, 4: 0.8}  # of a panel over its width, by how many stand in a row


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
    high = across / columns * POINT_HEIGHTS[columns] * rows + legend_inches(names, across)

    def compose(figure: Figure) -> None:
        for axes, value in zip(figure.subplots(rows, columns, squeeze=False).flat, shown, strict=False):
            share = value.metric and scale.share
            for number, (name, key) in enumerate(keys.items()):
                aside = APART * (number - (len(keys) - 1) / 2)
                _draw_points(axes, _point_numbers(panels, name, value), aside, _look(key, name, reference))
            frame(axes, share)
            axes.set_ylabel(axis_label(value.label(scale), share), parse_math=False)
            axes.set_xlabel(setting, parse_math=False)
            axes.set_xticks(range(len(panels)), [panel.title for panel in panels])
            axes.margins(x=0.06, y=0.1)
        put_legend(figure, [*_point_samples(keys, reference), *error_sample(words)])

    return Drawing(compose, (across, round(high, 2)))


def _point_numbers(panels: Sequence[Panel], name: str, value: Value) -> dict[int, Number]:
    """The numbers of a method, by the place of their panel."""
    rows = ((place, panel.row(name)) for place, panel in enumerate(panels))
    known = ((place, value.number(row)) for place, row in rows if row is not None)
    return {place: number for place, number in known if number is not None}


def _draw_points(axes: Axes, numbers: Mapping[int, Number], aside: float, look: dict[str, Any]) -> None:
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


def _point_samples(keys: Mapping[str, Key], reference: str) -> list[Any]:
    from matplotlib.lines import Line2D

    return [Line2D([], [], label=key.title, **_look(key, name, reference)) for name, key in keys.items()]
