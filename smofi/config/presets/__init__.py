"""Runs that come with the package, each a YAML file whose first line says what it is.

cifar10.yaml               in full: the paper's settings
cifar10.small.yaml         a version for a CPU that keeps the character of the task: `--scale small`
tiny-imagenet-vgg11.yaml   based on another preset, whose settings it has where it has none of its own
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from smofi.errors import check_choice, refuse_unwanted

SCALES = ("full", "small")

BASE = "based_on"


@dataclass(frozen=True)
class Preset:
    """A preset: what its first comment says of it, the rest of its comments, and the preset that it is based on."""

    name: str
    scale: str
    description: str
    remarks: tuple[str, ...]
    base: str | None = None

    @property
    def written(self) -> str:
        """As it is given to a command.

        >>> Preset("cifar10", "small", "", ()).written
        'cifar10 --scale small'
        """
        return self.name if self.scale == "full" else f"{self.name} --scale {self.scale}"


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
    """The YAML of a preset, with the settings of the one it is based on; without a scale, in full."""
    texts = _texts()
    if (name, check_choice("scale", scale or "full", SCALES)) not in texts:
        refuse_unwanted("scale", scale, f"{name} comes in one size only")
    text = texts[name, scale or "full"]
    base = _base_of(text)
    return text if base is None else _with_base(text, preset_text(base, scale))


def _with_base(text: str, base: str) -> str:
    """A setting is a line in presets, so those of the base are its lines for settings that the preset does not have."""
    own = {_key(line) for line in text.splitlines()}
    added = [line for line in base.splitlines() if not line.startswith("#") and _key(line) not in own]
    kept = [line for line in text.splitlines() if _key(line) != BASE]
    return "\n".join([*kept, *added]) + "\n"


def _base_of(text: str) -> str | None:
    return next((line.partition(":")[2].strip() for line in text.splitlines() if _key(line) == BASE), None)


def _key(line: str) -> str:
    return line.partition(":")[0]


def _describe(name: str, scale: str) -> Preset:
    text = _texts()[name, scale]
    first, *others = (line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))
    return Preset(name, scale, first, tuple(others), _base_of(text))


def _texts() -> dict[tuple[str, str], str]:
    found = {}
    for entry in files(__name__).iterdir():
        if entry.name.endswith(".yaml"):
            name, _, scale = entry.name.removesuffix(".yaml").partition(".")
            found[name, scale or "full"] = entry.read_text(encoding="utf-8")
    return found
