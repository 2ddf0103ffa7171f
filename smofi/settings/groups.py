"""Settings that have something in common."""

from __future__ import annotations

from smofi.settings.all import SETTINGS

TRAIN_ARGUMENTS = {name: one for name, one in SETTINGS.items() if one.argument}
"""The settings that are arguments of `smofi.train` too."""

RESUMABLE = frozenset(name for name, one in SETTINGS.items() if one.resumable)
"""The settings that may change when a run is resumed; devices' files may move, and must say the same."""
