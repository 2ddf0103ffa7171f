"""Figures with their units, and the sentences that recommend a cut and say why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from smofi.planning.advice import NEAR, Advice, Outlook, recommended

Unit = tuple[float, str]
UNITS: tuple[Unit, ...] = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"), (0.001, "ms"))
UNWEIGHED = (
    "Only time and load are weighed: not what activations reveal about samples, which is more the nearer a cut is to "
    "the input, nor how well a method trains with less of the model on the server."
)


def heading(advice: Advice) -> str:
    """What was planned."""
    config = advice.config
    taking_part = max(1, round(config.participation * config.clients))
    clients = f"{config.clients:,} clients, {taking_part:,} a round"
    return f"{config.model} on {config.data}, {clients}, by {config.partition}"


def basis(advice: Advice) -> str:
    """On which devices, and for how long."""
    config, rounds = advice.config, f"the first {advice.rounds} rounds" if advice.rounds > 1 else "the first round"
    text = f"{rounds} planned at every cut, nothing trained; clock {config.clock}, devices {Path(config.devices).name}"
    if config.availability != "always":
        text += f", availability {Path(config.availability).name}"
    return text if config.step_deadline is None else f"{text}, step deadline {config.step_deadline:g} s"


def unit(seconds: Iterable[float]) -> Unit:
    """Seconds in a unit, and its name: the largest of which the longest of these times is at least two.

    >>> unit([30.0, 500.0]), unit([7200.0])
    ((60.0, 'minutes'), (3600.0, 'hours'))
    """
    longest = max(seconds, default=0.0)
    return next((one for one in UNITS if longest >= 2 * one[0]), UNITS[-1])


def figure(value: float) -> str:
    """Three digits that count, and no more than three places.

    >>> figure(12345.6), figure(12.345), figure(0.01234), figure(0)
    ('12,346', '12.3', '0.012', '0')
    """
    places = 0 if value >= 100 or value == 0 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{places}f}"


def in_unit(seconds: float, like: Unit) -> str:
    """A time with its unit.

    >>> in_unit(90.0, unit([500.0]))
    '1.50 minutes'
    """
    size, name = like
    return f"{figure(seconds / size)} {name}"


def units(outlooks: Iterable[Outlook | None]) -> tuple[Unit, Unit]:
    """Of the times of rounds and of computing, the same for all cuts."""
    known = [outlook for outlook in outlooks if outlook]
    return unit(outlook.mean for outlook in known), unit(outlook.compute for outlook in known)


def sentences(advice: Advice) -> list[str]:
    """The recommended cut of each method, why, what the configured one takes, and what is left out of account."""
    found = [_reason(advice, names, outlooks) for outlooks, names in advice.alike.items()]
    if any(None in outlooks for outlooks in advice.outlooks.values()):
        found.append("A cut with - is refused, as `smofi run` would: the batch of no client fits into the bandwidth.")
    if advice.configured is None:
        found.append(f"The configuration's cut {advice.config.cut} is not one for all; here all clients have the same.")
    return [*found, UNWEIGHED]


def _reason(advice: Advice, names: Sequence[str], outlooks: Sequence[Outlook | None]) -> str:
    best, own = recommended(outlooks), advice.configured
    means = {place: outlook.mean for place, outlook in enumerate(outlooks) if outlook}
    fastest = min(means, key=means.__getitem__)
    chosen, quickest = outlooks[best], outlooks[fastest]
    assert chosen
    assert quickest
    whole, part = units(outlooks)
    text = f"{', '.join(names)}: cut {advice.sides[best].cut} is recommended{', as configured' * (best == own)}. "
    text += f"A round takes {in_unit(chosen.mean, whole)} on average, "
    if best == fastest:
        text += "the least of all cuts."
    else:
        text += (
            f"within {NEAR - 1:.0%} of the least ({in_unit(quickest.mean, whole)} at cut {advice.sides[fastest].cut}), "
            f"and of such cuts it is the one at which clients compute least: {in_unit(chosen.compute, part)} a round, "
            f"not {in_unit(quickest.compute, part)}."
        )
    configured = None if own is None or own == best else outlooks[own]
    if configured and own is not None:
        text += f" At cut {advice.sides[own].cut}, as configured, it takes {in_unit(configured.mean, whole)}."
    return text
