"""How each client fares, as a table."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from smofi.report import History
from smofi.report.clients import MOST_ROWS, clients_table


def shown(metrics: dict[str, str], *values: Any) -> tuple[str, list[list[str]]]:
    """The heading, and the cells of each column."""
    histories = [History.of(f"method {n}", [{"metrics": {"per_client": v}}], 0, metrics) for n, v in enumerate(values)]
    group = clients_table(histories)
    assert group is not None
    heading, table = group.renderables
    assert isinstance(heading, Text)
    assert isinstance(table, Table)
    return heading.plain, [[str(cell) for cell in column.cells] for column in table.columns]


def test_a_column_for_each_method_the_worst_client_above() -> None:
    heading, columns = shown({"per_client": "mean"}, {"a": 0.5, "b": None, "c": 0.25}, {"a": 1.0, "b": None, "c": 0.75})
    assert heading == "accuracy of each client on its own test data, at the latest evaluation"
    assert columns == [["c", "a", "b"], ["25.0%", "50.0%", "-"], ["75.0%", "100.0%", "-"]]


def test_training_data_is_named_and_of_many_clients_some_are_shown() -> None:
    heading, columns = shown({"per_client": "mean (on training data)"}, [number / 100 for number in range(100)])
    assert heading.startswith("accuracy of each client on its training data")
    assert heading.endswith("; 20 of 100, evenly chosen")
    assert (len(columns[0]), columns[0][0], columns[0][-1]) == (MOST_ROWS, "0", "99")
    assert clients_table([History("smofi", [0.5])]) is None
