"""A trained model to use elsewhere: as safetensors with a model card, by `torch.export`, as ONNX; whole or one side.

run.py       from a run folder to a folder of files            trained.py   the run, its model and its task, as read
pieces.py    what the client and what the server computes      formats.py   safetensors, torch.export, ONNX
raw.py       preprocessing.json, predict.py                     standalone/  what is copied: predict.py and its readers
card.py      the model card                                     described.py  its words about raw input
request.py   what is asked, and refused without torch

Public: the names in `__all__`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.export.request import FORMATS
    from smofi.export.run import Exported, export_run
else:
    load_later(__name__, request="FORMATS", run="Exported export_run")

__all__ = ["FORMATS", "Exported", "export_run"]
