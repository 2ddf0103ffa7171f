"""What can be chosen, as tables: data sets, presets and methods."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from smofi.config import presets
from smofi.data.catalogue import OWN, descriptions
from smofi.methods import METHODS, load_plugins
from smofi.spec import describe

UNTRIED = "Never run at this size by us."


def data_table() -> RenderableType:
    """The data sets by name and where they are found, then the ways to name the user's own."""
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
    """The presets in groups, each with what its first comment says, and the remark on whether it has been run."""
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
    """The methods as they are written, with what each does; those of plugins included.

    >>> method_table().columns[0].header
    'method'
    """
    load_plugins()
    return listing("method", ((describe(builder), builder.__doc__ or "") for builder in METHODS.values()))


def listing(heading: str, entries: Iterable[tuple[str, str]], about: str = "what it does") -> Table:
    """Names with the first paragraph of a text about each.

    >>> listing("method", [("fedavg", "Average.")]).row_count
    1
    """
    table = Table(heading, about, box=None, padding=(0, 2, 0, 0))
    for name, text in entries:
        table.add_row(escape(name), escape(" ".join(text.strip().split("\n\n")[0].split())))
    return table
