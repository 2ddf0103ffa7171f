"""A panel in words and numbers: its table, sentences that follow from it, and whether the paper's claims hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from paper.items import Check, Claim, Item, Line, published
from paper.results import Measured
from smofi.plural import plural
from smofi.report.numbers import UNKNOWN, TimeUnit, three_digits, time_unit
from smofi.report.results import Difference, Row, paired

OUR_COLUMNS = ["method", "best accuracy", "mean over rounds", "R", "R by seed", "R↑"]


def table_of(item: Item, measured: Measured) -> str:
    """Write a panel's table in Markdown, with the paper's numbers beside ours. Of the lines on one base, the best
    accuracy, the best mean and the fewest rounds are bold."""
    rows = measured.rows
    hours = [row.hours for row in rows.values() if row.hours is not None and "hours" in item.draw]
    unit = time_unit(3600 * max(hours)) if hours else None
    own = [*OUR_COLUMNS, f"T, {unit.name}"] if unit else OUR_COLUMNS
    setups = measured.panel.beside if item.published else ()
    table = []
    for line in measured.panel.lines:
        cells = _cells(line, measured, unit) if line in rows else [UNKNOWN] * (len(own) - 1)
        printed = [published(item.published).get((setup, line.published or line.label), UNKNOWN) for setup in setups]
        table.append([line.label, *cells, *printed])
    return _markdown([*own, *(f"paper: {setup}" for setup in setups)], table)


def readme_table(measured: Measured) -> str:
    """Write a short table for README: FedAvg and what is added to it."""
    base = measured.rows[measured.panel.baseline].base
    near = [line for line, row in measured.rows.items() if row.base == base]
    return _markdown(OUR_COLUMNS, [[line.label, *_cells(line, measured, None)] for line in near])


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    first, *rest = ("| " + " | ".join(cells) + " |" for cells in [headings, *rows])
    return "\n".join([first, "|---|" + "---:|" * (len(headings) - 1), *rest])


def _cells(line: Line, measured: Measured, unit: TimeUnit | None) -> list[str]:
    row = measured.rows[line]
    near = [one for one in measured.rows.values() if one.seeds == len(measured.seeds) and one.base == row.base]
    missed = f">{row.budget}"

    def bold(text: str, value: Callable[[Row], float | None], best: Callable[[Iterable[float]], float] = max) -> str:
        known = [found for one in near if (found := value(one)) is not None]
        return f"**{text}**" if row in near and len(known) > 1 and value(row) == best(known) else text

    cells = [
        bold(f"{_spread(row.best, row.best_std)} %", lambda one: one.best),
        bold(f"{_spread(row.mean, row.mean_std)} %", lambda one: one.mean),
        bold(missed if row.rounds is None else f"{row.rounds:.1f}", lambda one: one.rounds, min),
        ", ".join(missed if rounds is None else str(rounds) for rounds in measured.rounds_by_seed(line).values()),
        UNKNOWN if row.speed_up is None else f"{row.speed_up:.2f}x",
    ]
    if unit and row.hours is None:
        cells.append(UNKNOWN)
    elif unit and row.hours is not None:
        hours = row.hours if row.hours_to is None else row.hours_to
        text = (">" if row.hours_to is None else "") + three_digits(3600 * hours / unit.seconds)
        cells.append(bold(text, lambda one: one.hours_to, min))
    return cells


def _spread(mean: float, deviation: float | None) -> str:
    return f"{100 * mean:.1f}" if deviation is None else f"{100 * mean:.1f} ± {100 * deviation:.1f}"


# --------------------------------------------------------------------------------------------------------------------
# Over which seeds the numbers are, what the target is, and which runs are missing.


def about(measured: Measured) -> str:
    """Describe a panel's seeds, target and missing runs in a line."""
    if not measured.all_histories:
        return "No run is here yet."
    said = [measure_words(measured)]
    if missing := measured.missing:
        said.append(f"{plural(len(missing), 'run')} missing. {_which(missing, measured)}")
    if diverged := measured.diverged:
        have, are = ("has", "is") if len(diverged) == 1 else ("have", "are")
        said.append(
            f"{plural(len(diverged), 'run')} {have} diverged and {are} left out, so that the other seeds flatter the "
            f"method. {_which(diverged, measured)}"
        )
    return " ".join(said)


def measure_words(measured: Measured) -> str:
    """Describe a panel's seeds and target."""
    seeds, target = ", ".join(map(str, measured.seeds)), measured.panel.target
    several = f"Mean ± standard deviation over {plural(len(measured.seeds), 'seed')} ({seeds})."
    exactly = f" ({100 * measured.target:g} %)" if measured.target is not None and target.rounded else ""
    return (
        f"{several if len(measured.seeds) > 1 else f'Seed {seeds} alone.'} The target is "
        f"{target.words(measured.panel.baseline.label)}{exactly}; R is the first round that reaches it."
    )


def _which(runs: Sequence[tuple[Line, int]], measured: Measured) -> str:
    """List lines by their seeds."""
    seeds: dict[str, list[int]] = {}
    for line, seed in runs:
        seeds.setdefault(line.label, []).append(seed)
    labels: dict[tuple[int, ...], list[str]] = {}
    for label, which in seeds.items():
        labels.setdefault(tuple(which), []).append(label)
    return " ".join(
        f"With {'every seed' if which == measured.every_seed else seeds_words(which)}: {'; '.join(same)}."
        for which, same in labels.items()
    )


def seeds_words(seeds: Sequence[int]) -> str:
    """Name seeds in a sentence."""
    *before, last = map(str, seeds)
    return f"seeds {', '.join(before)} and {last}" if before else f"seed {last}"


# --------------------------------------------------------------------------------------------------------------------
# Sentences that follow from the numbers: who is first in how many seeds, and by how much.

OURS = "SMoFi"


def findings(measured: Measured) -> list[str]:
    """Say what a panel's numbers say. Only lines with all the panel's seeds are compared."""
    complete = [line for line in measured.panel.lines if len(measured.histories[line]) == len(measured.seeds) > 0]
    if len(complete) < 2 or measured.panel.baseline not in complete:
        return []
    if any(line.value for line in complete):
        return _along(measured, [line for line in complete if line.value])
    sentences = []
    for base in dict.fromkeys(measured.rows[line].base for line in complete):
        near = [line for line in complete if measured.rows[line].base == base]
        ours = next((line for line in near if line.label.split(" + ")[-1] == OURS), None)
        if ours and len(near) > 1:
            best = max((line for line in near if line is not ours), key=lambda line: measured.rows[line].mean)
            sentences += [_first(measured, ours, near)]
            sentences += [_ahead(measured, ours, other) for other in dict.fromkeys([near[0], best])]
    if not sentences and len(complete) == 2:
        sentences = [_ahead(measured, complete[1], complete[0])]
    return sentences


def _first(measured: Measured, ours: Line, near: Sequence[Line]) -> str:
    """Count the seeds in which ours is ahead of all others."""

    def count(value: Callable[[Line, int], float]) -> str:
        first = level = 0
        for seed in measured.seeds:
            own, others = value(ours, seed), max(value(line, seed) for line in near if line is not ours)
            first += own > others
            level += own == others > -math.inf
        return str(first) + (f" (level with another in {level})" if level else "")

    reached = count(lambda line, seed: _sooner(measured.rounds_by_seed(line)[seed]))
    best = count(lambda line, seed: max(measured.history(line, seed).measured))
    mean = count(lambda line, seed: fmean(measured.history(line, seed).measured))
    return (
        f"Of these {plural(len(near), 'method')}, {ours.label} reaches the target first in {reached}, has the highest "
        f"mean over rounds in {mean} and the best accuracy in {best} of {plural(len(measured.seeds), 'seed')}."
    )


def _sooner(rounds: float | None) -> float:
    """Turn rounds into a number that is higher for fewer; None is a target that was missed."""
    return -math.inf if rounds is None else -rounds


def _ahead(measured: Measured, ours: Line, base: Line) -> str:
    """Say by how much a line is ahead, seed by seed, with the interval of `smofi compare`."""
    found = paired(measured.histories[ours], measured.histories[base])
    assert found
    with_intervals = ", with 95 % intervals" if len(found.seeds) > 1 else ""
    return (
        f"{ours.label} against {base.label}, seed by seed{with_intervals}: best accuracy {_points(found.best)}, mean "
        f"over rounds {_points(found.mean)}."
    )


def _points(difference: Difference) -> str:
    rounded = [round(100 * share, 1) for share in difference if share is not None]
    mean, *ends = (f"{points:+.1f}" if points else "0.0" for points in rounded)
    return f"{mean} points" + (f" ({' to '.join(ends)})" if ends else "")


def _along(measured: Measured, varied: Sequence[Line]) -> list[str]:
    """Describe lines that differ in one value."""
    if len(varied) < 2:
        return []
    rows, base = measured.rows, measured.panel.baseline
    above = sum(rows[line].best > rows[base].best for line in varied)
    steady = sum(rows[line].mean > rows[base].mean for line in varied)
    highest = max(varied, key=lambda line: rows[line].best)
    steadiest = max(varied, key=lambda line: rows[line].mean)
    quickest = max(varied, key=lambda line: _sooner(rows[line].rounds))
    sentences = [
        f"Mean best accuracy is above {base.label}'s at {above} of {len(varied)} settings, the mean over rounds "
        f"at {steady}.",
        f"The best accuracy is highest with {highest.label} ({100 * rows[highest].best:.1f} %), the mean over rounds "
        f"with {steadiest.label} ({100 * rows[steadiest].mean:.1f} %).",
        _ahead(measured, steadiest, base),
    ]
    if (fewest := rows[quickest].rounds) is not None:
        sentences.append(f"The target is reached soonest with {quickest.label} (R {fewest:.1f}).")
    groups = list(dict.fromkeys(line.group for line in varied if line.group))
    if len(groups) == 2:
        one, other = ({line.value: rows[line] for line in varied if line.group == group} for group in groups)
        pairs = [(one[value], other[value]) for value in one if value in other]
        best = sum(first.best > second.best for first, second in pairs)
        mean = sum(first.mean > second.mean for first, second in pairs)
        sooner = sum(_sooner(first.rounds) > _sooner(second.rounds) for first, second in pairs)
        sentences.append(
            f"Both have all seeds at {plural(len(pairs), 'value')}: {groups[0]} is above {groups[1]} in mean best "
            f"accuracy at {best}, in the mean over rounds at {mean}, and needs fewer rounds to the target at {sooner}."
        )
    return sentences


# --------------------------------------------------------------------------------------------------------------------
# The paper's claims, each with the comparisons by which it holds in our numbers or does not.

EVERY, MEANS, NOT, UNTOLD = "holds with every seed", "holds on average", "does not hold", "cannot be told"
UNITS = {"best": " %", "mean": " %", "rounds": " rounds", "hours": " h"}
SHOWN = 3
"""Up to this number of comparisons, each is shown with its numbers; of more, the one that holds least."""


@dataclass(frozen=True)
class Compared:
    """One comparison: ours and the best of the others with each seed, where more is better."""

    words: str
    ours: Sequence[float]
    others: Sequence[float]
    by: str

    @property
    def always(self) -> bool:
        return all(self._holds(*pair) for pair in zip(self.ours, self.others, strict=True))

    @property
    def on_average(self) -> bool:
        return self._holds(fmean(self.ours), fmean(self.others))

    def _holds(self, one: float, other: float) -> bool:
        """Tell whether one is ahead. Level counts in rounds, where ties are common."""
        return one > other or (one == other and self.by in ("rounds", "misses"))


def verdict(claim: Claim, panels: Sequence[Measured]) -> tuple[str, str]:
    """Return whether a claim holds here, and the numbers that say so."""
    if not claim.checks:
        return UNTOLD, claim.why
    if any(panel.missing for panel in panels):
        return UNTOLD, "its runs are not complete yet"
    every = [one for check in claim.checks for one in _compared(check, panels)]
    compared = [one for one in every if one is not None]
    if len(compared) < max(1, len(every)):
        return UNTOLD, "some of its runs have diverged"
    word = NOT
    if all(one.on_average for one in compared):
        word = EVERY if all(one.always for one in compared) else MEANS
    if len(compared) <= SHOWN:
        return word, "; ".join(one.words for one in compared)
    holding = sum(one.on_average for one in compared)
    least = min(compared, key=lambda one: (one.on_average, fmean(one.ours) - fmean(one.others)))
    return word, f"{holding} of {len(compared)} comparisons hold on average; the least: {least.words}"


def _compared(check: Check, panels: Sequence[Measured]) -> Iterator[Compared | None]:
    """Make the comparisons that a check stands for; None for a comparison that lacks a seed of a line."""
    for number, panel in enumerate(panels):
        labels = [line.label for line in panel.panel.lines]
        if check.panel not in (None, number) or check.line not in labels:
            continue
        ours = _values(panel, check.line, check)
        if check.than:
            rivals = {_where(panels[other]): _values(panels[other], check.line, check) for other in check.than}
        elif check.by == "misses":
            rivals = {}
        else:
            rivals = {label: _values(panel, label, check) for label in check.of or _near(check.line, labels)}
        if not ours or not all(rivals.values()):
            yield None
        elif check.by == "misses":
            words = f"{check.line} misses it with {sum(map(int, ours))} of {len(ours)} seeds"
            yield Compared(words, ours, [1.0] * len(ours), check.by)
        else:
            best = max(rivals, key=lambda name: fmean(rivals[name]))
            others = [max(values) for values in zip(*rivals.values(), strict=True)]
            subject = f"{check.line} in {_where(panel)}" if check.than or len(panels) > 1 else check.line
            words = f"{subject} {_number(fmean(ours), check)} against {_number(fmean(rivals[best]), check)} ({best})"
            yield Compared(words, ours, others, check.by)


def _near(label: str, labels: Sequence[str]) -> list[str]:
    """Return the other lines on the same base; of a line without a base, all others."""
    base = label.rpartition(" + ")[0]
    return [one for one in labels if one != label and (not base or one == base or one.startswith(f"{base} + "))]


def _where(panel: Measured) -> str:
    return panel.panel.title.rpartition(", ")[2]


def _values(panel: Measured, label: str, check: Check) -> list[float]:
    """Return a line's values with every seed, more being better; none if it is not complete."""
    line = next(one for one in panel.panel.lines if one.label == label)
    if len(panel.histories[line]) < len(panel.every_seed):
        return []
    found = []
    for history in panel.histories[line]:
        rounds = history.rounds_to(panel.target_of(history.seed))
        hours = math.inf if rounds is None or not history.hours else history.hours[rounds - 1]
        values = {
            "best": 100 * max(history.measured),
            "mean": 100 * fmean(history.measured),
            "rounds": _sooner(rounds),
            "misses": float(rounds is None),
            "hours": -hours,
        }
        found.append(values[check.by])
    if check.over and check.over != label:
        base = _values(panel, check.over, Check(check.over, by=check.by))
        return [one - other for one, other in zip(found, base, strict=True)] if base else []
    return found


def _number(value: float, check: Check) -> str:
    if math.isinf(value):
        return "the target missed"
    if check.over:
        return f"{value:+.1f}{' points' if check.by in ('best', 'mean') else ' rounds'}"
    return f"{abs(value):.3g}{UNITS[check.by]}" if check.by == "hours" else f"{abs(value):.1f}{UNITS[check.by]}"


def claims_table(measured: Sequence[tuple[Item, Sequence[Measured]]]) -> str:
    """Return a table of all claims in Markdown, each with its verdict, its numbers, and the section it rests on."""
    rows = ["| the paper says | here | our numbers |", "|---|---|---|"]
    for item, panels in measured:
        anchor = "".join(letter for letter in item.title.lower().replace(" ", "-") if letter.isalnum() or letter == "-")
        for claim in item.claims:
            word, numbers = verdict(claim, panels)
            rows.append(f"| {claim.says} | **{word}** | {numbers} ([{item.name}](#{anchor})) |")
    return "\n".join(rows)
