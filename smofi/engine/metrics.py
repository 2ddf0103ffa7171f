"""What can be measured of a model, by name."""

from __future__ import annotations

from collections.abc import Callable
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
