"""What a model card says to do, done."""

import re
from collections.abc import Sequence
from pathlib import Path

LIBRARIES = {"torch": "torch.export", "safetensors": "load_file", "onnx": "onnxruntime"}


def run_card(formats: Sequence[str]) -> None:
    """Run every example of the card in this folder: there is one for each format that was written, and no other."""
    blocks = re.findall(r"```python\n(.*?)```", Path("README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == len(formats)
    for name, library in LIBRARIES.items():
        assert any(library in code for code in blocks) == (name in formats)
    for code in blocks:
        exec(code, {})
