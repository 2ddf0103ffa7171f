"""The units of the figures, and the sentences that recommend a cut and say why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from smofi.planning.advice import NEAR, Advice, Outlook, recommended
from smofi.plural import plural
from smofi.report.heading import short, short_cut
from smofi.report.numbers import HOURS, MINUTES, SECONDS, TimeUnit, in_unit, time_unit
from smofi.settings import seeds_text

UNITS = (HOURS, MINUTES, SECONDS, TimeUnit("ms", 0.001))
UNWEIGHED = (
    "This weighs time and load alone. It does not weigh what activations reveal about samples, which is more the "
    "closer the cut is to the input, nor how well a method trains with less of the model on the server."
)


def heading(advice: Advice) -> str:
    """What is planned: the model, the data and the clients."""
    config = advice.config
    clients = f"{plural(config.known_clients, 'client')}, {config.per_round:,} per round"
    return f"{config.model} on {short(config.data)}, {short(config.partition)}, {clients}"


def basis(advice: Advice) -> str:
    """On which devices, and for how long."""
    config, rounds = advice.config, f"the first {advice.rounds} rounds" if advice.rounds > 1 else "the first round"
    if len(config.each_seed) > 1:
        rounds += f" with each of the seeds {seeds_text(config.each_seed)}"
    text = f"{rounds}, planned at every cut without training; clock {config.clock}, devices {Path(config.devices).name}"
    if config.clock == "full" and not any(map(has_latency, advice.outlooks.values())):
        text += ", latency not counted"
    if config.availability != "always":
        text += f", availability {Path(config.availability).name}"
    return text if config.step_deadline is None else f"{text}, step deadline {config.step_deadline:g} s"


def unit(seconds: Iterable[float]) -> TimeUnit:
    """The unit in which these times are shown.

    >>> unit([30.0, 500.0]).name, unit([0.5]).name
    ('minutes', 'ms')
    """
    return time_unit(max(seconds, default=0.0), UNITS)


def units(outlooks: Iterable[Outlook | None]) -> tuple[TimeUnit, TimeUnit]:
    """The units of the time of a round and of the time of computing, the same for all cuts."""
    known = [outlook for outlook in outlooks if outlook]
    return unit(outlook.mean for outlook in known), unit(outlook.compute for outlook in known)


def has_latency(outlooks: Iterable[Outlook | None]) -> bool:
    """Whether round trips are counted."""
    return any(outlook and outlook.latency for outlook in outlooks)


def sentences(advice: Advice) -> list[str]:
    """The recommended cut of each method and why, what the configured cut takes, and what is not considered."""
    found = [_reason(advice, names, outlooks) for outlooks, names in advice.alike.items()]
    if any(None in outlooks for outlooks in advice.outlooks.values()):
        found.append("A cut with - would be refused by `smofi run`: no client's batch fits into the bandwidth.")
    if advice.configured is None:
        own = short_cut(advice.config)
        found.append(f"The configuration has several cuts ({own}); here all clients have the same one.")
    return [*found, UNWEIGHED]


def _reason(advice: Advice, names: Sequence[str], outlooks: Sequence[Outlook | None]) -> str:
    best, own = recommended(outlooks), advice.configured
    means = {place: outlook.mean for place, outlook in enumerate(outlooks) if outlook}
    fastest = min(means, key=means.__getitem__)
    chosen, quickest = outlooks[best], outlooks[fastest]
    assert chosen
    assert quickest
    of_round, of_computing = units(outlooks)
    text = f"{', '.join(names)}: cut {advice.sides[best].cut} is recommended{', as configured' * (best == own)}. "
    text += f"A round takes {in_unit(chosen.mean, of_round)} on average, "
    if best == fastest:
        text += "less than at any other cut."
    else:
        least = f"{in_unit(quickest.mean, of_round)} at cut {advice.sides[fastest].cut}"
        computing, instead_of = (in_unit(one.compute, of_computing) for one in (chosen, quickest))
        text += (
            f"within {NEAR - 1:.0%} of the fastest ({least}); among such cuts, clients compute least at this one: "
            f"{computing} per round instead of {instead_of}."
        )
    configured = None if own is None or own == best else outlooks[own]
    if configured and own is not None:
        text += f" At the configured cut, {advice.sides[own].cut}, it takes {in_unit(configured.mean, of_round)}."
    return text
