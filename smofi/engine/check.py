"""What can be refused before any training: a plan that no client can follow, or data that does not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from smofi.cut import Cuts, CutSpec
from smofi.data.augment import Augment
from smofi.data.samples import Samples, TensorSamples
from smofi.engine.cohort.halves import ClientHalf, ServerHalf
from smofi.engine.cohort.setup import Setup
from smofi.engine.cohort.steppers.split import split_step
from smofi.engine.cohort.steps import ClientSteps
from smofi.engine.cpu.kernels import convolutions, suits_onednn
from smofi.engine.evaluate import Evaluator
from smofi.engine.noise import IN_BACK, ON_SERVER, own_random_state, random_state
from smofi.engine.passes import IGNORED, Loss
from smofi.engine.plan import ClientPlan, Planner
from smofi.engine.state import GlobalState
from smofi.errors import InputError, check_number, refuse
from smofi.flat import Layout, shell


def check_device(device: str | torch.device) -> torch.device:
    """A device that torch can use here.

    >>> check_device("cpu")
    device(type='cpu')
    """
    accepted = "a device that torch can use, such as cpu or cuda"
    if not isinstance(device, str | torch.device):
        refuse("device", device, accepted)
    try:
        found = torch.device(device)
        torch.zeros(1, device=found).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        refuse("device", str(device), f"{accepted} ({str(error).splitlines()[0]})")
    return found


def check_speeds(speeds: Sequence[float] | None, clients: int) -> Sequence[float] | None:
    """A positive number per client, or None."""
    if speeds is None:
        return None
    try:
        given = len(speeds)
    except TypeError:
        refuse("speeds", speeds, "a list of numbers, one for each client")
    if given != clients:
        numbers = f"{clients} number{'s' * (clients > 1)}"
        refuse("speeds", speeds, f"{numbers}, one for each client, but it has {given}")
    return [check_number("speeds", speed, above=0) for speed in speeds]


def check_plan(planner: Planner, cut: CutSpec) -> None:
    """Some client can take part, and the method can work with the cut."""
    if not planner.eligible:
        largest = max(planner.sizes)
        refuse("batch_size", planner.settings.batch_size, f"at most {largest}, the largest client's number of samples")
    if planner.cuts.per_client and planner.method.where.one_server:
        refuse("cut", cut, f"one cut for all clients: {planner.method} keeps a single server model")
    for one in planner.cuts.options if planner.method.select else ():
        each = replace(planner, cuts=Cuts((one,)))
        if not each.selected(each.eligible, 0)[0]:
            _, (smallest,) = each.selected(each.eligible, 0, at_least_one=True)
            assert each.sample_bytes
            needed = smallest * each.sample_bytes(one)
            refuse("method", planner.method.name, f"a bandwidth of {needed:,} bytes a step or more, for a single batch")


def check_samples(clients: Sequence[Samples], held_out: Mapping[str, Samples | None], loss: Loss, classes: int) -> None:
    """All samples are alike, finite, and of classes that the model has."""
    named = {f"clients[{i}]": samples for i, samples in enumerate(clients) if len(samples)}
    named |= {name: samples for name, samples in held_out.items() if samples is not None}
    tensors = {name: samples for name, samples in named.items() if isinstance(samples, TensorSamples)}
    first = next(iter(tensors), "")
    stores = {id(samples.store): samples.store for samples in tensors.values()}
    floats = {key: store.inputs for key, store in stores.items() if store.inputs.is_floating_point()}
    non_finite = {key for key, inputs in floats.items() if not bool(inputs.isfinite().all())}
    for name, samples in tensors.items():
        if samples.shape != tensors[first].shape:
            raise InputError(
                f"{name} is not accepted: its inputs have shape {samples.shape}, but those of {first} have "
                f"{tensors[first].shape}"
            )
        if id(samples.store) in non_finite and not bool(samples.store.inputs[samples.rows].isfinite().all()):
            raise InputError(f"{name} is not accepted: its inputs contain values that are not finite numbers")
        check_targets(name, samples.labels, loss, classes)


def check_targets(name: str, targets: Tensor, loss: Loss, classes: int) -> None:
    """Where the loss is the cross entropy, targets are classes that the model has, or a probability of each."""
    if loss is not cross_entropy and not isinstance(loss, nn.CrossEntropyLoss):
        return
    accepted = f"the model has {classes} outputs, for targets from 0 to {classes - 1}"
    if targets.dtype == torch.bool or (targets.is_floating_point() and targets.dim() == 1):
        kind = str(targets.dtype).removeprefix("torch.")
        raise InputError(
            f"{name} is not accepted: its targets are of type {kind}, but {accepted}, as whole numbers (targets.long())"
        )
    counted = targets[targets != IGNORED]
    if not targets.is_floating_point() and len(counted):
        low, high = int(counted.min()), int(counted.max())
        if low < 0 or high >= classes:
            raise InputError(f"{name} is not accepted: its targets range from {low} to {high}, but {accepted}")


def _check_one_class_each(name: str, targets: Tensor, loss: Loss, outputs: Tensor) -> None:
    """Columns of classes are a common mistake, and torch's sentence about them names neither client nor remedy."""
    if loss is cross_entropy and outputs.dim() == 2 and targets.dim() == 2 and not targets.is_floating_point():
        remedy = "targets.squeeze(1)" if targets.shape[1] == 1 else "targets.argmax(1)"
        each = f"each has targets of shape {tuple(targets.shape[1:])}"
        raise InputError(f"{name} is not accepted: expected one class per sample, but {each}; try {remedy}")


def try_step(
    setup: Setup, state: GlobalState, planner: Planner, clients: Sequence[Samples], augment: Augment | None = None
) -> bool:
    """One real step at every cut, on a copy, with the smallest batch a client will get: what fails here is refused.

    Returns whether a layer draws random numbers, other than dropout.
    """
    draws = False
    probe, size, device = planner.eligible[0], planner.smallest_batch, state.weights.device
    if augment is not None:
        inputs, _ = clients[probe].batch(torch.arange(1, device=device))
        augment.apply(inputs, augment.draw(1, 1, seed=0, round=0, client=0)[0])
    layout, plan = setup.layout, ClientPlan(planner.settings.seed, 0, probe, steps=1, batch_size=size)
    with own_random_state(device):
        for cut in dict.fromkeys(planner.cuts.options):
            scratch = shell(setup.template).train()
            weights, statistics = state.weights.clone(), state.statistics.clone()
            gradient = torch.zeros_like(weights)
            layout.bind(scratch, weights.__getitem__, statistics.__getitem__, gradient.__getitem__)
            before = {name: buffer.clone() for name, buffer in _constants(scratch, layout)}
            try:
                steps = ClientSteps(plan, clients[probe], device, setup.dropout)
                client, server = ClientHalf.of(setup, scratch, cut, [], steps), ServerHalf.of(setup, scratch, cut, [])
                with convolutions(suits_onednn(setup.template, size, clients[probe].pixels)):
                    draws |= _drawn_in_step(client, server)
            except Exception as error:
                hint = " (images are channels-last: use .flatten or .reshape)" if "view size" in str(error) else ""
                raise InputError(
                    f"model is not accepted: with cut {cut} a training step on {size} samples of clients[{probe}] "
                    f"fails: {error}{hint}"
                ) from error
            _check_buffers(scratch, layout, statistics, before)
    return draws


def _drawn_in_step(client: ClientHalf, server: ServerHalf) -> bool:
    """Take a step; whether a part of the model draws from the stream that it is given."""
    states: list[Tensor] = []

    def watch(tensor: Tensor, direction: str, client: int) -> Tensor:
        states.append(random_state(tensor.device))
        return tensor

    seed, device = client.steps.seed, client.steps.order.device
    split_step([client], server, watch)
    untouched = []
    for part in (0, ON_SERVER, IN_BACK):
        client.reseed(seed + part)
        untouched.append(random_state(device))
    return not all(any(torch.equal(state, one) for one in untouched) for state in states)


def try_evaluation(evaluator: Evaluator, samples: Samples, name: str, *, measures: bool = True) -> int:
    """Evaluate two samples, loss and metrics too if `measures`; returns the width of the model's output."""
    try:
        outputs, targets = evaluator.predict(samples, most=2)
        width = int(outputs.shape[min(1, outputs.dim() - 1)])
        if measures:
            check_targets(name, targets, evaluator.loss, width)
            _check_one_class_each(name, targets, evaluator.loss, outputs)
        if measures and evaluator.test is not None:
            evaluator.look_at(evaluator.measure(outputs, targets)[1])
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"model is not accepted with this loss and metrics: evaluating {name} fails: {error}"
        ) from error
    return width


def _constants(model: nn.Module, layout: Layout) -> Iterator[tuple[str, Tensor]]:
    averaged = {place.name for place in layout.statistics}
    for name, buffer in model.named_buffers():
        if name not in averaged and not name.endswith("num_batches_tracked"):
            yield name, buffer


def _check_buffers(model: nn.Module, layout: Layout, statistics: Tensor, before: dict[str, Tensor]) -> None:
    """Running statistics change in place, in their row, and nothing else changes at all."""
    for place in layout.statistics:
        if model.get_buffer(place.name).data_ptr() != statistics[place.columns].data_ptr():
            raise InputError(f"model is not accepted: {place.name} is replaced in training; change it in place instead")
    for name, buffer in _constants(model, layout):
        if not torch.equal(buffer, before[name]):
            raise InputError(
                f"model is not accepted: the buffer {name} ({buffer.dtype}) changes in training and cannot be "
                f"averaged; expected a persistent buffer of type {layout.dtype}"
            )
