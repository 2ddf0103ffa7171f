"""Configured runs with folders of their own: started, resumed, and several methods side by side.

Public: the names in `__all__`.
"""

from smofi.engine.processes.workers import follows, workers
from smofi.experiment.runs import FolderRun, follow, follow_on, resume, start, stored_config, worker_count

__all__ = [
    "FolderRun",
    "follow",
    "follow_on",
    "follows",
    "resume",
    "start",
    "stored_config",
    "worker_count",
    "workers",
]
