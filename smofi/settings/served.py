"""The settings that mean nothing where clients are real: `smofi serve` refuses them, and its help leaves them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smofi.errors import refuse
from smofi.settings.all import SETTINGS

NO_CLOCK = "none of a clock's settings: clients are real, and so is the time they take"

UNSERVED = {name: NO_CLOCK for name, one in SETTINGS.items() if one.timing} | {
    "clock": "none: clients are real, and so is the time they take",
    "step_deadline": "null: clients are real, and so is their time; --deadline says how long a step waits for a client",
    "validation": "0: the training data is with the clients",
    "patience": "null: nothing can be held out for validation, as the training data is with the clients",
    "diagnose": "false: it needs the gradients of whole models, which no machine has",
    "compile": "false: the model is split",
}
"""What a server accepts for such a setting, and why, by name."""


def check_served(given: Mapping[str, Any]) -> None:
    """Refuse settings that mean nothing where clients are real, unless they have their defaults.

    >>> check_served({"clock": "none", "rounds": 3})
    >>> check_served({"clock": "full"})
    Traceback (most recent call last):
    smofi.errors.InputError: clock='full' is not accepted: expected none: clients are real, and so is the time they take
    """
    for name, accepted in UNSERVED.items():
        if name in given and given[name] != SETTINGS[name].default:
            refuse(name, given[name], accepted)
