"""What stands above a picture: its title, and small and grey below it what the run was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from smofi.config import Config
from smofi.config.definition import seeds_text
from smofi.plural import plural
from smofi.report.names import folded
from smofi.report.style import FAINT
from smofi.runs import Participant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE, SMALL = 13, 10  # points
PER_INCH = {SIZE: 9.5, SMALL: 13.0}  # characters
LONGEST_CUT = 30


def setting(config: Config, served: Sequence[Participant] | None = None) -> str:
    """The data, who has it, and the model; of a served run, its clients.

    >>> setting(Config(data="csv:far/away/patients.csv", clients=4, partition="iid"))
    'csv:patients.csv, 4 clients, iid, resnet8'
    """
    divided = f"{clients_of(config)}, {short(config.partition)}" if served is None else own_data(served)
    return f"{short(config.data)}, {divided}, {config.model}"


def own_data(served: Sequence[Participant]) -> str:
    """The clients of a served run, each of which has brought its data.

    >>> own_data([Participant("hospital-a", 48, 12), Participant("hospital-b", 60, 0)])
    '2 clients with 108 samples of their own'
    """
    samples = sum(one.samples for one in served)
    return f"{plural(len(served), 'client')} with {plural(samples, 'sample')} of their own"


def clients_of(config: Config) -> str:
    """How many clients there are, as far as it is known."""
    return "the data's own clients" if config.clients is None else plural(config.clients, "client")


def details(config: Config) -> str:
    """What it takes to draw the same again: the cut and the seed.

    >>> details(Config(cut="1-2", seed=3, clock="full"))
    'cut 1-2, seed 3, clock full'
    """
    clock = "" if config.clock == "none" else f", clock {config.clock}"
    return f"cut {short_cut(config)}, {seeds_of(config)}{clock}"


def seeds_of(config: Config) -> str:
    """The seed, or all of them.

    >>> seeds_of(Config(seeds="0-2"))
    'seeds 0-2'
    """
    return f"seeds {seeds_text(config.seeds)}" if config.seeds else f"seed {config.seed}"


def short_cut(config: Config) -> str:
    """The cut as it was written, if it is not a long list."""
    return config.cut if len(config.cut) <= LONGEST_CUT else "of each client"


def short(name: str) -> str:
    """A file's name without its folders.

    >>> short("folder:/data/leaves"), short("python:my.data:load"), short("dirichlet(0.2)")
    ('folder:leaves', 'python:my.data:load', 'dirichlet(0.2)')
    """
    scheme, colon, path = name.partition(":")
    return name if not colon or scheme == "python" else f"{scheme}:{PurePath(path).name}"


def put_heading(figure: Figure, title: str, below: str = "") -> None:
    """The title at the top left, and what stands below it; both in as many lines as they need."""
    large, small = (_lines(text, size, figure.get_figwidth()) for text, size in ((title, SIZE), (below, SMALL)))
    # empty lines at the end of the title make room, which the layout knows of
    room = len(small) * SMALL / SIZE
    text = "\n".join([*large, *[""] * round(room + 0.49)])
    heading = figure.suptitle(text, x=0.01, ha="left", fontweight="bold", fontsize=SIZE, parse_math=False)
    if small:
        note = figure.axes[0].annotate(
            "\n".join(small),
            (0, 0),
            xycoords=heading,
            fontsize=SMALL,
            color=FAINT,
            va="bottom",
            annotation_clip=False,
            parse_math=False,
        )
        note.set_in_layout(False)


def _lines(text: str, size: int, inches: float) -> list[str]:
    return folded(text, int(PER_INCH[size] * inches)) if text else []
