"""Many clients at once give the numbers of client by client: every method, family of models and optimizer."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import smofi
from smofi.engine.cohort import choosing, local
from smofi.engine.cohort.execution import Execution
from smofi.engine.cohort.measurements import StepTimes
from smofi.engine.processes.workers import DistributedWorkers
from smofi.files import sealed, unsealed
from smofi.methods import parse_method
from smofi.training import Session
from support.often import often
from support.sharded import CASES, FAMILIES, family, federation, model

SETTINGS: dict[str, Any] = {"rounds": 2, "participation": 0.8, "local_epochs": 1, "batch_size": 4, "seed": 3}


def executed(session: Session, execution: Execution) -> Session:
    """The same session, which computes its clients this way."""
    session.run.simulation = replace(session.run.simulation, execution=execution)
    return session


def outcome(session: Session) -> Tensor:
    """Weights, statistics and losses, all in one vector."""
    result = session.train()
    tensors = [tensor.flatten() for tensor in result.model.state_dict().values() if tensor.is_floating_point()]
    return torch.cat([*tensors, torch.tensor([record.train_loss for record in result.history], dtype=torch.float64)])


def prepared(execution: Execution, method: str = "smofi", **changes: Any) -> Session:
    """A session of tests/support/sharded.py that computes so many clients at once."""
    clients, test = federation()
    return executed(smofi.prepare(model(), clients, test, method=method, **SETTINGS | changes), execution)


def gap(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())


WAYS = {
    "all at once": Execution(64),
    "two at a time": Execution(2),
    "at once while four are left": Execution(64, at_least=4),
}


SEPARATE = [name for name in CASES if not parse_method(name).where.one_server]


@pytest.mark.parametrize("method", SEPARATE)
def test_every_method(method: str) -> None:
    one_by_one = outcome(prepared(Execution(), method, **CASES[method]))
    assert gap(outcome(prepared(WAYS["all at once"], method, **CASES[method])), one_by_one) < 1e-10


IN_PARTS = ["two at a time", "at once while four are left"]


@pytest.mark.parametrize(("method", "way"), often(lambda method, way: method == "smofi", SEPARATE, IN_PARTS))
def test_every_method_in_parts(method: str, way: str) -> None:
    one_by_one = outcome(prepared(Execution(), method, **CASES[method]))
    assert gap(outcome(prepared(WAYS[way], method, **CASES[method])), one_by_one) < 1e-10


@pytest.mark.parametrize("name", often(lambda name: name in ("cnn", "resnet8", "transformer"), FAMILIES))
def test_every_family_of_models(name: str) -> None:
    built, clients = family(name)
    found = []
    for choice in (Execution(), Execution(8)):
        session = smofi.prepare(built, clients, batch_size=4, rounds=1, local_epochs=1, participation=1.0, seed=1)
        found.append(outcome(executed(session, choice)))
    assert gap(*found) < 1e-10


def test_the_same_choice_gives_the_same_bits() -> None:
    assert torch.equal(*(outcome(prepared(Execution(5, at_least=2))) for _ in range(2)))


@pytest.mark.parametrize(
    ("choice", "method"),
    often(
        lambda choice, method: (choice.at_once == 0) == (method == "fednag") or method == "smofi(alpha=-0.5)",
        [Execution(), Execution(3)],
        ["smofi(alpha=-0.5)", "fednar(max_norm=0.5)", "fednag"],
    ),
)
def test_an_update_piece_by_piece_is_the_update(
    method: str, choice: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every number of it is computed by itself, so the bits are the same."""
    changes = {"optimizer": "adamw(lr=0.01)"} if method == "smofi(alpha=-0.5)" else {}
    whole = outcome(prepared(choice, method, **changes))
    monkeypatch.setattr(local, "IN_CACHE", 7)
    assert torch.equal(outcome(prepared(choice, method, **changes)), whole)


# ------------------------------------------------------------------------------------------------------------- choosing


def chosen(method: str = "smofi", built: nn.Sequential | None = None, **changes: Any) -> Execution:
    clients, test = federation()
    session = smofi.prepare(built or model(), clients, test, method=method, **SETTINGS | changes)
    return session.run.simulation.execution


def test_all_clients_of_the_process_at_once_if_asked() -> None:
    assert chosen(executor="vmap") == Execution(6)
    assert chosen(executor="vmap", workers=DistributedWorkers(0, 2, "gloo")) == Execution(3)
    assert chosen(executor="vmap(at_least=4)") == Execution(6, at_least=4)
    assert chosen(executor="loop") == Execution() == chosen()


@pytest.mark.parametrize("executor", ["auto", "vmap"])
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"method": "sflv2"}, "sflv2 has a single server model"),
        ({"wire": lambda tensor, direction, client: tensor}, "a wire needs the split of each client to be executed"),
        ({"diagnose": True}, "diagnose looks at each client on its own"),
        ({"compile": True}, "the passes are compiled"),
    ],
)
def test_what_cannot_be_computed_at_once_is_said(executor: str, changes: dict[str, Any], why: str) -> None:
    choice = chosen(executor=executor, **changes)
    assert str(choice) == f"client by client ({why})"


def test_a_model_that_cannot_be_computed_at_once_is_said() -> None:
    block = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.AlphaDropout(0.5))
    choice = chosen(built=nn.Sequential(block, nn.Linear(8, 3)).double(), executor="vmap", cut=0)
    assert choice.at_once == 0
    assert "cannot be computed at once: vmap: called random operation" in choice.why


@pytest.fixture(autouse=True)
def forgetful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured before is not known."""
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path))


def times(folder: Path, seconds: list[float]) -> None:
    """These seconds were measured before for all that was: one client by itself, two at once, all at once."""
    chosen(executor="auto")
    (kept,) = (folder / "measured").glob("*.json")
    kept.write_bytes(sealed(unsealed(kept.read_bytes()) | {"measured": asdict(StepTimes(*seconds))}))


def test_auto_takes_what_is_faster_and_from_where_on(tmp_path: Path) -> None:
    # c clients at once take 3 + c ms, client by client 2 c: at once pays from 3 clients on
    times(tmp_path, [0.002, 0.005, 0.009])
    choice = chosen(executor="auto")
    assert (choice.at_once, choice.at_least, choice.measured) == (6, 3, True)
    steps = [1, 5, 1, 3, 2, 7]  # of those that take part in the first round
    active = [sum(step < count for count in steps) for step in range(7)]
    at_once = sum(3 + count if count >= 3 else 2 * count for count in active)
    assert choice.why == f"about {2 * sum(steps) / at_once:.1f} times as fast as client by client"


def test_a_session_says_what_repeats_it(tmp_path: Path) -> None:
    times(tmp_path, [0.002, 0.005, 0.009])
    clients, test = federation()
    decided = smofi.prepare(model(), clients, test, **SETTINGS, executor="auto")
    assert decided.executor == "vmap(at_least=3)"
    repeated = smofi.prepare(model(), clients, test, **SETTINGS, executor=decided.executor)
    assert torch.equal(outcome(decided), outcome(repeated))


def test_auto_counts_the_clients_of_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker gains from two of its three clients on: each has two where four of the round are left."""
    monkeypatch.setattr(choosing, "measured_before", lambda *_: StepTimes(0.002, 0.003, 0.0032))
    choice = chosen(executor="auto", workers=DistributedWorkers(0, 2, "gloo"))
    assert (choice.at_once, choice.at_least, choice.executor) == (3, 4, "vmap(at_least=4)")


def test_auto_stays_with_the_loop_where_nothing_is_gained(tmp_path: Path) -> None:
    times(tmp_path, [0.002, 0.004, 0.012])
    assert str(chosen(executor="auto")) == "client by client (many at once would hardly be faster)"
    times(tmp_path, [0.5, 1e9, 1e9])
    assert "a step takes 500 ms, nearly all of it arithmetic" in str(chosen(executor="auto"))


def test_what_was_measured_is_kept_so_that_runs_decide_alike(tmp_path: Path) -> None:
    first = chosen(executor="auto")
    assert all(chosen(executor="auto") == first for _ in range(3))
    (kept,) = (tmp_path / "measured").glob("*.json")
    for spoilt in ("{", '{"measured": {"one": 0.1}}', '{"seconds": []}'):
        kept.write_text(spoilt)
        assert chosen(executor="auto").measured  # anew
        assert unsealed(kept.read_bytes())["measured"]["loop"] > 0


def test_measuring_changes_nothing() -> None:
    clients, test = federation()
    found = []
    for name in ("loop", "auto"):
        torch.manual_seed(5)
        session = smofi.prepare(model(), clients, test, **SETTINGS, executor=name)
        found.append((outcome(executed(session, Execution())), torch.rand(1)))
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


def test_a_resumed_run_computes_as_it_did_before() -> None:
    measured = Execution(3, at_least=2, measured=True)
    first = prepared(measured)
    first.train()
    second = prepared(Execution(measured=True))
    second.run.restore(first.run.checkpoint())
    assert second.run.simulation.execution == replace(measured, why="as before")
    for named in (Execution(), Execution(4, at_least=3)):
        told = prepared(named)
        told.run.restore(first.run.checkpoint())
        assert told.run.simulation.execution == named


def test_a_run_says_how_it_computes() -> None:
    clients, test = federation()
    seen: list[Any] = []
    smofi.train(model(), clients, test, executor="vmap", callback=seen.append, **SETTINGS)
    assert seen[0].computed == "up to 6 clients at once"


# ------------------------------------------------------------------------------------------------- precision and others


@pytest.mark.parametrize("way", ["loop", "vmap"])
def test_mixed_precision_keeps_weights_and_rounds_activations(way: str) -> None:
    clients, test = ([(x.float(), y) for x, y in part] for part in (federation()[0], [federation()[1]]))
    seen: set[torch.dtype] = set()
    watched = nn.ReLU()
    watched.register_forward_hook(lambda layer, inputs, output: seen.add(output.dtype))
    net = nn.Sequential(nn.Sequential(nn.Flatten(), nn.Linear(16, 8)), watched, nn.Linear(8, 3))
    plain, mixed = (
        smofi.train(net, clients, test[0], precision=precision, executor=way, **SETTINGS)
        for precision in ("float32", "bf16")
    )
    assert seen >= {torch.float32, torch.bfloat16}
    assert all(parameter.dtype == torch.float32 for parameter in mixed.model.parameters())
    losses = [[record.train_loss for record in result.history] for result in (plain, mixed)]
    assert losses[0] != losses[1] == pytest.approx(losses[0], rel=0.03)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch warns of its own insides
def test_a_compiled_model_gives_the_same_numbers() -> None:
    clients, test = federation()
    plain, compiled = (
        outcome(smofi.prepare(model(), clients, test, compile=flag, **SETTINGS)) for flag in (False, True)
    )
    assert gap(plain, compiled) < 1e-10


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("executor", "gpu", "one of auto, loop, vmap"),
        ("executor", ["loop"], 'a string such as "vmap\\(at_least=3\\)"'),
        ("precision", "fp8", "one of float32, bf16"),
        ("compile", "yes", "True or False"),
        ("memory_limit", "much", "a number of bytes, or a size such as 500MB"),
    ],
)
def test_what_is_refused(name: str, value: Any, accepted: str) -> None:
    clients, test = federation()
    with pytest.raises(smofi.InputError, match=f"{name}={re.escape(repr(value))} is not accepted: expected {accepted}"):
        smofi.prepare(model(), clients, test, **SETTINGS, **{name: value})


# ---------------------------------------------------------------------------------------------- what is left behind


def test_measuring_leaves_no_rows_behind() -> None:
    clients, test = federation()
    session = smofi.prepare(model(), clients, test, **SETTINGS, executor="auto")
    assert (session.run.simulation.room.count, session.run.simulation.room.models) == (0, [])


def test_a_step_that_failed_leaves_no_gradient_behind() -> None:
    failing = {"once": True}

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        value = nn.functional.cross_entropy(outputs, targets)
        if failing["once"]:
            value.register_hook(fail)
        return value

    def fail(gradient: Tensor) -> Tensor:
        failing["once"] = False
        raise OSError("something went wrong")

    clients, _ = federation()
    found = []
    for broken in (False, True):
        failing["once"] = False
        session = smofi.prepare(model(), clients, loss=loss, **SETTINGS)
        failing["once"] = broken
        if broken:
            with pytest.raises(smofi.SmofiError, match="something went wrong"):
                session.train()
        found.append(outcome(session))
    assert torch.equal(*found)


def test_datasets_are_read_at_once_too() -> None:
    clients, test = federation()
    datasets = [TensorDataset(*client) for client in clients]
    found = [
        outcome(smofi.prepare(model(), data, test, executor="vmap", **SETTINGS))  # type: ignore[arg-type]
        for data in (clients, datasets)
    ]
    assert gap(*found) < 1e-10


def test_a_resumed_run_has_no_more_room_than_it_is_given() -> None:
    limited = Execution(2, measured=True, room_for=2)
    assert str(limited.as_before([10, 1])) == "up to 2 clients at once (as before)"
    assert Execution(why="as asked").as_before([10, 1]) == Execution(why="as asked")
