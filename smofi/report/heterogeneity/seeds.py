"""How much a partition depends on the seed: a row for each, and the spread over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, stdev

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from smofi.report.heterogeneity.measures import Heterogeneity
from smofi.report.numbers import figure
from smofi.report.style import DIM

HEADINGS = ("smallest", "median", "largest", "below a batch", "classes", "divergence")
LEGEND = (
    "Smallest, median and largest: samples of a client. Below a batch: clients with fewer samples than that. Classes "
    "of a client, and divergence from balance (Jensen-Shannon, 0 to 1): means over clients. ±: the standard deviation "
    "over seeds."
)


def seeds_table(title: str, divisions: Mapping[int, Heterogeneity]) -> RenderableType:
    """Divisions of the same data, each with its seed."""
    rows = {str(seed): numbers(about) for seed, about in divisions.items()}
    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("seed", *HEADINGS):
        drawn.add_column(Text(heading, style=DIM), justify="right")
    for seed, values in rows.items():
        drawn.add_row(seed, *(_shown(value) for value in values))
    columns = list(zip(*rows.values(), strict=True))
    drawn.add_row("mean", *(_shown(fmean(column)) for column in columns))
    drawn.add_row("±", *(figure(stdev(column)) for column in columns))
    return Group(Text(title, style="bold"), drawn, Text(LEGEND, style=DIM))


def numbers(about: Heterogeneity) -> tuple[float, ...]:
    """A division in one line, as the headings say.

    >>> numbers(Heterogeneity("two", np.array([[5, 5], [30, 0]]), ["cat", "dog"], batch_size=16))[:5]
    (10.0, 20.0, 30.0, 1.0, 1.5)
    """
    sizes, known = about.sizes, about.divergences[about.sizes > 0]
    ends = float(sizes.min()), float(np.median(sizes)), float(sizes.max())
    return (*ends, float(about.below_batch), float(about.classes_per_client.mean()), float(known.mean()))


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and value >= 1 else figure(value)
