"""What can be measured of a model, by name, and which of several metrics is the one that is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from numbers import Real
from statistics import fmean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

ClientMetric = Callable[[list[float | None]], Any]


def top1(outputs: Tensor, targets: Tensor) -> float:
    """The share of samples whose largest output is the right one.

    >>> import torch
    >>> top1(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
    0.5
    """
    return float((outputs.argmax(1) == targets).double().mean())


def macro_f1(outputs: Tensor, targets: Tensor) -> float:
    """The mean over the classes that occur of 2 TP / (2 TP + FP + FN).

    >>> import torch
    >>> macro_f1(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 0]))
    1.0
    """
    classes = outputs.shape[1]
    predicted = outputs.argmax(1)
    right = targets[predicted == targets].bincount(minlength=classes)
    counted = predicted.bincount(minlength=classes) + targets.bincount(minlength=classes)
    occurs = counted > 0
    return float((2 * right[occurs].double() / counted[occurs]).mean())


def per_client(accuracies: list[float | None]) -> Any:
    """The global model's accuracy for each client, None for a client without samples."""
    return accuracies


def worst_client(accuracies: list[float | None]) -> Any:
    """The lowest of the clients' accuracies."""
    return min((accuracy for accuracy in accuracies if accuracy is not None), default=None)


TEST_METRICS: dict[str, Callable[[Tensor, Tensor], float]] = {"top1": top1, "macro_f1": macro_f1}
CLIENT_METRICS: dict[str, ClientMetric] = {"per_client": per_client, "worst_client": worst_client}

USUAL = {"top1": "accuracy"}
"""The headings where nothing is said about metrics."""

ON_TRAINING = " (on training data)"

_HEADINGS = {**USUAL, "macro_f1": "macro F1", "per_client": "mean of clients", "worst_client": "worst client"}


def headings(metrics: Iterable[str], *, on_training: bool = True) -> dict[str, str]:
    """What people call each metric. The first one is judged: the first that gives a single number, or else the mean of
    `per_client`. `on_training` says whether clients are judged by the samples they train on.

    >>> headings(["per_client", "macro_f1", "top1"], on_training=False)
    {'macro_f1': 'macro F1', 'top1': 'accuracy', 'per_client': 'mean of clients'}
    """
    in_order = sorted(metrics, key=lambda name: name == "per_client")
    on = {name: ON_TRAINING for name in CLIENT_METRICS if on_training}
    return {name: _heading(name) + on.get(name, "") for name in in_order} or dict(USUAL)


def _heading(metric: str) -> str:
    """A function has its own name; one that is called as ours are is told apart."""
    return _HEADINGS.get(metric, f"{metric} (function)" if metric in _HEADINGS.values() else metric)


def is_share(metric: str) -> bool:
    """Whether a metric is a share of 1 by its nature; a user's function may be anything."""
    return metric in _HEADINGS


def value_of(record: Mapping[str, Any], metric: str) -> float | None:
    """What a record, by its fields, says about a metric as a single number; None where that was not measured.

    >>> value_of({"metrics": {"per_client": {"north": 0.5, "south": 1.0, "west": None}}}, "per_client")
    0.75
    """
    value = record.get("accuracy") if metric == "top1" else (record.get("metrics") or {}).get(metric)
    clients = client_values(value) if metric in CLIENT_METRICS else {}
    known = [one for one in clients.values() if one is not None and isfinite(one)]
    return fmean(known) if known else float(value) if isinstance(value, Real) else None


def client_values(value: Any) -> dict[str, float | None]:
    """The clients' accuracies by name, or by number where clients have no names; none of a single number.

    >>> client_values([0.5, None])
    {'0': 0.5, '1': None}
    """
    if isinstance(value, list):
        value = dict(enumerate(value))
    return {str(name): one for name, one in value.items()} if isinstance(value, dict) else {}
