"""Devices that leave, files that change, settings that would do nothing: what a review of the clock found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import smofi
from reference import federation, perceptron
from smofi.clock import Timing
from smofi.clock.replay import Job, Leg, Replay, Rules
from smofi.engine.memory.limit import most_at_once
from smofi.errors import InputError
from smofi.experiment import resume, start
from smofi.methods import parse_method
from support.crash import TINY

ALWAYS = smofi.Device(1.0, 1e3, 1e3)
BRIEF = smofi.Device(1.0, 1e3, 1e3, smofi.Presence([(0.0, 1e-3)], period=1e9))
SETTINGS: dict[str, Any] = {"rounds": 1, "participation": 1.0, "local_epochs": 2, "batch_size": 4, "seed": 3, "cut": 1}


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("method", ["fedavg", "sflv1('epoch')", "mergesfl", "smofi(global_momentum=0)"])
def test_a_client_that_leaves_before_its_first_step_is_as_if_it_had_not_come(method: str) -> None:
    """But for SMoFi, where it is one of |J|."""
    clients = federation([3], sizes=(9, 13, 5, 8))
    came = smofi.train(
        *(perceptron(), clients), method=method, clock=Timing("paper", devices=[ALWAYS] * 3 + [BRIEF]), **SETTINGS
    )
    assert came.history[0].steps[3] == 0
    assert came.history[0].left_out == [3]
    stayed_away = smofi.train(perceptron(), clients[:3], method=method, **SETTINGS)
    same = torch.allclose(weights(came.model), weights(stayed_away.model), rtol=0, atol=1e-12)
    assert same is (not parse_method(method).fuse)


def test_bytes_are_those_of_steps_that_were_taken_and_of_models_that_were_fetched() -> None:
    """The first to have its turn is never the one that is gone when it comes."""
    clients = federation([3], sizes=(9, 13, 5, 8))
    timing = Timing("full", devices=[ALWAYS] * 3 + [BRIEF])
    (record,) = smofi.train(perceptron(), clients, method="sflv2", clock=timing, **SETTINGS).history
    assert record.steps[3] == 0
    assert record.bytes_up[3] == 0
    waited = record.idle[3] == 1.0
    assert (record.bytes_down[3] == 0) is waited


def test_the_deadline_of_the_first_step_runs_from_when_the_first_has_the_model() -> None:
    """Steps of about one second, a download of one and a half, and two seconds of patience: nobody is late."""
    jobs = [Job((Leg("compute", 1 + 0.01 * n),), 4, 4, fetch=(Leg("down", 1.5),)) for n in range(4)]
    found = Replay(jobs, Rules("step", deadline=2.0)).run()
    assert found.landed == [[0, 1, 2, 3]] * 4
    assert found.end == pytest.approx(1.5 + 4 * 1.03)


def test_memory_is_planned_for_all_that_may_come() -> None:
    """Also for those that are not there at the very beginning."""
    clients = federation([3], sizes=(9, 13, 5, 8))
    late = smofi.Device(1.0, 1e3, 1e3, smofi.Presence([(50.0, 100.0)], period=100.0))
    needed = []
    for devices in ([ALWAYS] * 4, [ALWAYS] + [late] * 3):
        session = smofi.prepare(
            *(perceptron(), clients), method="smofi", clock=Timing("paper", devices=devices), **SETTINGS
        )
        run = session.run
        with pytest.raises(InputError) as refused:
            most_at_once("1MB", run.simulation, run.planner, run.evaluator, 1, 0)
        needed.append(str(refused.value).partition("rows: weights ")[2])
    assert needed[0] == needed[1]


def test_settings_that_would_do_nothing_are_refused() -> None:
    given: dict[str, Any] = {"devices": "own.csv", "availability": "phones", "server_parallel": 3, "step_deadline": 1.0}
    for name, value in given.items():
        with pytest.raises(InputError, match=f"{name}=.* is not accepted: it needs a clock, paper or full"):
            Timing(**{name: value})


def test_devices_may_move_but_not_change(tmp_path: Path) -> None:
    own, moved = tmp_path / "own.csv", tmp_path / "moved.csv"
    own.write_text("ms_per_sample,kbps\n10,8000\n20,9000\n")
    config = TINY.model_copy(update={"clock": "full", "devices": str(own), "rounds": 2})
    (run,) = start(config, tmp_path / "run")
    before = run.train().history
    own.rename(moved)
    (again,) = resume(tmp_path / "run", {"rounds": 3, "devices": str(moved)})
    assert again.train().history[:2] == before
    moved.write_text("ms_per_sample,kbps\n10,8000\n20,9001\n")
    with pytest.raises(InputError, match="was made with other devices"):
        resume(tmp_path / "run", {"rounds": 4})


def test_sflv2_visits_those_that_are_left_in_the_order_that_was_timed() -> None:
    clients = federation([3], sizes=(9, 13, 8, 8))
    brief = smofi.Device(1.0, 1e3, 1e3, smofi.Presence([(0.0, 14.0)], period=1e9))
    session = smofi.prepare(
        *(perceptron(), clients),
        method="sflv2('step')",
        clock=Timing("paper", devices=[ALWAYS] * 3 + [brief]),
        **SETTINGS,
    )
    planner = session.run.planner
    assert planner.clock
    intended, settled = planner.intended(0, planner.eligible), planner.plan(0)
    assert 0 < settled.steps[3] < intended.steps[3]
    timed = [[row for (row,) in tick.groups] for tick in intended.ticks(planner.method)]
    trained = [[row for (row,) in tick.groups] for tick in settled.ticks(planner.method)]
    for step, (planned, real) in enumerate(zip(timed, trained, strict=False)):
        assert real == [row for row in planned if row != 3 or step < settled.steps[3]]
