"""The one shape of a history, from records and from the lines of a file."""

from __future__ import annotations

import json
import math

from smofi.engine.events import Record
from smofi.report import History


def record(number: int, accuracy: float | None, virtual_end: float | None = None) -> Record:
    return Record(number, accuracy, 1.0, 0.5, 2.0 * number, [0], [4], 0.05, "1", virtual_end=virtual_end)


def test_records_and_the_lines_of_a_file_give_the_same_history() -> None:
    records = [record(1, 0.5, 1800.0), record(2, None, 3600.0), record(3, 0.75, 9000.0)]
    lines = [json.loads(json.dumps(vars(one))) for one in records]
    expected = History("smofi", [0.5, None, 0.75], [2.0, 4.0, 6.0], [0.5, 1.0, 2.5], seed=3)
    assert History.of("smofi", records, seed=3) == History.of("smofi", lines, seed=3) == expected
    assert (expected.rounds, expected.total_seconds, expected.virtual_seconds) == (3, 12.0, 9000.0)


def test_a_file_may_lack_what_a_record_has() -> None:
    assert History.of("smofi", [{"round": 1}]) == History("smofi", [None])
    assert History.of("smofi", [record(1, 0.5)]).virtual_seconds is None


def test_best_and_last_look_at_evaluated_rounds() -> None:
    history = History("smofi", [0.75, math.nan, 0.5, None])
    assert (history.best, history.last, history.measured) == (0.75, 0.5, [0.75, 0.5])
    assert (History("smofi").best, History("smofi", [None]).last) == (None, None)


def test_a_history_reads_the_metric_that_is_judged() -> None:
    clients = {"per_client": {"north": 0.5, "south": None, "west": 0.25}}
    lines = [{"accuracy": 0.5, "metrics": {"macro_f1": 0.25}}, {}, {"metrics": {"macro_f1": 0.75, **clients}}]
    history = History.of("smofi", lines, metrics={"macro_f1": "macro F1", "top1": "accuracy", "per_client": "clients"})
    assert (history.values, history.best, history.last) == ([0.25, None, 0.75], 0.75, 0.75)
    assert [(other.values, other.metrics) for other in history.others] == [([0.5, None, None], {"top1": "accuracy"})]
    assert history.clients == {"north": 0.5, "south": None, "west": 0.25}
    mean = History.of("smofi", lines, metrics={"per_client": "mean of clients"})
    assert mean.values == [None, None, 0.375]


def test_an_earlier_versions_clients_have_numbers() -> None:
    assert History.of("smofi", [{"metrics": {"per_client": [0.5, None]}}]).clients == {"0": 0.5, "1": None}
