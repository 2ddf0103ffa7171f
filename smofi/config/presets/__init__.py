"""Runs that come with the package, each a YAML file whose first line says what it is.

cifar10.yaml         in full: the paper's settings
cifar10.small.yaml   a version for a CPU that keeps the character of the task: `--scale small`
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from smofi.errors import check_choice, refuse_unwanted

SCALES = ("full", "small")


@dataclass(frozen=True)
class Preset:
    """A preset: what its first comment says of it, and the rest of its comments."""

    name: str
    scale: str
    description: str
    remarks: tuple[str, ...]


def presets() -> list[Preset]:
    """All presets, by name.

    >>> [preset.scale for preset in presets() if preset.name == "cifar10"]
    ['full', 'small']
    """
    return [_describe(name, scale) for name in preset_names() for scale in SCALES if (name, scale) in _texts()]


def preset_names() -> list[str]:
    """The names alone, in alphabetical order."""
    return sorted({name for name, _ in _texts()})


def preset_text(name: str, scale: str | None = None) -> str:
    """The YAML of a preset; without a scale, in full."""
    texts = _texts()
    if (name, check_choice("scale", scale or "full", SCALES)) not in texts:
        refuse_unwanted("scale", scale, f"{name} comes in one size only")
    return texts[name, scale or "full"]


def _describe(name: str, scale: str) -> Preset:
    lines = preset_text(name, scale).splitlines()
    first, *others = (line.lstrip("# ") for line in lines if line.startswith("#"))
    return Preset(name, scale, first, tuple(others))


def _texts() -> dict[tuple[str, str], str]:
    found = {}
    for entry in files(__name__).iterdir():
        if entry.name.endswith(".yaml"):
            name, _, scale = entry.name.removesuffix(".yaml").partition(".")
            found[name, scale or "full"] = entry.read_text(encoding="utf-8")
    return found
