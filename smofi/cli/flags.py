"""What several commands accept, and the configuration that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import pydantic
from cyclopts import Group, Parameter

from smofi.config import Config, Settings, read_config
from smofi.config.definition import seeds_text
from smofi.config.settings import SERVED_DEFAULTS, SERVED_HELP, SETTINGS, UNSERVED
from smofi.errors import SmofiError, refuse

RUNS = Path("runs")
"""Where runs are made and looked for, unless told otherwise."""

ONE_OR_MORE = Parameter(consume_multiple=(1, None))
"""Of a flag that takes one or more values: `--method fedavg smofi`, or the flag again for each."""


def doc(help: str) -> Parameter:
    """Return the line about a flag in the help."""
    return Parameter(help=help)


SECTIONS = {
    "data": "Data",
    "model": "Model, method and optimizer",
    "rounds": "Rounds",
    "validation": "Evaluating and stopping",
    "executor": "How it is computed",
    "clock": "Virtual time",
}
"""The groups of settings in the help, each by its first one."""


class ServedSettings(Settings):
    """The flags of a server: its help leaves out settings that it refuses, and says what others mean to it."""


_group = None
for _name, _field in Settings.model_fields.items():
    _group = Group.create_ordered(SECTIONS[_name]) if _name in SECTIONS else _group
    _served: dict[str, Any] = {"show": _name not in UNSERVED}
    if _name in SERVED_HELP:
        _served["help"] = SERVED_HELP[_name]
    if _name in SERVED_DEFAULTS:
        _served["show_default"] = lambda shown, value=SERVED_DEFAULTS[_name]: str(value)
    _field.metadata.append(Parameter(group=_group))  # which cyclopts alone looks at
    ServedSettings.model_fields[_name].metadata = [*_field.metadata, Parameter(**_served)]

NONE_GIVEN, NONE_SERVED = Settings(), ServedSettings()
FLAT = Parameter(name="*", negative_bool="no-")
Flags: TypeAlias = Annotated[Settings, FLAT, ONE_OR_MORE]
ServedFlags: TypeAlias = Annotated[ServedSettings, FLAT, ONE_OR_MORE]
Source: TypeAlias = Annotated[str | None, doc("a YAML file or the name of a preset; options take precedence over it")]
Scale: TypeAlias = Annotated[str | None, doc("size of a preset: full, or small for a version that suits a CPU")]
NewRun: TypeAlias = Annotated[Path | None, doc("the folder of the new run; by default one below runs/")]
Folder: TypeAlias = Annotated[Path, doc("the folder of a run")]
Runs: TypeAlias = Annotated[Path, doc("folders of runs or comparisons, or with several below them; by default runs")]
Display: TypeAlias = Annotated[
    Literal["auto", "live", "plain", "quiet", "jsonl"],
    doc("how progress is shown; auto: live on a terminal, plain elsewhere"),
]
Picture: TypeAlias = Annotated[Path | None, doc("also draw a picture into this file: .png, .svg or .pdf")]


def flag(setting: str) -> Parameter:
    """Return the flag of a setting, for a command that takes only some of them."""
    return doc(SETTINGS[setting].help)


def settings_given(flags: Settings) -> dict[str, Any]:
    """Return the settings that the command line names."""
    if {"seed", "seeds"} <= flags.model_fields_set:
        refuse("seeds", seeds_text(flags.seeds or ()), "--seed or --seeds, not both")
    return {name: getattr(flags, name) for name in flags.model_fields_set}


def resolve(source: str | None, given: Mapping[str, Any], scale: str | None = None) -> Config:
    """Return the configuration from a file, a preset or the defaults, with the settings given."""
    if source is None and scale is not None:
        refuse("scale", scale, "the name of a preset too, for example: smofi run cifar10 --scale small")
    return Config(**given) if source is None else read_config(source, given, scale=scale)


def resolve_with_clock(source: str | None, given: Mapping[str, Any], scale: str | None) -> Config:
    """Return the configuration with a full clock, unless it has another; devices may be given without a clock."""
    full = resolve(source, {**given, "clock": "full"}, scale)
    with suppress(SmofiError, pydantic.ValidationError):
        if (config := resolve(source, given, scale)).clock != "none":
            return config
    return full
