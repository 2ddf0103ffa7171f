"""The round with the best validation, followed as rounds are added."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from smofi.engine.events import Record
from smofi.engine.stopping import BestRound


def record(number: int, validation: float | None = None) -> Record:
    return Record(number, None, 1.0, 0.5, 0.1, [0, 1], [2, 2], 0.05, "1", validation=validation)


HISTORIES: list[Callable[[int], float | None]] = [
    lambda number: None,
    lambda number: number / 100,
    lambda number: -number / 100,
    lambda number: [0.5, None, 0.7, 0.7, 0.6][number % 5],
]


@pytest.mark.parametrize("validation", HISTORIES)
def test_it_is_followed_as_it_would_be_found(validation: Callable[[int], float | None]) -> None:
    history, best = list[Record](), BestRound()
    for number in range(1, 21):
        history.append(record(number))
        best.of(history)
        history[-1] = record(number, validation(number))  # evaluated after all
        values = [one.validation for one in history]
        found = max((value for value in values if value is not None), default=None)
        expected = None if found is None else 1 + values.index(found)
        assert best.of(history) == BestRound().of(history) == expected


def test_that_of_another_history_is_its_own() -> None:
    best = BestRound()
    assert best.of([record(1, 0.9), record(2, 0.1)]) == 1
    assert best.of([record(1, 0.2), record(2, 0.3)]) == 2
    assert best.of([]) is None
