"""A trained model to use elsewhere: as safetensors with a model card, by `torch.export`, as ONNX; whole or one side.

Public: the names in `__all__`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.export.exporting import Exported, export_run
    from smofi.export.request import FORMATS
else:
    load_later(__name__, exporting="Exported export_run", request="FORMATS")

__all__ = ["FORMATS", "Exported", "export_run"]
