"""Configured runs with folders of their own: started, resumed, and several methods side by side.

Public: the names in `__all__`.
"""

from typing import TYPE_CHECKING

from smofi.config.reading import stored_config
from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.experiment.opening import FolderRun, start
    from smofi.experiment.resuming import resume
else:
    load_later(__name__, opening="FolderRun start", resuming="resume")

__all__ = ["FolderRun", "resume", "start", "stored_config"]
