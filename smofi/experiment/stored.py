"""The settings of a run that is to go on, as its folder has them, and what may change."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pydantic

from smofi.config import Config, changed_fields, overridden, run_config, sentence_of
from smofi.errors import InputError
from smofi.runs import RunFolder, whole_of


def stored_config(path: Path, overrides: Mapping[str, Any] | None = None, *, served: bool = False) -> Config:
    """The configuration of the run in this folder, with what is to change; refuses, field by field, what may not.

    A `served` run is resumed by a server, any other is not.
    """
    try:
        before = run_config(RunFolder(path))
    except OSError as error:  # a name that is too long, a folder that may not be read
        raise InputError(f"resume={str(path)!r} is not accepted: {error.strerror}") from None
    if before is None:
        missing = "it has no config.yaml" if path.exists() else "there is none"
        raise InputError(f"resume={str(path)!r} is not accepted: expected the folder of a run, but {missing}")
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise InputError(
            f"resume={str(path)!r} is not accepted: the folder cannot be written; copy it to where you may write, and "
            "resume the copy"
        )
    _check_kind(path, served)
    try:
        config = Config(**overridden(before.model_dump(), overrides or {}))
    except pydantic.ValidationError as error:
        raise InputError(sentence_of(error)) from None
    if changed := changed_fields(before, config):
        raise InputError(f"{path} cannot be resumed with other settings: " + "; ".join(changed))
    return config


def _check_kind(path: Path, served: bool) -> None:
    """Refuse a simulation where a served run is to go on, and the other way."""
    whole = whole_of(RunFolder(path))
    if served and not RunFolder(path).clients_file.exists():
        if RunFolder(whole).clients_file.exists():
            raise InputError(f"resume={str(path)!r} is not accepted: it is a part of {whole}, which goes on as a whole")
        raise InputError(
            f"resume={str(path)!r} is not accepted: no clients took part in it, so that smofi serve cannot go on with "
            f"it; smofi run --resume {path} can"
        )
    if not served and RunFolder(whole).clients_file.exists():
        raise InputError(
            f"resume={str(path)!r} is not accepted: it was served to clients, who have the samples; go on with smofi "
            f"serve --resume {whole}"
        )
