"""Going on from what a folder has: the newest state that is whole, or a finished run's end. Nothing is restarted."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from smofi.engine.checkpoint import Checkpoint
from smofi.engine.events import Record
from smofi.engine.run import Run
from smofi.errors import InputError, refuse
from smofi.experiment.keeping import RunKeeper
from smofi.models.former import refuse_former
from smofi.plural import plural
from smofi.runs import DamagedFile, RunFolder, StoredCheckpoint, UnreadableFile
from smofi.training import Session


@dataclass(frozen=True)
class Restored:
    """A run that is what it was when it was last saved, and what its folder lacks: states and other files."""

    keeper: RunKeeper
    run: Run
    unusable: Mapping[int, DamagedFile]
    missing: Sequence[str]

    def write(self) -> None:
        """Make the folder go with it: nothing is listed that is lost, and the rounds since then are cut off."""
        run, folder, writer = self.run, self.keeper.folder, self.keeper.writer
        wrong = [error.what for error in self.unusable.values()]
        wrong += [f"{folder.path / name} is missing" for name in self.missing]
        if wrong:
            needs = "the run is finished, and needs no state" if run.over else f"going on from round {len(run.history)}"
            run.warn(f"{'; '.join(wrong)}; {needs}")
        for round in self.unusable:
            writer.set_aside(round)
        writer.forget(self.missing)
        writer.write_records(map(asdict, run.history))
        if run.over:  # its last round may have been evaluated just now
            self.keeper.keep_best(run)


def restore(keeper: RunKeeper, session: Session) -> Restored:
    """Make a run what it was when it was last saved. Raises InputError if that is lost; changes no file."""
    run, folder = session.run, keeper.folder
    missing = keeper.writer.missing()
    history = [record_of(fields, folder, run.evaluator.gives_loss) for fields in folder.saved_records()]
    ended = keeper.writer.ended
    found, unusable = _newest(session, folder, len(history))
    done = max(ended or 0, found.round if found else 0)
    if done > run.rounds:
        refuse("rounds", run.rounds, f"at least {done}, the rounds that {folder.path} has already done")
    if ended is not None and (found is None or found.round < ended) and _nothing_left(run, history[:ended]):
        _restore_end(session, keeper, history[:ended])
    elif found is not None:
        run.restore(Checkpoint(found.tensors, history[: found.round], found.notes))
    elif unusable or ended is not None or history:
        raise InputError(_lost(folder, ended, unusable))
    return Restored(keeper, run, unusable, missing)


def record_of(fields: Mapping[str, Any], folder: RunFolder, gives_loss: bool = True) -> Record:
    """A round as a run has it: JSON has null for numbers that are not finite, and for a test loss that was not asked
    for."""
    try:
        record = Record(**fields)
    except TypeError as error:
        raise InputError(f"{folder.path} has the rounds of another version of smofi: {error}") from None
    numbers = {name: math.nan for name in ("train_loss", "seconds", "learning_rate") if fields[name] is None}
    if record.metrics and record.loss is None and gives_loss:
        numbers["loss"] = math.nan
    diagnostics = {name: math.nan if value is None else value for name, value in record.diagnostics.items()}
    return Record(**{**fields, **numbers, "diagnostics": diagnostics})


def _newest(session: Session, folder: RunFolder, rounds: int) -> tuple[StoredCheckpoint | None, dict[int, DamagedFile]]:
    """The newest state that is whole and of this run, and why newer ones are not."""
    unusable: dict[int, DamagedFile] = {}
    for round in reversed(folder.saved_rounds()):
        try:
            checkpoint = folder.checkpoint(round)
            _check_fits(checkpoint, session, folder, rounds)
            return checkpoint, unusable
        except UnreadableFile:
            raise  # it may be whole
        except DamagedFile as error:
            unusable[round] = error
    return None, unusable


def _check_fits(checkpoint: StoredCheckpoint, session: Session, folder: RunFolder, rounds: int) -> None:
    """Refuse a state of another model or another method."""
    mine = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in session.run.state.tensors().items()}
    theirs = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in checkpoint.tensors.items()}
    if mine != theirs:
        if "weights" in checkpoint.tensors:
            refuse_former(session.model, checkpoint.tensors["weights"].numel(), folder.path, folder.config_file)
        name = next(name for name in sorted({*mine, *theirs}) if mine.get(name) != theirs.get(name))
        raise DamagedFile(
            f"{folder.path}: the checkpoint of round {checkpoint.round} is of another model or method: {name} is "
            f"{theirs.get(name, 'missing')}, expected {mine.get(name, 'none')}"
        )
    if not 0 <= checkpoint.round <= rounds:
        raise DamagedFile(f"{folder.path}: round {checkpoint.round} has a checkpoint, but only {rounds} are on record")


def _nothing_left(run: Run, history: list[Record]) -> bool:
    return len(history) >= run.rounds or run.stopping.reason(history) is not None


def _restore_end(session: Session, keeper: RunKeeper, history: list[Record]) -> None:
    """A finished run from its model: its last state is lost, and no longer needed."""
    run, model, folder = session.run, copy.deepcopy(session.model), keeper.folder
    stored = folder.model()
    try:
        model.load_state_dict(stored)
    except RuntimeError as error:
        refuse_former(model, sum(one.numel() for one in stored.values()), folder.path, folder.config_file)
        raise InputError(f"{folder.model_file} does not fit the run's configuration: {error}") from None
    weights, statistics = session.layout.pack(model, run.state.weights.device)
    run.state.weights.copy_(weights)
    run.state.statistics.copy_(statistics)
    run.history, keeper.has_state = history, False


def _lost(folder: RunFolder, ended: int | None, unusable: Mapping[int, DamagedFile]) -> str:
    """Why a run cannot go on, and what to do."""
    lost = "; ".join(error.what for error in unusable.values()) or "there is none"
    why = "the state to go on from is lost"
    if ended is not None:
        why = f"it is finished after {plural(ended, 'round')}, and more need its last state"
    return (
        f"{folder.path} cannot go on: {why}: {lost}. Put the file back, or start anew in another folder: "
        f"smofi run {folder.config_file} --output NEW"
    )
