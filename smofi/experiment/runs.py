"""Configured runs with folders of their own: started, resumed, and several methods side by side.

one method        DIR/            is its run folder
several methods   DIR/<method>/   is a run folder each, and DIR/config.yaml names them all
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smofi.config import Config, changed_fields, config_yaml, read_config
from smofi.engine.checkpoint import write_atomically
from smofi.engine.events import Callback
from smofi.engine.folder import RunFolder
from smofi.errors import InputError
from smofi.experiment.provenance import provenance
from smofi.methods import parse_method
from smofi.training import Result, Session, prepare


@dataclass(frozen=True)
class FolderRun:
    """A session whose rounds are kept in a folder."""

    name: str
    session: Session
    folder: RunFolder

    def train(self) -> Result:
        """All rounds that are still to do, kept as they are done; then the final model."""
        self.session.run.keeper = self.folder
        try:
            result = self.session.train()
            self.folder.finish(self.session.run, result.model)
        finally:
            self.folder.close()
        return result


def start(config: Config, path: Path, callback: Callback | None = None, command: str = "") -> list[FolderRun]:
    """Runs ready to train, one per method, in folders that hold no run yet."""
    with _opened(config, path, callback) as runs:
        if any((place / "config.yaml").exists() for place in (path, *(one.folder.path for one in runs))):
            raise InputError(
                f"output={str(path)!r} is not accepted: it holds a run already; expected a new folder, or: "
                f"smofi run --resume {path}"
            )
        about, owners = provenance(command) | {"seed": config.seed}, config.owners()
        for one, part in zip(runs, _per_method(config), strict=True):
            one.folder.describe(config_yaml(part), about, owners)
        write_atomically(path / "config.yaml", config_yaml(config).encode())
        return runs


def resume(path: Path, overrides: Mapping[str, Any], callback: Callback | None = None) -> list[FolderRun]:
    """Runs ready to go on from where they were; refuses, field by field, to go on as something else."""
    if not (path / "config.yaml").exists():
        raise InputError(f"resume={str(path)!r} is not accepted: expected a run folder, and it has no config.yaml")
    before = read_config(path / "config.yaml", {})
    config = read_config(path / "config.yaml", overrides)
    if changed := changed_fields(before, config):
        raise InputError(f"{path} cannot be resumed with other settings: " + "; ".join(changed))
    with _opened(config, path, callback) as runs:
        owners = config.owners()
        for one, part in zip(runs, _per_method(config), strict=True):
            one.folder.check_partition(owners)
            one.folder.restore(one.session.run)
            write_atomically(one.folder.path / "config.yaml", config_yaml(part).encode())
        write_atomically(path / "config.yaml", config_yaml(config).encode())
        return runs


def folder_name(method: str) -> str:
    """A method's name as the name of a folder.

    >>> folder_name("fedprox(mu=0.01)+smofi")
    'fedprox-mu=0.01-smofi'
    """
    return re.sub(r"[^\w.=]+", "-", method).strip("-")


def _per_method(config: Config) -> list[Config]:
    return [config.model_copy(update={"method": (method,)}) for method in config.method]


@contextmanager
def _opened(config: Config, path: Path, callback: Callback | None) -> Iterator[list[FolderRun]]:
    """A session per method, each with its folder locked; all let go if anything fails."""
    arguments = config.arguments()
    methods = [parse_method(text) for text in config.method]
    sessions = {method.name: prepare(**arguments, method=method, callback=callback) for method in methods}
    runs: list[FolderRun] = []
    try:
        for name, session in sessions.items():
            place = path / folder_name(name) if len(sessions) > 1 else path
            runs.append(FolderRun(name, session, RunFolder(place, config.checkpoint_every)))
        yield runs
    except BaseException:
        for one in runs:
            one.folder.close()
        raise
