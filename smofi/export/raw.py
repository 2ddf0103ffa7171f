"""From raw input to the model's: preprocessing.json, and the program that follows it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smofi.export.trained import TrainedRun

PREPROCESSING = "preprocessing.json"
FORMAT = 1
"""Of preprocessing.json: increase it when a field changes its meaning."""

STANDALONE = Path(__file__).parent / "standalone"
RUNNABLE = {"torch", "onnx"}
"""The formats that hold the computation as well as the weights."""


def preprocessing(run: TrainedRun) -> dict[str, Any]:
    """All that turns raw input into the whole model's, and its outputs into classes; `raw_input` is None if unknown."""
    task, example = run.task, run.task.example(1)
    moments = {"mean": list(task.mean), "deviation": list(task.deviation)} if task.mean else None
    known: dict[str, Any] = {"raw_input": None, "resize_by_area": [], "standardise": moments}
    return {
        "format": FORMAT,
        **known,
        **(task.preparation or {}),
        "model_input": {
            "type": str(example.dtype).removeprefix("torch."),
            "shape": ["batch", *example.shape[1:]],
        },
        "classes": list(task.classes),
    }


def why_no_program(run: TrainedRun, part: str | None, formats: Sequence[str]) -> str | None:
    """Why there cannot be a predict.py, as a clause; None if there can."""
    if part is not None:
        return "it needs the whole model"
    kind = (run.task.preparation or {}).get("raw_input", {}).get("kind")
    if kind is None:
        return "the run folder does not say how raw input was prepared"
    if not _reader(kind).is_file():
        return f"it cannot read raw input of the kind {kind!r}"
    if not RUNNABLE & set(formats):
        return "it needs the model in the format torch or onnx"
    return None


def copy_program(run: TrainedRun, folder: Path) -> list[str]:
    """Put predict.py into a folder, with what reads this kind of raw input."""
    assert run.task.preparation is not None
    sources = [STANDALONE / "predict.py", _reader(run.task.preparation["raw_input"]["kind"])]
    for source in sources:
        shutil.copyfile(source, folder / source.name)
    return [source.name for source in sources]


def without_places(value: Any) -> Any:
    """A setting without the folders of this machine: of a path that begins at its root or home, the last part.

    >>> without_places("csv:~/own/my table.csv"), without_places("dirichlet(0.2)")
    ('csv:my table.csv', 'dirichlet(0.2)')
    """
    if isinstance(value, (list, tuple)):
        return [without_places(one) for one in value]
    if not isinstance(value, str):
        return value
    return re.sub(r"""(?:^|(?<=[:=(,\s"']))[/~][^,()"']*""", lambda found: Path(found[0]).name, value)


def _reader(kind: str) -> Path:
    return STANDALONE / f"read_{kind}.py"
