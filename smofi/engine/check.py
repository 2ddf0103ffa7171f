"""What can be refused before any training: a plan nobody can follow, data that the model or the loss cannot take."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import cross_entropy

from smofi.cut import CutSpec
from smofi.data.clients import Samples, TensorSamples
from smofi.engine.evaluate import Evaluator
from smofi.engine.plan import Planner
from smofi.errors import InputError, check_number, refuse


def check_device(device: str | torch.device) -> torch.device:
    """A device that torch can use here.

    >>> check_device("cpu")
    device(type='cpu')
    """
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:
        refuse("device", str(device), f"a device torch can use, as cpu or cuda ({str(error).splitlines()[0]})")
    return found


def check_speeds(speeds: Sequence[float] | None, clients: int) -> Sequence[float] | None:
    """A positive number per client, or None."""
    if speeds is not None and len(speeds) != clients:
        refuse("speeds", speeds, f"a number for each of the {clients} clients, and it has {len(speeds)}")
    for speed in speeds or ():
        check_number("speeds", speed, above=0)
    return speeds


def check_plan(planner: Planner, cut: CutSpec) -> None:
    """Somebody can take part, and the method can work with the cut."""
    if not planner.eligible:
        largest = max(planner.sizes)
        refuse("batch_size", planner.batch_size, f"at most {largest}, the largest client's number of samples")
    if planner.cuts.per_client and planner.method.where.one_server:
        refuse("cut", cut, f"one cut for all clients: {planner.method} keeps a single server model")


def check_data(evaluator: Evaluator, clients: Sequence[Samples], test: Samples | None, probe: int) -> None:
    """All samples are alike and finite, and the model and the loss take those of client `probe`."""
    named = {f"clients[{i}]": samples for i, samples in enumerate(clients) if len(samples)}
    if test is not None:
        named["test"] = test
        if not len(test):
            raise InputError("test is not accepted: it is empty; expected at least one sample, or no test data at all")
    shape = _shape(clients[probe])
    for name, samples in named.items():
        if shape and _shape(samples) not in (shape, None):
            raise InputError(
                f"{name} is not accepted: its samples have shape {_shape(samples)}, those of clients[{probe}] {shape}"
            )
        if isinstance(samples, TensorSamples) and not bool(samples.inputs.isfinite().all()):
            raise InputError(f"{name} is not accepted: its inputs hold values that are not finite numbers")
    classes = _outputs(evaluator, clients[probe], f"clients[{probe}]")
    if evaluator.loss is cross_entropy:
        for name, samples in named.items():
            _check_classes(name, samples, classes)


def _outputs(evaluator: Evaluator, samples: Samples, name: str) -> int:
    """The width of the model's output on two samples."""
    device = next(evaluator.model.parameters()).device
    inputs, targets = samples.batch(torch.arange(min(2, len(samples)), device=device))
    try:
        with torch.inference_mode():
            outputs = evaluator.model(inputs)
            evaluator.loss(outputs, targets)
    except Exception as error:
        raise InputError(
            f"model is not accepted: it or the loss fails on the first samples of {name}, whose inputs have shape "
            f"{tuple(inputs.shape)} and targets {tuple(targets.shape)}: {error}"
        ) from error
    return int(outputs.shape[min(1, outputs.dim() - 1)])


def _check_classes(name: str, samples: Samples, classes: int) -> None:
    if isinstance(samples, TensorSamples) and not samples.targets.is_floating_point():
        low, high = int(samples.targets.min()), int(samples.targets.max())
        if low < 0 or high >= classes:
            raise InputError(
                f"{name} is not accepted: its targets reach from {low} to {high}, the model's outputs from 0 to "
                f"{classes - 1}"
            )


def _shape(samples: Samples) -> tuple[int, ...] | None:
    """The shape of one input, where it can be known without reading a sample."""
    return tuple(samples.inputs.shape[1:]) if isinstance(samples, TensorSamples) else None
