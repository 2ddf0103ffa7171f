"""Real data that lies beside the project on some machines; the tests that use it are skipped on others."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / ".." / "shared" / "data"


def shared(name: str) -> Path:
    """The path of a file there."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"{name} is not on this machine")
    return path
