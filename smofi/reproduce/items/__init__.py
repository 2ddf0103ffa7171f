"""The paper's tables and figures as data: what varies, with which methods, and what the paper says of it.

parts.py         what an item is made of                  targets.py       the accuracy to reach
tasks.py         presets, and the methods tuned for them  lines.py         lines that several items share
tables.py        table1, table2                           sensitivity.py   fig-alpha, fig-cut, fig-beta, ablation
robustness.py    fig-momentum, fig-optimizers, fig-models
appendix.py      table-distributions, table-participation, table-text-audio
ours.py          what the paper does not have: cifar10-depth, partition, staleness, many-classes, wire
"""

from __future__ import annotations

from smofi.reproduce.items import appendix, ours, robustness, sensitivity, tables
from smofi.reproduce.items.parts import SCALES, Item, Line, Panel, Scaled

ITEMS = {
    item.name: item
    for item in (
        robustness.MOMENTUM,
        tables.TABLE1,
        tables.TABLE2,
        sensitivity.ALPHA,
        sensitivity.CUT,
        robustness.OPTIMIZER,
        robustness.MODELS,
        sensitivity.BETA,
        sensitivity.ABLATION,
        appendix.DISTRIBUTION,
        appendix.PARTICIPATION,
        appendix.TEXT_AUDIO,
        ours.DEPTH,
        ours.PARTITION,
        ours.STALENESS,
        ours.MANY_CLASSES,
        ours.WIRE,
    )
}
"""By name, in the paper's order."""

HETEROGENEITY = "fig-heterogeneity"
"""The item that needs no run: how clients differ in data and devices."""

__all__ = ["HETEROGENEITY", "ITEMS", "SCALES", "Item", "Line", "Panel", "Scaled"]
