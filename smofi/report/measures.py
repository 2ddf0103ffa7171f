"""The measures the paper reports: accuracy, rounds and hours to a target, and the speed-up those rounds amount to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from smofi.errors import InputError, check_number, refuse
from smofi.report.history import History

USUAL_BASELINE = "fedavg"


@dataclass(frozen=True)
class Row:
    """One method, averaged over its seeds. `rounds`, `hours_to` and `speed_up` are None when any seed misses the
    target; `hours`, of virtual time in all, is None without a clock."""

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


def compare(histories: Sequence[History]) -> list[Row]:
    """The measures of runs that may have diverged: those without any accuracy are left out.

    The baseline is FedAvg, or the first run if FedAvg is not among them.

    >>> rows = compare([History("sflv1", [0.5, 0.8]), History("smofi", [0.8, 0.8]), History("fedavg", [None])])
    >>> [(row.name, row.speed_up) for row in rows]
    [('sflv1', 1.0), ('smofi', 2.0)]
    """
    measured = [history for history in histories if history.measured]
    if not measured:
        return []
    names = [history.name for history in measured]
    return measure(measured, USUAL_BASELINE if USUAL_BASELINE in names else names[0])


def measure(
    histories: Sequence[History],
    baseline: str = USUAL_BASELINE,
    *,
    share: float = 0.9,
    target: float | None = None,
    bases: Mapping[str, str] | None = None,
) -> list[Row]:
    """One row per method, in the order given.

    The target is `share` of the baseline's best accuracy with the same seed, or the fixed `target`. The speed-up is
    R(base) / R(method); a method's base is the baseline, unless `bases` names another ("fedprox+smofi": "fedprox").

    >>> measure([History("fedavg", [0.2, 0.6, 0.8]), History("smofi", [0.75, 0.8, 0.8])])[1].speed_up
    3.0
    """
    check_number("share", share, above=0, high=1)
    by_method = _by_method(histories)
    bases = dict(bases or {})
    for wanted in [*([baseline] if target is None else []), *bases.values()]:
        if wanted not in by_method:
            refuse("baseline", wanted, "one of the runs: " + ", ".join(by_method))

    def target_of(history: History) -> float:
        if target is not None:
            return target
        if history.seed not in by_method[baseline]:
            raise InputError(
                f"{history.name} ran with seed {history.seed}, {baseline} did not: expected the same seeds"
            )
        return share * max(by_method[baseline][history.seed].measured)

    def rounds_of(name: str) -> float | None:
        return _mean_of_all([history.rounds_to(target_of(history)) for history in by_method[name].values()])

    def row(name: str) -> Row:
        seeds = list(by_method[name].values())
        best = [max(history.measured) for history in seeds]
        rounds = rounds_of(name)
        base = bases.get(name, baseline)
        base_rounds = rounds_of(base) if base in by_method else None
        return Row(
            name=name,
            seeds=len(seeds),
            best=fmean(best),
            best_std=stdev(best) if len(best) > 1 else None,
            mean=fmean(fmean(history.measured) for history in seeds),
            target=fmean(target_of(history) for history in seeds),
            rounds=rounds,
            budget=max(history.rounds for history in seeds),
            speed_up=base_rounds / rounds if base_rounds and rounds else None,
            seconds=fmean(history.total_seconds for history in seeds),
            hours_to=_mean_of_all([history.hours_to(target_of(history)) for history in seeds]),
            hours=_mean_of_all([history.hours[-1] if history.hours else None for history in seeds]),
        )

    return [row(name) for name in by_method]


def _by_method(histories: Sequence[History]) -> dict[str, dict[int, History]]:
    """The runs of each method by their seed."""
    found: dict[str, dict[int, History]] = {}
    for history in histories:
        name, seed = history.name, history.seed
        if not history.measured:
            refuse(f"accuracies of {name}", history.accuracies, "at least one round with an accuracy")
        if seed in found.setdefault(name, {}):
            raise InputError(f"two runs are called {name} with seed {seed}: expected each pair once")
        found[name][seed] = history
    return found


def _mean_of_all(values: Sequence[float | None]) -> float | None:
    """None if any of them is."""
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None
