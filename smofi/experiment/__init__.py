"""Configured runs with folders of their own: started, resumed, and several methods side by side.

starting.py      runs in new folders                           resuming.py     runs that go on from where they were
opening.py       a session per method, its folder locked       keeping.py      when to save what
following.py     what the other workers do meanwhile           restoring.py    from the folder back to a run
provenance.py    versions, platform, git state, command        stored.py       the settings of a run that is to go on

Public: the names in `__all__`.
"""

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.experiment.opening import FolderRun
    from smofi.experiment.resuming import resume
    from smofi.experiment.starting import start
    from smofi.experiment.stored import stored_config
else:
    load_later(__name__, opening="FolderRun", resuming="resume", starting="start", stored="stored_config")

__all__ = ["FolderRun", "resume", "start", "stored_config"]
