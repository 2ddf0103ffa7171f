"""Which cut? What every cut of a model means for a population of devices, found by planning rounds; nothing is trained.

The recommended cut has the least mean time per round; among cuts within 5 % of it, it is the one at which clients
compute least. Two things do not enter: what activations reveal, which is more the nearer the cut is to the input, and
how well a method trains with less of the model on the server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

import torch

from smofi.clock import Clock
from smofi.clock.replay import LATENCY, Leg
from smofi.config import Config
from smofi.config.federation import Federation
from smofi.cut import Cut, Cuts, parse_cut
from smofi.engine.check import check_plan
from smofi.engine.plan import Planner
from smofi.errors import InputError
from smofi.flat import Layout, columns_in
from smofi.training import arguments_of, as_samples, make_planner

ROUNDS = 20
"""Planned at every cut: the first of the run, with the same clients."""

NEAR = 1.05
"""Cuts whose mean time per round is at most this many times the least count as equally good."""


@dataclass(frozen=True)
class Side:
    """The client's side of a cut: the share of the model's multiply-accumulates, and the parameters."""

    cut: str
    macs: float
    parameters: int


@dataclass(frozen=True)
class Outlook:
    """What a method's rounds take at a cut: the `seconds` of each. The rest is a client's in a round, the mean of all
    that take part: seconds of computing, bytes sent and received, the share of the time that it waits, and the seconds
    in which its messages are under way, however short they are."""

    seconds: tuple[float, ...]
    compute: float
    up: float
    down: float
    idle: float
    latency: float = 0.0

    @property
    def mean(self) -> float:
        """Of the rounds' seconds."""
        return fmean(self.seconds)

    @property
    def spread(self) -> float:
        """Their standard deviation."""
        return stdev(self.seconds) if len(self.seconds) > 1 else 0.0


@dataclass(frozen=True)
class Advice:
    """All cuts, from the input on, and what each method's rounds take there; None where the method is refused.

    `config` is what was planned by, so it has a clock; `configured` is the place of its cut among these, None if that
    is not one for all clients and rounds.
    """

    config: Config
    rounds: int
    configured: int | None
    sides: tuple[Side, ...]
    outlooks: Mapping[str, tuple[Outlook | None, ...]]

    @property
    def alike(self) -> dict[tuple[Outlook | None, ...], list[str]]:
        """The methods that take the same at every cut, together."""
        found: dict[tuple[Outlook | None, ...], list[str]] = {}
        for method, outlooks in self.outlooks.items():
            found.setdefault(outlooks, []).append(method)
        return found


def advise(config: Config, federation: Federation | None = None, *, rounds: int = ROUNDS) -> Advice:
    """Plan the first rounds of a run at every cut of its model; without a clock, by a full one.

    A cut of the U shape keeps its end H; cuts drawn or given per client are not looked at, only one for all.

    >>> found = advise(Config(clients=4, participation=1.0, partition="iid", method="smofi", rounds=2))
    >>> [side.cut for side in found.sides]
    ['0', '1', '2', '3']
    """
    config = config.model_copy(update={"clock": "full"}) if config.clock == "none" else config
    given = config.arguments(federation)
    arguments = arguments_of(**given)
    layout = Layout.of(arguments.model)
    samples = [
        as_samples(data, f"clients[{number}]", layout.dtype, torch.device("cpu"))
        for number, data in enumerate(arguments.clients)
    ]
    configured_cuts = parse_cut(config.cut, layout, len(samples))
    cuts = single_cuts(configured_cuts)
    configured = cuts.index(configured_cuts.options[0]) if len(configured_cuts.options) == 1 else None
    rounds = min(rounds, config.rounds)
    outlooks = {}
    for method in config.method:
        planner = make_planner(arguments_of(**given, method=method), layout, samples)
        outlooks[method] = look_ahead(planner, cuts, rounds)
        timekeeper = planner.clock
    assert isinstance(timekeeper, Clock)
    return Advice(config, rounds, configured, tuple(_side(cut, layout, timekeeper) for cut in cuts), outlooks)


def advise_each(config: Config, federations: Mapping[int, Federation], *, rounds: int = ROUNDS) -> Advice:
    """The same for the data of several seeds: the rounds of all of them, and means over them."""
    every = [advise(config.with_seed(seed), own, rounds=rounds) for seed, own in federations.items()]
    outlooks = {
        method: tuple(_together(at_cut) for at_cut in zip(*(one.outlooks[method] for one in every), strict=True))
        for method in config.method
    }
    return replace(every[0], config=every[0].config.model_copy(update={"seeds": config.seeds}), outlooks=outlooks)


def _together(outlooks: Sequence[Outlook | None]) -> Outlook | None:
    """A cut with all seeds; None if it is refused with one of them.

    >>> _together([Outlook((1.0, 2.0), 3.0, 0, 0, 0), Outlook((6.0,), 5.0, 0, 0, 0)])
    Outlook(seconds=(1.0, 2.0, 6.0), compute=4.0, up=0.0, down=0.0, idle=0.0, latency=0.0)
    """
    known = [outlook for outlook in outlooks if outlook]
    if len(known) < len(outlooks):
        return None
    rest = ("compute", "up", "down", "idle", "latency")
    means = {name: fmean(getattr(outlook, name) for outlook in known) for name in rest}
    return Outlook(tuple(second for outlook in known for second in outlook.seconds), **means)


def single_cuts(cuts: Cuts) -> list[Cut]:
    """Every cut L of the same model, with the same H.

    >>> [str(cut) for cut in single_cuts(Cuts((Cut(first=1, last=4, blocks=5),)))]
    ['0,1', '1,1', '2,1']
    """
    cut = cuts.options[0]
    return [replace(cut, first=first) for first in range(1, cut.last)]


def look_ahead(planner: Planner, cuts: Sequence[Cut], rounds: int) -> tuple[Outlook | None, ...]:
    """What the method's first rounds take at each cut; refused only if it can work at none of them."""
    outlooks: list[Outlook | None] = []
    refusals: list[InputError] = []
    for cut in cuts:
        at_cut = replace(planner, cuts=Cuts((cut,)))
        try:
            check_plan(at_cut, str(cut))
        except InputError as refusal:
            refusals.append(refusal)
            outlooks.append(None)
        else:
            outlooks.append(_outlook(at_cut, rounds))
    if len(refusals) == len(cuts):
        raise refusals[0]
    return tuple(outlooks)


def recommended(outlooks: Sequence[Outlook | None]) -> int:
    """The place of the cut that the rule at the top of this file chooses.

    >>> takes = [Outlook((100.0,), 9.0, 0, 0, 0), Outlook((104.0,), 3.0, 0, 0, 0), Outlook((106.0,), 1.0, 0, 0, 0)]
    >>> recommended(takes)
    1
    """
    possible = {place: outlook for place, outlook in enumerate(outlooks) if outlook}
    least = min(outlook.mean for outlook in possible.values())
    near = [place for place, outlook in possible.items() if outlook.mean <= NEAR * least]
    return min(near, key=lambda place: (possible[place].compute, possible[place].mean))


def _outlook(planner: Planner, rounds: int) -> Outlook:
    timekeeper, now = planner.clock, 0.0
    assert isinstance(timekeeper, Clock)
    seconds: list[float] = []
    compute: list[float] = []
    up: list[int] = []
    down: list[int] = []
    idle: list[float] = []
    latency: list[float] = []
    for round in range(rounds):
        plan = planner.plan(round, now)
        time = plan.time
        assert time
        seconds.append(time.ended - now)
        jobs = timekeeper.jobs(plan, time.began)
        compute += [job.steps * _seconds(job.step, "compute") for job in jobs]
        latency += [job.steps * _seconds(job.step, LATENCY) + _seconds(job.fetch + job.give, LATENCY) for job in jobs]
        up, down, idle, now = up + time.bytes_up, down + time.bytes_down, idle + time.idle, time.ended
    return Outlook(tuple(seconds), fmean(compute), fmean(up), fmean(down), fmean(idle), fmean(latency))


def _seconds(legs: Sequence[Leg], kind: str) -> float:
    return sum(leg.seconds for leg in legs if leg.kind == kind)


def _side(cut: Cut, layout: Layout, timekeeper: Clock) -> Side:
    costs = timekeeper.step_costs(cut)
    return Side(str(cut), costs.front + costs.back, layout.size - columns_in(cut.server(layout)))
