"""What the files of a run folder say at this moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from smofi.config import Config, run_config
from smofi.engine.metrics import headings
from smofi.report.history import History, finite
from smofi.report.progress import RunProgress
from smofi.runs import DamagedFile, Participant, RunFolder, folders_in, participants_in, writer_of


@dataclass(frozen=True)
class Snapshot:
    """One run folder, as it was when it was read; `damaged` are files that are not shown and not what the run saved
    them. `clients` are those of a served run."""

    folder: RunFolder
    config: Config
    about: Mapping[str, Any]
    records: list[dict[str, Any]]
    result: Mapping[str, Any] | None
    writer: str | None
    damaged: list[DamagedFile]
    clients: list[Participant] | None = None

    @classmethod
    def read(cls, folder: RunFolder) -> Snapshot:
        """Read a folder. The writer is looked for first: if it ends meanwhile, its result is read."""
        writer, damaged, clients = writer_of(folder.path), folder.damaged(), None
        try:
            clients = participants_in(folder)
        except DamagedFile as error:
            damaged, clients = [*damaged, error], []
        return cls(
            folder,
            config=run_config(folder) or Config(),
            about=folder.about() or {},
            records=folder.records(),
            result=folder.result(),
            writer=writer,
            damaged=damaged,
            clients=clients,
        )

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def method(self) -> str:
        return " ".join(self.config.method)

    @cached_property
    def history(self) -> History:
        metrics = self.about.get("metrics") or headings(self.config.metrics)  # earlier versions kept none
        chance = self.about.get("chance")
        return History.of(self.method, self.records, seed=self.config.seed, metrics=metrics, chance=chance)

    @property
    def progress(self) -> RunProgress:
        return RunProgress(self.history, self.config.rounds)

    @property
    def evaluated(self) -> list[int]:
        """The rounds after which anything was measured."""
        return [
            number
            for number, record in enumerate(self.records, start=1)
            if record.get("metrics") or any(record.get(name) is not None for name in ("accuracy", "loss", "validation"))
        ]

    @property
    def state(self) -> str:
        """Finished, still going, interrupted or diverged. A result from before a resume does not count."""
        if self.writer:
            return "still going"
        if self.result and self.result.get("rounds") == len(self.records):
            if self.result.get("diverged"):
                return "diverged"
            if self.result.get("stopped") or len(self.records) >= self.progress.rounds:
                return "finished"
        return "interrupted"

    @property
    def stopped(self) -> str:
        """Why the run ended early; empty if it did not."""
        return str((self.result or {}).get("stopped") or "")

    def values(self, name: str) -> list[Any]:
        """Those of a field that is a list in each record, of all rounds."""
        return [value for record in self.records for value in record.get(name) or ()]

    @cached_property
    def diagnostics(self) -> dict[str, list[float]]:
        """The values of each measure in the rounds that have it."""
        found: dict[str, list[float]] = {}
        for record in self.records:
            for name, value in (record.get("diagnostics") or {}).items():
                found.setdefault(name, []).extend(finite([value]))
        return {name: values for name, values in found.items() if values}


def snapshots_in(folder: str | Path) -> list[Snapshot]:
    """The run whose folder this is, or those of a comparison, in the order of its configuration."""
    path = Path(folder)
    runs = [Snapshot.read(one) for one in folders_in(path)]
    if runs[0].path != path:
        run_config(RunFolder(path))  # refused if it is not as it was saved
    return runs
