"""One thread per test process, in its children too, the same examples in every run, and a cache of its own."""

import gc
import os

import support.byte_code  # noqa: F401

os.environ.setdefault("OMP_NUM_THREADS", "1")

import atexit
import shutil
import tempfile

import pytest
import torch
from hypothesis import settings

from smofi.memory import available_cores

torch.set_num_threads(1)
os.environ["SMOFI_WORKERS"] = "1"  # what several do, the tests of it ask for
os.environ["SMOFI_DATA"] = tempfile.mkdtemp(prefix="smofi-tests-")
atexit.register(shutil.rmtree, os.environ["SMOFI_DATA"], ignore_errors=True)

# HYPOTHESIS_PROFILE=default looks for new examples instead.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Imported by tests, not collected for doctests.
collect_ignore = ["reference.py"]


def pytest_configure() -> None:
    """While tests are collected, next to nothing becomes garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What is there before the first test stays: the collector of cycles need not look through it again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: many tests wait for a process, a connection or a browser."""
    return available_cores() * 3 // 2
