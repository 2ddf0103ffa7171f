"""The bare base of a method: what it is compared with."""

from __future__ import annotations

from dataclasses import fields

from smofi.errors import InputError
from smofi.imported import PREFIX
from smofi.method import Method
from smofi.methods.registry import EXAMPLE, parse_method
from smofi.spec import Call, read_calls

PLAIN = "fedavg"
OF_THE_GRADIENT = {"name", "pull", "decay", "limit"}
"""The slots of a base: it changes a client's gradient, and nothing else of the round."""


def bare_base(method: str) -> str:
    """What is left of a method without its plugins: FedProx, FedNAR or clipping, else FedAvg. A base is its own.

    >>> bare_base("fedprox(mu=0.01)+smofi"), bare_base("fednar"), bare_base('sflv1("epoch")'), bare_base("smofi")
    ('fedprox(mu=0.01)', 'fednar', 'fedavg', 'fedavg')
    """
    try:
        parts = [parse_method(str(call)) for call in read_calls("method", method, EXAMPLE) if not _is_own(call)]
    except InputError:  # not a method of ours, such as the name that a curve was given
        return PLAIN
    return "+".join(part.name for part in parts if part.name != PLAIN and _is_base(part)) or PLAIN


def _is_own(call: Call) -> bool:
    """Of a user's own nothing is known, and nothing is imported to find out."""
    return call.name.startswith(PREFIX)


def _is_base(method: Method) -> bool:
    taken = {slot.name for slot in fields(Method) if getattr(method, slot.name) is not None}
    return taken <= OF_THE_GRADIENT
