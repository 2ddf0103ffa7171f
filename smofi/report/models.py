"""The models as tables: what each costs, and what every cut leaves with the client."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from rich.markup import escape
from rich.table import Table

from smofi.errors import refuse
from smofi.models import MODELS, Entry, build, check_model_name
from smofi.models.costing import Costs, costs, takes_tokens
from smofi.plural import plural
from smofi.report.numbers import count, fine_percent, megabytes

CUT = 2
"""The cut of the paper's experiments."""


@dataclass(frozen=True)
class Outline:
    """A model's costs, and what they were counted for."""

    name: str
    description: str
    input_shape: tuple[int, ...]
    classes: int
    costs: Costs


def outline(
    name: str,
    input_shape: str | None = None,
    classes: int | None = None,
    width: int | None = None,
    norm: str | None = None,
) -> Outline:
    """Count a model's costs, for the input it is listed with unless another is given.

    >>> outline("resnet18").costs.parameters
    11173962
    """
    entry = MODELS.get(check_model_name(name), Entry("a model of your own", build))
    shape = entry.input_shape if input_shape is None else _read_shape(input_shape)
    classes = entry.classes if classes is None else classes
    # Ours are built and run without numbers, which nothing here depends on; a user's may need them.
    with torch.device("meta") if name in MODELS else nullcontext():
        model = build(name, seed=0, input_shape=shape, classes=classes, width=width, norm=norm)
    return Outline(name, entry.description, shape, classes, costs(model, shape, takes_tokens(model)))


def models_table(outlines: Iterable[Outline]) -> Table:
    """All models, a row each.

    >>> models_table([outline("cnn")]).row_count
    1
    """
    outlines = list(outlines)
    drawn = Table(box=None, padding=(0, 2, 0, 0), caption_justify="left", caption=_about(outlines))
    drawn.add_column("\nmodel", no_wrap=True)
    for heading in ("core\nblocks", "\nparameters", "\nMACs", "\ninput", f"cut {CUT}:\nparams", "\nMACs", "\nsent"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for one in outlines:
        cut = one.costs.at(CUT)
        drawn.add_row(
            escape(one.name),
            str(len(one.costs.blocks) - 2),
            f"{one.costs.parameters:,}",
            count(one.costs.macs),
            _shape(one.input_shape),
            fine_percent(cut.parameters),
            fine_percent(cut.macs),
            megabytes(cut.bytes),
        )
    return drawn


def _about(outlines: list[Outline]) -> str:
    """What was counted, and where more is to be seen."""
    usual = max((one.classes for one in outlines), key=[one.classes for one in outlines].count)
    others = "".join(f", {escape(one.name)} {one.classes}" for one in outlines if one.classes != usual)
    return (
        f"For {plural(usual, 'class')}{others}. MACs: multiply-accumulates in one sample's forward pass. At cut {CUT}, "
        f"the client has the input block and {CUT} core blocks; the last columns are its share of parameters and MACs, "
        "and what it sends per sample.\n"
        "`smofi models NAME` shows every cut of one model, `smofi models --cuts` every cut of every model."
    )


def cuts_table(one: Outline) -> Table:
    """Every cut of a model, a row each.

    >>> cuts_table(outline("cnn")).row_count
    3
    """
    title = (
        f"{one.name}: {one.description}\n{one.costs.parameters:,} parameters, {count(one.costs.macs)} MACs, "
        f"for inputs of {_shape(one.input_shape)} and {plural(one.classes, 'class')}"
    )
    drawn = Table(title=escape(title), title_justify="left", box=None, padding=(0, 2, 0, 0))
    drawn.add_column("cut", justify="right")
    drawn.add_column("client's last block", no_wrap=True)
    for heading in ("its output", "client's parameters", "client's MACs", "bytes per sample"):
        drawn.add_column(heading, justify="right")
    for cut, block in zip(one.costs.cuts, one.costs.blocks, strict=False):
        drawn.add_row(
            str(cut.cut),
            escape(block.name),
            _shape(block.shape),
            fine_percent(cut.parameters),
            fine_percent(cut.macs),
            megabytes(cut.bytes),
        )
    return drawn


def _shape(shape: tuple[int, ...]) -> str:
    return ",".join(map(str, shape))


def _read_shape(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", text.replace(" ", "").strip("()").rstrip(",")):
        refuse("input_shape", text, "whole numbers with commas between them, such as 3,64,64 or 80")
    return tuple(int(side) for side in re.findall(r"\d+", text))
