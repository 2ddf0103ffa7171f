"""What a run has done, kept in its folder: when to save what, and how to go on from there."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from torch import nn

from smofi.engine.checkpoint import Checkpoint
from smofi.engine.events import Record
from smofi.engine.run import Run
from smofi.engine.stopping import best_round
from smofi.errors import SmofiError, refuse
from smofi.runs import DamagedCheckpoint, FolderLock, RunFolder, StoredCheckpoint

KEPT = 2
"""The number of newest checkpoints that are kept."""


class RunKeeper:
    """Saves a run's rounds in a folder, which no other process may write until `close`."""

    def __init__(self, path: Path, checkpoint_every: int) -> None:
        self.folder, self.every = RunFolder(path), checkpoint_every
        self.unsaved = False
        self.lock = FolderLock(path)

    def close(self) -> None:
        """Let others write."""
        self.lock.release()

    def restore(self, run: Run) -> None:
        """Continue from the newest checkpoint that is whole, or from the beginning if there is none."""
        for round in reversed(self.folder.saved_rounds()):
            try:
                run.restore(from_stored(self.folder.checkpoint(round), self.folder.checkpoint_file(round)))
                break
            except DamagedCheckpoint as error:
                run.warn(f"{error}; falling back to the one before")
                self.folder.set_aside(round)
        if len(run.history) > run.rounds:
            done = f"at least {len(run.history)}, the rounds that {self.folder.path} has behind it"
            refuse("rounds", run.rounds, done)
        if not run.over and run.stopping.reason(run.history) is None:
            self.folder.remove_end()  # it is of the rounds so far, and soon outdated
        self._write_records(run)
        if run.over:  # its last round may have been evaluated just now
            self._keep_best(run)

    def after_round(self, run: Run) -> None:
        """Append the record; save a checkpoint when one is due. A disk that refuses is retried after every round."""
        try:
            if self.unsaved or run.diverged:  # the last good round may have been evaluated since
                self._write_records(run)
            else:
                self.folder.append_record(asdict(run.history[-1]))
            if self.unsaved or run.over or len(run.history) % self.every == 0:
                self.unsaved = True
                self._save(run)
                self.unsaved = False
            self._keep_best(run)
        except OSError as error:
            self.unsaved = True
            kept = self.folder.saved_rounds()
            last = f"the last checkpoint is that of round {kept[-1]}" if kept else "there is no checkpoint yet"
            run.warn(
                f"round {len(run.history)} could not be saved in {self.folder.path}: {error.strerror}; {last}. "
                f"The run goes on and tries again after the next round."
            )

    def finish(self, run: Run, model: nn.Module) -> None:
        """Write the final model and how the run ended; raises a SmofiError if that, or the last round, is not saved."""
        accuracies = [record.accuracy for record in run.history if record.accuracy is not None]
        result = {
            "rounds": len(run.history),
            "stopped": run.stopped,
            "diverged": run.diverged,
            "best_accuracy": max(accuracies, default=None),
        }
        try:
            if self.unsaved:
                self._write_records(run)
                self._save(run)
            if not run.cut_short:
                self.folder.write_end(model.state_dict(), result)
        except OSError as error:
            path, kept = self.folder.path, self.folder.saved_rounds()
            raise SmofiError(
                f"the result could not be written to {path}: {error.strerror}; rounds with a checkpoint: "
                f"{', '.join(map(str, kept)) or 'none'}. Make room and continue with: smofi run --resume {path}"
            ) from error

    def _write_records(self, run: Run) -> None:
        self.folder.write_records(asdict(record) for record in run.history)

    def _save(self, run: Run) -> None:
        self.folder.save_checkpoint(to_stored(run.checkpoint()), KEPT)

    def _keep_best(self, run: Run) -> None:
        if run.history and best_round(run.history) == len(run.history):
            self.folder.save_best(to_stored(run.checkpoint()))


def to_stored(checkpoint: Checkpoint) -> StoredCheckpoint:
    """A run's state as plain values."""
    return StoredCheckpoint(checkpoint.tensors, [asdict(record) for record in checkpoint.history], checkpoint.notes)


def from_stored(stored: StoredCheckpoint, path: Path) -> Checkpoint:
    """The same the other way round; `path` is the file that an error names."""
    try:
        return Checkpoint(stored.tensors, [Record(**record) for record in stored.history], stored.notes)
    except TypeError as error:
        raise DamagedCheckpoint(f"{path} cannot be read as a checkpoint: {error}") from error
