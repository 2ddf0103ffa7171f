"""The page that a figure is made for: its widths, its type, and saving."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from smofi.report.saving import save_picture
from smofi.report.style import FAINT, GRID, INK, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
