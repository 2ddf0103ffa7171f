"""docs/data.md: its code runs, its names are the program's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from smofi.data.catalogue import CATALOGUE, EMBEDDED, OWN
from smofi.data.readers.hub import HUB

PAGE = (Path(__file__).parents[2] / "docs/data.md").read_text()


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(code, found)
    history = found["result"].history
    assert len(history) == 10
    assert history[-1].accuracy > 0.8
    assert (found["inputs"].shape, found["targets"].shape) == ((1437, 1, 8, 8), (1437,))
    assert len(found["few"]) == 10


def test_every_data_set_is_on_the_page() -> None:
    for name in (*EMBEDDED, *CATALOGUE):
        assert f"| `{name}` |" in PAGE
    for name, hub in HUB.items():
        assert f"`{hub.repository}`" in PAGE, name
    for scheme in OWN:
        assert f"| `{scheme}:" in PAGE
