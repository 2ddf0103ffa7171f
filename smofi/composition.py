"""Several methods as one. A slot taken twice, or two slots that contradict each other, is refused here, never later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from smofi.errors import CompositionError
from smofi.method import Method

_CLAIMS = {
    "pull": "pull the gradient",
    "decay": "take over weight decay",
    "limit": "clip the gradient",
    "fuse": "fuse the momentum within a round",
    "carry": "carry momentum from round to round",
    "outer": "own the global update after a round",
    "placement": "decide where the server part trains",
    "steps": "fix the number of local steps",
    "batch_sizes": "choose the batch sizes",
    "select": "choose who takes part in a round",
    "nesterov": "choose the local optimizer",
}


def compose(*methods: Method) -> Method:
    """Merge methods into one that fills the slots of all; raise CompositionError if they do not fit together.

    >>> from smofi.methods import fedprox, smofi
    >>> compose(fedprox(0.01), smofi()).name
    'fedprox(mu=0.01)+smofi'
    """
    for method in methods:
        if not isinstance(method, Method):
            raise CompositionError(f"{method!r} is not a method: expected values such as smofi.methods.smofi()")
    if not methods:
        raise CompositionError("nothing to compose: expected at least one method")
    owner: dict[str, Method] = {}
    merged = Method(name="+".join(method.name for method in methods))
    for method in methods:
        for slot in (field.name for field in fields(Method) if field.name != "name"):
            value = getattr(method, slot)
            if value is None:
                continue
            if slot in owner:
                raise CompositionError(
                    f"{owner[slot]} and {method} cannot be combined: both {_CLAIMS[slot]}; leave one of them out"
                )
            owner[slot] = method
            merged = replace(merged, **{slot: value})
    for reason in _contradictions(merged, owner):
        raise CompositionError(reason)
    return merged


def _contradictions(method: Method, owner: dict[str, Method]) -> Iterator[str]:
    placement = method.where
    place = owner.get("placement")
    if method.fuse and placement.one_server:
        yield (
            f"{owner['fuse']} and {place} cannot be combined: {owner['fuse']} fuses the momentum of one server model "
            f"per client, and {place} keeps a single server model for all clients"
        )
    for slot in ("fuse", "carry"):
        if getattr(method, slot) and placement.resets:
            yield (
                f"{owner[slot]} and {place} cannot be combined: {place} resets the server's momentum within the round, "
                f"so there is none to {slot}"
            )
    if method.carry and method.fuse:
        yield (
            f"{owner['carry']} and {owner['fuse']} cannot be combined: {owner['carry']} carries each client's momentum "
            f"into the next round, and {owner['fuse']} starts every round from zero"
        )
    for slot, limit in (("decay", method.decay and method.decay.limit), ("limit", method.limit)):
        if limit and limit.scope == "model" and placement.merges:
            yield (
                f"{owner[slot]} and {place} cannot be combined: {place} trains the server on the merged batch of all "
                f'clients, so no norm spans a client\'s whole model; use scope="part"'
            )
