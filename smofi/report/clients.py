"""How well the global model serves each client, by the client's name."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from smofi.engine.metrics import ON_TRAINING
from smofi.report.history import History, finite
from smofi.report.numbers import percent
from smofi.report.style import DIM

MOST_ROWS = 20


def clients_table(histories: Sequence[History]) -> Group | None:
    """The latest accuracy of each client, a column for each method, the client that fares worst with the first method
    above; None where that was not measured.

    >>> records = [{"metrics": {"per_client": {"north": 0.5, "south": 0.25, "west": None}}}]
    >>> heading, table = clients_table([History.of("smofi", records)]).renderables
    >>> str(heading), [str(cell) for cell in table.columns[0].cells]
    ('accuracy of each client on its own test data, at the latest evaluation', ['south', 'north', 'west'])
    """
    known = [history for history in histories if history.clients]
    if not known:
        return None
    first = known[0].clients
    names = sorted(first, key=lambda name: [*finite([first[name]]), 2.0][0])  # those without samples last
    most = min(MOST_ROWS, len(names))
    shown = [names[round(place * (len(names) - 1) / max(1, most - 1))] for place in range(most)]
    data = "training data" if known[0].metrics.get("per_client", "").endswith(ON_TRAINING) else "own test data"
    some = f"; {MOST_ROWS} of {len(names):,}, evenly chosen" if len(names) > MOST_ROWS else ""
    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    drawn.add_column(Text("client", style=DIM), overflow="fold")
    for history in known:
        drawn.add_column(Text(history.name, style=DIM), justify="right", overflow="fold")
    for name in shown:
        drawn.add_row(Text(name), *(percent(history.clients.get(name)) for history in known))
    return Group(Text(f"accuracy of each client on its {data}, at the latest evaluation{some}"), drawn)
