"""Configured runs with folders of their own: started, resumed, and several methods side by side.

starting.py      runs in new folders                           resuming.py     runs that go on from where they were
opening.py       a session per method, its folder locked       keeping.py      when to save what
following.py     what the other workers do meanwhile           restoring.py    from the folder back to a run
provenance.py    versions, platform, git state, command

Public: the names in `__all__`.
"""

from smofi.experiment.opening import FolderRun
from smofi.experiment.resuming import resume, stored_config
from smofi.experiment.starting import start

__all__ = ["FolderRun", "resume", "start", "stored_config"]
