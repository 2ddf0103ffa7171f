"""The data sets and the presets, as tables."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from smofi.config import presets
from smofi.data.cache import data_home
from smofi.data.catalogue import descriptions
from smofi.data.load import OWN, where


def data_table() -> RenderableType:
    """The data sets by name and whether they are here, then the ways to name one's own."""
    known = Table("data set", "here", "what it is", box=None, padding=(0, 2, 0, 0))
    for name, text in descriptions().items():
        known.add_row(name, where(name) or "no", escape(text))
    own = Table("your own", "what it is", box=None, padding=(0, 2, 0, 0))
    for scheme, text in OWN.items():
        own.add_row(f"{scheme}:{'module:function' if scheme == 'python' else 'PATH'}", escape(text))
    hint = Text(
        f"Official files are looked for in {data_home()}/NAME (SMOFI_DATA), or wherever --data-folder says. "
        "Draw how one would be divided: smofi data digits --clients 50. "
        "Bring one from the hub: smofi data cifar10 --fetch"
    )
    return Group(known, "", own, "", hint)


def preset_table() -> RenderableType:
    """The presets, each with what its first comment says, and the remark on whether it has been run."""
    listing = Table("preset", "scale", "what it is", box=None, padding=(0, 2, 0, 0))
    for preset in presets():
        never = [remark for remark in preset.remarks if remark.startswith("Never run")]
        listing.add_row(preset.name, preset.scale, escape(" ".join([preset.description, *never])))
    return listing
