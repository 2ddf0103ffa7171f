"""Runs that come with the package, each a YAML file whose first line says what it is."""

from __future__ import annotations

from importlib.resources import files


def presets() -> dict[str, str]:
    """The presets' names, and a line about each.

    >>> list(presets())
    ['digits']
    """
    return {name: preset_text(name).splitlines()[0].lstrip("# ") for name in preset_names()}


def preset_names() -> list[str]:
    """The names alone, in alphabetical order."""
    found = (entry.name for entry in files(__name__).iterdir())
    return sorted(name.removesuffix(".yaml") for name in found if name.endswith(".yaml"))


def preset_text(name: str) -> str:
    """The YAML of a preset."""
    return files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
