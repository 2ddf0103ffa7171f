"""What every cut means for the clients' devices: as a table with bars, and as a picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from smofi.config.definition import seeds_text
from smofi.planning.advice import NEAR, Advice, Outlook, recommended
from smofi.plural import plural
from smofi.report.canvas import can_braille
from smofi.report.heading import details, put_heading, short, short_cut
from smofi.report.heterogeneity import showable
from smofi.report.numbers import HOURS, MINUTES, SECONDS, TimeUnit, figure, fine_percent, in_unit, time_unit
from smofi.report.saving import save_picture
from smofi.report.style import COLOURS, DIM, FAINT, GRID, Look, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# --------------------------------------------------------------------------------------------------------------------
# The units of the figures, and the sentences that recommend a cut and say why.


UNITS = (HOURS, MINUTES, SECONDS, TimeUnit("ms", 0.001))
UNWEIGHED = (
    "This weighs time and load alone. It does not weigh what activations reveal about samples, which is more the "
    "closer the cut is to the input, nor how well a method trains with less of the model on the server."
)


def heading(advice: Advice) -> str:
    """What is planned: the model, the data and the clients."""
    config = advice.config
    clients = f"{plural(config.known_clients, 'client')}, {config.per_round:,} per round"
    return f"{config.model} on {short(config.data)}, {short(config.partition)}, {clients}"


def basis(advice: Advice) -> str:
    """On which devices, and for how long."""
    config, rounds = advice.config, f"the first {advice.rounds} rounds" if advice.rounds > 1 else "the first round"
    if len(config.each_seed) > 1:
        rounds += f" with each of the seeds {seeds_text(config.each_seed)}"
    text = f"{rounds}, planned at every cut without training; clock {config.clock}, devices {Path(config.devices).name}"
    if config.clock == "full" and not any(map(has_latency, advice.outlooks.values())):
        text += ", latency not counted"
    if config.availability != "always":
        text += f", availability {Path(config.availability).name}"
    return text if config.step_deadline is None else f"{text}, step deadline {config.step_deadline:g} s"


def unit(seconds: Iterable[float]) -> TimeUnit:
    """The unit in which these times are shown.

    >>> unit([30.0, 500.0]).name, unit([0.5]).name
    ('minutes', 'ms')
    """
    return time_unit(max(seconds, default=0.0), UNITS)


def units(outlooks: Iterable[Outlook | None]) -> tuple[TimeUnit, TimeUnit]:
    """The units of the time of a round and of the time of computing, the same for all cuts."""
    known = [outlook for outlook in outlooks if outlook]
    return unit(outlook.mean for outlook in known), unit(outlook.compute for outlook in known)


def has_latency(outlooks: Iterable[Outlook | None]) -> bool:
    """Whether round trips are counted."""
    return any(outlook and outlook.latency for outlook in outlooks)


def sentences(advice: Advice) -> list[str]:
    """The recommended cut of each method and why, what the configured cut takes, and what is not considered."""
    found = [_reason(advice, names, outlooks) for outlooks, names in advice.alike.items()]
    if any(None in outlooks for outlooks in advice.outlooks.values()):
        found.append("A cut with - would be refused by `smofi run`: no client's batch fits into the bandwidth.")
    if advice.configured is None:
        own = short_cut(advice.config)
        found.append(f"The configuration has several cuts ({own}); here all clients have the same one.")
    return [*found, UNWEIGHED]


def _reason(advice: Advice, names: Sequence[str], outlooks: Sequence[Outlook | None]) -> str:
    best, own = recommended(outlooks), advice.configured
    means = {place: outlook.mean for place, outlook in enumerate(outlooks) if outlook}
    fastest = min(means, key=means.__getitem__)
    chosen, quickest = outlooks[best], outlooks[fastest]
    assert chosen
    assert quickest
    of_round, of_computing = units(outlooks)
    text = f"{', '.join(names)}: cut {advice.sides[best].cut} is recommended{', as configured' * (best == own)}. "
    text += f"A round takes {in_unit(chosen.mean, of_round)} on average, "
    if best == fastest:
        text += "less than at any other cut."
    else:
        least = f"{in_unit(quickest.mean, of_round)} at cut {advice.sides[fastest].cut}"
        computing, instead_of = (in_unit(one.compute, of_computing) for one in (chosen, quickest))
        text += (
            f"within {NEAR - 1:.0%} of the fastest ({least}); among such cuts, clients compute least at this one: "
            f"{computing} per round instead of {instead_of}."
        )
    configured = None if own is None or own == best else outlooks[own]
    if configured and own is not None:
        text += f" At the configured cut, {advice.sides[own].cut}, it takes {in_unit(configured.mean, of_round)}."
    return text


# --------------------------------------------------------------------------------------------------------------------
# The advice as a picture, PNG, SVG or PDF by the file's suffix: the time of a round over the cut, and the load.

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


# --------------------------------------------------------------------------------------------------------------------
# The advice for the terminal: a table for all methods that take the same, then sentences.

FIGURES, WIDEST_BAR = 82, 30
"""Characters of a line that the figures take, and that a bar takes at most."""

LEGEND = (
    "MACs and parameters: the client's share. Round: mean and standard deviation (spread). Computing, {}waiting, "
    "sending and receiving: averages per client and round. *: recommended."
)


def advice_table(advice: Advice) -> RenderableType:
    """Every cut with its time and the client's load, and the recommended one.

    >>> from smofi.config import Config
    >>> from smofi.planning.advice import advise
    >>> found = advise(Config(clients=4, participation=1.0, partition="iid", method="smofi", rounds=2))
    >>> console = Console(width=80, color_system=None)
    >>> with console.capture() as captured: console.print(advice_table(found))
    >>> print(captured.get().splitlines()[0])
    resnet8 on digits, iid, 4 clients, 4 per round
    """
    return _AdviceTable(advice)


class _AdviceTable:
    def __init__(self, advice: Advice) -> None:
        self.advice = advice

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        advice, encoding = self.advice, options.encoding
        block = "█" if can_braille(encoding) else "#"
        room = max(0, min(WIDEST_BAR, options.max_width - FIGURES))
        yield Text(showable(heading(advice), encoding), style="bold")
        yield Text(showable(basis(advice), encoding))
        for outlooks, names in advice.alike.items():
            yield Text("")
            yield Text(", ".join(names), style="bold")
            yield _cuts(advice, outlooks, block, room)
        delayed = any(map(has_latency, advice.outlooks.values()))
        yield Text(LEGEND.format("latency, " * delayed), style=DIM)
        for sentence in sentences(advice):
            yield Text("")
            yield Text(showable(sentence, encoding))


def _cuts(advice: Advice, outlooks: Sequence[Outlook | None], block: str, room: int) -> Table:
    longest = max(outlook.mean for outlook in outlooks if outlook)
    of_round, of_computing = units(outlooks)
    delayed = has_latency(outlooks)
    drawn = Table(box=None, padding=(0, 1 if delayed else 2, 0, 0), pad_edge=False)
    drawn.add_column(Text("\ncut", style=DIM), justify="right", no_wrap=True)
    for above, below in (
        ("", "MACs"),
        ("", "parameters"),
        ("round,", of_round.name),
        ("", "spread"),
        ("computes,", of_computing.name),
        *([("latency,", of_computing.name)] if delayed else []),
        ("", "waits"),
        ("sends,", "MB"),
        ("receives,", "MB"),
    ):
        drawn.add_column(Text(f"{above}\n{below}", style=DIM), justify="right", no_wrap=True)
    drawn.add_column("", no_wrap=True, width=room)
    best = recommended(outlooks)
    for place, (side, outlook) in enumerate(zip(advice.sides, outlooks, strict=True)):
        chosen = place == best
        bar = round(room * outlook.mean / longest) if outlook and longest else 0
        drawn.add_row(
            f"{'* ' * chosen}{side.cut}",
            fine_percent(side.macs),
            f"{side.parameters:,}",
            *(_figures(outlook, of_round, of_computing, delayed) if outlook else ["-"] * (6 + delayed)),
            Text(block * bar, style="green" if chosen else "cyan"),
            style="bold" if chosen else "",
        )
    return drawn


def _figures(outlook: Outlook, of_round: TimeUnit, of_computing: TimeUnit, delayed: bool) -> list[str]:
    def shown(value: float) -> str:
        return figure(value, decimals=3)

    return [
        shown(outlook.mean / of_round.seconds),
        shown(outlook.spread / of_round.seconds),
        shown(outlook.compute / of_computing.seconds),
        *([shown(outlook.latency / of_computing.seconds)] if delayed else []),
        f"{outlook.idle:.0%}",
        shown(outlook.up / 1e6),
        shown(outlook.down / 1e6),
    ]
