"""The files of one run: their names, and reading them. Nothing is believed that is not what the run saved.

Reading takes no lock, so that looking never disturbs the writer: where a file does not match the manifest and the
manifest has changed meanwhile, both are read again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError

from smofi.errors import InputError
from smofi.files import read_regular, unsealed
from smofi.later import torch
from smofi.plain_yaml import LARGEST, settings_in
from smofi.runs.checkpoint import StoredCheckpoint, read_checkpoint
from smofi.runs.history import METRICS, read_lines, read_records, read_saved_records
from smofi.runs.manifest import CHANGED, MANIFEST, Checksum, DamagedFile, Manifest, UnreadableFile

CONFIG, ABOUT, RESULT, MODEL = "config.yaml", "about.json", "result.json", "model.safetensors"
CHECKPOINTS, ROUND, BEST = "checkpoints", "checkpoints/round-{:06d}.safetensors", "checkpoints/best.safetensors"
CURVES, CURVES_OVER_HOURS = "curves.png", "curves-hours.png"
TRACKING, TENSORBOARD = "tracking.json", "tensorboard"
WRITTEN_AGAIN = (MODEL, RESULT)
"""What a run writes again from its last state when it is missing."""

LARGEST_JSON = 64 * 2**20  # about.json has the names of all classes, which may be many

Read = TypeVar("Read")


@dataclass(frozen=True)
class RunFolder:
    """A folder for one run, whether there is anything in it or not.

    >>> RunFolder(Path("runs/a")).config_file.as_posix()
    'runs/a/config.yaml'
    """

    path: Path

    # ------------------------------------------------------------------------------------------------- what there is

    @property
    def config_file(self) -> Path:
        """The resolved configuration. It is written last of all that describes a run."""
        return self.path / CONFIG

    @property
    def model_file(self) -> Path:
        """The final weights, by the model's own names."""
        return self.path / MODEL

    @property
    def clients_file(self) -> Path:
        """Who takes part in a served run; a simulation has none."""
        return self.path / "clients.json"

    @property
    def about_file(self) -> Path:
        """Where the run comes from: versions, command, fingerprints."""
        return self.path / ABOUT

    @property
    def curves_file(self) -> Path:
        """The picture of accuracy over rounds."""
        return self.path / CURVES

    @property
    def curves_over_hours_file(self) -> Path:
        """The picture of accuracy over virtual time."""
        return self.path / CURVES_OVER_HOURS

    @property
    def tensorboard(self) -> Path:
        """The folder of TensorBoard's event files."""
        return self.path / TENSORBOARD

    @property
    def has_run(self) -> bool:
        """Whether a run was described here."""
        return self.config_file.exists()

    @property
    def has_best(self) -> bool:
        """Whether the best round by validation accuracy is kept."""
        return BEST in self.manifest().files

    @property
    def has_model(self) -> bool:
        """Whether the final model was saved."""
        return MODEL in self.manifest().files

    @property
    def last_written(self) -> float:
        """When the latest round was recorded, in seconds since the epoch."""
        return (self.path / METRICS).stat().st_mtime

    def saved_rounds(self) -> list[int]:
        """The rounds whose state was saved and is kept, ascending."""
        return rounds_in(self.manifest())

    # ------------------------------------------------------------------------------------------------------- reading

    def manifest(self) -> Manifest:
        """All that was saved; an empty one where nothing is."""
        path = self.path / MANIFEST
        try:
            path.lstat()
        except OSError:
            if not self.has_run:
                return Manifest("")
            if not self.about_file.exists():
                foreign = f"{self.path} is not a run folder: it has a {CONFIG}, but no {MANIFEST}, which every run has"
                raise DamagedFile(foreign) from None
            missing = f"{path} is missing, and without it no file of the run can be checked"
            raise DamagedFile(missing, self._remedy(MANIFEST)) from None
        try:
            return Manifest.read(path)
        except DamagedFile as error:
            raise DamagedFile(error.what, self._remedy(MANIFEST)) from None

    def config(self) -> dict[str, Any] | None:
        """The settings as they are in the file, None if there is none."""
        content = self._read(CONFIG, LARGEST)
        return None if content is None else settings_in(content, str(self.config_file))

    def about(self) -> dict[str, Any] | None:
        """Where the run comes from, None if that was not recorded."""
        return self._mapping(ABOUT)

    def result(self) -> dict[str, Any] | None:
        """How the run ended, None while it has not."""
        return self._mapping(RESULT)

    def records(self) -> list[dict[str, Any]]:
        """The rounds on record."""
        return self._consistent(METRICS, lambda manifest: read_records(self.path, manifest))

    def ended(self) -> int | None:
        """After how many rounds the run ended whose model is saved, None while it has not."""
        result = self.result()
        rounds = result.get("rounds") if result else None
        if result is not None and (not isinstance(rounds, int) or rounds < 0):
            raise InputError(f"{self.path / RESULT} cannot be used: expected the rounds after which the run ended")
        return rounds

    def saved_records(self) -> list[dict[str, Any]]:
        """Those up to the last save."""
        return self._consistent(METRICS, lambda manifest: read_saved_records(self.path, manifest))

    def model(self) -> dict[str, torch.Tensor]:
        """The final weights, of which `ended` tells the round."""
        from safetensors.torch import load_file

        self.checked(RESULT)
        path = self.checked(MODEL)
        try:
            return load_file(path)
        except (OSError, SafetensorError) as error:
            raise InputError(f"{path} cannot be read: {error}") from error

    def checkpoint(self, round: int) -> StoredCheckpoint:
        """The state after a round; raises DamagedFile if it cannot be trusted."""
        return read_checkpoint(self.checked(ROUND.format(round)))

    def best(self) -> StoredCheckpoint:
        """The state after the best round by validation accuracy; raises DamagedFile if it cannot be trusted."""
        return read_checkpoint(self.checked(BEST))

    def checked(self, name: str) -> Path:
        """A file of the run that is as the run saved it; raises DamagedFile if it is not."""
        path = self.path / name

        def check(manifest: Manifest) -> Path:
            if not path.is_file():
                raise DamagedFile(f"{path} is {'not a regular file' if os.path.lexists(path) else 'missing'}")
            try:
                size = path.stat().st_size
                known = [one for one in manifest.files.get(name, ()) if one.size == size]
                # The hash of a file of another size would take time and tell nothing.
                manifest.check(path, name, Checksum.of_file(path) if known else Checksum(size, ""))
            except OSError as error:
                raise UnreadableFile(f"{path} cannot be read: {error.strerror}") from None
            return path

        return self._consistent(name, check)

    def damaged(self) -> list[DamagedFile]:
        """What is wrong with each file that is missing, or not as the run saved it; nothing if all are."""
        found: list[DamagedFile] = []
        manifest = self.manifest()
        for name in manifest.files:
            try:
                self.checked(name)
            except DamagedFile as error:
                if name in self.manifest().files:  # it may have been replaced by a newer one meanwhile
                    found.append(error)
        try:
            self.tracker_ids()
        except DamagedFile as error:
            found.append(error)
        try:
            _, remark = self._consistent(METRICS, lambda manifest: read_lines(self.path, manifest))
        except DamagedFile as error:
            found.append(error)
        else:
            if remark and self.manifest() == manifest:  # else there was a save meanwhile
                found.append(DamagedFile(remark, f"smofi run --resume {self.path} does these rounds again"))
        return found

    def tracker_ids(self) -> dict[str, Any]:
        """The trackers' own names for this run, by tracker."""
        path = self.path / TRACKING
        if not path.exists():
            return {}
        try:
            kept = unsealed(read_regular(path, LARGEST, "the trackers' names for the run"))
        except ValueError:
            kept = {}
        if not isinstance(kept, dict) or kept.get("run") != self.manifest().run:
            raise DamagedFile(f"{path} {CHANGED}", "Put the original back, or remove it to begin new records")
        return dict(kept["trackers"])

    def _mapping(self, name: str) -> dict[str, Any] | None:
        """A JSON file of names with values; None if there is none."""
        content = self._read(name, LARGEST_JSON)
        if content is None:
            return None
        try:
            values = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.path / name} cannot be read: {' '.join(str(error).split())}") from None
        if not isinstance(values, dict):
            raise InputError(f"{self.path / name} cannot be read: expected keys and values")
        return values

    def _read(self, name: str, most: int) -> bytes | None:
        """The content of a small file, None if there is none."""
        path = self.path / name

        def read(manifest: Manifest) -> bytes | None:
            if name not in manifest.files and name != CONFIG:
                return None  # it is not the run's: left by a process that was killed, or put there since
            if not os.path.lexists(path):
                if name in manifest.files and name not in WRITTEN_AGAIN and self.has_run:
                    raise DamagedFile(f"{path} is missing")
                return None
            content = read_regular(path, most, "a file of a run")
            manifest.check(path, name, Checksum.of(content))
            return content

        return self._consistent(name, read)

    def _consistent(self, name: str, read: Callable[[Manifest], Read]) -> Read:
        """What `read` makes of a file, given the manifest; again if that has changed meanwhile."""
        while True:
            manifest = self.manifest()
            try:
                return read(manifest)
            except UnreadableFile:
                raise
            except InputError as error:
                if self.manifest() == manifest:
                    what = error.what if isinstance(error, DamagedFile) else str(error)
                    raise DamagedFile(what, self._remedy(name)) from None

    def _remedy(self, name: str) -> str:
        """What to do about a file that is missing or damaged."""
        if name == CONFIG:
            return f"Put the original back; other settings are a new run: smofi run {self.config_file} --output NEW"
        if name in WRITTEN_AGAIN or name == BEST:
            remove = ", or remove it" if (self.path / name).exists() else ""
            then = "does without it" if name == BEST else "writes it again"
            return f"Put the original back{remove}: smofi run --resume {self.path} {then}"
        if name.startswith(f"{CHECKPOINTS}/"):
            return f"Put the original back; smofi run --resume {self.path} goes on from an earlier round if it can"
        return f"Put the original back, or start anew in another folder: smofi run {self.config_file} --output NEW"


def rounds_in(manifest: Manifest) -> list[int]:
    """The rounds whose state a manifest lists, ascending.

    >>> rounds_in(Manifest("a", {ROUND.format(7): [], BEST: []}))
    [7]
    """
    return sorted(round for name in manifest.files if (round := round_of(name)) is not None)


def round_of(name: str) -> int | None:
    """The round whose state has this name, None for another file."""
    found = re.fullmatch(r"checkpoints/round-(\d{6,})\.safetensors", name)
    return int(found[1]) if found else None
