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
        """Write it as it is given to a command.

        >>> Preset("cifar10", "small", "", ()).written
        'cifar10 --scale small'
        """
        return self.name if self.scale == "full" else f"{self.name} --scale {self.scale}"


def presets() -> list[Preset]:
    """Return all presets, by name.

    >>> [preset.scale for preset in presets() if preset.name == "cifar10"]
    ['full', 'small']
    """
    found = []
    for (name, scale), text in sorted(_texts().items()):
        comments, settings = _parts(text)
        base = settings.get(BASE, "").partition(":")[2].strip()
        found.append(Preset(name, scale, comments[0], tuple(comments[1:]), base or None))
    return found


def preset_names() -> list[str]:
    """Return the names alone, in alphabetical order."""
    return sorted({name for name, _ in _texts()})


def preset_text(name: str, scale: str | None = None) -> str:
    """Return the YAML of a preset, with the settings of the one it is based on; without a scale, in full."""
    texts = _texts()
    if (name, check_choice("scale", scale or "full", SCALES)) not in texts:
        refuse_unwanted("scale", scale, f"{name} comes in one size only")
    comments, settings = _parts(texts[name, scale or "full"])
    if base := settings.pop(BASE, ""):
        settings = _parts(preset_text(base.partition(":")[2].strip(), scale))[1] | settings
    return "\n".join([*(f"# {line}" for line in comments), *settings.values()]) + "\n"


def _parts(text: str) -> tuple[list[str], dict[str, str]]:
    """Divide a preset into its comments and its settings, each of which is a line."""
    lines = text.splitlines()
    comments = [line.lstrip("# ") for line in lines if line.startswith("#")]
    return comments, {line.partition(":")[0]: line for line in lines if not line.startswith("#")}


def _texts() -> dict[tuple[str, str], str]:
    names = [entry for entry in files(__name__).iterdir() if entry.name.endswith(".yaml")]
    apart = [(entry, entry.name.removesuffix(".yaml").partition(".")) for entry in names]
    return {(name, scale or "full"): entry.read_text(encoding="utf-8") for entry, (name, _, scale) in apart}
