"""The table of settings in docs/configuration.md, from their definitions: `python tests/support/settings_page.py`."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import smofi
from smofi.config.definition import Setting
from smofi.config.reading import value_as_yaml
from smofi.config.settings import SETTINGS

PAGE = Path(__file__).parents[2] / "docs/configuration.md"
HEAD = "| setting | default | in `smofi.train` | on resume | what it is |\n|---|---|---|---|---|\n"
TABLE = re.compile(r"\| setting \|.*?\n(?=\n)", flags=re.DOTALL)


def table() -> str:
    """The table as it has to be."""
    return HEAD + "".join(_row(name, setting) for name, setting in SETTINGS.items())


def table_on_page() -> str:
    """The table as it is."""
    found = TABLE.search(PAGE.read_text())
    return found[0] if found else ""


def _row(name: str, setting: Setting) -> str:
    default, help = _shown(name, setting.default), setting.help.replace("|", "\\|")
    in_python = "" if not setting.argument else "the same"
    if setting.argument and (own := _shown(name, inspect.signature(smofi.train).parameters[name].default)) != default:
        in_python = f"`{own}`"
    if setting.timing and not setting.argument:
        in_python = "in `Timing`"
    more = f"; see [{setting.page}]({setting.page}.md)" if setting.page else ""
    return f"| `{name}` | `{default}` | {in_python} | {'may change' if setting.resumable else ''} | {help}{more} |\n"


def _shown(name: str, default: object) -> str:
    return value_as_yaml(name, str(default) if name == "cut" else default)


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text()))
