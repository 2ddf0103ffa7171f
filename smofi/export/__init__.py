"""A trained model to use elsewhere: as safetensors with a model card, by `torch.export`, as ONNX; whole or one part.

Public: the names in `__all__`.
"""

from __future__ import annotations

from smofi.export.run import Exported, export_run

__all__ = ["Exported", "export_run"]
