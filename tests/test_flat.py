"""A model as a vector: what stands where, what stays out, and modules that compute with the vector itself."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from reference import convnet
from smofi.errors import InputError
from smofi.flat import Layout, Place, shell


def small(dtype: torch.dtype = torch.float64) -> nn.Sequential:
    """A block with a convolution and BatchNorm, one without anything to train, and a linear one: 45 + 0 + 26."""
    torch.manual_seed(0)
    blocks = OrderedDict(
        input=nn.Sequential(nn.Conv2d(2, 3, (2, 3)), nn.BatchNorm2d(3)),
        middle=nn.ReLU(),
        output=nn.Sequential(nn.Flatten(), nn.Linear(12, 2)),
    )
    return nn.Sequential(blocks).to(dtype)


def images(count: int = 5, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn((count, 2, 3, 4), generator=torch.Generator().manual_seed(1), dtype=dtype)


def bound(model: nn.Sequential) -> tuple[nn.Sequential, Layout, Tensor, Tensor, Tensor]:
    """A shell of the model bound to its weights, statistics and gradient vectors."""
    layout = Layout.of(model)
    weights, statistics = layout.pack(model)
    gradient = torch.zeros_like(weights)
    mine = shell(model)
    layout.bind(mine, *(lambda columns, v=vector: v[columns] for vector in (weights, statistics, gradient)))
    return mine, layout, weights, statistics, gradient


# Where things stand


def test_parameters_and_statistics_stand_block_by_block_in_the_order_of_the_model() -> None:
    layout = Layout.of(small())
    assert layout.blocks == ("input", "middle", "output")
    assert [(place.name, tuple(place.shape), place.columns) for place in layout.parameters] == [
        ("input.0.weight", (3, 2, 2, 3), slice(0, 36)),
        ("input.0.bias", (3,), slice(36, 39)),
        ("input.1.weight", (3,), slice(39, 42)),
        ("input.1.bias", (3,), slice(42, 45)),
        ("output.1.weight", (2, 12), slice(45, 69)),
        ("output.1.bias", (2,), slice(69, 71)),
    ]
    assert [(place.name, tuple(place.shape), place.columns) for place in layout.statistics] == [
        ("input.1.running_mean", (3,), slice(0, 3)),
        ("input.1.running_var", (3,), slice(3, 6)),
    ]
    assert (layout.size, layout.statistics_size, layout.dtype) == (71, 6, torch.float64)


def test_a_run_of_blocks_is_a_run_of_columns() -> None:
    layout = Layout.of(small())
    assert (layout.parameter_edges, layout.statistic_edges) == ((0, 45, 45, 71), (0, 6, 6, 6))
    assert layout.columns(0, 1) == slice(0, 45)
    assert layout.columns(1, 2) == slice(45, 45)
    assert layout.columns(1, 3) == slice(45, 71)
    assert layout.columns(0, 3) == slice(0, 71)
    assert layout.statistic_columns(0, 1) == slice(0, 6)
    assert layout.statistic_columns(1, 3) == slice(6, 6)


def test_a_convolution_is_stored_output_height_width_input() -> None:
    model = small()
    weight, vector = model[0][0].weight, Layout.of(model).pack(model)[0]
    expected = [weight[o, i, h, w].item() for o in range(3) for h in range(2) for w in range(3) for i in range(2)]
    assert vector[:36].tolist() == expected
    assert vector[45:69].tolist() == [value.item() for row in model[2][1].weight for value in row]


@given(shape=st.tuples(*[st.integers(1, 4)] * 4))
def test_the_view_of_a_convolution_is_channels_last_and_no_copy(shape: tuple[int, int, int, int]) -> None:
    vector = torch.arange(torch.Size(shape).numel())
    view = Place("w", torch.Size(shape), slice(0, len(vector)), channels_last=True).view(vector)
    assert view.shape == shape
    assert view.is_contiguous(memory_format=torch.channels_last)
    assert view.permute(0, 2, 3, 1).flatten().tolist() == vector.tolist()
    assert view.data_ptr() == vector.data_ptr()


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4), (2, 3, 4, 2), (2, 3, 1, 2, 2)])
def test_any_other_shape_is_stored_row_by_row(shape: tuple[int, ...]) -> None:
    vector = torch.arange(torch.Size(shape).numel())
    assert torch.equal(Place("w", torch.Size(shape), slice(0, len(vector))).view(vector), vector.reshape(shape))


# What stays out


class Keeper(nn.Module):
    """A buffer of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("saved", torch.tensor([1.0, 2.0]))
        self.register_buffer("passing", torch.tensor([3.0, 4.0, 5.0]), persistent=False)
        self.register_buffer("count", torch.tensor(7))
        self.register_buffer("nothing", None)


def test_only_floating_point_buffers_that_would_be_saved_are_statistics() -> None:
    layout = Layout.of(nn.Sequential(nn.Linear(1, 1), Keeper(), nn.BatchNorm1d(1), nn.Linear(1, 1)))
    assert [place.name for place in layout.statistics] == ["1.saved", "2.running_mean", "2.running_var"]
    assert layout.statistic_edges == (0, 0, 2, 4, 4)


def test_a_batch_norm_without_statistics_has_none() -> None:
    layout = Layout.of(nn.Sequential(nn.BatchNorm1d(3, track_running_stats=False), nn.Linear(3, 1)))
    assert (layout.size, layout.statistics_size) == (10, 0)


def test_frozen_parameters_stay_out_of_the_vector() -> None:
    model = small()
    model[0][0].requires_grad_(False)
    model[2][1].bias.requires_grad_(False)
    layout = Layout.of(model)
    assert [place.name for place in layout.parameters] == ["input.1.weight", "input.1.bias", "output.1.weight"]
    assert layout.parameter_edges == (0, 6, 6, 30)


def test_a_shell_is_the_models_structure_with_only_counters_copied() -> None:
    model = small()
    model[0][0].requires_grad_(False)
    copied = shell(model)
    assert [type(module) for module in copied.modules()] == [type(module) for module in model.modules()]
    for (name, theirs), mine in zip(model.named_parameters(), copied.parameters(), strict=True):
        assert mine.data_ptr() == theirs.data_ptr(), name
        assert (mine is theirs) == (not theirs.requires_grad), name
    for (name, theirs), mine in zip(model.named_buffers(), copied.buffers(), strict=True):
        assert (mine.data_ptr() == theirs.data_ptr()) == (not name.endswith("num_batches_tracked")), name


def test_parameters_tied_within_a_block_stand_once_and_stay_tied() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.b(self.a(x))
            return out

    mine, layout, weights, _, gradient = bound(nn.Sequential(Twice(), nn.Linear(2, 1, bias=False)).double())
    assert layout.size == 6
    weights.copy_(torch.tensor([1.0, 2, 3, 4, 5, 6]))
    x = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    # A x = (-1, -1), A A x = (-3, -7), and (5, 6) of it is -57
    assert mine(x).tolist() == [[-57.0]]
    mine(x).sum().backward()
    # d/dA of c'AAx is c (Ax)' + (A'c) x', with c = (5, 6) and A'c = (23, 34)
    assert gradient.tolist() == [-5 + 23, -5 - 23, -6 + 34, -6 - 34, -3, -7]


# There and back


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_packing_and_unpacking_gives_the_same_bits(dtype: torch.dtype) -> None:
    model = small(dtype).train()
    model(images(dtype=dtype))
    layout = Layout.of(model)
    weights, statistics = layout.pack(model)
    assert (weights.dtype, statistics.dtype, weights.shape, statistics.shape) == (dtype, dtype, (71,), (6,))

    other = small(dtype)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1)
    layout.unpack(other, weights, statistics)
    expected = model.state_dict()
    for name, value in other.state_dict().items():
        if value.is_floating_point():
            assert torch.equal(value, expected[name]), name
    assert other[0][0].weight.is_contiguous(), "the model keeps its own memory format"


# Modules that compute with the vector


@pytest.mark.parametrize("model", [small(), convnet()], ids=["small", "convnet"])
def test_a_bound_shell_computes_what_the_model_computes(model: nn.Sequential) -> None:
    x = images() if model[0][0].in_channels == 2 else torch.randn(5, 1, 4, 4, dtype=torch.float64)
    mine = bound(model)[0]
    assert (mine.eval()(x) - model.eval()(x)).abs().max() < 1e-14
    assert (mine.train()(x) - shell(model).train()(x)).abs().max() < 1e-14


def test_gradients_land_in_the_gradient_vector() -> None:
    model = small()
    mine, layout, _, _, gradient = bound(model)
    model(images()).square().sum().backward()
    for passes in (1, 2):
        mine(images()).square().sum().backward()
        for place in layout.parameters:
            expected = passes * model.get_parameter(place.name).grad
            assert (place.view(gradient[place.columns]) - expected).abs().max() < 1e-12, place.name
    assert gradient.abs().max() > 0.1


def test_batch_norm_updates_land_in_the_statistics_row() -> None:
    model = small()
    mine, _, _, statistics, _ = bound(model)
    features = model[0][0](images()).detach()
    mine.train()(images())
    mean, variance = features.mean((0, 2, 3)), features.transpose(0, 1).flatten(1).var(1, unbiased=True)
    # torch's momentum of 0.1: running = 0.9 running + 0.1 batch, from 0 and 1
    expected = torch.cat([0.1 * mean, 0.9 + 0.1 * variance])
    assert (statistics - expected).abs().max() < 1e-12
    assert model[0][1].running_mean.tolist() == [0, 0, 0]


def test_two_shells_bound_to_two_rows_do_not_meet() -> None:
    model = small()
    layout = Layout.of(model)
    rows = layout.pack(model)[0].repeat(2, 1)
    statistics = torch.zeros(2, layout.statistics_size, dtype=torch.float64)
    shells = [shell(model).eval(), shell(model).eval()]
    for row, mine in enumerate(shells):
        layout.bind(mine, lambda c, row=row: rows[row, c], lambda c, row=row: statistics[row, c])
    first = shells[0](images())
    rows[1].zero_()
    assert shells[1](images()).tolist() == [[0.0, 0.0]] * 5
    assert torch.equal(shells[0](images()), first)
    assert shells[0][0][0].weight.grad is None, "no gradient vector was given"


# What is refused


def tied_module() -> nn.Sequential:
    linear = nn.Linear(2, 2)
    return nn.Sequential(linear, nn.ReLU(), linear)


def tied() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    model[2].weight = model[0].weight
    return model


def without_parameters() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)).requires_grad_(False)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (
            nn.Linear(2, 2),
            "model=Linear is not accepted: expected an nn.Sequential of blocks (input block, core blocks, output "
            "block), with no forward of its own",
        ),
        ("resnet8", "model=str is not accepted: expected an nn.Sequential"),
        (nn.Sequential(nn.Linear(2, 2)), "expected at least two blocks, an input and an output block, and it has 1"),
        (nn.Sequential(), "and it has 0"),
        (nn.Sequential(nn.ReLU(), nn.Flatten()), "model=Sequential is not accepted: it has no parameters to train"),
        (without_parameters(), "it has no parameters to train"),
        (nn.Sequential(nn.LazyLinear(2), nn.Linear(2, 2)), "model=Sequential is not accepted"),
        (
            nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double()),
            "its parameters have the types torch.float32, torch.float64; expected a single real one",
        ),
        (tied(), "2.weight is tied to 0.weight, and a cut could part the two; give each block its own"),
        (tied_module(), "2.weight is tied to 0.weight"),
        (
            nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2, momentum=None)), nn.Linear(2, 2)),
            "1.0 keeps a running count (momentum=None), which cannot be averaged; give it a momentum",
        ),
    ],
)
def test_what_cannot_be_laid_out_is_refused(model: nn.Module, sentence: str) -> None:
    with pytest.raises(InputError) as refusal:
        Layout.of(model)
    assert sentence in str(refusal.value)


def test_a_frozen_block_of_another_type_is_accepted() -> None:
    model = nn.Sequential(nn.Linear(2, 2).half().requires_grad_(False), nn.Linear(2, 2))
    assert Layout.of(model).dtype is torch.float32


def test_a_module_without_tensors_may_stand_in_several_blocks() -> None:
    """`nn.Module.named_children` gives it once, and every block after it would be cut one place too early."""
    relu = nn.ReLU()
    layout = Layout.of(nn.Sequential(nn.Linear(2, 2), relu, nn.Linear(2, 2), relu, nn.Linear(2, 1)))
    assert layout.blocks == ("0", "1", "2", "3", "4")
    assert layout.parameter_edges == (0, 6, 6, 12, 12, 15)


def test_a_subclass_is_laid_out_unless_it_computes_differently() -> None:
    class Net(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(nn.Linear(2, 2), nn.Linear(2, 1))

    class Doubled(Net):
        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = 2 * super().forward(x)
            return out

    assert Layout.of(Net()).size == 9
    with pytest.raises(InputError, match=r"model=Doubled is not accepted: .* with no forward of its own"):
        Layout.of(Doubled())


def test_only_the_weights_of_convolutions_are_channels_last() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(2, 3, 4, 5))

    model = nn.Sequential(nn.Conv2d(1, 2, 3), Table(), nn.ConvTranspose2d(2, 3, 2), nn.Conv1d(3, 2, 1))
    assert [p.name for p in Layout.of(model).parameters if p.channels_last] == ["0.weight"]
