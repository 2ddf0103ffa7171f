"""What a result depends on: the command, versions, the commit, the machine."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from shared.internals import provenance

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("--results", "--folder", "--picture")
"""Options that say where something lies on this machine, and nothing about what was measured."""


def about(command: Sequence[str]) -> dict[str, Any]:
    """Versions, commit, machine and time."""
    return {
        **provenance(shown(command)),
        "cores": os.cpu_count(),
        "cpu": cpu_name(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "vectors": torch.backends.cpu.get_cpu_capability(),
    }


def shown(command: Sequence[str]) -> str:
    """A command as one types it in the project's folder, without the options that name files.

    >>> shown([str(ROOT / "benchmarks/fusion.py"), "--results", "a.jsonl", "--models", "digits"])
    'python benchmarks/fusion.py --models digits'
    """
    words = [os.path.relpath(command[0], ROOT)]
    for before, word in pairwise(command):
        if before not in PLACES and word not in PLACES:
            words.append(word)
    return "python " + shlex.join(words)


def cpu_name() -> str:
    """The processor's name as the system has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
