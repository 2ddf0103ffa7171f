"""Configured runs with folders of their own: started, resumed, and several methods side by side."""

from smofi.experiment.runs import FolderRun, resume, start, stored_config

__all__ = ["FolderRun", "resume", "start", "stored_config"]
