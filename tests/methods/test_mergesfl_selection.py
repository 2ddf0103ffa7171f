"""MergeSFL's choice of clients against a plain loop, and what it keeps to: bandwidth, order, and a refusal in time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import smofi
from reference import perceptron
from smofi import CompositionError, InputError, methods
from smofi.clock.devices import Presence
from smofi.method import Candidates
from smofi.methods.mergesfl import balanced
from smofi.models import build
from smofi.seeds import generator
from smofi.training import Session

# ---------------------------------------------------------------------------------------------------- as a plain loop


def kl_from_uniform(mix: Sequence[float]) -> float:
    """KL(q || uniform) = sum_c q_c log(q_c / (1/C))"""
    total = sum(mix)
    return sum(q / total * math.log(q / total * len(mix)) for q in mix if q > 0)


def merged_mix(places: Sequence[int], sizes: Sequence[int], counts: Sequence[Sequence[int]]) -> list[float]:
    """The classes in the merged batch of these clients, each with B_i samples drawn from what it has."""
    return [sum(sizes[i] * counts[i][c] / sum(counts[i]) for i in places) for c in range(len(counts[0]))]


def greedy(
    bandwidth: float, sizes: Sequence[int], counts: Sequence[Sequence[int]], sample_bytes: Sequence[int], most: int
) -> list[int]:
    """The first that fits, then the first of those that bring the mix closest to uniform, while sum B_i bytes fit."""
    chosen: list[int] = []
    while len(chosen) < most:
        used = sum(sizes[i] * sample_bytes[i] for i in chosen)
        best, lowest = None, math.inf
        for i in range(len(sizes)):
            if i in chosen or used + sizes[i] * sample_bytes[i] > bandwidth:
                continue
            divergence = kl_from_uniform(merged_mix([*chosen, i], sizes, counts)) if chosen else 0.0
            if divergence < lowest - 1e-12:
                best, lowest = i, divergence
        if best is None:
            break
        chosen.append(best)
    return chosen


def chosen_by(
    bandwidth: float, sizes: Sequence[int], counts: Sequence[Sequence[int]], sample_bytes: Sequence[int], most: int
) -> list[int]:
    mixes = [np.array(one) for one in counts]
    return balanced(bandwidth, Candidates(range(100, 100 + len(sizes)), sizes, mixes, sample_bytes), most)


def clients(classes: int) -> st.SearchStrategy[tuple[int, list[int], int]]:
    """Batch size, samples of each class, and bytes per sample."""
    few = st.lists(st.integers(0, 6), min_size=classes, max_size=classes).filter(any)
    return st.tuples(st.integers(1, 9), few, st.sampled_from([10, 25, 40]))


drawn = st.integers(1, 4).flatmap(lambda classes: st.lists(clients(classes), min_size=1, max_size=7))


@given(drawn=drawn, bandwidth=st.integers(5, 900), most=st.integers(1, 7))
@settings(max_examples=100)
def test_the_choice_is_that_of_a_plain_loop(drawn: list[tuple[int, list[int], int]], bandwidth: int, most: int) -> None:
    sizes, counts, sample_bytes = (
        [one for one, _, _ in drawn],
        [one for _, one, _ in drawn],
        [one for _, _, one in drawn],
    )
    found = chosen_by(bandwidth, sizes, counts, sample_bytes, most)
    assert found == greedy(bandwidth, sizes, counts, sample_bytes, most)
    assert sum(sizes[i] * sample_bytes[i] for i in found) <= bandwidth
    assert len(set(found)) == len(found) <= most


def test_a_choice_by_hand() -> None:
    """Client 0 is the first; 3 has what it lacks, then 2 is nearly balanced itself, and 1 comes last."""
    counts = [[8, 0, 0], [0, 8, 0], [4, 3, 3], [0, 1, 1]]
    assert chosen_by(1e9, [4, 4, 4, 4], counts, [1] * 4, most=4) == [0, 3, 2, 1]
    # after 0: with 1 it is (4, 4, 0), with 2 (5.6, 1.2, 1.2), with 3 (4, 2, 2); after 0 and 3, with 1 (4, 6, 2), with 2
    # (5.6, 3.2, 3.2)
    assert chosen_by(1e9, [4, 4, 4, 4], counts, [1] * 4, most=2) == [0, 3]


def test_batch_sizes_weigh_the_mix() -> None:
    """Two of class 0 with batches of 6 and 2, and one of class 1 with 6: 6 and 6 are balanced, 2 and 6 are not."""
    counts = [[9, 0], [9, 0], [0, 9]]
    assert chosen_by(1e9, [2, 6, 6], counts, [1] * 3, most=2) == [0, 2]  # the first of equals, then the best for it
    assert chosen_by(1e9, [6, 2, 6], counts, [1] * 3, most=2) == [0, 2]
    assert chosen_by(1e9, [6, 2, 6], counts, [1] * 3, most=3) == [0, 2, 1]


def test_a_client_whose_batch_does_not_fit_any_more_is_passed_over() -> None:
    counts = [[1, 1], [5, 5], [3, 0]]
    assert chosen_by(100, [2, 3, 4], counts, [25, 25, 10], most=3) == [0, 2]
    assert chosen_by(99, [4, 4], [[1, 1], [1, 1]], [25, 25], most=2) == []


@pytest.mark.parametrize("classes", [2, 3, 5, 10])
def test_equals_come_in_the_order_of_the_candidates(classes: int) -> None:
    """Mixes that differ by the names of their classes alone, or by the number of samples, are as far from uniform."""
    mix = [*range(1, classes + 1)]
    turned = [mix[turn:] + mix[:turn] for turn in range(classes)]
    for first in range(classes):
        candidates = [*turned[first:], *turned[:first]]
        assert chosen_by(1e9, [7] * classes, candidates, [1] * classes, most=1) == [0]
    assert chosen_by(1e9, [3, 7, 5, 9], [mix, [2 * n for n in mix], mix, mix], [1] * 4, most=4) == [0, 1, 2, 3]


# --------------------------------------------------------------------------------------------------------- in a run

SIZES = (12, 16, 3, 20, 9, 15, 24)
MIXES = ([1, 0, 0], [0, 1, 0], [1, 1, 1], [1, 1, 0], [0, 0, 1], [2, 1, 1], [0, 1, 3])
CROSSING = 6 * 8  # the perceptron passes on six numbers of eight bytes
SEED = 3


def labelled() -> list[tuple[Tensor, Tensor]]:
    """Clients with just these mixes of classes, as far as they go into their sizes."""
    draw, data = torch.Generator().manual_seed(0), []
    for size, mix in zip(SIZES, MIXES, strict=True):
        classes = [label for label, weight in enumerate(mix) for _ in range(weight)]
        y = torch.tensor([classes[n % len(classes)] for n in range(size)])
        data.append((torch.randn(size, 3, generator=draw, dtype=torch.float64), y))
    return data


def prepared(method: str, **changes: Any) -> Session:
    how: dict[str, Any] = {"rounds": 2, "participation": 0.5, "local_epochs": 1, "batch_size": 4, "seed": SEED}
    return smofi.prepare(perceptron(), labelled(), method=method, **how | changes)


def expected_plan(bandwidth: float, number: int, most: int, speeds: Sequence[float] | None = None) -> Any:
    """The clients of a round and their batch sizes, from the order in which its candidates are drawn."""
    eligible = [client for client, size in enumerate(SIZES) if size >= 4]
    order = [int(client) for client in generator(SEED, "candidates", number).permutation(eligible)]
    speed = [1.0 if speeds is None else speeds[client] for client in order]
    sizes = [
        min(max(round(4 * s / max(speed)), 1), SIZES[client]) for s, client in zip(speed, order, strict=True)
    ]  # fmt: skip
    counts = [torch.bincount(labelled()[client][1], minlength=3).tolist() for client in order]
    places = greedy(bandwidth, sizes, counts, [CROSSING] * len(order), most)
    return sorted((order[place], sizes[place]) for place in places)


@pytest.mark.parametrize("bandwidth", [4 * CROSSING, 9 * CROSSING, 12 * CROSSING, 1e9])
@pytest.mark.parametrize("speeds", [None, [1.0, 0.3, 1.0, 0.8, 0.5, 0.2, 0.6]], ids=["equal", "unequal"])
def test_rounds_select_by_mix_and_bandwidth(bandwidth: float, speeds: list[float] | None) -> None:
    planner = prepared(f"mergesfl(bandwidth={bandwidth})", speeds=speeds).run.planner
    for number in range(6):
        plan = planner.plan(number)
        assert [*zip(plan.clients, plan.batch_sizes, strict=True)] == expected_plan(bandwidth, number, 4, speeds)
        assert sum(plan.batch_sizes) * CROSSING <= bandwidth
        assert plan.shares == pytest.approx([size / sum(plan.batch_sizes) for size in plan.batch_sizes])
        assert 1 <= len(plan.clients) <= 4


def test_the_order_of_candidates_is_drawn_anew_each_round() -> None:
    """Where all have the same mix, the order decides; a function of the seed and the round alone."""
    data = [(torch.randn(12, 3, dtype=torch.float64), torch.arange(12) % 3) for _ in range(8)]

    def planner() -> Any:
        how: dict[str, Any] = {"participation": 0.25, "batch_size": 4, "seed": SEED}
        return smofi.prepare(perceptron(), data, method="mergesfl(bandwidth=1e9)", **how).run.planner

    drawn = [planner().plan(number).clients for number in range(8)]
    assert len({tuple(clients) for clients in drawn}) > 4
    for number, clients in enumerate(drawn):
        assert clients == sorted(generator(SEED, "candidates", number).permutation(8)[:2])


def test_a_run_trains_those_selected() -> None:
    history = prepared(f"mergesfl(bandwidth={8 * CROSSING})").train().history
    for number, record in enumerate(history):
        assert record.selected == [client for client, _ in expected_plan(8 * CROSSING, number, 4)]


def test_the_clocks_speeds_size_the_batches_that_have_to_fit() -> None:
    """s_i = 1 / (3 p_i O + bytes / up + bytes / down); half of the perceptron's products are the client's."""
    seconds = [0.1, 0.02, 0.5, 0.03, 0.05, 0.2, 0.04]
    devices = [smofi.Device(one, up=2000.0, down=4000.0) for one in seconds]
    speeds = [1 / (1.5 * one + CROSSING / 2000 + CROSSING / 4000) for one in seconds]
    timing = smofi.Timing("full", devices=devices)
    planner = prepared(f"mergesfl(bandwidth={7 * CROSSING})", clock=timing).run.planner
    for number in range(5):
        plan = planner.plan(number)
        assert [*zip(plan.clients, plan.batch_sizes, strict=True)] == expected_plan(7 * CROSSING, number, 4, speeds)


def test_those_away_are_no_candidates() -> None:
    there, away = Presence([(0.0, 50.0)], 1000.0), Presence([(50.0, 60.0)], 1000.0)
    devices = [smofi.Device(0.01, 1e9, 1e9, away if client in (1, 3, 6) else there) for client in range(7)]
    session = prepared("mergesfl(bandwidth=1e9)", participation=1.0, clock=smofi.Timing("paper", devices=devices))
    assert session.run.planner.plan(0).clients == [0, 4, 5]


# ----------------------------------------------------------------------------------------------------------- what fits


def test_it_goes_with_what_does_not_choose() -> None:
    method = methods.parse_method(f"fedprox(0.1)+mergesfl(steps=3, bandwidth={8 * CROSSING})")
    assert method.select
    assert all(set(record.steps) == {3} for record in prepared(method.name).train().history)
    with pytest.raises(CompositionError, match="cannot be combined"):
        smofi.compose(methods.mergesfl(bandwidth=1e6), methods.mergesfl())
    with pytest.raises(CompositionError, match="both choose who takes part in a round"):
        smofi.compose(*(smofi.Method(name=name, select=lambda candidates, most: [0]) for name in ("mine", "yours")))


def test_without_a_bandwidth_nobody_is_selected_by_mix() -> None:
    assert methods.mergesfl().select is None
    plans = [prepared(method).run.planner.plan(3).clients for method in ("mergesfl", "fedavg")]
    assert plans[0] == plans[1]


@pytest.mark.parametrize("bandwidth", [0, -1.0, math.nan, "wide"])
def test_what_is_no_bandwidth_is_refused(bandwidth: Any) -> None:
    with pytest.raises(InputError, match="bandwidth="):
        methods.mergesfl(bandwidth=bandwidth)


def test_a_bandwidth_that_nobody_fits_into_is_refused_before_the_start() -> None:
    assert prepared(f"mergesfl(bandwidth={4 * CROSSING})").run.planner.plan(0).clients
    with pytest.raises(InputError, match=r"expected a bandwidth of [0-9,]+ bytes a step or more"):
        prepared(f"mergesfl(bandwidth={4 * CROSSING - 1})")


def test_so_is_one_that_nobody_fits_into_at_some_of_the_cuts_that_may_be_drawn() -> None:
    """ResNet's blocks pass on fewer numbers the deeper they are: the first cut may be the one that needs most."""
    model = build("resnet8", seed=0, input_shape=(1, 8, 8), classes=3, width=4)
    draw = torch.Generator().manual_seed(0)
    data = [(torch.randn(8, 1, 8, 8, generator=draw), torch.arange(8) % 3) for _ in range(3)]
    needed = [4 * 4 * numbers for numbers in (4 * 8 * 8, 4 * 8 * 8, 8 * 4 * 4, 16 * 2 * 2)]  # of a batch at each cut
    for seed in range(4):
        with pytest.raises(InputError, match=r"a bandwidth of [0-9,]+ bytes a step or more"):
            smofi.prepare(
                model, data, method=f"mergesfl(bandwidth={needed[2]})", cut="0-3", batch_size=4, seed=seed
            )  # fmt: skip
        smofi.prepare(model, data, method=f"mergesfl(bandwidth={needed[0]})", cut="0-3", batch_size=4, seed=seed)
