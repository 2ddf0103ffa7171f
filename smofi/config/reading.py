"""A configuration from a YAML file or a preset, and what is wrong with it as a sentence."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from smofi.config.config import Config
from smofi.config.lasting import as_begun
from smofi.config.presets import preset_names, preset_text
from smofi.errors import LONGEST, InputError, SmofiError, refuse, shortened, shown
from smofi.plain_yaml import as_yaml, line_of, parse_settings, read_text
from smofi.runs import RunFolder, is_of_a_run
from smofi.settings import SETTINGS

LONGEST_SENTENCE = 600


def read_config(source: str | Path, overrides: Mapping[str, Any] | None = None, *, scale: str | None = None) -> Config:
    """The configuration in a YAML file or of a preset; the overrides, as given on the command line, win.

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
        field = _field_of(error)
        # Where several settings do not go together, it is the file's fault only if it fails without the overrides too.
        guilty = field not in overrides if field else _sentence_for(given) == sentence_of(error)
        raise InputError(_in_file(sentence_of(error), name, text, given) if guilty else sentence_of(error)) from None


def overridden(given: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others in their place; one seed takes the place of several, and several that of one.

    >>> overridden({"seeds": "0-2", "rounds": 5}, {"seed": 7})
    {'rounds': 5, 'seed': 7}
    """
    replaced = {"seed", "seeds"} if {"seed", "seeds"} & overrides.keys() else set()
    return {name: value for name, value in given.items() if name not in replaced} | dict(overrides)


def run_config(folder: RunFolder) -> Config | None:
    """The configuration of a run, or of a comparison, from its folder; None if there is no run."""
    settings = folder.config()
    try:
        return None if settings is None else Config(**as_begun(settings))
    except ValidationError as error:
        raise InputError(f"{folder.config_file}: {sentence_of(error)}") from None


def sentence_of(error: ValidationError) -> str:
    """The first thing that is wrong with a configuration, as a sentence.

    >>> try: Config(round=5)
    ... except ValidationError as error: print(sentence_of(error))
    round=5 is not accepted: there is no such setting, did you mean 'rounds'?
    """
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    field, value = ".".join(map(str, first["loc"])), first["input"]
    if isinstance(cause, SmofiError):
        text = str(cause)
    elif first["type"] == "extra_forbidden":
        text = f"{field}={shown(value)} is not accepted: there is no such setting{_near(field)}"
    else:
        text = f"{field}={shown(value)} is not accepted: {cause or first['msg'][:1].lower() + first['msg'][1:]}"
    return shortened(text, LONGEST_SENTENCE)


def _in_file(sentence: str, name: str, text: str, given: Mapping[str, Any]) -> str:
    """The same sentence about a setting as its file has it, and where."""
    field = sentence.partition("=")[0]
    if field not in given:
        return f"{name}: {sentence}"
    written, rest = shortened(as_yaml(given[field]), LONGEST), sentence.removeprefix(f"{field}={shown(given[field])}")
    as_written = f"{field}: {written}{rest}" if rest != sentence else sentence.replace("=", ": ", 1)
    return f"{name}, line {line_of(field, text)}: {as_written}"


def _near(field: str) -> str:
    near = difflib.get_close_matches(field, SETTINGS, n=1)
    return f", did you mean {near[0]!r}?" if near else "; the settings are " + ", ".join(SETTINGS)


def _field_of(error: ValidationError) -> str | None:
    where = error.errors(include_url=False)[0]["loc"]
    return str(where[0]) if where else None


def _sentence_for(given: Mapping[str, Any]) -> str | None:
    try:
        Config(**given)
    except ValidationError as error:
        return sentence_of(error)
    return None


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
