"""Where a result comes from: versions, platform, git state, time and command."""

from __future__ import annotations

import platform
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGES = ("smofi", "torch", "numpy", "safetensors")


def provenance(command: str) -> dict[str, Any]:
    """What to note down when a run starts.

    >>> sorted(provenance("smofi run"))[:3]
    ['command', 'git', 'numpy']
    """
    return {
        **{name: _version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "git": _git_state(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": command,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git_state() -> dict[str, Any] | None:
    """The commit of the working folder and whether anything is changed since, None outside a repository."""
    try:
        commit, status = (
            subprocess.run(["git", *words], capture_output=True, text=True, timeout=5, check=True).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "dirty": bool(status)}
