"""Masks that are a function of sample, layer and position: exact by a plain loop, random by their statistics."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from smofi.errors import InputError
from smofi.models.dropout import Dropout, dropouts, seeded, step_keys

SHAPE = (50, 80)


def masks(keys: Tensor, layer: int = 0, p: float = 0.5, shape: tuple[int, ...] = SHAPE) -> Tensor:
    """Which elements are kept: 1 or 0."""
    dropout = Dropout(p)
    dropout.keys, dropout.layer = keys, layer
    return (dropout(torch.ones(len(keys), *shape)) != 0).double()


def correlation(a: Tensor, b: Tensor) -> float:
    """In standard deviations of what independent masks would give."""
    a, b = a.flatten(), b.flatten()
    return float(torch.corrcoef(torch.stack([a, b]))[0, 1] * math.sqrt(len(a)))


# The same computation, in Python's own numbers.


def mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    return x ^ (x >> 31)


def bits_by_hand(key: int, layer: int, position: int) -> int:
    golden = 0x9E3779B97F4A7C15
    mixed = mix((key + (layer + 1) * golden) % 2**64)
    low, high = mixed % 2**32, mixed >> 32
    bits = ((low ^ (mix(position * golden % 2**64) % 2**32)) * 0x93D765DD) % 2**32
    return ((bits ^ (bits >> 15)) * (high | 1)) % 2**32


def test_masks_are_those_of_plain_arithmetic() -> None:
    keys = step_keys(seed=123456789, batch=4)
    expected_keys = [mix((mix(123456789) + place * 0x9E3779B97F4A7C15) % 2**64) for place in range(1, 5)]
    assert keys.tolist() == [key - 2**64 if key >= 2**63 else key for key in expected_keys]
    for layer, p in ((0, 0.1), (3, 0.37)):
        kept = masks(keys, layer, p, shape=(3, 7)).flatten(1)
        for sample, key in enumerate(expected_keys):
            for position in range(21):
                # numbers are signed, counted from -2^31: the lowest unsigned half comes last
                signed = (bits_by_hand(key, layer, position) + 2**31) % 2**32
                assert kept[sample, position] == (signed >= round(p * 2**32))
    seeds = [0, 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
    assert len({int(step_keys(seed, 1)) for seed in seeds}) == len(seeds)


def independent(pairs: list[tuple[Tensor, Tensor]]) -> None:
    found = torch.tensor([correlation(a, b) for a, b in pairs])
    assert found.abs().max() < 4.5
    assert abs(float(found.mean())) * math.sqrt(len(found)) < 4


def test_samples_layers_positions_and_steps_are_independent() -> None:
    p = 0.1
    keys = step_keys(seed=0, batch=64)
    kept = masks(keys, p=p)
    independent([(kept[i], kept[i + 1]) for i in range(63)])
    independent([(mask[:-1], mask[1:]) for mask in kept])
    independent([(mask[:, :-1], mask[:, 1:]) for mask in kept])
    independent(list(zip(kept, masks(keys, layer=1, p=p), strict=True)))
    independent(list(zip(kept, masks(step_keys(seed=1, batch=64), p=p), strict=True)))
    powers = masks(2 ** torch.arange(63), p=p)  # keys one bit apart
    independent([(powers[i], powers[i + 1]) for i in range(62)])


def test_nothing_and_almost_everything_dropped() -> None:
    for p, kept in ((0.0, True), (1 - 1e-12, False), (1.0, False)):
        assert bool(masks(step_keys(0, 4), p=p).all()) == bool(masks(step_keys(0, 4), p=p).any()) == kept
    dropout = Dropout(0.25)
    dropout.keys = step_keys(3, 64)
    assert dropout(torch.full((64, 100), 3.0)).unique().tolist() == [0, 4]  # 3 / (1 - p)


def test_without_keys_it_is_torchs_and_in_evaluation_nothing() -> None:
    x = torch.randn(6, 7)
    torch.manual_seed(1)
    theirs = nn.Dropout(0.3)(x)
    torch.manual_seed(1)
    assert torch.equal(Dropout(0.3)(x), theirs)
    dropout = Dropout(0.3).eval()
    dropout.keys = step_keys(0, 6)
    assert dropout(x) is x


def test_masks_do_not_touch_the_random_state_nor_depend_on_type_or_layout() -> None:
    dropout = Dropout(0.4)
    dropout.keys = step_keys(5, 3)
    x = torch.randn(3, 4, 5, 6)
    before = torch.get_rng_state()
    out = dropout(x)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(dropout(x.double()) != 0, out != 0)
    last = dropout(x.contiguous(memory_format=torch.channels_last))
    assert torch.equal(last, out)
    assert last.is_contiguous(memory_format=torch.channels_last)
    inplace = Dropout(0.4, inplace=True)
    inplace.keys, copied = dropout.keys, x.clone()
    assert inplace(copied) is copied
    assert torch.equal(copied, out)


def test_merged_batches_and_samples_of_several_rows() -> None:
    first, second = step_keys(1, 5), step_keys(2, 3)
    assert torch.equal(masks(torch.cat([first, second])), torch.cat([masks(first), masks(second)]))
    dropout = Dropout(0.5)
    dropout.keys = step_keys(1, 4)
    x = torch.ones(4, 6, 5)
    assert torch.equal(dropout(x.flatten(0, 1)), dropout(x).flatten(0, 1))
    with pytest.raises(InputError, match=r"the 4 samples of its batch first.*\(6, 4\)"):
        dropout(torch.ones(6, 4))


def test_under_vmap_and_grad_it_equals_the_loop() -> None:
    # A size that nothing asked for before, so that what is kept for later is first made inside the transformation.
    dropout, x = Dropout(0.3), torch.randn(3, 4, 23, 3)
    keys = torch.stack([step_keys(seed, 4) for seed in range(3)])

    def loss(x: Tensor, keys: Tensor) -> Tensor:
        dropout.keys = keys
        return (dropout(x) ** 2).sum()

    together = vmap(grad(loss))(x, keys)
    losses = vmap(loss)(x, keys)
    for client in range(3):
        assert torch.equal(together[client], grad(loss)(x[client], keys[client]))
        torch.testing.assert_close(losses[client], loss(x[client], keys[client]))
    assert 0 < float((together == 0).double().mean()) < 0.6


def test_torchs_layers_are_replaced_and_nothing_else_and_numbered_in_order() -> None:
    class Own(nn.Dropout):
        pass

    shared = nn.Dropout(0.2, inplace=True).eval()
    model = nn.Sequential(nn.Dropout(0.1), nn.Sequential(shared, nn.Linear(2, 2)), shared, Own(0.3), nn.Dropout2d(0.4))
    assert seeded(model) is model
    kinds = [type(module) for module in (model[0], model[1][0], model[3], model[4])]
    assert kinds == [Dropout, Dropout, Own, nn.Dropout2d]
    assert model[2] is model[1][0]
    assert (model[2].p, model[2].inplace, model[2].training) == (0.2, True, False)
    assert model[0].training
    assert [(layer.p, layer.layer) for layer in dropouts(model)] == [(0.1, 0), (0.2, 1)]
