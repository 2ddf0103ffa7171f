"""The picture of a partition as a file, PNG, SVG or PDF by its suffix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smofi.data.partitions.mix import divergence
from smofi.report.heading import put_heading
from smofi.report.heterogeneity.measures import PALETTE, Heterogeneity
from smofi.report.saving import save_picture
from smofi.report.style import COLOURS, FAINT, GRID

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHADES = ("#ffffff", "#56B4E9", "#0072B2", "#002a42")
LONGEST_NAME = 16
NAMED = 20  # up to this number of classes or clients, their names fit beside a heat map or below bars
ABREAST = 5  # up to this number of clients, their names fit beside each other
STACKED = 200  # up to this number of clients, stacked colours can be told apart
APART = 60  # up to this number of clients, a gap tells bars apart
UNEVEN = 30  # a logarithmic axis is better where the largest client has more than this many times the smallest


def save_heterogeneity(path: str | Path, about: Heterogeneity) -> Path:
    """Sizes, class mixes, and size against divergence, in one picture; the same partition gives the same bytes.

    >>> import tempfile
    >>> about = Heterogeneity("two", np.array([[6, 2], [4, 0]]), ["cat", "dog"], batch_size=4)
    >>> save_heterogeneity(Path(tempfile.mkdtemp()) / "two.svg", about).name
    'two.svg'
    """
    return save_picture(path, lambda figure: _compose(figure, about))


def _compose(figure: Figure, about: Heterogeneity) -> None:
    panels = figure.subplot_mosaic([["sizes", "scatter"], ["mix", "scatter"]], width_ratios=[1.75, 1])
    put_heading(figure, about.title)
    _sizes(panels["sizes"], about)
    readable = len(about.class_names) <= len(PALETTE) and len(about.sizes) <= STACKED
    (_stacked if readable else _heat)(panels["mix"], about)
    _scatter(panels["scatter"], about)
    for name, heading in (
        ("sizes", "samples per client"),
        ("mix", "class mix"),
        ("scatter", "divergence from balance, by samples"),
    ):
        panels[name].set_title(heading, loc="left", fontsize=11, color=FAINT)
        panels[name].spines[["top", "right"]].set_visible(False)
        panels[name].tick_params(which="both", length=0, pad=5)


def _sizes(axes: Axes, about: Heterogeneity) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    sizes = about.sizes[about.by_size]
    axes.stairs(sizes, fill=True, color=COLOURS[4])
    axes.stairs(np.where(sizes < about.batch_size, sizes, 0), fill=True, color=COLOURS[1])
    axes.axhline(about.batch_size, color=COLOURS[1], linewidth=1, linestyle=(0, (4, 3)), zorder=3)
    _beside(axes, "one batch", about.batch_size, COLOURS[1])
    axes.set_ylim(0, max(int(sizes.max()), about.batch_size) * 1.05)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    _across(axes, len(sizes))
    if about.client_names and len(sizes) <= NAMED:
        names = [_short(about.name_of(client)) for client in about.by_size.tolist()]
        places = np.arange(len(names)) + 0.5
        if len(names) <= ABREAST:
            axes.set_xticks(places, names, parse_math=False)
        else:
            axes.set_xticks(places, names, rotation=30, ha="right", rotation_mode="anchor", parse_math=False)


def _stacked(axes: Axes, about: Heterogeneity) -> None:
    from matplotlib.patches import Patch
    from matplotlib.ticker import PercentFormatter

    groups, counts = about.groups(), about.grouped()[about.by_size]
    tops = np.cumsum(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1), axis=1)
    bottom = np.zeros(len(tops))
    for group, top in zip(groups, tops.T, strict=True):
        axes.stairs(top, baseline=bottom, fill=True, color=group.colour, linewidth=0)
        bottom = top
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel("clients, largest first")
    _across(axes, len(tops))
    names = [_short(group.name) for group in groups]
    legend = axes.legend(
        handles=[Patch(color=group.colour, label=name) for group, name in zip(groups, names, strict=True)],
        loc="upper left",
        bbox_to_anchor=(0.0, -0.16),
        ncols=len(names) if sum(map(len, names)) <= 40 else 5,
        frameon=False,
        borderpad=0,
        handlelength=1,
        handleheight=1,
        columnspacing=1.4,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _heat(axes: Axes, about: Heterogeneity) -> None:
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm
    from matplotlib.ticker import PercentFormatter

    counts = about.counts[about.by_size]
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    largest = float(shares.max())
    drawn = axes.imshow(
        shares.T,
        aspect="auto",
        extent=(0, len(counts), len(about.class_names), 0),
        cmap=LinearSegmentedColormap.from_list("share", SHADES),
        norm=PowerNorm(0.5, vmin=0, vmax=largest),  # most shares are small
        interpolation="nearest",
    )
    if len(about.class_names) <= NAMED:
        names = [_short(name) for name in about.class_names]
        axes.set_yticks(np.arange(len(names)) + 0.5, names, parse_math=False)
    else:
        axes.set_ylabel("class")
    axes.set_xlabel("clients, largest first")
    axes.set_xlim(0, len(counts))
    axes.set_xticks([])
    bar = axes.figure.colorbar(drawn, ax=axes, location="bottom", shrink=0.5, aspect=40)
    bar.set_ticks([largest * (quarter / 4) ** 2 for quarter in range(5)])
    bar.ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=1))
    bar.ax.tick_params(length=0)
    bar.set_label("share of the client's samples")
    bar.outline.set_visible(False)


def _scatter(axes: Axes, about: Heterogeneity) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    not_empty = about.sizes > 0
    sizes, divergences = about.sizes[not_empty], about.divergences[not_empty]
    axes.scatter(
        sizes, divergences, s=36 if len(sizes) <= 200 else 12, color=COLOURS[0], alpha=0.55, linewidths=0, clip_on=False
    )
    highest = max(0.05, 1.1 * float(divergences.max()))
    single = float(divergence([[1] + [0] * (len(about.class_names) - 1)])[0])
    if 0 < single < highest:
        axes.axhline(single, color=FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        _beside(axes, "one\nclass", single, FAINT)
    if sizes.max() > UNEVEN * sizes.min():
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1,) if sizes.max() > 300 * sizes.min() else (1, 3)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_ylim(0, highest)
    axes.set_xlabel("samples")
    axes.set_ylabel("Jensen-Shannon divergence, bits")
    axes.grid(color=GRID, linewidth=1)
    axes.set_axisbelow(True)


def _across(axes: Axes, clients: int) -> None:
    """A place for each client, with gaps between bars that are wide enough."""
    axes.set_xlim(0, clients)
    axes.set_xticks([])
    if clients <= APART:
        for edge in range(1, clients):
            axes.axvline(edge, color="white", linewidth=1.2)


def _beside(axes: Axes, text: str, height: float, colour: str) -> None:
    """Name a horizontal line at its right end."""
    coordinates = axes.get_yaxis_transform()
    axes.annotate(text, (1.0, height), (5, 0), coordinates, "offset points", color=colour, va="center", fontsize=10)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
