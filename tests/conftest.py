"""One thread per test process, in its children too, and the same examples in every run."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from hypothesis import settings

torch.set_num_threads(1)

# HYPOTHESIS_PROFILE=default looks for new examples instead.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Imported by tests, not collected for doctests.
collect_ignore = ["reference.py"]
