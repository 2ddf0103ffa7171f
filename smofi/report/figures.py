"""Figures of results: curves with bands, bars, and points over what varies, for a paper or a run's folder.

They are drawn from histories, wherever those come from:

    curves_figure([Panel("Dirichlet 0.2", histories)]).save("curves.pdf")
"""

from __future__ import annotations

import inspect
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from smofi.config.settings import SETTINGS
from smofi.errors import InputError, check_choice, refuse
from smofi.methods import METHODS, bare_base
from smofi.report.asked import Request
from smofi.report.names import PLAIN, folded, label, plugins_of, rows_by_base, titles
from smofi.report.numbers import three_digits, time_unit
from smofi.report.results import USUAL_BASELINE, Band, History, Row, Scale, bands, measure
from smofi.report.snapshots import Setup
from smofi.report.style import DASHED, FAINT, INK, Drawing, Look, looks, put_heading
from smofi.report.table import with_target
from smofi.spec import Call, read_calls

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# --------------------------------------------------------------------------------------------------------------------
# The page that a figure is made for: its widths, its type, and saving.

WIDTHS = {"column": 3.35, "page": 7.0}
"""Inches, of one column of a two-column paper and of its text."""
SMALL = 7  # points: readable in print
STYLE: dict[str, Any] = {
    "font.size": SMALL,
    "axes.titlesize": SMALL + 1,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "grid.linewidth": 0.6,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.fontsize": SMALL,
    "hatch.linewidth": 0.5,
}
PADDING: dict[str, Any] = {"w_pad": 0.03, "h_pad": 0.03, "wspace": 0.02, "hspace": 0.04}
PER_ROW = 4  # panels


def thin(look: Look) -> dict[str, Any]:
    line, edge = look.line, 0.8 if look.hollow else 0.4
    return line | {"linewidth": 1.2, "markersize": 0.5 * line["markersize"], "markeredgewidth": edge}


class Format(NamedTuple):
    """The medium of a figure: its lines, and inches that a letter and a sample of a line take in the legend."""

    line: Callable[[Look], dict[str, Any]]
    letter: float
    sample: float
    legend: Any  # where it stands
    style: Mapping[str, Any]
    dpi: int

    def drawing(self, compose: Callable[[Figure], None], size: tuple[float, float]) -> Drawing:
        return Drawing(compose, size, PADDING, self.dpi, self.style)


PAPER = Format(thin, 0.06, 0.45, "outside upper center", STYLE, 300)
SCREEN = Format(lambda look: look.line, 0.095, 0.75, "outside lower left", {}, 200)


def grid_of(count: int, width: str | None) -> tuple[int, int, float]:
    """Return rows, columns and inches across for this many panels; a single one takes a column of the page."""
    across = WIDTHS[width or ("column" if count == 1 else "page")]
    rows = math.ceil(count / (PER_ROW if across == WIDTHS["page"] else 1))
    return rows, math.ceil(count / rows), across


def frame(axes: Axes, share: bool, title: str = "") -> None:
    from matplotlib.ticker import FuncFormatter

    if share:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}"))
    axes.grid(axis="y")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(length=2, width=0.6, color=FAINT, pad=2)
    if title:
        axes.set_title(title, color=INK, pad=4)


def axis_label(name: str, share: bool) -> str:
    return f"{name} (%)" if share else name


def put_legend(figure: Figure, handles: Sequence[Any], form: Format = PAPER) -> None:
    """Put one legend beside all panels, in as many columns as fit."""
    columns = legend_columns([str(handle.get_label()) for handle in handles], figure.get_figwidth(), form)
    spaces: dict[str, Any] = {"handlelength": 2.6, "columnspacing": 1.2, "borderpad": 0.1}
    figure.legend(handles=list(handles), loc=form.legend, ncols=columns, labelcolor=INK, **spaces)


def legend_columns(names: Sequence[str], across: float, form: Format = PAPER) -> int:
    """Return the most columns that fit; entries stand below each other first."""
    for columns in range(len(names), 1, -1):
        least, longer = divmod(len(names), columns)  # matplotlib gives the first columns one entry more
        ends = list(accumulate([least + (place < longer) for place in range(columns)], initial=0))
        widest = [max(map(len, names[first:end])) for first, end in pairwise(ends)]
        if sum(form.sample + form.letter * letters for letters in widest) <= across:
            return columns
    return 1


def legend_inches(names: Sequence[str], across: float) -> float:
    return 0.16 * math.ceil(len(names) / legend_columns(names, across))


# --------------------------------------------------------------------------------------------------------------------
# What a figure shows: panels, each with the histories of one setup, and how their methods look and are called.


@dataclass(frozen=True)
class Panel:
    """The histories of one setup, and the target: fixed, or a `share` of the baseline's best with the same seed. The
    judged metric has this `scale`, if one is given."""

    title: str
    histories: Sequence[History]
    baseline: str = USUAL_BASELINE
    share: float = 0.9
    target: float | None = None
    scale: Scale | None = None

    @cached_property
    def rows(self) -> list[Row]:
        """The measures of each method, with a target out of reach if the baseline is not there."""
        known = any(history.name == self.baseline for history in self.histories)
        target = math.inf if self.target is None and not known else self.target
        return measure(self.histories, self.baseline, share=self.share, target=target)

    def row(self, name: str) -> Row | None:
        return next((row for row in self.rows if row.name == name), None)

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(history.name for history in self.histories))


class Key(NamedTuple):
    """The look and the title of a method."""

    look: Look
    title: str


def keys_of(panels: Sequence[Panel]) -> dict[str, Key]:
    """Give every method of a figure its look and title.

    Where each panel has one base, a method looks the same on each of them, and a base alone as FedAvg."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.names))
    called = titles(names)
    own = {name: "+".join(plugins_of(name)) or PLAIN for name in names}
    apart = all(len({own[name] for name in panel.names}) == len(panel.names) for panel in panels)
    if apart and len(set(own.values())) < len(names):
        shared = dict(zip(names, looks([own[name] for name in names]), strict=True))
        alone = {name: "base alone" if own[name] == PLAIN else label(name, called[name]) for name in names}
        return {name: Key(shared[name], alone[name]) for name in names}
    given = looks(names)
    return {
        name: Key(look if len(names) > 1 else look.alone, called[name]) for name, look in zip(names, given, strict=True)
    }


def _titles(keys: Mapping[str, Key], *more: str) -> list[str]:
    return [*dict.fromkeys(key.title for key in keys.values()), *filter(None, more)]


def scale_of(panels: Sequence[Panel]) -> Scale:
    histories = [history for panel in panels for history in panel.histories]
    if not any(history.measured for history in histories):
        refuse("histories", histories, "at least one history with a number in it")
    if len({history.judged for history in histories}) > 1:
        refuse("metrics", sorted({history.judged for history in histories}), "runs judged by the same metric")
    return Scale.of(histories)


def seeds_words(counts: Iterable[int]) -> str:
    """Say what a band or an error bar shows, given the number of seeds of each method; nothing of single seeds."""
    found = sorted(set(counts))
    if not found or found[-1] == 1:
        return ""
    return f"± std, {found[0]} seeds" if len(found) == 1 else f"± std, {found[0]} to {found[-1]} seeds"


# --------------------------------------------------------------------------------------------------------------------
# Learning curves: a panel for each setup, a line for each method, a band for its seeds.

FAINTNESS = 0.18
CURVE_HEIGHTS = {1: 0.62, 2: 0.6, 3: 0.68, 4: 0.78}  # of a panel over its width, by how many stand in a row
MARKS = 8  # along each curve, where there are several


def curves_figure(
    panels: Sequence[Panel],
    *,
    over_hours: bool = False,
    width: str | None = None,
    own_axes: bool = False,
    form: Format = PAPER,
    size: tuple[float, float] | None = None,
) -> Drawing:
    """Draw the judged metric over rounds, or over hours of virtual time: the mean over seeds, and a band of one
    standard deviation either side. A panel with a fixed target has a line there. All panels have the same range of
    values, so that heights can be compared, unless they have `own_axes`; then each may have a metric of its own."""
    scales = [panel.scale or scale_of([panel] if own_axes else panels) for panel in panels]
    keys = keys_of(panels)
    drawn = [bands([one for one in panel.histories if one.measured], partial=form is not PAPER) for panel in panels]
    ends = [hours for inside in drawn for one in inside for hours in one.hours[-1:]]
    if over_hours and len(ends) < sum(map(len, drawn)):
        refuse("hours", True, "runs that all have a clock, for example: smofi run --clock paper")
    unit = time_unit(3600 * max(ends)) if over_hours else None
    words = seeds_words(one.seeds for inside in drawn for one in inside)
    rows, columns, across = grid_of(len(panels), width)
    high = across / columns * CURVE_HEIGHTS[columns] * rows + legend_inches(_titles(keys, words), across)

    def plot(axes: Axes, inside: Sequence[Band]) -> None:
        from matplotlib.ticker import MaxNLocator

        last = 1.0
        for number, one in enumerate(inside):
            places = [place + 1.0 if unit is None else 3600 * one.hours[place] / unit.seconds for place in one.points]
            low, mean, high = (
                [
                    math.nan if (value := line[point]) is None or not math.isfinite(value) else value
                    for point in one.points
                ]
                for line in (one.low, one.mean, one.high)
            )
            look = keys[one.name].look
            axes.plot(places, mean, **form.line(look), markevery=marked(mean, number, len(inside)), zorder=3)
            if one.seeds > 1:
                axes.fill_between(places, low, high, color=look.colour, alpha=FAINTNESS, linewidth=0, zorder=2)
            last = max([last, *places])
        axes.set_xlim((0, last) if unit else (1, last) if last > 1 else (0, 2))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10], integer=unit is None))

    def compose(figure: Figure) -> None:
        grid = list(figure.subplots(rows, columns, squeeze=False, sharey=not own_axes).flat)
        for number, (axes, panel, inside, scale) in enumerate(zip(grid, panels, drawn, scales, strict=False)):
            plot(axes, inside)
            if panel.target is not None:
                axes.axhline(panel.target, color=FAINT, linewidth=0.8, linestyle=DASHED, zorder=1)
            frame(axes, scale.share, panel.title)
            if number % columns == 0 and scale.name != panel.title:
                axes.set_ylabel(axis_label(scale.name, scale.share))
            axes.set_xlabel("round" if unit is None else f"{unit.name} on the clients' devices")
        for axes in grid[len(panels) :]:
            axes.remove()
        put_legend(figure, handles(), form)

    def handles() -> list[Any]:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        by_title = {key.title: key.look for key in keys.values()}
        found: list[Any] = [Line2D([], [], label=title, **form.line(look)) for title, look in by_title.items()]
        if form is not PAPER and (targets := {panel.target for panel in panels} - {None}):
            shown = ", ".join(scales[0].text(target) for target in sorted(targets, key=str))
            found.append(Line2D([], [], color=FAINT, linestyle=DASHED, label=f"target {shown}"))
        return found + ([Patch(color=FAINT, alpha=2 * FAINTNESS, linewidth=0, label=words)] if words else [])

    return form.drawing(compose, size or (across, round(high, 2)))


def run_figure(
    histories: Sequence[History], target: float | None, title: str, below: str = "", *, over_hours: bool = False
) -> Drawing:
    """Draw a run's or a comparison's judged metric over rounds, or over the hours of virtual time; `below` stands below
    the title."""
    panel = Panel("", [history for history in histories if history.measured], target=target)
    drawing = curves_figure([panel], over_hours=over_hours, form=SCREEN, size=(8.4, 4.4))

    def compose(figure: Figure) -> None:
        drawing.compose(figure)
        put_heading(figure, title, below)

    return replace(drawing, compose=compose)


def marked(values: Sequence[float], number: int, among: int) -> list[int]:
    """Return where a curve has its marker: at even distances, elsewhere than the curves of other numbers, and where a
    value has no neighbour to draw a line to."""
    known = [False, *(math.isfinite(value) for value in values), False]
    alone = [i for i in range(len(values)) if known[i + 1] and not (known[i] or known[i + 2])]
    if among == 1:
        return alone
    distance = max(1, len(values) // MARKS)
    return sorted({*alone, *range(number * distance // among, len(values), distance)})


# --------------------------------------------------------------------------------------------------------------------
# The numbers that bars and points show: one per method and panel, with the spread over its seeds.

ERROR_BAR: dict[str, Any] = {"ecolor": INK, "elinewidth": 0.7, "capsize": 1.5, "capthick": 0.7}


class Number(NamedTuple):
    """A value and its standard deviation, 0 of a single seed. A target that was missed is `missed`: the value is then
    the budget, which was not enough."""

    value: float
    deviation: float
    missed: bool = False


class Value(NamedTuple):
    """A quantity of a row: its label with the metric, and the fields of the value, its deviation and its budget."""

    label: str
    value: str
    deviation: str
    budget: str = ""

    def number(self, row: Row) -> Number | None:
        """Return a method's number; None if it was not measured, as hours without a clock."""
        if (value := getattr(row, self.value)) is not None:
            return Number(value, getattr(row, self.deviation) or 0.0)
        budget = getattr(row, self.budget)
        return None if budget is None or math.isinf(row.target) else Number(float(budget), 0.0, missed=True)


VALUES = {
    "accuracy": Value("best {}", "best", "best_std"),
    "mean": Value("mean {}", "mean", "mean_std"),
    "rounds": Value("rounds to target", "rounds", "rounds_std", "budget"),
    "hours": Value("hours to target", "hours_to", "hours_to_std", "hours"),
}


def check_values(values: Sequence[str], panels: Sequence[Panel]) -> list[Value]:
    """Return the values by their names; hours only of runs with a clock, rounds and hours only if there is a target."""
    found = [VALUES[check_choice("value", name, VALUES)] for name in values]
    if "hours" in values and not any(history.hours for panel in panels for history in panel.histories):
        refuse("value", "hours", "runs with a clock, for example: smofi run --clock paper")
    for name, value in zip(values, found, strict=True):
        if not any(value.number(row) for panel in panels for row in panel.rows):
            needed = f"runs of {panels[0].baseline} too, from which the target is taken, or a fixed target"
            refuse("value", name, needed)
    return found


def _draw_number(axes: Axes, place: float, number: Number, colour: str = INK) -> None:
    if number.deviation:
        bar = ERROR_BAR | {"ecolor": colour}
        axes.errorbar(place, number.value, number.deviation, fmt="none", zorder=3, **bar)


def _values_figure(
    panels: Sequence[Panel],
    values: Sequence[str],
    grid: tuple[int, int, float],
    high: float,
    draw: Callable[[Axes, Value, bool, Mapping[str, Key]], None],
    sample: Callable[[str, Key], Any],
) -> Drawing:
    """Make a figure with axes for each value, a legend with a sample for each method, and one of an error bar."""
    scale, shown, keys = scale_of(panels), check_values(values, panels), keys_of(panels)
    words = seeds_words([row.seeds for panel in panels for row in panel.rows])
    rows, columns, across = grid

    def compose(figure: Figure) -> None:
        from matplotlib.lines import Line2D

        for axes, value in zip(figure.subplots(rows, columns, squeeze=False).flat, shown, strict=False):
            share = scale.share and not value.budget
            frame(axes, share)
            draw(axes, value, share, keys)
            axes.set_ylabel(axis_label(value.label.format(scale.short), share))
        handles = {key.title: sample(name, key) for name, key in keys.items()}
        bar: dict[str, Any] = {"color": INK, "marker": "|", "markersize": 5, "markeredgewidth": 0.8, "linestyle": ""}
        put_legend(figure, [*handles.values(), *([Line2D([], [], label=words, **bar)] if words else [])])

    return PAPER.drawing(compose, (across, round(high + legend_inches(_titles(keys, words), across), 2)))


# --------------------------------------------------------------------------------------------------------------------
# Bars: a group for each setup, a bar for each method, its spread over seeds on top.

GROUP = 0.84  # of the room of a group, for its bars
BAR_HEIGHT = 1.55  # inches, of the bars of one value
LONGEST = 14  # characters in a line below a group
MOST_LABELLED = 8  # bars that have their number on top


def bars_figure(panels: Sequence[Panel], values: Sequence[str] = ("accuracy",), *, width: str | None = None) -> Drawing:
    """Draw a group of bars for each panel, for each of the values: accuracy (the best), mean (over rounds), rounds or
    hours (to the target). Error bars are one standard deviation over seeds; a method that misses the target has a
    hatched bar as high as its budget, and a > on top. Bars begin at 0, so that their lengths can be compared."""
    labelled = sum(len(panel.rows) for panel in panels) <= MOST_LABELLED

    def draw(axes: Axes, value: Value, share: bool, keys: Mapping[str, Key]) -> None:
        slots = _titles(keys)
        wide = GROUP / len(slots)
        above: Any = {"textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": 6, "color": INK}
        for group, panel in enumerate(panels):
            for row in panel.rows:
                if (number := value.number(row)) is None:
                    continue
                colour = keys[row.name].look.colour
                place = group + wide * (slots.index(keys[row.name].title) - (len(slots) - 1) / 2)
                inside = {"facecolor": "white", "hatch": "////"} if number.missed else {"facecolor": colour}
                axes.bar(place, number.value, 0.9 * wide, zorder=2, edgecolor=colour, linewidth=0.6, **inside)  # type: ignore[arg-type]
                _draw_number(axes, place, number)
                text = (f"{100 * number.value:.1f}" if share else three_digits(number.value)) * labelled
                axes.annotate(">" * number.missed + text, (place, number.value + number.deviation), (0, 1.5), **above)
        axes.set_xticks(range(len(panels)), ["\n".join(folded(panel.title, LONGEST)) for panel in panels])
        axes.set_xlim(-0.5, len(panels) - 0.5)
        axes.tick_params(axis="x", length=0)

    def sample(name: str, key: Key) -> Any:
        from matplotlib.patches import Patch

        return Patch(color=key.look.colour, label=key.title)

    grid = grid_of(len(values), width or ("page" if len(panels) > 3 else None))
    return _values_figure(panels, values, grid, grid[0] * BAR_HEIGHT, draw, sample)


# --------------------------------------------------------------------------------------------------------------------
# Points over a setting, such as alpha or the cut: a line for each method, the spread over seeds as error bars.

OPEN: dict[str, Any] = {"marker": "^", "markersize": 5, "markerfacecolor": "white", "linestyle": "none"}
APART = 0.05  # of the distance between points, from method to method
POINT_HEIGHTS = {1: 0.6, 2: 0.5, 3: 0.65, 4: 0.8}  # of a panel over its width, by how many stand in a row


def points_figure(
    panels: Sequence[Panel],
    values: Sequence[str] = ("accuracy",),
    *,
    setting: str = "",
    reference: str = USUAL_BASELINE,
    width: str | None = None,
) -> Drawing:
    """Draw the values of each method over a setting: each panel is one value of it, its title stands below. Points are
    at even distances, in the order of the panels, with error bars of one standard deviation over seeds. The reference
    is dashed; a method that misses the target is an open triangle at its budget."""

    def look(name: str, key: Key) -> dict[str, Any]:
        dashed: dict[str, Any] = {"linestyle": (0, (4, 2)), "marker": ""}
        return thin(key.look) | (dashed if name == reference else {"linestyle": "-"})

    def draw(axes: Axes, value: Value, share: bool, keys: Mapping[str, Key]) -> None:
        for number, (name, key) in enumerate(keys.items()):
            aside = APART * (number - (len(keys) - 1) / 2)  # so that error bars do not hide those of others
            rows = ((place, panel.row(name)) for place, panel in enumerate(panels))
            known = [(place + aside, found) for place, row in rows if row and (found := value.number(row))]
            axes.plot([place for place, _ in known], [one.value for _, one in known], **look(name, key), zorder=2)
            for place, one in known:
                _draw_number(axes, place, one, key.look.colour)
                if one.missed:
                    axes.plot([place], [one.value], color=key.look.colour, **OPEN, zorder=3)
        axes.set_xlabel(setting)
        axes.set_xticks(range(len(panels)), [panel.title for panel in panels])
        axes.margins(x=0.06, y=0.1)

    def sample(name: str, key: Key) -> Any:
        from matplotlib.lines import Line2D

        return Line2D([], [], label=key.title, **look(name, key))

    grid = grid_of(len(values), width)
    high = grid[2] / grid[1] * POINT_HEIGHTS[grid[1]] * grid[0]
    return _values_figure(panels, values, grid, high, draw, sample)


# --------------------------------------------------------------------------------------------------------------------
# From a request and the setups of finished runs to the figure: which panels there are, and what they show.

BASE = "base"


def figure_of(setups: Sequence[Setup], request: Request, *, own_axes: bool = False) -> Drawing:
    """Make the figure that was asked for, or what suits the setups: curves, and a panel for each if there are several,
    all with the same range of values unless they have `own_axes`."""
    if request.over is not None:
        panels = _panels(_over(setups, request.over, request.baseline), request, measured=True)
        name = request.over.replace("_", " ")
        return points_figure(panels, request.values, setting=name, reference=request.baseline, width=request.width)
    if request.kind == "curves":
        _check_one(setups)
    found = _by_base(setups) if request.by == BASE else _by_setup(setups, request.by)
    if request.kind == "bars":
        return bars_figure(_panels(found, request, measured=True), request.values, width=request.width)
    return curves_figure(_panels(found, request), over_hours=request.hours, width=request.width, own_axes=own_axes)


def _panels(found: Mapping[str, Sequence[History]], request: Request, *, measured: bool = False) -> list[Panel]:
    """Make panels by their titles, the methods as in the paper's table; if `measured`, without seeds that have no
    target."""
    target, baseline = request.target, request.baseline
    methods = dict.fromkeys(history.name for histories in found.values() for history in histories)
    order = [name for _, names in rows_by_base(list(methods)) for name in names]
    panels = []
    for title, histories in found.items():
        shown = with_target(histories, target, baseline)[0] if measured else histories
        ordered = sorted(shown, key=lambda history: order.index(history.name))
        panels.append(Panel(title, ordered, baseline, target.share, target.fixed))
    return panels


def _by_setup(setups: Sequence[Setup], by: str | None) -> dict[str, list[History]]:
    """Return the histories of each setup; they differ in the setting `by` alone, if one is named."""

    def title(setting: str, value: str) -> str:  # iid speaks for itself, 1-2 needs "cut" before it
        return value if value[:1].isalpha() and value != "none" else f"{setting.replace('_', ' ')} {value}"

    if by is not None:
        _check_apart(setups, by, "by")
    if len(setups[0].settings) == 1:
        setups = sorted(setups, key=lambda setup: _order(*setup.settings.values()))
    return {title(by, setup.settings[by]) if by else setup.name: setup.histories for setup in setups}


def _by_base(setups: Sequence[Setup]) -> dict[str, list[History]]:
    _check_one(setups)
    histories = setups[0].histories
    groups = rows_by_base(list(dict.fromkeys(history.name for history in histories)))
    called = titles([base for base, _ in groups])
    return {called[base]: [one for one in histories if one.name in names] for base, names in groups}


def _over(setups: Sequence[Setup], over: str, baseline: str) -> dict[str, list[History]]:
    """Return the histories of each value of a setting, or of a parameter of methods, in ascending order; without
    methods that were run with a single value, which make no line."""
    if over in SETTINGS:
        _check_apart(setups, over, "over")
        found = {setup.settings[over]: setup.histories for setup in setups}
        if over == "cut" and bare_base(baseline) == baseline:
            # a base trains the model whole, and learns the same at every cut: where it was run at one of them, it
            # stands for all, without the hours, which do depend on the cut
            known = [one for histories in found.values() for one in histories if one.name == baseline]
            first = {history.seed: replace(history, hours=[]) for history in reversed(known)}
            found = {
                cut: one if any(history.name == baseline for history in one) else [*first.values(), *one]
                for cut, one in found.items()
            }
    else:
        _check_one(setups)
        found = _by_parameter(setups[0].histories, over)
    values = Counter(name for histories in found.values() for name in {history.name for history in histories})
    return {
        value: [one for one in found[value] if values[one.name] > 1 or one.name == baseline]
        for value in sorted(found, key=_order)
    }


def _check_one(setups: Sequence[Setup]) -> None:
    if len(setups) > 1:
        apart = list(setups[0].settings)
        raise InputError(
            f"these runs are of {len(setups)} setups, which differ in {', '.join(apart)}: expected one setup, or "
            f"--by {apart[0]} for a panel each"
        )


def _check_apart(setups: Sequence[Setup], setting: str, field: str) -> None:
    """Refuse a setting in which the setups do not differ, or beside which they differ in others."""
    apart = setups[0].settings
    if setting not in apart:
        differ = f"; they differ in {', '.join(apart)}" if apart else ", but they differ in none"
        refuse(field, setting, f"a setting in which these runs differ{differ}")
    if others := [name for name in apart if name != setting]:
        refuse(field, setting, f"runs that differ in nothing else, but these differ in {', '.join(others)} too")


def _by_parameter(histories: Sequence[History], name: str) -> dict[str, list[History]]:
    """Return the methods that have a parameter by its value, named without it; the others stand with each value."""
    found: dict[str, list[History]] = {}
    others = []
    for history in histories:
        if parameter := parameter_of(history.name, name):
            value, rest = parameter
            found.setdefault(value, []).append(replace(history, name=rest))
        else:
            others.append(history)
    if len(found) < 2:
        same = f"; it is {next(iter(found))} in all of them" if found else ""
        refuse("over", name, f"a setting, or a parameter of a method, in which these runs differ{same}")
    return {value: [*others, *own] for value, own in found.items()}


def parameter_of(method: str, name: str) -> tuple[str, str] | None:
    """Return the value of a parameter, and the method's name without it; None if no part of the method has one."""
    try:
        calls = read_calls("method", method, "smofi")
    except InputError:  # not a method, but the name that a curve was given
        return None
    for place, call in enumerate(calls):
        known = inspect.signature(METHODS[call.name]).parameters if call.name in METHODS else {}
        if name in known:
            given = dict(zip(known, call.args, strict=False)) | dict(call.kwargs)
            value = given.pop(name, known[name].default)
            rest = [*calls[:place], Call(call.name, (), tuple(given.items())), *calls[place + 1 :]]
            return str(value), "+".join(map(str, rest))
    return None


def _order(value: str) -> tuple[float, str]:
    number = re.search(r"-?\d+(\.\d+)?(e[+-]?\d+)?", value)
    return (float(number[0]) if number else float("inf"), value)
