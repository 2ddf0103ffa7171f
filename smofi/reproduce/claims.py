"""The paper's claims, each with the comparisons by which it holds in our numbers or does not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from smofi.reproduce.items.parts import BEST, HOURS_TO, MEAN, MISSES, ROUNDS, Check, Claim, Item
from smofi.reproduce.measured import Measured

EVERY, MEANS, NOT, UNTOLD = "holds with every seed", "holds on average", "does not hold", "cannot be told"
UNITS = {BEST: " %", MEAN: " %", ROUNDS: " rounds", HOURS_TO: " h"}
SHOWN = 3
"""So many comparisons are shown with their numbers; of more, how many hold, and the one that holds least."""


@dataclass(frozen=True)
class Compared:
    """One comparison: ours and the best of the others with each seed, where more is better."""

    words: str
    ours: tuple[float, ...]
    others: tuple[float, ...]
    by: str

    @property
    def always(self) -> bool:
        """Whether it holds with every seed. Level counts in rounds, where ties are common."""
        return all(self._holds(*pair) for pair in zip(self.ours, self.others, strict=True))

    @property
    def on_average(self) -> bool:
        """Whether it holds for the means over seeds."""
        return self._holds(fmean(self.ours), fmean(self.others))

    def _holds(self, one: float, other: float) -> bool:
        return one > other or (one == other and self.by in (ROUNDS, MISSES))


def verdict(claim: Claim, panels: Sequence[Measured]) -> tuple[str, str]:
    """Return whether a claim holds here, and the numbers that say so."""
    if not claim.checks:
        return UNTOLD, claim.why
    compared = [found for check in claim.checks for found in _compared(check, panels)]
    if not compared:
        return UNTOLD, "its runs are not complete yet"
    word = NOT
    if all(one.on_average for one in compared):
        word = EVERY if all(one.always for one in compared) else MEANS
    if len(compared) <= SHOWN:
        return word, "; ".join(one.words for one in compared)
    holding = sum(one.on_average for one in compared)
    least = min(compared, key=lambda one: (one.on_average, fmean(one.ours) - fmean(one.others)))
    return word, f"{holding} of {len(compared)} comparisons hold on average; the least: {least.words}"


def _compared(check: Check, panels: Sequence[Measured]) -> Iterator[Compared]:
    """The comparisons that a check stands for; of incomplete lines there are none."""
    for number, panel in enumerate(panels):
        if check.panel not in (None, number):
            continue
        ours = _values(panel, check.ours, check)
        if ours and check.by == MISSES:
            words = f"{check.ours} misses it with {sum(map(int, ours))} of {len(ours)} seeds"
            yield Compared(words, ours, (1.0,) * len(ours), check.by)
            continue
        if check.than:
            rivals = [_values(panels[other], check.ours, check) for other in check.than]
            names = [panels[other].panel.title.rpartition(", ")[2] for other in check.than]
        else:
            base = check.ours.rpartition(" + ")[0]
            own = [line.label for line in panel.panel.lines]
            near = [label for label in own if label != check.ours and (label == base or label.startswith(f"{base} + "))]
            labels = check.others or (near if base else [label for label in own if label != check.ours])
            rivals, names = [_values(panel, label, check) for label in labels], list(labels)
        if not ours or not all(rivals):
            continue
        means = [fmean(values) for values in rivals if values]
        best = names[means.index(max(means))]
        others = tuple(max(values[seed] for values in rivals if values) for seed in range(len(ours)))
        where = panel.panel.title.rpartition(", ")[2]
        subject = f"{check.ours} in {where}" if check.than or len(panels) > 1 else check.ours
        words = f"{subject} {_number(fmean(ours), check)} against {_number(max(means), check)} ({best})"
        yield Compared(words, ours, others, check.by)


def _values(panel: Measured, label: str, check: Check) -> tuple[float, ...] | None:
    """A line's values with every seed, more being better; None if the line is not there, or not complete."""
    line = next((one for one in panel.panel.lines if one.label == label), None)
    if line is None or len(panel.histories[line]) < len(panel.every_seed):
        return None
    found = []
    for history in panel.histories[line]:
        target = panel.target_of(history.seed)
        rounds = history.rounds_to(target)
        hours = math.inf if rounds is None or not history.hours else history.hours[rounds - 1]
        values = {
            BEST: 100 * max(history.measured),
            MEAN: 100 * fmean(history.measured),
            ROUNDS: -math.inf if rounds is None else -rounds,
            MISSES: float(rounds is None),
            HOURS_TO: -hours,
        }
        found.append(values[check.by])
    if check.over and check.over != label:
        base = _values(panel, check.over, Check(check.over, by=check.by))
        return base and tuple(one - other for one, other in zip(found, base, strict=True))
    return tuple(found)


def _number(value: float, check: Check) -> str:
    if math.isinf(value):
        return "the target missed"
    if check.over:
        return f"{value:+.1f}{' points' if check.by in (BEST, MEAN) else ' rounds'}"
    return f"{abs(value):.3g}{UNITS[check.by]}" if check.by == HOURS_TO else f"{abs(value):.1f}{UNITS[check.by]}"


def claims_table(measured: Sequence[tuple[Item, Sequence[Measured]]]) -> str:
    """Return a table of all claims in Markdown, each with its verdict, its numbers, and the section it rests on."""
    rows = ["| the paper says | here | our numbers |", "|---|---|---|"]
    for item, panels in measured:
        anchor = "".join(letter for letter in item.title.lower().replace(" ", "-") if letter.isalnum() or letter == "-")
        for claim in item.claims:
            word, numbers = verdict(claim, panels)
            rows.append(f"| {claim.words} | **{word}** | {numbers} ([{item.name}](#{anchor})) |")
    return "\n".join(rows)
