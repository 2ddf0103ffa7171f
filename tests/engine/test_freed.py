"""Rows are freed as soon as nothing needs them, without waiting for Python's collector of cycles."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import smofi
from reference import federation, perceptron
from smofi.engine.cohort import chunk, fusion, room, simulated, sums
from smofi.engine.passes import direct
from support.local_links import remotely

SETTINGS: dict[str, Any] = {"batch_size": 4, "local_epochs": 1, "participation": 1.0, "rounds": 2}


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> Iterator[weakref.WeakSet[Any]]:
    """The rooms, chunks, cohorts, fusions and sums that exist; no cycle of references is collected meanwhile."""
    found: weakref.WeakSet[Any] = weakref.WeakSet()
    for kind in (room.Room, chunk.Chunk, simulated.SimulatedCohort, fusion.Fusion, sums.Sums):
        monkeypatch.setattr(kind, "__init__", noting(kind.__init__, found))
    gc.collect()
    gc.disable()
    yield found
    gc.enable()


def noting(begin: Callable[..., None], found: weakref.WeakSet[Any]) -> Callable[..., None]:
    """The same constructor, which also notes what it makes."""

    def noted(made: Any, *arguments: Any, **named: Any) -> None:
        found.add(made)
        begin(made, *arguments, **named)

    return noted


def kinds(alive: weakref.WeakSet[Any]) -> list[str]:
    return sorted(type(one).__name__ for one in alive)


METHODS = ["fedavg", "smofi", "sflv1", "sflv2", "mergesfl", "fednag"]
CHANGES: list[dict[str, Any]] = [{"wire": "int8"}, {"executor": "vmap"}, {"diagnose": True}]


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        *((method, {}) for method in METHODS),
        *(("smofi", changes) for changes in CHANGES),
        *(
            pytest.param(method, changes, marks=pytest.mark.slow)
            for method in METHODS
            for changes in CHANGES
            if method != "smofi"
        ),
    ],
    ids=str,
)
def test_a_round_leaves_its_room_alone(method: str, changes: dict[str, Any], alive: weakref.WeakSet[Any]) -> None:
    session = smofi.prepare(perceptron(), federation([3], sizes=(8, 5, 9)), method=method, **SETTINGS, **changes)
    assert kinds(alive) == []  # trials have left nothing behind
    most = 0

    def watch(event: smofi.Event) -> None:
        nonlocal most
        most = max(most, kinds(alive).count("Chunk"))

    session.run.emit = watch
    session.train()
    assert most == 1
    assert kinds(alive) == ["Room"]
    del session
    assert kinds(alive) == []


def test_trials_leave_nothing_behind(alive: weakref.WeakSet[Any]) -> None:
    data = federation([3], sizes=(8, 5, 9))
    session = smofi.prepare(perceptron(), data, executor="auto", memory_limit="64GB", **SETTINGS)
    assert kinds(alive) == []
    assert session.run.history == []


@pytest.mark.parametrize("method", METHODS)
def test_a_round_of_remote_clients_leaves_nothing_behind(method: str, alive: weakref.WeakSet[Any]) -> None:
    data = federation([3], sizes=(8, 5, 9))
    session = smofi.prepare(perceptron(), data, method=method, wire=direct, **SETTINGS)
    remotely(session)
    session.train()
    assert len(session.run.history) == 2
    assert not {"RemoteCohort", "LossyFusion", "Sums"} & set(kinds(alive))
    rooms = kinds(alive).count("Room")
    session.run.simulation.give_back()
    assert kinds(alive).count("Room") == rooms - 1  # clients have their own
