"""docs/data.md: its code runs, its names are the program's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from smofi.data.catalogue import CATALOGUE, EMBEDDED, OWN
from smofi.data.readers.hub import HUB

PAGE = (Path(__file__).parents[2] / "docs/data.md").read_text()


def test_the_examples_run(tmp_path: Path) -> None:
    code = "".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
    check = "\nassert len(result.history) == 10 and result.history[-1].accuracy > 0.8, result.history[-1]"
    check += "\nassert inputs.shape == (1437, 1, 8, 8) and targets.shape == (1437,) and len(few) == 10"
    done = subprocess.run(
        [sys.executable, "-c", code + check], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_data_set_is_on_the_page() -> None:
    for name in (*EMBEDDED, *CATALOGUE):
        assert f"| `{name}` |" in PAGE
    for name, hub in HUB.items():
        assert f"`{hub.repository}`" in PAGE, name
    for scheme in OWN:
        assert f"| `{scheme}:" in PAGE
