"""The split executed for real, against autograd on the unsplit model and against gradients worked out by hand."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import smofi
from reference import convnet, federation, perceptron
from smofi.cut import Cut
from smofi.data.samples import TensorSamples
from smofi.engine.cohort.halves import ClientHalf, ServerHalf
from smofi.engine.cohort.setup import Setup
from smofi.engine.cohort.steppers.split import split_step
from smofi.engine.cohort.steps import ClientSteps
from smofi.engine.passes import Loss, Wire, direct
from smofi.engine.plan import ClientPlan
from smofi.flat import Layout

Crossing = tuple[str, int, Tensor]


def listener(calls: list[Crossing]) -> Wire:
    def listen(tensor: Tensor, direction: str, client: int) -> Tensor:
        assert not tensor.requires_grad, "a graph would pass the cut"
        calls.append((direction, client, tensor.clone()))
        return tensor

    return listen


def half_square(output: Tensor, target: Tensor) -> Tensor:
    return 0.5 * (output - target).square().mean()


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@dataclass
class Split:
    """A client's whole batch, in the order it has, on a model cut in two halves."""

    client: int
    model: nn.Sequential
    cut: Cut
    inputs: Tensor
    targets: Tensor

    def client_half(self, setup: Setup) -> ClientHalf:
        samples = TensorSamples.of(self.inputs, self.targets)
        plan = ClientPlan(0, 0, self.client, steps=1, batch_size=len(self.inputs))
        steps = ClientSteps(plan, samples, torch.device("cpu"), setup.dropout)
        steps.order = torch.arange(len(self.inputs))[None]
        return ClientHalf.of(setup, self.model, self.cut, [], steps)


def split_losses(group: list[Split], loss: Loss, wire: Wire = direct) -> list[Tensor]:
    """Both halves of every client, of which the first one's server model serves all."""
    first = group[0]
    setup = Setup(first.model, Layout.of(first.model), smofi.methods.fedavg(), smofi.sgd(lr=0.1), loss, wire)
    clients = [one.client_half(setup) for one in group]
    return split_step(clients, ServerHalf.of(setup, first.model, first.cut, []), wire)


# One client


@pytest.mark.parametrize("cut", [Cut(first, last, 5) for first in range(1, 5) for last in range(first + 1, 6)], ids=str)
def test_one_clients_gradients_are_those_of_the_unsplit_model(cut: Cut) -> None:
    model, ((x, y),) = convnet().train(), federation([1, 4, 4], sizes=(6,))
    whole = copy.deepcopy(model)
    inputs, _ = TensorSamples.of(x, y).batch(torch.arange(6))  # as they lie in memory in a run
    value = nn.functional.cross_entropy(whole(inputs), y)
    value.backward()
    (loss,) = split_losses([Split(0, model, cut, x, y)], nn.functional.cross_entropy)
    assert abs(loss.item() - value.item()) < 1e-14
    expected = gradients(whole)
    assert expected.keys() == dict(model.named_parameters()).keys()
    for name, gradient in gradients(model).items():
        assert (gradient - expected[name]).abs().max() < 1e-14, name
    for name, buffer in whole.named_buffers():
        assert torch.equal(model.get_buffer(name), buffer), f"{name} saw the batch more or less than once"


def test_the_halves_share_the_models_tensors() -> None:
    model, ((x, y),) = convnet(), federation([1, 4, 4], sizes=(6,))
    setup = Setup(model, Layout.of(model), smofi.methods.fedavg(), smofi.sgd(lr=0.1), nn.functional.cross_entropy)
    cut = Cut(2, 4, 5)
    client, server = Split(0, model, cut, x, y).client_half(setup), ServerHalf.of(setup, model, cut, [])
    assert client.back is not None
    parts = [client.front, server.blocks, client.back]
    assert [len(part) for part in parts] == [2, 2, 1]
    assert [id(p) for part in parts for p in part.parameters()] == [id(p) for p in model.parameters()]
    assert Split(0, model, Cut(2, 5, 5), x, y).client_half(setup).back is None


# A merged group, by hand: prediction b s a x with one number in each place


class Scale(nn.Module):
    """Multiplies by one number."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(value, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x


def line(*values: float) -> nn.Sequential:
    return nn.Sequential(*map(Scale, values))


X = [torch.tensor([1.0], dtype=torch.float64), torch.tensor([2.0, -1.0, 3.0], dtype=torch.float64)]
Y = [torch.tensor([5.0], dtype=torch.float64), torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64)]


def test_a_merged_group_in_two_parts() -> None:
    """Clients of 1 and 3 samples, a = 2 and 3 on the clients and s = 0.5 on the one server model."""
    a, s = [2.0, 3.0], 0.5
    models = [line(a_i, s) for a_i in a]
    group = [Split(i, models[i], Cut(1, 2, 2), X[i], Y[i]) for i in (0, 1)]
    losses = split_losses(group, half_square)

    errors = [s * a_i * x - y for a_i, x, y in zip(a, X, Y, strict=True)]
    assert [loss.item() for loss in losses] == [torch.cat(errors).square().sum().item() / 2 / 4] * 2
    # each client: the gradient of the mean over its own samples, whatever its share of the merged batch is
    own = [(error * s * x).mean().item() for error, x in zip(errors, X, strict=True)]
    assert [models[i][0].weight.grad.item() for i in (0, 1)] == pytest.approx(own, rel=1e-14)
    # the server: the gradient of the mean over all four samples
    all_samples = torch.cat([error * a_i * x for error, a_i, x in zip(errors, a, X, strict=True)]).mean().item()
    assert models[0][1].weight.grad.item() == pytest.approx(all_samples, rel=1e-14)
    assert models[1][1].weight.grad is None


def test_a_merged_group_in_the_u_shape() -> None:
    """The server's gradient is Σ (B_i / ΣB) g_i: here 1/4 of the first client's and 3/4 of the second's."""
    a, s, b = [2.0, 3.0], 0.5, [1.5, -1.0]
    models = [line(a_i, s, b_i) for a_i, b_i in zip(a, b, strict=True)]
    group = [Split(i, models[i], Cut(1, 2, 3), X[i], Y[i]) for i in (0, 1)]
    losses = split_losses(group, half_square)

    errors = [b_i * s * a_i * x - y for a_i, b_i, x, y in zip(a, b, X, Y, strict=True)]
    assert [loss.item() for loss in losses] == pytest.approx([(e.square().mean() / 2).item() for e in errors])
    for i in (0, 1):
        front = (errors[i] * b[i] * s * X[i]).mean().item()
        back = (errors[i] * s * a[i] * X[i]).mean().item()
        assert models[i][0].weight.grad.item() == pytest.approx(front, rel=1e-14)
        assert models[i][2].weight.grad.item() == pytest.approx(back, rel=1e-14)
    own = [(errors[i] * b[i] * a[i] * X[i]).mean().item() for i in (0, 1)]
    assert models[0][1].weight.grad.item() == pytest.approx(own[0] / 4 + own[1] * 3 / 4, rel=1e-14)


def test_the_merged_batch_is_normalised_as_one() -> None:
    """BatchNorm on the server sees both clients' samples at once: mean 2.5 and variance of all four."""
    models = [nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1)).double() for _ in range(2)]
    for model in models:
        model[0].load_state_dict({"weight": torch.ones(1, 1), "bias": torch.zeros(1)})
    x = [torch.tensor([[1.0]]).double(), torch.tensor([[2.0], [3.0], [4.0]]).double()]
    group = [Split(i, models[i], Cut(1, 2, 2), x[i], x[i]) for i in (0, 1)]
    split_losses(group, half_square)
    norm = models[0][1]
    assert norm.num_batches_tracked.item() == 1
    assert norm.running_mean.item() == pytest.approx(0.1 * 2.5)
    assert norm.running_var.item() == pytest.approx(0.9 + 0.1 * 5 / 3)


# The wire


def test_two_parts_send_activations_up_and_cut_gradients_down() -> None:
    a, s, calls = [2.0, 3.0], 0.5, list[Crossing]()
    group = [Split(7 + i, line(a[i], s), Cut(1, 2, 2), X[i], Y[i]) for i in (0, 1)]
    split_losses(group, half_square, listener(calls))
    assert [(direction, client) for direction, client, _ in calls] == [("up", 7), ("up", 8), ("down", 7), ("down", 8)]
    for i in (0, 1):
        assert torch.equal(calls[i][2], a[i] * X[i])
        # of the mean over the client's own samples
        gradient = (s * a[i] * X[i] - Y[i]) * s / len(X[i])
        assert (calls[2 + i][2] - gradient).abs().max() < 1e-15


def test_the_u_shape_sends_activations_and_gradients_both_ways() -> None:
    a, s, b, calls = [2.0, 3.0], 0.5, [1.5, -1.0], list[Crossing]()
    group = [Split(i, line(a[i], s, b[i]), Cut(1, 2, 3), X[i], Y[i]) for i in (0, 1)]
    split_losses(group, half_square, listener(calls))
    got = {i: [(direction, tensor) for direction, client, tensor in calls if client == i] for i in (0, 1)}
    for i in (0, 1):
        directions, tensors = zip(*got[i], strict=True)
        assert directions == ("up", "down", "up", "down")
        error = b[i] * s * a[i] * X[i] - Y[i]
        of_output = error * b[i] / 4  # its share B_i / ΣB of the mean over its B_i samples
        of_activation = error * b[i] * s / len(X[i])
        for tensor, expected in zip(tensors, (a[i] * X[i], s * a[i] * X[i], of_output, of_activation), strict=True):
            assert (tensor - expected).abs().max() < 1e-15


@pytest.mark.parametrize("cut", [Cut(1, 3, 4), Cut(2, 3, 4), Cut(1, 2, 4)], ids=str)
def test_labels_never_pass_the_wire_in_the_u_shape(cut: Cut) -> None:
    """What crosses before a client's loss is the same whatever its labels are; and nothing that crosses is a label."""
    ((x, y),) = federation([3], sizes=(5,))
    crossed = []
    for labels in (y, (y + 1) % 3):
        calls: list[Crossing] = []
        work = Split(0, perceptron(), cut, x, labels)
        split_losses([work], nn.functional.cross_entropy, listener(calls))
        assert [direction for direction, _, _ in calls] == ["up", "down", "up", "down"]
        assert all(tensor.is_floating_point() and tensor.shape == (5, 6) for _, _, tensor in calls)
        crossed.append([tensor for _, _, tensor in calls])
    forward_same = [torch.equal(one, other) for one, other in zip(*crossed, strict=True)]
    assert forward_same == [True, True, False, False]


def test_in_two_parts_labels_do_not_pass_the_wire_either() -> None:
    ((x, y),) = federation([3], sizes=(5,))
    calls: list[Crossing] = []
    work = Split(0, perceptron(), Cut(2, 4, 4), x, y)
    split_losses([work], nn.functional.cross_entropy, listener(calls))
    assert [(direction, tensor.dtype) for direction, _, tensor in calls] == [
        ("up", torch.float64),
        ("down", torch.float64),
    ]


def test_a_wire_that_quantises_changes_the_gradients_as_it_should() -> None:
    """Activations rounded to integers: the server learns at the rounded ones, the client from its gradient there."""
    model = line(0.7, 0.5)
    work = Split(0, model, Cut(1, 2, 2), X[1], Y[1])
    split_losses([work], half_square, lambda tensor, way, _: tensor.round() if way == "up" else tensor)
    rounded = torch.tensor([1.0, -1.0, 2.0], dtype=torch.float64)  # of 1.4, -0.7 and 2.1
    error = 0.5 * rounded - Y[1]
    assert model[1].weight.grad.item() == pytest.approx((error * rounded).mean().item(), rel=1e-14)
    assert model[0].weight.grad.item() == pytest.approx((error * 0.5 * X[1]).mean().item(), rel=1e-14)


def settings(**changes: Any) -> dict[str, Any]:
    return {"rounds": 2, "participation": 1.0, "local_epochs": 1, "batch_size": 4, "seed": 1, "cut": 1, **changes}


@pytest.mark.parametrize("method", ["fedavg", "smofi", "sflv2", "mergesfl"])
def test_a_wire_that_quantises_changes_what_is_learned(method: str) -> None:
    def final(wire: Wire | None) -> Tensor:
        clients = federation([3], sizes=(8, 5))
        model = smofi.train(perceptron(), clients, method=method, wire=wire, **settings()).model
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    coarse = final(lambda tensor, direction, client: (10 * tensor).round() / 10)
    assert (coarse - final(None)).abs().max() > 1e-3
    assert (final(direct) - final(None)).abs().max() < 1e-12


# Models that a careless split would break


def same_with_and_without_a_wire(model: nn.Sequential, cuts: list[Any], **changes: Any) -> None:
    """One client, so that every method is a plain training loop, split or not."""
    clients = federation([3], sizes=(12,))
    unsplit = smofi.train(copy.deepcopy(model), clients, method="fedavg", **settings(**changes)).model
    assert any((a - b).abs().max() > 1e-3 for a, b in zip(unsplit.parameters(), model.parameters(), strict=True))
    for cut in cuts:
        for method in ("fedavg", "mergesfl", "smofi(global_momentum=0)"):
            split = smofi.train(
                copy.deepcopy(model), clients, method=method, wire=direct, **settings(**changes, cut=cut)
            ).model
            for name, value in split.state_dict().items():
                assert (value - unsplit.state_dict()[name]).abs().max() < 1e-12, (cut, method, name)


def test_a_client_part_with_nothing_to_train() -> None:
    model = perceptron()
    same_with_and_without_a_wire(nn.Sequential(nn.Flatten(), *model), [0, 1, (0, 1)])
    model[0].requires_grad_(False)
    same_with_and_without_a_wire(model, [0, 1, (0, 1)])


def test_a_server_part_with_nothing_to_train() -> None:
    model = perceptron()
    same_with_and_without_a_wire(nn.Sequential(model[0], nn.Identity(), *model[1:]), [(0, 3)])


def test_layers_that_work_in_place() -> None:
    def block(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(nn.ReLU(inplace=True), nn.Linear(inputs, outputs))

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 6), block(6, 6), block(6, 6), block(6, 3)).double()
    same_with_and_without_a_wire(model, [0, 1, 2, (0, 1), (1, 1), (0, 2)])


def test_a_module_in_several_blocks() -> None:
    model, tanh = perceptron(), nn.Tanh()
    blocks = [model[0][0], tanh, model[1][0], tanh, model[2][0], tanh, model[3]]
    same_with_and_without_a_wire(nn.Sequential(*blocks), [0, 1, 2, 3, 4, 5, (2, 3)])


def test_dropout_on_both_sides() -> None:
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.3)) for _ in range(3)]
    model = nn.Sequential(nn.Linear(3, 6), nn.Dropout(0.3), *blocks, nn.Linear(6, 3)).double()
    same_with_and_without_a_wire(model, [0, 1, 2, 3, (1, 1), (2, 2)])
