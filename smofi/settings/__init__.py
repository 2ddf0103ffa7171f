"""Every setting of a run, defined once; YAML, flags, the arguments of `smofi.train` and the reference page follow.

definition.py   what a definition says: default, check, help, the argument in Python, may it change on resume; and
                a model whose fields are checked by it
checks.py       what a setting accepts: numbers, words, strings that stand for something, as values or written as text
seeds.py        several seeds as they are written, such as 0-2
data.py         the settings of the data, which come first
all.py          all settings, in the order in which they are written and shown
served.py       what they mean where clients are real, and which of them mean nothing

Internal: may change without notice.
"""

from smofi.settings.all import COMPUTING, FIRST_SEEDS, PRECISIONS, RESUMABLE, SETTINGS, TRAIN_ARGUMENTS, Settings
from smofi.settings.definition import SAME, Setting
from smofi.settings.seeds import seeds_text
from smofi.settings.served import SERVED_DEFAULTS, SERVED_HELP, UNSERVED, check_served

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
