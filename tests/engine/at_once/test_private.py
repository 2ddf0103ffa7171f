"""What vmap's inside does, symbol by symbol, and what happens without each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn.functional import cross_entropy

from smofi.engine.at_once.gradients import ClientsAtOnce
from smofi.engine.at_once.private import NAMES, copy_all, internals, why_missing
from smofi.engine.at_once.trial import why_not
from smofi.flat import Layout

OF_ALL = torch.arange(12.0).view(2, 3, 2)  # two clients first, or three of them second


@pytest.fixture(autouse=True)
def looked_up_again() -> Iterator[None]:
    internals.cache_clear()
    yield
    internals.cache_clear()


def level() -> int:
    found = internals().level()
    assert found is not None
    return found


def test_torch_has_them_all() -> None:
    assert why_missing() is None


def test_the_level_is_that_of_the_innermost_vmap() -> None:
    levels: list[int] = []

    def inner(x: Tensor) -> Tensor:
        levels.append(level())
        return x

    def outer(x: Tensor) -> Tensor:
        levels.append(level())
        return vmap(inner)(x)

    vmap(outer)(OF_ALL)
    assert levels[1] == levels[0] + 1
    assert internals().level() is None


@pytest.mark.parametrize("dim", [0, 1])
def test_a_tensor_of_all_clients_is_wrapped_as_that_of_one(dim: int) -> None:
    leaf = OF_ALL.clone().requires_grad_()

    def one(scale: Tensor) -> Tensor:
        wrapped = internals().wrap(leaf, dim, level())
        assert wrapped.shape == OF_ALL.select(dim, 0).shape
        return (wrapped * scale).sum()

    scales = torch.tensor([1.0, 10.0, 100.0])[: OF_ALL.shape[dim]]
    sums = vmap(one)(scales)
    assert sums.tolist() == [float((OF_ALL.select(dim, i) * scale).sum()) for i, scale in enumerate(scales)]
    # the derivative, taken outside of vmap, is that of all clients
    (gradient,) = torch.autograd.grad(sums.sum(), leaf)
    assert all(bool((gradient.select(dim, i) == scale).all()) for i, scale in enumerate(scales))


def test_unwrapping_gives_the_tensor_itself_and_where_its_clients_are() -> None:
    constant = torch.ones(3)

    def one(x: Tensor) -> Tensor:
        tensor, dim = internals().unwrap(x, level())
        assert (tensor.data_ptr(), tensor.shape, dim) == (OF_ALL.data_ptr(), OF_ALL.shape, 1)
        assert internals().unwrap(constant, level()) == (constant, None)
        return x

    vmap(one, in_dims=1)(OF_ALL)


def test_while_it_is_paused_operations_are_on_all_clients() -> None:
    totals: list[float] = []

    def one(x: Tensor) -> Tensor:
        tensor, _ = internals().unwrap(x, level())
        with internals().paused():
            totals.append(float(tensor.sum()))
        return x.sum()

    assert vmap(one)(OF_ALL).tolist() == [15.0, 51.0]
    assert totals == [66.0]


@pytest.mark.parametrize("together", [True, False], ids=["in one call", "one by one"])
def test_many_copies(together: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not together:
        monkeypatch.delattr(torch, "_foreach_copy_")
    rows = torch.zeros(2, 5)
    copy_all([rows[:, :2], rows[:, 2:].view(2, 3, 1)], [torch.ones(2, 2), torch.full((2, 3, 1), 2.0)])
    assert rows.tolist() == [[1, 1, 2, 2, 2]] * 2
    copy_all([], [])


@pytest.mark.parametrize("name", NAMES)
def test_without_one_of_them_a_sentence_says_why(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(f"torch.{name}")
    expected = f"clients cannot be computed at once: torch {torch.__version__} has no torch.{name}"
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    assert why_not(model, cross_entropy, (torch.eye(4), torch.arange(4))) == expected
    with pytest.raises(RuntimeError, match=r"cannot be computed at once: torch .* has no torch\._C"):
        ClientsAtOnce(model, Layout.of(model), cross_entropy)
