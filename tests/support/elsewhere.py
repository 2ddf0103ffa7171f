"""An environment in which smofi is not installed: some packages, what they need, and nothing else."""

from __future__ import annotations

import importlib.metadata
import re
import venv
from collections.abc import Iterable
from pathlib import Path


def environment(folder: Path, packages: Iterable[str]) -> Path:
    """Make a virtual environment with links to these packages, as they are installed here; its interpreter."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    (place,) = folder.glob("lib/python*/site-packages")
    for name in _with_needed(packages):
        distribution = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (place / top).exists():
                (place / top).symlink_to(Path(str(distribution.locate_file(top))))
    return folder / "bin" / "python"


def _with_needed(packages: Iterable[str]) -> set[str]:
    """These packages and all that they need, of what is installed."""
    found: set[str] = set()
    waiting = list(packages)
    while waiting:
        name = waiting.pop()
        if name not in found:
            try:
                needed = importlib.metadata.requires(name) or []
            except importlib.metadata.PackageNotFoundError:
                continue  # for another system
            found.add(name)
            waiting += [re.split(r"[^\w.-]", one)[0] for one in needed if "extra ==" not in one]
    return found
