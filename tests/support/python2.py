"""Pickles as Python 2 wrote the official files of CIFAR."""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any, ClassVar


class _Python2(pickle._Pickler):  # type: ignore[name-defined,misc]
    """Writes bytes as the strings of Python 2, and numpy's names as they were."""

    def save_bytes(self, content: bytes) -> None:
        self.write(pickle.BINSTRING + struct.pack("<i", len(content)) + content)
        self.memoize(content)

    dispatch: ClassVar[dict[Any, Any]] = {**pickle._Pickler.dispatch, bytes: save_bytes}  # type: ignore[attr-defined]


def pickled(value: Any) -> bytes:
    file = io.BytesIO()
    _Python2(file, 2).dump(value)
    return file.getvalue().replace(b"cnumpy._core.", b"cnumpy.core.")
