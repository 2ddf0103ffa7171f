"""A dry run: its numbers against the engine's own, and nothing changed by it."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from statistics import median
from typing import Any

import pytest
import torch

import smofi
from smofi.cli import main
from smofi.config import Config
from smofi.data.samples import TensorSamples
from smofi.engine.cohort.simulated import SimulatedCohort
from smofi.engine.cohort.simulation import Simulation
from smofi.engine.memory.needs import activation_memory, lasting_memory, round_memory
from smofi.planning import PlanSummary, plan_run, time_rounds
from smofi.training import Session

SMALL = Config(
    executor="loop", clients=8, participation=0.5, rounds=4, local_epochs=2, batch_size=32, width=16, validation=0.1,
    partition="dirichlet(0.2)", cut="1",
)  # fmt: skip
FINISHED = "momentum: finished clients"


def brief(config: Config, method: str) -> PlanSummary:
    return plan_run(config, method, deadline=0.05)


@pytest.fixture
def nothing_older() -> Iterator[None]:
    """What lives already is neither counted nor walked over, which would take a second each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def storages() -> dict[int, int]:
    """Every piece of memory that some tensor lives in."""
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # looking at every object touches deprecated ones
        tensors = [thing for thing in gc.get_objects() if type(thing) in (torch.Tensor, torch.nn.Parameter)]
    places = [tensor.untyped_storage() for tensor in tensors if tensor.layout == torch.strided]
    return {place.data_ptr(): place.nbytes() for place in places if place.nbytes()}


def prepared(config: Config, method: str) -> tuple[Session, Simulation, list[Any]]:
    arguments = config.arguments()
    session = smofi.prepare(**arguments, method=method)
    return session, session.run.simulation, [*arguments["clients"], arguments["validation"], arguments["test"]]


# --------------------------------------------------------------------------------------------------------------- counts


def test_the_counts_are_those_of_the_run() -> None:
    summary = brief(SMALL, "fedavg")
    sizes = [int((SMALL.owners() == client).sum()) for client in range(8)]
    history = smofi.train(**SMALL.arguments(), method="fedavg").history
    assert (summary.method, summary.rounds, summary.clients) == ("fedavg", 4, 8)
    assert summary.samples == (min(sizes), median(sizes), max(sizes))
    assert (summary.eligible, summary.per_round) == (sum(size >= 32 for size in sizes), 4)
    assert (summary.validation, summary.test) == (144, 360)
    assert summary.steps == sum(sum(record.steps) for record in history)
    assert summary.steps_per_round == summary.steps / 4


@pytest.mark.parametrize(("cut", "blocks"), [("1,1", [2]), ("0-2", [1, 2, 3])])
def test_the_sides_are_the_parameters_of_the_blocks(cut: str, blocks: list[int]) -> None:
    model = SMALL.arguments()["model"]
    sizes = [sum(p.numel() for p in block.parameters()) for block in model]
    back = sizes[-1] if "," in cut else 0
    expected = [(sum(sizes[:n]) + back, sum(sizes[n:]) - back) for n in blocks]
    summary = brief(Config(**SMALL.model_dump() | {"cut": cut}), "fedavg")
    assert [(side.client, side.server) for side in summary.sides] == expected
    assert summary.parameters == sum(sizes)


# --------------------------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("smofi", {"cut": "[0,1,2,0,1,2,0,1]", "diagnose": True}),
        ("fednag", {}),
        ("sflv2('step')", {}),  # client after client, batches are gathered later
        ("mergesfl", {"optimizer": "adam"}),
        ("smofi", {"executor": "vmap", "optimizer": "adam", "cut": "[0,1,2,0,1,2,0,1]"}),
    ],
)
@pytest.mark.usefixtures("nothing_older")
def test_the_memory_is_what_tensors_really_take(method: str, changes: dict[str, Any]) -> None:
    config = Config(**SMALL.model_dump() | changes)
    before = storages()
    session, simulation, data = prepared(config, method)
    plan = session.run.planner.plan(0)
    items = round_memory(simulation, plan)
    estimated = [*items, *lasting_memory(session.run.state, session.model, data)]

    def really() -> int:
        return sum(size for place, size in storages().items() if place not in before)

    cohort = SimulatedCohort(simulation, plan)
    ticks = cohort.ticks()
    cohort.step(next(ticks).groups)
    at_first = sum(item.bytes for item in estimated if item.what not in (FINISHED, "sums"))
    assert at_first == pytest.approx(really(), rel=0.05)
    cohort.fuse()
    for tick in ticks:
        cohort.step(tick.groups)
        cohort.fuse()
    assert sum(item.bytes for item in estimated) == pytest.approx(really(), rel=0.05)


def test_the_activations_of_a_model_by_hand() -> None:
    x, y = torch.randn(12, 5), torch.arange(12) % 3
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Sigmoid(), torch.nn.Linear(7, 3))
    session = smofi.prepare(model, [(x, y)], (x, y), batch_size=4, participation=1.0, cut=0)
    simulation = session.run.simulation
    # The batch, the sigmoid's output, and for the loss log-probabilities (4 bytes), targets (8) and their total weight.
    by_hand = 4 * 5 * 4 + 4 * 7 * 4 + 4 * 3 * 4 + 4 * 8 + 4
    assert activation_memory(simulation, session.run.planner.plan(0)).bytes == by_hand


# ----------------------------------------------------------------------------------------------------------------- time


@pytest.mark.parametrize("method", ["sflv2", "mergesfl"])
def test_every_method_can_be_timed(method: str) -> None:
    before = torch.random.get_rng_state()
    summary = brief(SMALL, method)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert min(asdict(summary.measured).values()) > 0
    assert summary.seconds_per_round > summary.steps_per_round * summary.measured.step
    assert summary.seconds == 4 * summary.seconds_per_round


def test_a_session_timed_keeps_its_state() -> None:
    session, simulation, data = prepared(SMALL, "smofi")
    before = {name: tensor.clone() for name, tensor in session.run.state.tensors().items()}
    inputs = [samples.store.inputs.clone() for samples in data if isinstance(samples, TensorSamples)]
    plans = [session.run.planner.plan(0)]
    activation_memory(simulation, plans[0])
    time_rounds(simulation, session.run.evaluator, plans, deadline=1)
    for name, tensor in session.run.state.tensors().items():
        assert torch.equal(tensor, before[name]), name
    assert all(torch.equal(samples.store.inputs, kept) for samples, kept in zip(data, inputs, strict=True))
    assert session.run.history == []


def test_the_command_plans_for_the_workers_that_a_run_would_have(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--clients", "4", "--batch-size", "64", "--participation", "1", "--model", "cnn", "--width", "4"]
    assert main(["plan", *flags, "--method", "fedavg", "--rounds", "1", "--executor", "loop", "--workers", "2"]) == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "workers 2" in text
    assert "memory of all 2 workers" in text
    assert main(["plan", *flags, "--diagnose", "--workers", "2"]) == 2
    assert "diagnose=True" in capsys.readouterr().err
