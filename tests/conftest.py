"""One thread per test process, in its children too, the same examples in every run, and a cache of its own."""

import gc
import os
import sys
from pathlib import Path

gc.disable()  # until all tests are collected, which leaves next to no garbage
os.environ.setdefault("OMP_NUM_THREADS", "1")

# PYTHONDONTWRITEBYTECODE, which many containers set, keeps folders of sources clean. Byte code is kept all the same, in a
# folder of its own: or every process of the tests compiles all of torch again, which takes it seconds.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "byte-code")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import atexit
import shutil
import tempfile

import pytest
import torch
from hypothesis import settings

from smofi.cores import available_cores

torch.set_num_threads(1)
os.environ["SMOFI_WORKERS"] = "1"  # what several do, the tests of it ask for
os.environ["SMOFI_DATA"] = tempfile.mkdtemp(prefix="smofi-tests-")
atexit.register(shutil.rmtree, os.environ["SMOFI_DATA"], ignore_errors=True)

# HYPOTHESIS_PROFILE=default looks for new examples instead.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Imported by tests, not collected for doctests.
collect_ignore = ["reference.py"]


def pytest_collection_finish() -> None:
    """What is there before the first test stays: the collector of cycles need not look through it again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: many tests wait for a process, a connection or a browser."""
    return available_cores() * 3 // 2
