"""Show what `smofi plan` and `smofi advise` find: what a run will take, and what every cut means for the devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from smofi.config.definition import seeds_text
from smofi.planning import NEAR, Advice, Outlook, PlanSummary, recommended
from smofi.plural import between, plural
from smofi.report.clients import showable
from smofi.report.curves import can_braille
from smofi.report.names import Name, details, short, short_cut
from smofi.report.numbers import (
    HOURS,
    MINUTES,
    SECONDS,
    UNKNOWN,
    TimeUnit,
    duration,
    figure,
    fine_percent,
    megabytes,
    percent,
    time_unit,
)
from smofi.report.style import COLOURS, DASHED, DIM, FAINT, UNEVEN, Drawing, Look, looks, plain_table, put_heading

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# --------------------------------------------------------------------------------------------------------------------
# A dry run as a table: a column per method, everything it will do and take below.

FIRST, METHOD = 26, 26
"""Characters that the first column takes, and a method at least."""


def plan_table(summaries: Sequence[PlanSummary], width: int) -> Group:
    """Show the plans of one or several methods: side by side, and below each other where the terminal is narrow."""
    beside = max(1, (width - FIRST) // METHOD)
    parts: list[RenderableType] = [
        _plans_beside(summaries[start : start + beside]) for start in range(0, len(summaries), beside)
    ]
    if len(summaries) > 1:
        parts.append(f"All methods together take about {duration(sum(plan.seconds for plan in summaries))}.")
    return Group(*parts)


def _plans_beside(plans: Sequence[PlanSummary]) -> Table:
    def sides(plan: PlanSummary) -> str:
        return "\n".join(
            f"{side.client:,} + {side.server:,} ({percent(side.client / plan.parameters)} on the client)"
            + (f", cut {side.cut}" if len(plan.sides) > 1 else "")
            for side in plan.sides
        )

    def held_out(plan: PlanSummary) -> str:
        return f"{plan.test:,} for testing" + (f", {plan.validation:,} for validation" if plan.validation else "")

    def taking(what: str, plan: PlanSummary) -> str:
        found = [item for item in plan.memory if item.what == what]
        return f"{megabytes(found[0].bytes)}: {found[0].arithmetic.replace('_', ' ')}" if found else UNKNOWN

    drawn = Table("")
    for plan in plans:
        drawn.add_column(Name(plan.method))

    def add(heading: str, cell: Callable[[PlanSummary], str]) -> None:
        drawn.add_row(heading, *(escape(cell(plan)) for plan in plans))

    seeds, workers = plans[0].seeds, plans[0].workers
    add("clients", lambda plan: f"{plan.clients:,}")
    add("clients with a full batch", lambda plan: f"{plan.eligible:,}")
    add("clients per round", lambda plan: f"{plan.per_round:,}")
    add(
        "samples per client",
        lambda plan: f"{between(plan.samples[0], plan.samples[2])}, median {plan.samples[1]:,.10g}",
    )
    add("held out", held_out)
    add("rounds", lambda plan: f"{plan.rounds:,}" + (f" with each of {seeds} seeds" if seeds > 1 else ""))
    add("steps", lambda plan: f"{plan.steps:,} ({plan.steps_per_round:,.1f} per round)")
    add("parameters, client + server", sides)
    add("workers", lambda plan: f"{plan.workers:,}")
    drawn.add_section()
    if workers > 1:
        drawn.add_row("memory of each worker")
    # what takes memory in any of the plans, by first mention; all of a family ("momentum: ...") together
    kinds = list(dict.fromkeys(item.what for plan in plans for item in plan.memory))
    families = [what.partition(":")[0] for what in kinds]
    for what in sorted(kinds, key=lambda what: families.index(what.partition(":")[0])):
        add(f"  {what}", partial(taking, what))
    of_workers = f" of all {workers} workers" if workers > 1 else ""
    add(f"memory{of_workers}, not counting Python and torch", lambda plan: megabytes(plan.bytes))
    drawn.add_section()
    add("a round takes about", lambda plan: duration(plan.seconds_per_round))
    of_seeds = f" of all {seeds} seeds" if seeds > 1 else ""
    add(f"all rounds{of_seeds} take about", lambda plan: duration(plan.seconds))
    return drawn


# --------------------------------------------------------------------------------------------------------------------
# Advice on the cut: the units of the figures, and the sentences that recommend a cut and say why.

UNITS = (HOURS, MINUTES, SECONDS, TimeUnit("ms", 0.001))
UNWEIGHED = (
    "This weighs time and load alone. It does not weigh what activations reveal about samples, which is more the "
    "closer the cut is to the input, nor how well a method trains with less of the model on the server."
)

Outlooks = Sequence[Outlook | None]
Values = npt.NDArray[np.float64]


def heading(advice: Advice) -> str:
    """Say what is planned: the model, the data and the clients."""
    config = advice.config
    clients = f"{plural(config.known_clients, 'client')}, {config.per_round:,} per round"
    return f"{config.model} on {short(config.data)}, {short(config.partition)}, {clients}"


def basis(advice: Advice) -> str:
    """Say on which devices, and for how long."""
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
    return time_unit(max(seconds, default=0.0), UNITS)


def units(outlooks: Iterable[Outlook | None]) -> tuple[TimeUnit, TimeUnit]:
    """Choose the units of the time of a round and of the time of computing, the same for all cuts."""
    known = [outlook for outlook in outlooks if outlook]
    return unit(outlook.mean for outlook in known), unit(outlook.compute for outlook in known)


def has_latency(outlooks: Iterable[Outlook | None]) -> bool:
    return any(outlook and outlook.latency for outlook in outlooks)


def sentences(advice: Advice) -> list[str]:
    """Recommend a cut for each method and say why, what the configured cut takes, and what is not considered."""
    found = [_reason(advice, names, outlooks) for outlooks, names in advice.alike.items()]
    if any(None in outlooks for outlooks in advice.outlooks.values()):
        found.append("A cut with - would be refused by `smofi run`: no client's batch fits into the bandwidth.")
    if advice.configured is None:
        own = short_cut(advice.config)
        found.append(f"The configuration has several cuts ({own}); here all clients have the same one.")
    return [*found, UNWEIGHED]


def _reason(advice: Advice, names: Sequence[str], outlooks: Outlooks) -> str:
    def in_unit(seconds: float, unit: TimeUnit) -> str:
        return f"{figure(seconds / unit.seconds, decimals=3)} {unit.name}"

    best, own = recommended(outlooks), advice.configured
    known = {place: outlook for place, outlook in enumerate(outlooks) if outlook}
    fastest = min(known, key=lambda place: known[place].mean)
    chosen, quickest = known[best], known[fastest]
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
    if own is not None and own != best and own in known:
        text += f" At the configured cut, {advice.sides[own].cut}, it takes {in_unit(known[own].mean, of_round)}."
    return text


# --------------------------------------------------------------------------------------------------------------------
# The advice for the terminal: a table for all methods that take the same, then sentences.

FIGURES, WIDEST_BAR = 82, 30
"""Characters of a line that the figures take, and that a bar takes at most."""

LEGEND = (
    "MACs and parameters: the client's share. Round: mean and standard deviation (spread). Computing, {}waiting, "
    "sending and receiving: averages per client and round. *: recommended."
)


def advice_table(advice: Advice, console: Console) -> Group:
    """Show every cut with its time and the client's load, and the recommended one."""
    encoding = console.encoding
    block = "█" if can_braille(encoding) else "#"
    room = max(0, min(WIDEST_BAR, console.width - FIGURES))
    parts: list[RenderableType] = [Text(showable(heading(advice), encoding), style="bold")]
    parts.append(Text(showable(basis(advice), encoding)))
    for outlooks, names in advice.alike.items():
        parts += ["", Text(", ".join(names), style="bold"), _cuts(advice, outlooks, block, room)]
    delayed = any(map(has_latency, advice.outlooks.values()))
    parts.append(Text(LEGEND.format("latency, " * delayed), style=DIM))
    for sentence in sentences(advice):
        parts += ["", Text(showable(sentence, encoding))]
    return Group(*parts)


def _cuts(advice: Advice, outlooks: Outlooks, block: str, room: int) -> Table:
    longest, best = max(outlook.mean for outlook in outlooks if outlook), recommended(outlooks)
    of_round, of_computing = units(outlooks)
    delayed = has_latency(outlooks)

    def shown(value: float, per: float) -> str:
        return figure(value / per, decimals=3)

    columns: dict[str, Callable[[Outlook], str]] = {
        f"round,\n{of_round.name}": lambda one: shown(one.mean, of_round.seconds),
        "\nspread": lambda one: shown(one.spread, of_round.seconds),
        f"computes,\n{of_computing.name}": lambda one: shown(one.compute, of_computing.seconds),
        f"latency,\n{of_computing.name}": lambda one: shown(one.latency, of_computing.seconds),
        "\nwaits": lambda one: f"{one.idle:.0%}",
        "sends,\nMB": lambda one: shown(one.up, 1e6),
        "receives,\nMB": lambda one: shown(one.down, 1e6),
    }
    if not delayed:
        del columns[f"latency,\n{of_computing.name}"]
    headings = ["\ncut", "\nMACs", "\nparameters", *columns, ""]
    drawn = plain_table(headings, left=[""], gap=1 if delayed else 2)
    drawn.columns[-1].width = room
    for place, (side, outlook) in enumerate(zip(advice.sides, outlooks, strict=True)):
        chosen = place == best
        bar = round(room * outlook.mean / longest) if outlook and longest else 0
        drawn.add_row(
            f"{'* ' * chosen}{side.cut}",
            fine_percent(side.macs),
            f"{side.parameters:,}",
            *(cell(outlook) if outlook else UNKNOWN for cell in columns.values()),
            Text(block * bar, style="green" if chosen else "cyan"),
            style="bold" if chosen else "",
        )
    return drawn


# --------------------------------------------------------------------------------------------------------------------
# The advice as a picture: the time of a round over the cut, and the load.

BAND, LOAD = "#f2f4f6", COLOURS[4]
APART = 0.12  # from the dots of one method to those of the next
CIRCLE: dict[str, Any] = {"marker": "o", "markersize": 13, "markerfacecolor": "none"}
RING: dict[str, Any] = CIRCLE | {"markeredgewidth": 1.8, "linestyle": "none"}
TITLE: dict[str, Any] = {"loc": "left", "fontsize": 10.5, "color": FAINT}
MOST_TICKS = 14
MOST_SHARES = 10  # cuts whose shares of the MACs fit above the bars


def advice_picture(advice: Advice) -> Drawing:
    """Draw the time of a round, a client's computing and its traffic at every cut."""
    return Drawing(partial(_compose, advice))


def _compose(advice: Advice, figure: Figure) -> None:
    panels = figure.subplot_mosaic([["time", "compute"], ["time", "bytes"]], width_ratios=[1.6, 1])
    put_heading(figure, heading(advice), details(advice.config))
    _time(panels["time"], advice)
    _compute(panels["compute"], advice)
    _bytes(panels["bytes"], advice)
    best = {recommended(outlooks) for outlooks in advice.alike}
    every = math.ceil(len(advice.sides) / MOST_TICKS)
    for axes in panels.values():
        axes.set_xlim(-0.6, len(advice.sides) - 0.4)
        axes.set_xticks(range(0, len(advice.sides), every), [side.cut for side in advice.sides[::every]])
        axes.grid(axis="y")
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(which="both", length=0, pad=5)
        if len(best) == 1:
            axes.axvspan(min(best) - 0.5, min(best) + 0.5, color=BAND, zorder=0)
    panels["compute"].tick_params(labelbottom=False)
    for name in ("time", "bytes"):
        panels[name].set_xlabel("cut: core blocks on the client")
    handles, labels = panels["time"].get_legend_handles_labels()
    title = f"mean ± standard deviation of {basis(advice)}"
    small: dict[str, Any] = {"fontsize": 10, "title_fontsize": 10, "alignment": "left"}
    legend = figure.legend(handles, labels, loc="outside lower left", ncols=3, title=title, **small)
    legend.get_title().set_color(FAINT)


def _time(axes: Axes, advice: Advice) -> None:
    from matplotlib.ticker import NullFormatter

    groups = [_values(outlooks, lambda one: one.mean) for outlooks in advice.alike]
    shortest, longest = float(np.nanmin(groups)), float(np.nanmax(groups))
    name, size = unit([longest])
    if longest > UNEVEN * shortest:
        axes.set_yscale("log", nonpositive="clip")
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
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
        axes.axvline(advice.configured, color=FAINT, linewidth=1, linestyle=DASHED, zorder=1, label="as configured")
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
    both = _by_method(advice, lambda one: (one.down + one.up) / 1e6)
    colours = [colour for _, colour in both]
    received = [_values(outlooks, lambda one: one.down / 1e6) for outlooks in advice.alike]
    _bars(axes, both, alpha=0.45)
    _bars(axes, list(zip(received, colours, strict=False)))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_title("traffic per client, MB (dark: received, light: sent)", **TITLE)


def _by_method(advice: Advice, measure: Callable[[Outlook], float]) -> list[tuple[Values, str]]:
    """Return the measure at every cut, and a colour: one series if it is the same for all methods."""
    series = [_values(outlooks, measure) for outlooks in advice.alike]
    if all(np.array_equal(one, series[0], equal_nan=True) for one in series):
        return [(series[0], LOAD)]
    return [(values, look.colour) for values, look in zip(series, _looks(advice), strict=True)]


def _looks(advice: Advice) -> list[Look]:
    """Return the first one's look of those methods that take the same."""
    found = dict(zip(advice.outlooks, looks(list(advice.outlooks)), strict=True))
    keys = [found[names[0]] for names in advice.alike.values()]
    return [keys[0].alone] if len(keys) == 1 else keys


def _bars(axes: Axes, series: Sequence[tuple[Values, str]], alpha: float = 1.0) -> None:
    """Draw the bars of all series, side by side at each cut."""
    width = 0.8 / len(series)
    for number, (values, colour) in enumerate(series):
        places = np.arange(len(values)) + (number + 0.5) * width - 0.4
        axes.bar(places, values, 0.94 * width, color="white", linewidth=0)
        axes.bar(places, values, 0.94 * width, color=colour, alpha=alpha, linewidth=0)


def _values(outlooks: Outlooks, measure: Callable[[Outlook], float]) -> Values:
    return np.array([measure(outlook) if outlook else math.nan for outlook in outlooks])
