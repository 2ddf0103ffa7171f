"""Every setting of a run, defined once; YAML, flags, the arguments of `smofi.train` and the reference page follow.

Internal: may change without notice.
"""

from smofi.settings.all import (
    COMPUTING,
    FIRST_SEEDS,
    PRECISIONS,
    RESUMABLE,
    SERVED_DEFAULTS,
    SERVED_HELP,
    SETTINGS,
    TRAIN_ARGUMENTS,
    UNSERVED,
    Settings,
    check_served,
)
from smofi.settings.definition import SAME, Setting, seeds_text

__all__ = [
    "COMPUTING",
    "FIRST_SEEDS",
    "PRECISIONS",
    "RESUMABLE",
    "SAME",
    "SERVED_DEFAULTS",
    "SERVED_HELP",
    "SETTINGS",
    "TRAIN_ARGUMENTS",
    "UNSERVED",
    "Setting",
    "Settings",
    "check_served",
    "seeds_text",
]
