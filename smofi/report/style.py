"""Give methods the same look in every picture and on the terminal, and compose and save pictures in one way."""

from __future__ import annotations

import io
import warnings
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table
from rich.text import Text

from smofi.errors import InputError
from smofi.report.asked import check_output, write_file
from smofi.report.names import folded, parts_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIM = "bright_black"  # on the terminal


def plain_table(headings: Sequence[str], left: Collection[str] = (), gap: int = 2) -> Table:
    """Make a table without lines, its cells on one line: numbers at the right, columns under these headings `left`."""
    drawn = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False)
    for heading in headings:
        drawn.add_column(Text(heading, style=DIM), justify="left" if heading in left else "right", no_wrap=True)
    return drawn


# Okabe and Ito's palette, told apart by colour-blind readers too, without its yellow, which is lost on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#333333")
INK, FAINT, GRID = "#24292f", "#6e7781", "#e7eaed"
DASHED: Any = (0, (4, 3))

MATPLOTLIB_STYLE: dict[Any, Any] = {
    "font.size": 11,
    "font.family": "sans-serif",
    "text.color": INK,
    "text.parse_math": False,  # names may have a $
    "axes.edgecolor": FAINT,
    "axes.labelcolor": FAINT,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 1,
    "legend.frameon": False,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "svg.hashsalt": "smofi",
    "pdf.fonttype": 42,  # TrueType, which publishers ask for
}

# --------------------------------------------------------------------------------------------------------------------
# How methods look: colour, glyph, line and marker go by the name.

SOLID: Any = "-"
LONG, SHORT, MIXED = (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1, 1.5))


class Look(NamedTuple):
    """A curve is told apart by its colour, and without colour by the rest."""

    colour: str
    glyph: str
    marker: str
    dashes: Any
    hollow: bool = False  # the marker

    @property
    def line(self) -> dict[str, Any]:
        """The arguments of matplotlib's `plot`."""
        inside, edge = ("white", self.colour) if self.hollow else (self.colour, "white")
        return {
            "color": self.colour,
            "linewidth": 2,
            "linestyle": self.dashes,
            "marker": self.marker,
            "markersize": {"*": 10, "D": 6}.get(self.marker, 7),
            "markerfacecolor": inside,
            "markeredgecolor": edge,
            "markeredgewidth": 1.6 if self.hollow else 0.6,
        }

    @property
    def alone(self) -> Look:
        return self._replace(marker="o", dashes=SOLID, hollow=False)


# The colours can be read on white and on black. First Okabe and Ito's, then others that lie between them.
METHODS = {
    "fedavg": Look("#0072B2", "o", "o", SOLID),
    "smofi": Look("#009E73", "*", "*", SOLID),
    "fedavgm": Look("#D55E00", "x", "X", LONG),
    "sflv1": Look("#E69F00", "1", "s", LONG),
    "sflv2": Look("#56B4E9", "2", "D", LONG),
    "mergesfl": Look("#8F6BC4", "#", "P", MIXED),
    "slowmo": Look("#8B5E3C", "~", "v", MIXED),
    "fedprox": Look("#A8323E", "+", "^", SHORT),
    "fednag": Look("#8C8C00", "&", "<", SHORT),
    "fednar": Look("#C04FB0", "%", ">", SHORT),
    "clip": Look("#8A8A8A", "=", "d", MIXED),
}
OTHERS = (
    Look("#CC79A7", "@", "o", LONG, hollow=True),
    Look("#2F9FA8", "a", "s", SHORT, hollow=True),
    Look("#6E8B3D", "b", "^", MIXED, hollow=True),
    Look("#5B6BD6", "c", "D", SOLID, hollow=True),
    Look("#B8763A", "d", "v", SHORT, hollow=True),
)


def looks(names: Sequence[str]) -> list[Look]:
    """Give each of the methods of one picture a look, whatever their order.

    A method of ours has a look of its own, with arguments too if the plain method is not there. Combinations and others
    get one that goes by their name, or the next one that is free."""

    def plain(name: str) -> str:  # without arguments; a combination as it is
        return name.partition("(")[0] if len(parts_of(name)) == 1 else name

    found: dict[str, Look] = {}
    for name in sorted(set(names), key=lambda one: (one not in METHODS, plain(one) not in METHODS, one)):
        own = [METHODS[plain(name)]] if plain(name) in METHODS else []
        start = zlib.crc32(name.encode()) % len(OTHERS)
        wished = [*own, *OTHERS[start:], *OTHERS[:start], *METHODS.values()]
        found[name] = min(wished, key=list(found.values()).count)  # the first that is free, or the least used
    return [found[name] for name in names]


# --------------------------------------------------------------------------------------------------------------------
# Saving a picture.

# Without the date, which would make two files of the same picture differ.
METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": "smofi"},
    ".svg": {"Date": None, "Creator": "smofi"},
    ".pdf": {"CreationDate": None, "Creator": "smofi"},
}
WIDE = (11.0, 5.6)
PADDING: dict[str, Any] = {"w_pad": 0.1, "h_pad": 0.08, "wspace": 0.03}


@dataclass(frozen=True)
class Drawing:
    """A picture that is ready to be saved, the same bytes each time: `compose` fills a figure of this size, in our
    style with what `style` changes of it. matplotlib is loaded when it is drawn and not before."""

    compose: Callable[[Figure], None]
    size: tuple[float, float] = WIDE
    padding: Mapping[str, Any] = field(default_factory=PADDING.copy)
    dpi: int = 160
    style: Mapping[Any, Any] = field(default_factory=dict)

    def content(self, suffix: str = ".svg") -> bytes:
        import matplotlib
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        with matplotlib.rc_context({**MATPLOTLIB_STYLE, **self.style}), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a name may be in any script
            layout = ConstrainedLayoutEngine(**self.padding)
            figure = Figure(figsize=self.size, dpi=self.dpi, facecolor="white", layout=layout)
            self.compose(figure)
            drawn = io.BytesIO()
            figure.savefig(drawn, format=suffix[1:], metadata=METADATA[suffix])
        return drawn.getvalue()

    def save(self, path: str | Path) -> Path:
        """Draw it into a file, as PNG, SVG or PDF by the file's suffix."""
        path = check_output(path, "path", "picture", force=True)
        try:
            return write_file(path, self.content(path.suffix.lower()))
        except OSError as error:  # while it is drawn
            raise InputError(f"{path} cannot be written: {error.strerror}") from None


# --------------------------------------------------------------------------------------------------------------------
# What our pictures of a run's data, devices, cuts and rounds share.

SIZE, SMALL = 13, 10  # points
PER_INCH = {SIZE: 9.5, SMALL: 13.0}  # characters
GAPS = 60  # up to this number of clients, a gap tells bars apart
UNEVEN = 30  # a logarithmic axis is better where the largest value is more than this many times the smallest


def put_heading(figure: Figure, title: str, below: str = "") -> None:
    """Put the title at the top left, and small and grey what stands below it; both in as many lines as they need."""
    width = figure.get_figwidth()
    large, small = (
        folded(text, int(PER_INCH[size] * width)) if text else [] for text, size in ((title, SIZE), (below, SMALL))
    )
    # empty lines at the end of the title make room, which the layout knows of
    room = [""] * round(len(small) * SMALL / SIZE + 0.49)
    heading = figure.suptitle("\n".join([*large, *room]), x=0.01, ha="left", fontweight="bold", fontsize=SIZE)
    if small:
        about: dict[str, Any] = {"xycoords": heading, "va": "bottom", "annotation_clip": False}
        note = figure.axes[0].annotate("\n".join(small), (0, 0), fontsize=SMALL, color=FAINT, **about)
        note.set_in_layout(False)


def put_title(axes: Axes, title: str) -> None:
    """Name a panel of several, without a box around it and without ticks."""
    axes.set_title(title, loc="left", fontsize=11, color=FAINT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", length=0, pad=5)


def put_clients(axes: Axes, clients: int) -> None:
    """Make a place for each client on the horizontal axis, with gaps between bars that are wide enough."""
    axes.set_xlim(0, clients)
    axes.set_xticks([])
    if clients <= GAPS:
        for edge in range(1, clients):
            axes.axvline(edge, color="white", linewidth=1.2)


def put_level(axes: Axes, text: str, height: float, colour: str) -> None:
    """Draw a dashed line across and name it at its right end."""
    axes.axhline(height, color=colour, linewidth=1, linestyle=DASHED, zorder=3)
    where = axes.get_yaxis_transform()
    axes.annotate(text, (1.0, height), (5, 0), where, "offset points", color=colour, va="center", fontsize=SMALL)


def put_dots(axes: Axes, across: Any, up: Any) -> None:
    size = 36 if len(across) <= 200 else 12
    axes.scatter(across, up, s=size, color=COLOURS[0], alpha=0.55, linewidths=0, clip_on=False)
    axes.grid()


def scale_axis(axes: Axes, side: str, values: Any, *, logarithmic: bool = False) -> None:
    """Let an axis begin at 0; or make it logarithmic, at least a decade long, where small values could not be seen."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    axis, low, high = {"x": axes.xaxis, "y": axes.yaxis}[side], float(values.min()), float(values.max())
    if logarithmic or high > UNEVEN * low:
        low, high = low / 1.3, high * 1.3
        wider = max(1.0, (10 * low / high) ** 0.5)
        axes.set(**{f"{side}scale": "log", f"{side}lim": (low / wider, high * wider)})
        subs = (1, 2, 5) if high < 300 * low else (1,)
        axis.set_major_locator(LogLocator(subs=subs, numticks={"x": 5, "y": 8}[side]))
        axis.set_minor_formatter(NullFormatter())
    else:
        axes.set(**{f"{side}lim": (0, 1.08 * high)})
        axis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
    axis.set_major_formatter("{x:,.10g}")
