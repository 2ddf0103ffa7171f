"""The measures the paper reports: accuracy, rounds and hours to a target, and the speed-up those rounds amount to."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev

from smofi.errors import InputError, check_number, refuse
from smofi.methods import bare_base
from smofi.report.history import ACCURACY, History, Scale

USUAL_BASELINE = "fedavg"


@dataclass(frozen=True)
class Row:
    """One method, averaged over its seeds. `rounds`, `hours_to` and `speed_up` are None when any seed misses the
    target; `hours`, of virtual time in all, is None without a clock. `base` is what the speed-up is measured against,
    None if that was not run. A single seed has no standard deviations. `metric` is the one that is judged, `others` has
    the best of each further one, and `target_is` says in words what the target is, if it was not given."""

    name: str
    seeds: int
    best: float
    best_std: float | None
    mean: float
    target: float
    rounds: float | None
    budget: int
    speed_up: float | None
    seconds: float
    hours_to: float | None = None
    hours: float | None = None
    base: str | None = None
    mean_std: float | None = None
    rounds_std: float | None = None
    rounds_by_seed: tuple[int | None, ...] = ()
    hours_to_std: float | None = None
    metric: Scale = ACCURACY
    others: Mapping[Scale, float | None] = field(default_factory=dict)
    target_is: str = ""


def compare(histories: Sequence[History]) -> list[Row]:
    """The measures of runs that may have diverged or been interrupted: those without any value are left out, and with
    them their seeds, as long as there are others.

    The baseline is FedAvg, or the first run if FedAvg is not among them. There is no speed-up where it would say
    nothing: of a single method, or if the target is no better than chance, or if all reach it when first evaluated.

    >>> rows = compare([History("sflv1", [0.5, 0.8]), History("smofi", [0.8, 0.8]), History("fedavg", [None])])
    >>> [(row.name, row.speed_up) for row in rows]
    [('sflv1', 1.0), ('smofi', 2.0)]
    """
    measured = [history for history in histories if history.measured]
    if not measured:
        return []
    names = [history.name for history in measured]
    baseline = USUAL_BASELINE if USUAL_BASELINE in names else names[0]
    measured = _with_common_seeds(measured, baseline)
    rows = measure(measured, baseline)
    return rows if _telling(measured, rows) else [replace(row, speed_up=None) for row in rows]


def _with_common_seeds(histories: Sequence[History], baseline: str) -> list[History]:
    """The runs with the seeds that all methods have; if there is none, with those of the baseline.

    >>> runs = [History("fedavg", [0.5]), History("smofi", [0.6]), History("fedavg", [0.4], seed=1)]
    >>> [(run.name, run.seed) for run in _with_common_seeds(runs, "fedavg")]
    [('fedavg', 0), ('smofi', 0)]
    """
    seeds: dict[str, set[int]] = {}
    for history in histories:
        seeds.setdefault(history.name, set()).add(history.seed)
    kept = set.intersection(*seeds.values()) or seeds[baseline]
    return [history for history in histories if history.seed in kept]


def _telling(histories: Sequence[History], rows: Sequence[Row]) -> bool:
    target, chance = rows[0].target, histories[0].chance
    at_once = all(history.rounds_to(target) == history.rounds_to(-math.inf) for history in histories)
    return len(rows) > 1 and not at_once and (chance is None or target > chance)


def measure(
    histories: Sequence[History],
    baseline: str = USUAL_BASELINE,
    *,
    share: float = 0.9,
    target: float | None = None,
) -> list[Row]:
    """One row per method, in the order given.

    The target is `share` of the baseline's best value with the same seed, or the fixed `target`. The speed-up is
    against the bare base, which for fedprox+smofi is fedprox, over the seeds that both have:
    R up = R(base) / R(method)

    >>> measure([History("fedavg", [0.2, 0.6, 0.8]), History("smofi", [0.75, 0.8, 0.8])])[1].speed_up
    3.0
    """
    check_number("share", share, above=0, high=1)
    by_method = _by_method(histories)
    if target is None:
        _check_known(baseline, by_method)

    def target_of(history: History) -> float:
        return _share_of_best(share, history, baseline, by_method) if target is None else target

    rounds = {
        name: {seed: history.rounds_to(target_of(history)) for seed, history in seeds.items()}
        for name, seeds in by_method.items()
    }

    def row(name: str) -> Row:
        seeds = list(by_method[name].values())
        best = [max(history.measured) for history in seeds]
        means = [fmean(history.measured) for history in seeds]
        hours_to = [history.hours_to(target_of(history)) for history in seeds]
        base = _base_of(name, baseline, by_method)
        return Row(
            name=name,
            seeds=len(seeds),
            best=fmean(best),
            best_std=_spread(best),
            mean=fmean(means),
            mean_std=_spread(means),
            target=fmean(target_of(history) for history in seeds),
            rounds=_mean_of_all(rounds[name].values()),
            rounds_std=_spread(rounds[name].values()),
            rounds_by_seed=tuple(rounds[name].values()),
            budget=max(history.rounds for history in seeds),
            base=base,
            speed_up=_speed_up(rounds[name], rounds[base]) if base else None,
            seconds=fmean(history.total_seconds for history in seeds),
            hours_to=_mean_of_all(hours_to),
            hours_to_std=_spread(hours_to),
            hours=_mean_of_all([history.hours[-1] if history.hours else None for history in seeds]),
            metric=Scale.of(histories),
            others=_best_of_others(seeds, histories),
            target_is="" if target is not None else f"{share:.0%} of {baseline}'s best",
        )

    return [row(name) for name in by_method]


def alike(rows: Sequence[Row]) -> list[Row]:
    """The rows with as many seeds and rounds as most others, which alone can be ranked.

    >>> rows = measure([History("fedavg", [0.5]), History("smofi", [0.6]), History("fedavg", [0.7], seed=1)])
    >>> [row.name for row in alike(rows)]
    ['fedavg']
    """
    extents = [(row.seeds, row.budget) for row in rows]
    usual = max(extents, key=lambda extent: (extents.count(extent), extent), default=None)
    return [row for row, extent in zip(rows, extents, strict=True) if extent == usual]


def _share_of_best(share: float, history: History, baseline: str, runs: Mapping[str, Mapping[int, History]]) -> float:
    """The target of a run: a share of the best value that the baseline reaches with the same seed."""
    if history.seed not in runs[baseline]:
        raise InputError(f"{history.name} ran with seed {history.seed}, {baseline} did not: expected the same seeds")
    best = max(runs[baseline][history.seed].measured)
    return best * (share if best >= 0 else 2 - share)  # a value below 0 is the better the closer it is to it


def _check_known(baseline: str, methods: Collection[str]) -> None:
    if baseline not in methods:
        refuse("baseline", baseline, "one of the runs: " + ", ".join(methods))


def _base_of(name: str, baseline: str, methods: Collection[str]) -> str | None:
    """The method that one is compared with, if it was run; the baseline stands in for a missing FedAvg.

    >>> _base_of("fedprox(mu=0.1)+smofi", "fedavg", ["fedavg", "fedprox(mu=0.1)", "fedprox(mu=0.1)+smofi"])
    'fedprox(mu=0.1)'
    """
    base = bare_base(name)
    if base == USUAL_BASELINE and base not in methods:
        base = baseline
    return base if base in methods else None


def _speed_up(method: Mapping[int, int | None], base: Mapping[int, int | None]) -> float | None:
    """From the rounds to the target by seed, over the seeds that both have; None if there is none, or if any misses.

    >>> _speed_up({0: 4, 1: 2}, {1: 3, 2: 9})
    1.5
    """
    both = method.keys() & base.keys()
    own, others = (_mean_of_all([one[seed] for seed in both]) if both else None for one in (method, base))
    return others / own if others and own else None


def _best_of_others(seeds: Sequence[History], histories: Sequence[History]) -> dict[Scale, float | None]:
    """The best of each further metric, averaged over the seeds of a method; `histories` are those of all methods."""
    scales = [Scale.of(same) for same in zip(*(history.others for history in histories), strict=True)]
    bests = zip(*([other.best for other in history.others] for history in seeds), strict=True)
    return {scale: _mean_of_all(best) for scale, best in zip(scales, bests, strict=True)}


def _by_method(histories: Sequence[History]) -> dict[str, dict[int, History]]:
    """The runs of each method by their seed."""
    found: dict[str, dict[int, History]] = {}
    for history in histories:
        name, seed = history.name, history.seed
        if not history.measured:
            refuse(f"values of {name}", history.values, "at least one round with a number")
        if seed in found.setdefault(name, {}):
            raise InputError(f"two runs are called {name} with seed {seed}: expected each pair once")
        found[name][seed] = history
    return found


def _spread(values: Collection[float | None]) -> float | None:
    """The standard deviation over seeds; None of a single one, or if any is missing."""
    known = [value for value in values if value is not None]
    return stdev(known) if len(known) == len(values) > 1 else None


def _mean_of_all(values: Collection[float | None]) -> float | None:
    """None if any of them is."""
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None
