"""From a run folder to files that plain torch, ONNX Runtime or a model hub can use."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import smofi
from smofi.cut import Cut, CutSpec
from smofi.errors import InputError, check_path
from smofi.export.card import model_card
from smofi.export.raw import PREPROCESSING, RUNNABLE, copy_program, preprocessing, why_no_program, without_places
from smofi.export.request import FORMATS, checked_destination, chosen_formats
from smofi.export.trained import TrainedRun, chosen_cut, pieces, read_run


@dataclass(frozen=True)
class Exported:
    """What was written, and what the user should know: formats left out, a run that had not finished."""

    folder: Path
    files: tuple[str, ...]
    notes: tuple[str, ...]


def export_run(
    folder: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    formats: Sequence[str] | None = None,
    part: str | None = None,
    cut: CutSpec | None = None,
    best: bool = False,
) -> Exported:
    """Write the trained model of a run folder into `destination`, a new or an empty folder, with a model card.

    formats   of "safetensors", "torch" (`torch.export`) and "onnx"; if not given, all whose packages are installed
    part      "client" or "server" for one side of the cut; the client of a U-shaped cut has two modules, front and back
    cut       where to split the model, if not where the run did; needed if the run was cut at several places
    best      the model of the round with the best validation accuracy, rather than the last one

    >>> export_run("no/such/run", "exported")
    Traceback (most recent call last):
    smofi.errors.InputError: no/such/run is not a run folder: it has no config.yaml
    """
    chosen, notes = chosen_formats(formats)
    target = checked_destination(check_path("destination", destination))
    run = read_run(check_path("folder", folder), best)
    where = chosen_cut(run, part, cut)
    modules = pieces(run, part, where)
    notes += [error.what for error in run.damaged]
    missing = why_no_program(run, part, chosen)
    if missing and part is None and RUNNABLE & set(chosen):
        notes.append(f"predict.py is left out: {missing}")
    if run.unfinished and not best:
        notes.append(f"the run has not finished: exported its checkpoint after round {run.latest.get('round', 0)}")
    unfinished = target.with_name(f".{target.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        unfinished.mkdir(parents=True)
        files = [name for one in chosen for name in FORMATS[one](unfinished, modules, _about(run, part, where))]
        (unfinished / PREPROCESSING).write_text(_as_json(preprocessing(run)), encoding="utf-8")
        files += [PREPROCESSING, *([] if missing else copy_program(run, unfinished))]
        (unfinished / "README.md").write_text(model_card(run, part, where, modules, files, missing), encoding="utf-8")
        _share(unfinished)
        os.replace(unfinished, target)
    except OSError as error:
        raise InputError(f"destination={str(target)!r} is not accepted: {error.strerror or error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return Exported(target, (*files, "README.md"), tuple(notes))


def _share(folder: Path) -> None:
    """Give every file the mode of a file that was simply written: safetensors' own is for the owner's eyes alone."""
    mode = stat.S_IMODE((folder / PREPROCESSING).stat().st_mode)
    for path in folder.iterdir():
        path.chmod(mode)


def _as_json(value: dict[str, Any]) -> str:
    """As JSON with a line for each fact, however long."""
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _about(run: TrainedRun, part: str | None, cut: Cut | None) -> dict[str, Any]:
    return {
        "version": smofi.__version__,
        "config": {key: without_places(value) for key, value in run.config.items()},
        "part": part,
        "cut": str(cut) if cut else None,
        "round": run.latest.get("round"),
        "accuracy": run.latest.get("accuracy"),
    }
