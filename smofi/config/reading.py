"""A configuration as YAML: read from a file, a preset or a run's folder, written, compared, kept in its meaning."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from smofi.clock.devices import PHONES, RTT_MS, Phones
from smofi.config.config import Config
from smofi.config.definition import seeds_text
from smofi.config.presets import preset_names, preset_text
from smofi.config.settings import RESUMABLE, SETTINGS
from smofi.data.partitions import PREFIX as SAVED
from smofi.data.partitions import dirichlet
from smofi.errors import InputError, SmofiError, refuse, shortened, shown
from smofi.methods import METHODS
from smofi.methods.registry import EXAMPLE
from smofi.plain_yaml import as_yaml, line_of, parse_settings, read_text
from smofi.runs import RunFolder, is_of_a_run, whole_of
from smofi.spec import read_calls

# --------------------------------------------------------------------------------------------------------------------
# A configuration from a YAML file or a preset, and what is wrong with it as a sentence.

LONGEST_SENTENCE = 600


def read_config(source: str | Path, overrides: Mapping[str, Any] | None = None, *, scale: str | None = None) -> Config:
    """Read the configuration in a YAML file or of a preset; the overrides, as given on the command line, win.

    `scale` is that of a preset: "full", or "small" for a version of it that suits a CPU.

    >>> read_config("digits", {"rounds": 5, "seed": 0}) == Config(rounds=5)
    True
    """
    overrides = overrides or {}
    if isinstance(source, str) and source in preset_names():
        name, text = f"preset {source}", preset_text(source, scale)
    else:
        _refuse_missing(source)
        if scale is not None:
            refuse("scale", scale, f"the name of a preset with it: {', '.join(preset_names())}")
        if (inside := RunFolder(Path(source)).config_file).is_file():
            raise InputError(f"{source} is a folder: expected a YAML file; did you mean {inside}?")
        name, text = str(source), read_text(Path(source))
    given = parse_settings(text, name)
    given = as_begun(given) if is_of_a_run(Path(source)) else given
    if given.get("seed") is not None and given.get("seeds") is not None:
        raise InputError(f"{name} has both seed and seeds: expected one of them")
    try:
        return Config(**overridden(given, overrides))
    except ValidationError as error:
        field = (sentence := sentence_of(error)).partition("=")[0]
        where = f"{name}, line {line_of(field, text)}: " if field in given and field not in overrides else ""
        raise InputError(where + sentence) from None


def overridden(given: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Put other settings in the place of these; one seed takes the place of several, and several that of one.

    >>> overridden({"seeds": "0-2", "rounds": 5}, {"seed": 7})
    {'rounds': 5, 'seed': 7}
    """
    replaced = {"seed", "seeds"} if {"seed", "seeds"} & overrides.keys() else set()
    return {name: value for name, value in given.items() if name not in replaced} | dict(overrides)


def sentence_of(error: ValidationError) -> str:
    """Say the first thing that is wrong with a configuration.

    >>> try: Config(round=5)
    ... except ValidationError as error: print(sentence_of(error))
    round=5 is not accepted: there is no such setting, did you mean 'rounds'?
    """
    first = error.errors(include_url=False)[0]
    cause, field = first.get("ctx", {}).get("error"), ".".join(map(str, first["loc"]))
    if isinstance(cause, SmofiError):
        return shortened(str(cause), LONGEST_SENTENCE)
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(field, SETTINGS, n=1)
        hint = f", did you mean {near[0]!r}?" if near else "; the settings are " + ", ".join(SETTINGS)
        why = f"there is no such setting{hint}"
    else:
        why = str(cause or first["msg"])
    return shortened(f"{field}={shown(first['input'])} is not accepted: {why}", LONGEST_SENTENCE)


def _refuse_missing(source: str | Path) -> None:
    path = Path(source)
    try:
        missing = not path.exists()
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if missing or not str(source):
        names = preset_names()
        near = difflib.get_close_matches(str(path), names, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise InputError(
            f"{source or repr(source)} does not exist: expected a YAML file, or a preset: {', '.join(names)}{hint}"
        )


# --------------------------------------------------------------------------------------------------------------------
# Keep the meaning of a run's config.yaml when a default changes.


FORMER: Mapping[str, Mapping[str, Any]] = {"sflv2": {"turns": "step"}, "dirichlet": {"balance": False}}
"""The methods and partitions with a default that has changed, and what it was."""

WITHOUT_TRIPS = str(Phones(rtt_ms=0))
"""What phones were under a full clock: no round trip was charged."""


def written_out(config: Config) -> dict[str, Any]:
    """Return the settings that a run's file has in other words.

    >>> written_out(Config(method=["fedprox(mu=0.1)+sflv2", "smofi"], partition="dirichlet(0.2)", clock="full"))
    {'method': ("fedprox(mu=0.1)+sflv2(turns='client')", 'smofi'), 'partition': 'dirichlet(0.2, balance=True)', \
'devices': 'phones(rtt_ms=28)'}
    """
    builders: Mapping[str, Callable[..., Any]] = {**METHODS, "dirichlet": dirichlet}
    today = {
        name: {key: inspect.signature(builders[name]).parameters[key].default for key in former}
        for name, former in FORMER.items()
    }
    timed = config.clock == "full" and config.devices == PHONES
    return {
        "method": tuple(_filled(method, today) for method in config.method),
        "partition": _filled(config.partition, today),
        "devices": f"{PHONES}(rtt_ms={RTT_MS:g})" if timed else config.devices,
    }


def as_begun(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in a run's file as they were meant when it was written.

    >>> as_begun({"method": ["fedavg", "sflv2"], "partition": "dirichlet(0.2)", "rounds": 3})
    {'method': ['fedavg', "sflv2(turns='step')"], 'partition': 'dirichlet(0.2, balance=False)', 'rounds': 3}
    """
    meant = {**settings}
    if settings.get("clock") == "full" and settings.get("devices") == PHONES:
        meant["devices"] = WITHOUT_TRIPS
    for name in ("method", "partition"):
        if isinstance(given := settings.get(name), str):
            meant[name] = _filled(given, FORMER)
        elif isinstance(given, list):
            meant[name] = [_filled(one, FORMER) if isinstance(one, str) else one for one in given]
    return meant


def has_changed(*values: str) -> bool:
    """Tell whether an earlier version may have written one of these in other words."""
    former = [f"{key}={value!r}" for given in FORMER.values() for key, value in given.items()]
    return any(words in value for words in (*former, WITHOUT_TRIPS) for value in values)


def _filled(text: str, values: Mapping[str, Mapping[str, Any]]) -> str:
    """Write out these parameters where a method or a partition does not give its own. In a run's file, parameters have
    their names."""
    if not any(name in text for name in FORMER) or text.startswith(SAVED):
        return text
    calls = read_calls("method", text, EXAMPLE)
    return "+".join(
        str(replace(call, kwargs=tuple({**values.get(call.name, {}), **dict(call.kwargs)}.items()))) for call in calls
    )


# --------------------------------------------------------------------------------------------------------------------
# A configuration as YAML, and how two of them differ.


def config_yaml(config: Config) -> str:
    """Write the whole configuration as YAML, a comment above each setting; `read_config` reads it back."""
    lasting = {name: getattr(config, name) for name in SETTINGS} | written_out(config)
    if config.seeds:  # in place of seed
        lasting["seed"] = None
    values = {name: value_as_yaml(name, value) for name, value in lasting.items()}
    return "\n".join(f"# {setting.help}\n{name}: {values[name]}\n" for name, setting in SETTINGS.items())


def value_as_yaml(name: str, value: Any) -> str:
    """Write the value of a setting as plainly as it can be."""
    if name == "seeds" and value is not None:
        value = seeds_text(value)
    if isinstance(value, tuple):
        value = list(value) if len(value) > 1 else value[0]
    if name == "cut" and value.isdecimal() and str(int(value)) == value:
        value = int(value)
    return as_yaml(value)


def changed_fields(old: Config, new: Config) -> list[str]:
    """Return a sentence for every setting that differs and may not, when a run is resumed.

    >>> changed_fields(Config(seed=0), Config(rounds=50, seed=1))
    ['seed=1 is not accepted: the run was started with seed=0, and a resumed run cannot change it']
    """

    def given(name: str, config: Config) -> str:
        if name == "seed" and config.seeds:
            return f"seeds={seeds_text(config.seeds)!r}"
        value = getattr(config, name)
        return f"{name}={list(value) if isinstance(value, tuple) else value!r}"

    fixed = {name: given(name, new) for name in SETTINGS if name not in RESUMABLE and name != "seeds"}
    scheme, colon, _ = old.data.partition(":")
    if colon and scheme != "python" and new.data.startswith(f"{scheme}:"):  # where files lie may change
        fixed.pop("data")
    return [
        f"{value} is not accepted: the run was started with {before}, and a resumed run cannot change it"
        for name, value in fixed.items()
        if value != (before := given(name, old))
    ]


# --------------------------------------------------------------------------------------------------------------------
# The settings of a run from its folder, and what may change where it is to go on.


def run_config(folder: RunFolder) -> Config | None:
    """Read the configuration of a run, or of a comparison, from its folder; None if there is no run."""
    settings = folder.config()
    try:
        return None if settings is None else Config(**as_begun(settings))
    except ValidationError as error:
        raise InputError(f"{folder.config_file}: {sentence_of(error)}") from None


def stored_config(path: Path, overrides: Mapping[str, Any] | None = None, *, served: bool = False) -> Config:
    """Read the configuration of the run in this folder, with what is to change; refuse, field by field, what may not.

    A `served` run is resumed by a server, any other is not.
    """
    refused = f"resume={str(path)!r} is not accepted"
    try:
        before = run_config(RunFolder(path))
    except OSError as error:  # a name that is too long, a folder that may not be read
        raise InputError(f"{refused}: {error.strerror}") from None
    if before is None:
        missing = "it has no config.yaml" if path.exists() else "there is none"
        raise InputError(f"{refused}: expected the folder of a run, but {missing}")
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise InputError(
            f"{refused}: the folder cannot be written; copy it to where you may write, and resume the copy"
        )
    whole = whole_of(RunFolder(path))
    whole_is_served = RunFolder(whole).clients_file.exists()
    if served and not RunFolder(path).clients_file.exists():
        if whole_is_served:
            raise InputError(f"{refused}: it is a part of {whole}, which goes on as a whole")
        raise InputError(
            f"{refused}: no clients took part in it, so that smofi serve cannot go on with it; smofi run --resume "
            f"{path} can"
        )
    if not served and whole_is_served:
        raise InputError(
            f"{refused}: it was served to clients, who have the samples; go on with smofi serve --resume {whole}"
        )
    try:
        config = Config(**overridden(before.model_dump(), overrides or {}))
    except ValidationError as error:
        raise InputError(sentence_of(error)) from None
    if changed := changed_fields(before, config):
        raise InputError(f"{path} cannot be resumed with other settings: " + "; ".join(changed))
    return config
