"""While `smofi.train` runs: Ctrl-C ends it after the round and leaves nothing behind; `progress` shows how it goes."""

from __future__ import annotations

import builtins
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

import smofi
from reference import federation, perceptron
from smofi import RoundDone, TickDone, TrainingWarning
from smofi.engine.events import Event, Record

X, Y = federation([3], sizes=(12,))[0]


def prepare(callback: Callable[[Event], None] | None = None, **changes: Any) -> smofi.Session:
    how: dict[str, Any] = dict(rounds=4, participation=1.0, local_epochs=2, batch_size=4)
    return smofi.prepare(perceptron(), federation([3], sizes=(9, 5, 13)), (X, Y), callback=callback, **how | changes)


class Pressing:
    """A callback that presses Ctrl-C at each of these ticks, which are counted over all rounds."""

    def __init__(self, *ticks: int) -> None:
        self.ticks, self.seen = ticks, 0
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, TickDone):
            self.seen += 1
            if self.seen in self.ticks:
                signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def _default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_the_round_is_finished_and_what_there_is_comes_back() -> None:
    pressing = Pressing(1)
    with pytest.warns(TrainingWarning, match=r"^interrupted: round 1 is finished first; interrupt again to stop at"):
        result = prepare(pressing).train()
    assert [record.round for record in result.history] == [1]
    assert (result.interrupted, result.stopped) == (True, "interrupted after round 1 of 4")
    whole = prepare(rounds=1).train()
    for a, b in zip(result.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not whole.interrupted


def test_a_second_one_raises_at_once() -> None:
    pressing = Pressing(1, 2)
    with pytest.raises(KeyboardInterrupt) as raised, pytest.warns(TrainingWarning):
        prepare(pressing).train()
    assert type(raised.value) is KeyboardInterrupt
    assert pressing.seen == 2
    assert not any(isinstance(event, RoundDone) for event in pressing.events)


def test_a_session_goes_on_where_it_was_interrupted() -> None:
    session = prepare(Pressing(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # where warnings are errors, too
        assert session.train().interrupted
    result = session.train()
    assert not result.interrupted
    assert [record.round for record in result.history] == [1, 2, 3, 4]
    for a, b in zip(result.model.parameters(), prepare().train().model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_handler_of_the_programs_own_is_left_alone() -> None:
    caught: list[int] = []

    def own(number: int, frame: object) -> None:
        caught.append(number)

    before = signal.signal(signal.SIGINT, own)
    try:
        result = prepare(Pressing(1)).train()
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)
    assert caught == [signal.SIGINT]
    assert (len(result.history), result.interrupted) == (4, False)


def test_other_threads_touch_nothing() -> None:
    seen: list[Any] = []

    def look(event: Event) -> None:
        seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=lambda: seen.append(prepare(look, rounds=1).train()))
    thread.start()
    thread.join()
    assert not seen.pop().interrupted
    assert set(seen) == {signal.default_int_handler}


PROGRAM = """
    import torch, smofi
    from torch import nn

    torch.manual_seed(0)
    x, y = torch.randn(512, 4), torch.arange(512) % 2
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    def callback(event):
        if isinstance(event, smofi.TickDone) and event.tick == 0:
            print("step", flush=True)

    settings = dict(rounds=100_000, participation=1.0, batch_size=8, local_epochs=20)
    smofi.train(model, [(x, y)], callback=callback, **settings)
"""


@pytest.mark.slow
def test_a_real_process_and_two_real_signals() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stderr
    while process.stdout.readline() != "step\n":
        assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    while "interrupted: round" not in process.stderr.readline():
        assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    err = process.communicate(timeout=120)[1]
    assert process.returncode == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt")


# ----------------------------------------------------------------------------------------------------------- progress


def test_nothing_is_shown_unless_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    prepare().train()
    assert capfd.readouterr() == ("", "")


def test_a_file_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    events: list[Event] = []
    rounds: list[Record] = []
    result = prepare(events.append, progress=True, on_round=rounds.append, rounds=3).train()
    out, err = capsys.readouterr()
    assert out == ""
    assert "\x1b" not in err
    lines = err.splitlines()
    assert lines[0].startswith("3 clients, 3 a round")
    assert [line.split("  ")[1] for line in lines if "accuracy" in line] == ["round 1/3", "round 3/3"]
    assert [event.record for event in events if isinstance(event, RoundDone)] == rounds == result.history


def test_a_warning_is_shown_once(capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder) -> None:
    prepare(progress=True, optimizer="sgd(lr=1e4)", method="fedavg", rounds=2).train()
    assert len(re.findall("diverge", capsys.readouterr().err)) == 1
    assert not recwarn.list


class ZMQInteractiveShell:
    """What rich takes for a notebook, by this name."""


def test_a_notebook_has_one_line_that_is_rewritten(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    assert Console().is_jupyter
    prepare(progress=True, rounds=3).train()
    out, err = capsys.readouterr()
    assert err == ""
    assert "\x1b" not in out
    *said, last = out.removesuffix("\n").split("\n")
    assert any(line.strip().startswith("3 clients, 3 a round") for line in said)
    _, _, final = last.rpartition("\r")
    assert re.fullmatch(r"smofi  ━{20}  round 3/3, accuracy +[\d.]+%, best +[\d.]+%, done", final)


# ------------------------------------------------------------------------------------------------------------ threads


@pytest.mark.parametrize(("asked", "used"), [({}, 1), ({"threads": 3}, 3)], ids=["by default", "asked for"])
def test_threads_are_as_asked_and_as_before_afterwards(asked: dict[str, int], used: int) -> None:
    before, seen = torch.get_num_threads(), set[int]()

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        seen.add(torch.get_num_threads())
        return nn.functional.cross_entropy(outputs, targets)

    torch.set_num_threads(2)
    try:
        prepare(loss=loss, **asked).train()
        assert torch.get_num_threads() == 2
        with pytest.raises(smofi.InputError):
            prepare(batch_size=1000, **asked)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == {used}
