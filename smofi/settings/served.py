"""Settings where clients are real: some mean nothing there, which `smofi serve` refuses and its help leaves out; of
others, its help says what they mean there."""

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
    "executor": "auto: each client computes for itself",
}
"""What a server accepts for such a setting, and why, by name."""

ALIKE = {"executor": ("loop",)}
"""Values that mean the same as the default: folders of served runs had them."""

SERVED_HELP = {
    "data": "what samples look like, and the test data: a data set that `smofi data` lists, or your own: folder:PATH, "
    "npz:PATH, csv:PATH, python:module:function",
    "max_train": "use this many training samples at most, the first ones: of the server's data, which is not trained "
    "on, and of clients that join with --part",
    "clients": "how many clients take part; a round waits for that many, or for --min-clients",
    "partition": "for clients that join with --part alone, in trials: how the data is divided among them",
    "target_accuracy": "stop once this accuracy (or judged metric) is reached, such as 0.9, where the model is tested",
    "metrics": "one or more of top1 and macro_f1; the first is judged",
    "workers": "of how many clients the server's passes are computed at a time, in threads; by default what a quick "
    "measurement favours",
    "memory_limit": "memory of the server, such as 2GB: a run that needs more is refused",
    "checkpoint_every": "rounds between checkpoints; whatever its file says, a server saves every round, unless this "
    "option says otherwise",
}
"""What a setting means to a server, where that is not what it means to a simulation."""

SERVED_DEFAULTS = {"checkpoint_every": 1}
"""Defaults of a server, where they are not those of a simulation."""


def check_served(given: Mapping[str, Any]) -> None:
    """Refuse settings that mean nothing where clients are real, unless they have their defaults.

    >>> check_served({"clock": "none", "rounds": 3})
    >>> check_served({"clock": "full"})
    Traceback (most recent call last):
    smofi.errors.InputError: clock='full' is not accepted: expected none: clients are real, and so is the time they take
    """
    for name, accepted in UNSERVED.items():
        value = given.get(name, SETTINGS[name].default)
        if value not in (SETTINGS[name].default, ALIKE.get(name)):
            refuse(name, ", ".join(value) if isinstance(value, tuple) else value, accepted)
