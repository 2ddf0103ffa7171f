"""Saving a run in its folder: when to save what."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from smofi.engine.run import Run
from smofi.errors import SmofiError
from smofi.runs import FolderLock, RunFolder, RunWriter, StoredCheckpoint, resuming_command
from smofi.training import Result

KEPT_CHECKPOINTS = 2
"""The number of newest checkpoints that are kept."""


class NotSaved(SmofiError):
    """A run whose end could not be saved; it has a result all the same."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class RunKeeper:
    """Saves a run's rounds in a folder, which no other process may write until `close`.

    A finished run whose last state is lost has none to save.
    """

    def __init__(self, path: Path, checkpoint_every: int) -> None:
        self.folder, self.every = RunFolder(path), checkpoint_every
        self.unsaved, self.has_state = False, True
        self.lock = FolderLock(path)
        try:
            self.writer = RunWriter(self.folder)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let others write."""
        self.lock.release()

    def after_round(self, run: Run) -> None:
        """Append the record; save a checkpoint when one is due. If the disk fails, it is tried again after every
        round. At the end of the run, `finish` saves the model first."""
        try:
            self.writer.append_records(run.history)
            ends = run.over and not run.cut_short and not run.diverged
            if (self.unsaved or run.over or len(run.history) % self.every == 0) and not ends:
                self.unsaved = True
                self._save(run)
            else:
                self.keep_best(run)
            if run.diverged:  # the last good round may have been evaluated since
                self.writer.write_records(map(asdict, run.history))
        except OSError as error:
            self.unsaved = True
            run.warn(
                f"round {len(run.history)} could not be saved in {self.folder.path}: {error.strerror}; {self._safe()}. "
                f"The run goes on and tries again after the next round."
            )

    def finish(self, run: Run, result: Result) -> None:
        """Write the final model and how the run ended, then the last state, from which more rounds may follow.

        Raises NotSaved if the model, or the state of an interrupted run, is not saved.
        """
        try:
            self.writer.append_records(run.history)
            if not run.cut_short:
                self.writer.write_end(result.model.state_dict(), _result(run))
        except OSError as error:
            self._save_at_least_the_state(run)
            path = self.folder.path
            raise NotSaved(
                f"the result could not be written to {path}: {error.strerror}; {self._safe()}. "
                f"Free some space and continue with: {resuming_command(self.folder)}",
                result,
            ) from error
        try:
            if self.has_state and (self.unsaved or len(run.history) not in self.writer.saved_rounds):
                self._save(run)
        except OSError as error:
            lost = f"the state after round {len(run.history)} could not be saved: {error.strerror}; {self._safe()}"
            if run.cut_short:
                raise NotSaved(f"{lost}. Continue from there with: {resuming_command(self.folder)}", result) from error
            run.warn(f"{lost}. The final model is saved; more rounds would have to go on from there.")

    def _save(self, run: Run) -> None:
        self.writer.save(stored(run), KEPT_CHECKPOINTS, best=self._is_best(run))
        self.unsaved = False
        ended = self.writer.ended
        if ended is not None and ended < len(run.history):
            self.writer.remove_end()  # it is of earlier rounds, and a later state is safe

    def _save_at_least_the_state(self, run: Run) -> None:
        try:
            self._save(run)
        except OSError:  # the caller reports which rounds are safe
            self.unsaved = True

    def keep_best(self, run: Run) -> None:
        """Save the state after the last round if it is the best one."""
        if self._is_best(run):
            self.writer.save_best(stored(run))

    def _is_best(self, run: Run) -> bool:
        return self.has_state and bool(run.history) and run.best_round == len(run.history)

    def _safe(self) -> str:
        saved = self.writer.saved_rounds
        return f"the last checkpoint is that of round {saved[-1]}" if saved else "there is no checkpoint yet"


def stored(run: Run) -> StoredCheckpoint:
    """A run's state as plain values."""
    checkpoint = run.checkpoint()
    return StoredCheckpoint(len(checkpoint.history), checkpoint.tensors, checkpoint.notes)


def _result(run: Run) -> dict[str, Any]:
    accuracies = [record.accuracy for record in run.history if record.accuracy is not None]
    return {
        "rounds": len(run.history),
        "stopped": run.stopped,
        "diverged": run.diverged,
        "best_accuracy": max(accuracies, default=None),
    }
