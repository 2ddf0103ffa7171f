"""The numbers of one setup: the measures of each method, and its differences to its base."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from smofi.errors import refuse
from smofi.report.comparing.gathering import Gathered, LeftOut
from smofi.report.comparing.paired import Paired, paired
from smofi.report.comparing.target import Target
from smofi.report.history import History
from smofi.report.measures import USUAL_BASELINE, Row, measure
from smofi.report.setups import Setup
from smofi.report.show.snapshot import Snapshot
from smofi.report.titles import rows_by_base


@dataclass(frozen=True)
class Block:
    """A setup in the table: its `methods`, the `rows` of those that have a run that counts, `by_seed` the rows of each
    seed alone, the differences to the base of those that have one. `notes` are what a reader must know, `incomplete`
    the methods of which runs do not count."""

    name: str
    methods: Sequence[str]
    rows: Mapping[str, Row]
    by_seed: Mapping[int, Sequence[Row]]
    paired: Mapping[str, Paired]
    notes: Sequence[str] = ()
    incomplete: frozenset[str] = frozenset()
    setup: Setup | None = None

    @classmethod
    def of(
        cls, name: str, histories: Sequence[History], target: Target | None = None, baseline: str = USUAL_BASELINE
    ) -> Block:
        """A block of histories, wherever they come from.

        >>> block = Block.of("IID", [History("fedavg", [0.2, 0.8]), History("smofi", [0.8, 0.9])])
        >>> block.rows["smofi"].speed_up, round(block.paired["smofi"].best.mean, 6)
        (2.0, 0.1)
        """
        counted, notes = with_target(histories, target or Target(), baseline)
        rows = _measured(counted, target or Target(), baseline)
        alone = {seed: [one for one in counted if one.seed == seed] for seed in sorted({one.seed for one in counted})}
        differences = ((row.name, _against_base(row, counted)) for row in rows)
        return cls(
            name,
            methods=list(dict.fromkeys(history.name for history in histories)),
            rows={row.name: row for row in rows},
            by_seed={seed: _measured(same, target or Target(), baseline) for seed, same in alone.items()},
            paired={method: one for method, one in differences if one is not None},
            notes=[*notes, *_uneven(rows, counted)],
            incomplete=frozenset(one.name for one in histories if all(one is not other for other in counted)),
        )

    @property
    def groups(self) -> list[tuple[str, list[str]]]:
        """The methods by their bare base."""
        return rows_by_base(self.methods)


def blocks_of(gathered: Gathered, target: Target, baseline: str = USUAL_BASELINE) -> list[Block]:
    """A block for each setup; a baseline other than FedAvg must be in one of them."""
    methods = dict.fromkeys(run.method for setup in gathered.setups for run in setup.runs)
    if baseline != USUAL_BASELINE and baseline not in methods:
        refuse("baseline", baseline, "one of the runs: " + ", ".join(methods))
    partitions = {setup.config.partition for setup in gathered.setups}
    return [_block(setup, gathered.left_out[setup.name], target, baseline, partitions) for setup in gathered.setups]


def _block(
    setup: Setup, left_out: Sequence[LeftOut], target: Target, baseline: str, partitions: Collection[str]
) -> Block:
    counted = [run for run in setup.runs if all(run is not one.run for one in left_out)]
    block = Block.of(setup.name, [run.history for run in counted], target, baseline)
    return replace(
        block,
        methods=list(dict.fromkeys(run.method for run in setup.runs)),
        notes=[
            *(*block.notes, *(one.sentence for one in left_out), *_stopped(counted), *_versions(counted)),
            *_unbalanced(setup.config.partition, partitions),
        ],
        incomplete=block.incomplete | {one.run.method for one in left_out},
        setup=setup,
    )


def with_target(histories: Sequence[History], target: Target, baseline: str) -> tuple[Sequence[History], list[str]]:
    """The histories that have a target, and what is said of the others."""
    if target.fixed is not None or not histories:
        return histories, []
    seeds = {history.seed for history in histories if history.name == baseline}
    if not seeds:
        remedy = "choose another with --baseline, or fix the target, as in --target 70%"
        return histories, [f"There is no target, since {baseline} has no finished run here: {remedy}"]
    return [history for history in histories if history.seed in seeds], [
        f"{one.name} with seed {one.seed} is left out: {baseline} has no finished run with that seed, and so no target"
        for one in histories
        if one.seed not in seeds
    ]


def _measured(histories: Sequence[History], target: Target, baseline: str) -> list[Row]:
    """The rows; where there is no baseline, with a target that is out of reach."""
    if target.fixed is None and any(history.name == baseline for history in histories):
        return measure(histories, baseline, share=target.share)
    return measure(histories, baseline, target=math.inf if target.fixed is None else target.fixed)


def _against_base(row: Row, histories: Sequence[History]) -> Paired | None:
    if row.base is None or row.base == row.name:
        return None
    own, base = ([one for one in histories if one.name == name] for name in (row.name, row.base))
    return paired(own, base)


def _uneven(rows: Sequence[Row], histories: Sequence[History]) -> list[str]:
    """A sentence for each method whose seeds are not those of its base."""
    seeds = {row.name: sorted(one.seed for one in histories if one.name == row.name) for row in rows}
    return [
        f"{row.name} has {_seeds(seeds[row.name])}, {row.base} has {_seeds(seeds[row.base])}: the speed-up is over "
        "the seeds that both have"
        for row in rows
        if row.base is not None and seeds[row.base] != seeds[row.name]
    ]


def _seeds(numbers: Sequence[int]) -> str:
    """
    >>> _seeds([0]), _seeds([0, 2])
    ('seed 0', 'seeds 0, 2')
    """
    return f"seed{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _stopped(runs: Sequence[Snapshot]) -> list[str]:
    """A sentence for each run that ended before its last round, which its mean over rounds depends on."""
    return [
        f"{run.method} with seed {run.config.seed} ended early, after round {run.history.rounds}: {run.stopped}"
        for run in runs
        if run.stopped and run.history.rounds < run.progress.rounds
    ]


def _versions(runs: Sequence[Snapshot]) -> list[str]:
    """A sentence if runs were made by different versions of smofi or torch."""
    found = {name: sorted({str(run.about[name]) for run in runs if name in run.about}) for name in ("smofi", "torch")}
    return [
        f"The runs were made with {name} {' and '.join(all_of)}" for name, all_of in found.items() if len(all_of) > 1
    ]


def _unbalanced(partition: str, partitions: Collection[str]) -> list[str]:
    """A sentence if the same Dirichlet is here with the balance rule and without it, as earlier versions had it."""
    balanced = partition.replace(", balance=False", "")
    if balanced == partition or balanced not in partitions:
        return []
    return [
        f"{partition} is not {balanced}, which is here too: it lacks the balance rule. Earlier versions divided so "
        f"and called it {balanced}"
    ]
