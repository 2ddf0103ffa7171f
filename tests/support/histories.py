"""Histories by their accuracies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from smofi.report.results import History


def histories(accuracies: Mapping[str, Sequence[float | None]]) -> list[History]:
    return [History(name, list(values)) for name, values in accuracies.items()]
