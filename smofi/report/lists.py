"""List what can be chosen, as tables: data sets, presets, methods, and models with what each costs at every cut."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from smofi.config import presets
from smofi.data.catalogue import OWN, descriptions
from smofi.errors import refuse
from smofi.methods import METHODS, load_plugins
from smofi.plural import plural
from smofi.report.numbers import count, fine_percent, megabytes
from smofi.spec import describe

if TYPE_CHECKING:
    from smofi.models.costing import Costs

UNTRIED = "Never run at this size by us."


def data_table() -> RenderableType:
    """List the data sets by name and where they are found, then the ways to name the user's own."""
    from smofi.data.cache import data_home
    from smofi.data.loading import where

    known = Table("data set", "here", "what it is", box=None, padding=(0, 2, 0, 0))
    for name, text in descriptions().items():
        known.add_row(name, where(name) or "no", escape(text))
    own = Table("your own", "what it is", box=None, padding=(0, 2, 0, 0))
    for scheme, text in OWN.items():
        own.add_row(f"{scheme}:{'module:function' if scheme == 'python' else 'PATH'}", escape(text))
    hint = Text(
        f"Official files are looked for in {data_home()}/NAME (SMOFI_DATA), or in --data-folder. "
        "See how a data set would be divided: smofi data digits --clients 50. "
        "Download one from the Hugging Face hub: smofi data cifar10 --fetch"
    )
    return Group(known, "", own, "", hint)


def preset_table() -> RenderableType:
    """List the presets in groups, each with what its first comment says, and the remark on whether it has been run."""
    known = sorted(presets(), key=lambda preset: preset.name != "digits")  # the first run first
    full = [preset for preset in known if UNTRIED in preset.remarks]
    groups = {
        "For a CPU": [preset for preset in known if preset not in full],
        "In full, never run at this size by us": [preset for preset in full if preset.base is None],
        "The models that the paper compares, never run at this size by us": [preset for preset in full if preset.base],
    }
    lines: list[RenderableType] = []
    for heading, members in groups.items():
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for preset in members:
            never = [remark for remark in preset.remarks if remark.startswith("Never run") and remark != UNTRIED]
            table.add_row(preset.written, escape(" ".join([preset.description, *never])))
        lines += [Text(heading, style="bold"), table, ""]
    return Group(*lines)


def method_table() -> Table:
    """List the methods as they are written, with what each does; those of plugins included."""
    load_plugins()
    return listing("method", ((describe(builder), builder.__doc__ or "") for builder in METHODS.values()))


def listing(heading: str, entries: Iterable[tuple[str, str]], about: str = "what it does") -> Table:
    """List names with the first paragraph of a text about each."""
    table = Table(heading, about, box=None, padding=(0, 2, 0, 0))
    for name, text in entries:
        table.add_row(escape(name), escape(" ".join(text.strip().split("\n\n")[0].split())))
    return table


# --------------------------------------------------------------------------------------------------------------------
# The models: what each costs, and what every cut leaves with the client.

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
    """Count a model's costs, for the input it is listed with unless another is given."""
    import torch

    from smofi.models import MODELS, Entry, build, check_model_name
    from smofi.models.costing import costs, takes_tokens

    entry = MODELS.get(check_model_name(name), Entry("a model of your own", build))
    shape = entry.input_shape
    if input_shape is not None:
        if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", input_shape.replace(" ", "").strip("()").rstrip(",")):
            refuse("input_shape", input_shape, "whole numbers with commas between them, such as 3,64,64 or 80")
        shape = tuple(int(side) for side in re.findall(r"\d+", input_shape))
    classes = entry.classes if classes is None else classes
    # Ours are built and run without numbers, which nothing here depends on; a user's may need them.
    with torch.device("meta") if name in MODELS else nullcontext():
        model = build(name, seed=0, input_shape=shape, classes=classes, width=width, norm=norm)
    return Outline(name, entry.description, shape, classes, costs(model, shape, takes_tokens(model)))


def models_table(outlines: Iterable[Outline]) -> Table:
    outlines = list(outlines)
    usual = max((one.classes for one in outlines), key=[one.classes for one in outlines].count)
    others = "".join(f", {escape(one.name)} {one.classes}" for one in outlines if one.classes != usual)
    about = (
        f"For {plural(usual, 'class')}{others}. MACs: multiply-accumulates in one sample's forward pass. At cut {CUT}, "
        f"the client has the input block and {CUT} core blocks; the last columns are its share of parameters and MACs, "
        "and what it sends per sample.\n"
        "`smofi models NAME` shows every cut of one model, `smofi models --cuts` every cut of every model."
    )
    drawn = Table(box=None, padding=(0, 2, 0, 0), caption_justify="left", caption=about)
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
            ",".join(map(str, one.input_shape)),
            fine_percent(cut.parameters),
            fine_percent(cut.macs),
            megabytes(cut.bytes),
        )
    return drawn


def cuts_table(one: Outline) -> Table:
    title = (
        f"{one.name}: {one.description}\n{one.costs.parameters:,} parameters, {count(one.costs.macs)} MACs, "
        f"for inputs of {','.join(map(str, one.input_shape))} and {plural(one.classes, 'class')}"
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
            ",".join(map(str, block.shape)),
            fine_percent(cut.parameters),
            fine_percent(cut.macs),
            megabytes(cut.bytes),
        )
    return drawn
