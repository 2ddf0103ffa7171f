"""What a round costs beside the bare forward and backward pass on the same samples, with one worker and with several.

Bare passes and rounds are timed in turn, repetition after repetition, in one program, so that a noisy machine disturbs
them alike: while a single worker is timed, the others wait. A round is compared with the mean of the single worker's
bare passes just before and just after it. MergeSFL's server computes one merged batch where the bare pass, like all
other methods, goes client by client, so that it may come out below one.

    python benchmarks/overhead.py
    python benchmarks/overhead.py --models resnet8 --methods smofi --workers 1 --repetitions 3
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import torch
from shared.goals import Goal, at_least, at_most
from shared.internals import Workers, bare_pass, deal, evaluation, first_plan, one_round, parameters
from shared.options import options, positive
from shared.rows import Row, Sheet, cell, markdown, pick
from shared.settings import SETTINGS, Setting
from shared.timing import in_processes, time_alone, time_together

METHODS = ("smofi", "fedavg", "mergesfl")
BARE, RATIO, SPEED, SHARE = "bare pass", "ratio to the bare pass", "times as fast as one worker", "evaluation's share"


@dataclass(frozen=True)
class Contestant:
    """Something to be timed beside the bare pass: a round of a method, or the bare pass in several processes."""

    method: str
    workers: int
    work: Callable[[], object]


def contestants(setting: Setting, methods: Sequence[str], workers: Workers) -> Iterator[Contestant]:
    """Each method with one worker and with all of them, and the bare pass shared by all."""
    for method in methods:
        yield Contestant(method, 1, one_round(setting.session(method)))
        if workers.size > 1:
            yield Contestant(method, workers.size, one_round(setting.session(method, workers=workers)))
    if workers.size > 1:
        session = setting.session("fedavg")
        plan = first_plan(session)
        yield Contestant(BARE, workers.size, bare_pass(session, plan, deal(plan.steps, workers.size)[workers.rank]))


def measure(setting: Setting, methods: Sequence[str], repetitions: int | None, sheet: Sheet, workers: Workers) -> None:
    """Add the ratios to the bare pass, how many times as fast all workers are as one, and the evaluation's share."""
    session = setting.session("fedavg", test=setting.test)
    plan, evaluate = first_plan(session), evaluation(session)
    bare, others = bare_pass(session, plan), list(contestants(setting, methods, workers))
    steps = f"{len(plan.clients)} clients, {sum(plan.steps)} steps"
    sheet.begin(model=f"{setting.name}; {steps}, {parameters(session):,} parameters")
    bares: list[float] = []
    evaluations: list[float] = []
    ratios: dict[tuple[str, int], list[float]] = {(one.method, one.workers): [] for one in others}
    for repetition in range(-1, repetitions or setting.repetitions):
        bares.append(time_alone(workers, bare))
        for one in others[:: 1 if repetition % 2 else -1]:  # in turn the first to come
            taken = (time_alone if one.workers == 1 else time_together)(workers, one.work)
            bares.append(time_alone(workers, bare))
            ratios[one.method, one.workers].append(taken / fmean(bares[-2:]))
        evaluations.append(time_alone(workers, evaluate) / bares[-1])
    warm = slice(1, None)  # the first repetition warms up
    sheet.add("seconds", bares[1 + len(others) :], method=BARE, workers=1)
    for (method, count), values in ratios.items():
        sheet.add(RATIO, values[warm], method=method, workers=count)
        if count > 1:
            ones = ratios.get((method, 1), [1.0] * len(values))
            speeds = [one / many for one, many in zip(ones, values, strict=True)]
            sheet.add(SPEED, speeds[warm], method=method, workers=count)
        elif setting.test:
            shares = [one / (one + other) for one, other in zip(evaluations, values, strict=True)]
            sheet.add(SHARE, shares[warm], method=method, workers=count)


def table(rows: Sequence[Row]) -> str:
    """A line for each model and method."""
    most = max(row["workers"] for row in rows)
    lines = []
    for bare in pick(rows, "seconds"):
        of_model = [row for row in rows if row["model"] == bare["model"]]
        for method in dict.fromkeys(row["method"] for row in of_model):
            one = (
                f"{median(bare['values']):.3f} s" if method == BARE else cell(of_model, RATIO, method=method, workers=1)
            )
            many = cell(of_model, RATIO, method=method, workers=most) if most > 1 else ""
            more = cell(of_model, SPEED, ".2f", method=method), cell(of_model, SHARE, ".1%", method=method)
            lines.append([bare["model"] if method == BARE else "", method, one, many, *more])
    return markdown(["model", "", "one worker", f"{most} workers", "times as fast", "evaluation's share"], lines)


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Next to nothing beside the bare pass, and two workers nearly twice as fast as one."""
    tiny = [row for row in rows if row["model"].startswith("digits")]
    larger = [row for row in rows if row not in tiny]
    found = []
    for method in METHODS:
        alone, shared = {"method": method, "workers": 1}, {"method": method, "workers": 2}
        found += [
            at_most(f"{method}: a round at most 1.03 bare passes, but for digits", pick(larger, RATIO, **alone), 1.03),
            at_most(f"{method}: a round at most 1.15 bare passes on digits", pick(tiny, RATIO, **alone), 1.15),
        ]
        for model, least in (("resnet18", 1.9), ("resnet8", 1.7)):
            fast = pick([row for row in rows if row["model"].startswith(f"{model} ")], SPEED, **shared)
            found.append(at_least(f"{method}: two workers at least {least} times as fast: {model}", fast, least))
    return found


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--models", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--methods", nargs="+", default=METHODS, help="as in smofi run --method")
    parser.add_argument("--workers", type=positive, default=2, help="beside one; 1 for one alone")
    given = parser.parse_args()
    torch.set_num_threads(1)

    def work(workers: Workers) -> list[Row]:
        sheet = Sheet(given.results, leads=workers.rank == 0)
        for name in given.models:
            measure(SETTINGS[name](), given.methods, given.repetitions, sheet, workers)
        return sheet.rows

    print("\n" + table(in_processes(given.workers, work)))


if __name__ == "__main__":
    main()
