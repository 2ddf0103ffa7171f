"""How many server passes are computed at a time: in threads, where that is faster. The numbers are the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial

import torch

from smofi.engine.cohort.halves import ServerHalf
from smofi.engine.cpu.kernels import convolutions, suits_onednn
from smofi.engine.noise import own_random_state, random_state
from smofi.engine.remote.crossing import Crossing
from smofi.engine.state import GlobalState
from smofi.flat import shell
from smofi.memory import available_cores
from smofi.models.dropout import step_keys

WORTHWHILE = 1.15
"""How many times as fast two threads have to look."""

TURNS, BUDGET = 5, 2.0
"""How often each way is timed, and after how many seconds no further time."""


def choose_pool(
    asked: int | None, useful: int, state: GlobalState, crossing: Crossing, batch_size: int, pixels: float
) -> tuple[Executor | None, str]:
    """Threads for server passes, None where there is one at a time, and why.

    `asked` is how many are wanted, None for what a quick measurement favours; more than the `useful` ones, one for each
    client of a round, never help.
    """
    setup, threads = crossing.setup, torch.get_num_threads()
    most = min(useful, asked or max(1, available_cores() // threads))
    if setup.method.where.one_server:
        return None, f"{setup.method} has a single server model"
    if most < 2:
        return None, "there is one client in a round, or one core"
    if state.weights.device.type != "cpu":
        return None, "a GPU computes one pass after the other"
    pool = ThreadPoolExecutor(most, "server-pass", partial(torch.set_num_threads, threads))
    with own_random_state(state.weights.device):
        onednn = suits_onednn(setup.template, batch_size, pixels)
        with convolutions(onednn):
            draws, faster = two_at_a_time(state, crossing, batch_size, pool)
    if draws:  # from one stream: the order would decide what each gets
        pool.shutdown()
        return None, "a layer of the model draws random numbers"
    if asked is None and faster < WORTHWHILE:
        pool.shutdown()
        return None, f"two at a time are {faster:.2f} times as fast"
    return pool, f"two at a time are {faster:.2f} times as fast"


def two_at_a_time(state: GlobalState, crossing: Crossing, batch_size: int, pool: Executor) -> tuple[bool, float]:
    """Whether a server pass draws random numbers, and how many times as fast two are at a time."""
    setup, device, shape = crossing.setup, state.weights.device, crossing.activation
    drawn = torch.rand(batch_size, *shape.sizes, generator=torch.Generator().manual_seed(0))
    activation = drawn.to(device, shape.dtype)
    if activation.dim() == 4:  # as images arrive: in another order, layers would copy them
        activation = activation.contiguous(memory_format=torch.channels_last)
    keys = step_keys(0, batch_size, device) if setup.dropout else None

    def compute(half: ServerHalf) -> None:
        output = half.forward([activation.clone()], [keys])
        half.backward([torch.ones_like(output)])
        half.cut_gradient()

    halves = [_scratch_half(state, crossing) for _ in range(2)]
    before = random_state(device)
    compute(halves[0])
    draws = not torch.equal(before, random_state(device))
    ways: tuple[Callable[[], list[None]], ...] = (
        lambda: list(map(compute, halves)),
        lambda: list(pool.map(compute, halves)),
    )
    ways[1]()  # threads start
    best = [float("inf")] * 2
    end = time.perf_counter() + BUDGET
    for _ in range(TURNS):
        for place, way in enumerate(ways):
            started = time.perf_counter()
            way()
            best[place] = min(best[place], time.perf_counter() - started)
        if time.perf_counter() > end:
            break
    return draws, best[0] / best[1]


def _scratch_half(state: GlobalState, crossing: Crossing) -> ServerHalf:
    """A server half in memory of its own."""
    setup, layout = crossing.setup, crossing.setup.layout
    scratch = shell(setup.template).train()
    weights, statistics = state.weights.clone(), state.statistics.clone()
    gradient = torch.zeros_like(weights)
    layout.bind(scratch, weights.__getitem__, statistics.__getitem__, gradient.__getitem__)
    return ServerHalf.of(setup, scratch, crossing.cut, [])


__all__ = ["choose_pool", "two_at_a_time"]
