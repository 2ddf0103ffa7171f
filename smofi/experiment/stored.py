"""The settings of a run that is to go on, as its folder has them, and what may change."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pydantic

from smofi.config import Config, changed_fields, overridden, run_config, sentence_of
from smofi.errors import InputError
from smofi.runs import RunFolder


def stored_config(path: Path, overrides: Mapping[str, Any] | None = None) -> Config:
    """The configuration of the run in this folder, with what is to change; refuses, field by field, what may not."""
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
    try:
        config = Config(**overridden(before.model_dump(), overrides or {}))
    except pydantic.ValidationError as error:
        raise InputError(sentence_of(error)) from None
    if changed := changed_fields(before, config):
        raise InputError(f"{path} cannot be resumed with other settings: " + "; ".join(changed))
    return config
