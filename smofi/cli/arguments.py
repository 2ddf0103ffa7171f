"""What several commands accept, and the configuration that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import pydantic
from cyclopts import Group, Parameter

from smofi.config import Config, Settings, read_config
from smofi.config.definition import seeds_text
from smofi.config.settings import SERVED_DEFAULTS, SERVED_HELP, SETTINGS, UNSERVED
from smofi.errors import SmofiError, refuse

Source: TypeAlias = Annotated[
    str | None, Parameter(help="a YAML file or the name of a preset; options take precedence over it")
]
SEVERAL: dict[str, Any] = {"consume_multiple": (1, None), "negative_iterable": ()}
"""Of a flag that takes one or more values: `--method fedavg smofi`, or the flag again for each."""

SECTIONS = {
    "data": "Data",
    "model": "Model, method and optimizer",
    "rounds": "Rounds",
    "validation": "Evaluating and stopping",
    "executor": "How it is computed",
    "clock": "Virtual time",
}
"""The groups of settings in the help, each by its first one."""


def _group_settings() -> None:
    group = None
    for name, field in Settings.model_fields.items():
        group = Group.create_ordered(SECTIONS[name]) if name in SECTIONS else group
        field.metadata.append(Parameter(group=group))  # which cyclopts alone looks at


_group_settings()
Flags: TypeAlias = Annotated[Settings, Parameter(name="*", **SEVERAL)]


class ServedSettings(Settings):
    """The same flags, but the help leaves out what a server refuses, and says what others mean to a server. A flag that
    is left out is refused with the reason."""


def _always(value: object) -> Callable[[object], str]:
    return lambda shown: str(value)


for _name in UNSERVED:
    _field = ServedSettings.model_fields[_name]
    _field.metadata = [*_field.metadata, Parameter(show=False)]
for _name, _help in SERVED_HELP.items():
    _field = ServedSettings.model_fields[_name]
    _field.metadata = [*_field.metadata, Parameter(help=_help)]
for _name, _default in SERVED_DEFAULTS.items():
    _field = ServedSettings.model_fields[_name]
    _field.metadata = [*_field.metadata, Parameter(show_default=_always(_default))]
ServedFlags: TypeAlias = Annotated[ServedSettings, Parameter(name="*", **SEVERAL)]
Folder: TypeAlias = Annotated[Path, Parameter(help="the folder of a run")]
Runs: TypeAlias = Annotated[
    Path, Parameter(help="folders of runs or comparisons, or with several below them; by default runs")
]
Scale: TypeAlias = Annotated[
    str | None, Parameter(help="size of a preset: full, or small for a version that suits a CPU")
]
Display: TypeAlias = Literal["auto", "live", "plain", "quiet", "jsonl"]
Picture: TypeAlias = Annotated[Path | None, Parameter(help="also draw a picture into this file: .png, .svg or .pdf")]


def flag(setting: str) -> Parameter:
    """The flag of a setting, in a command that takes only some of them."""
    return Parameter(help=SETTINGS[setting].help)


def settings_given(flags: Settings) -> dict[str, Any]:
    """The settings that the command line names."""
    if {"seed", "seeds"} <= flags.model_fields_set:
        refuse("seeds", seeds_text(flags.seeds or ()), "--seed or --seeds, not both")
    return {name: getattr(flags, name) for name in flags.model_fields_set}


def resolve(source: str | None, given: Mapping[str, Any], scale: str | None = None) -> Config:
    """The configuration from a file, a preset or the defaults, with the settings given."""
    if source is None and scale is not None:
        refuse("scale", scale, "the name of a preset too, for example: smofi run cifar10 --scale small")
    return Config(**given) if source is None else read_config(source, given, scale=scale)


def resolve_with_clock(source: str | None, given: Mapping[str, Any], scale: str | None) -> Config:
    """The configuration with a full clock, unless it has another; devices may be given without a clock."""
    full = resolve(source, {**given, "clock": "full"}, scale)
    with suppress(SmofiError, pydantic.ValidationError):
        if (config := resolve(source, given, scale)).clock != "none":
            return config
    return full
