"""The page on exporting is run, block by block, where the run it speaks of is."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.run_folder import finished

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.slow
def test_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(BLOCKS) == 5
    (tmp_path / "runs").mkdir()
    finished(tmp_path / "runs" / "first")
    monkeypatch.chdir(tmp_path)
    np.savetxt("digits.csv", np.arange(128).reshape(2, 64) % 17, fmt="%d", delimiter=",")
    for code in BLOCKS:
        exec(code, {})
    for command in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL):
        python, *arguments = command.split()
        assert python == "python"
        printed = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True).stdout
        header, *rows = printed.splitlines()
        assert f"    {header}\n" in PAGE
        assert [row.split(",")[0] for row in rows] == ["digits.csv[0]", "digits.csv[1]"]


def test_loading_takes_ten_lines_of_plain_torch() -> None:
    for code in BLOCKS[1:]:
        assert len([line for line in code.splitlines() if line.strip()]) <= 10
        assert "smofi" not in code
