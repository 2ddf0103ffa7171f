"""What a run from Python shows and tells: `progress`, `on_round`, `callback`; and what its result looks like."""

from __future__ import annotations

import builtins
import io
import itertools
import os
import pty
import re
import subprocess
import sys
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

import smofi
from reference import federation, perceptron
from smofi.engine.events import Event, Record, RoundDone
from smofi.report.live import Live, NotebookLine

X, Y = federation([3], sizes=(12,))[0]


def train(**changes: Any) -> smofi.Result:
    how: dict[str, Any] = dict(rounds=3, participation=1.0, local_epochs=1, batch_size=4, method="fedavg")
    return smofi.train(perceptron(), federation([3], sizes=(9, 5, 13)), (X, Y), **how | changes)


# Progress


def test_nothing_is_shown_unless_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    train()
    assert capfd.readouterr() == ("", "")


def test_a_file_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    events: list[Event] = []
    rounds: list[Record] = []
    result = train(progress=True, callback=events.append, on_round=rounds.append)
    out, err = capsys.readouterr()
    assert out == ""
    assert "\x1b" not in err
    lines = err.splitlines()
    assert lines[0].startswith("3 clients, 3 a round")
    assert [line.split("  ")[1] for line in lines if "accuracy" in line] == ["round 1/3", "round 3/3"]
    assert [event.record for event in events if isinstance(event, RoundDone)] == rounds == result.history


def test_a_warning_is_shown_once(capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder) -> None:
    train(progress=True, optimizer="sgd(lr=1e4)", method="fedavg", rounds=2)
    assert len(re.findall("diverge", capsys.readouterr().err)) == 1
    assert not recwarn.list


class ZMQInteractiveShell:
    """What rich takes for a notebook, by this name."""


def test_a_notebook_has_one_line_that_is_rewritten(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    assert Console().is_jupyter
    train(progress=True)
    out, err = capsys.readouterr()
    assert err == ""
    assert "\x1b" not in out
    *said, last = out.removesuffix("\n").split("\n")
    assert any(line.strip().startswith("3 clients, 3 a round") for line in said)
    assert re.fullmatch(r"\rfedavg  ━{20}  round 3/3, accuracy +[\d.]+%, best +[\d.]+%, done", last)


def test_a_line_that_is_rewritten_hides_what_was_there() -> None:
    file, time = io.StringIO(), iter(range(100))
    console = Console(file=file)
    live = Live(console, ["fedavg"], 3, "plain")
    live.view = NotebookLine(console, live.runs, now=lambda: float(next(time)))
    with live:
        train(callback=live)
        live.say("short")
    lines = file.getvalue().split("\n")
    assert len([line for line in lines if line.count("\r") >= 3]) == 1, "rounds and ticks are on one line"
    texts = max(lines, key=lambda line: line.count("\r")).split("\r")
    for before, after in itertools.pairwise(texts):
        assert len(after) >= len(before.rstrip()), "a shorter text is padded, so that nothing of the last one is left"


def test_in_a_terminal_prints_to_a_file_stay_in_the_file(tmp_path: Any) -> None:
    """The picture is on standard error, which is a terminal here; what the program prints goes where it went before."""
    code = (
        "import sys, rich.console, smofi.report.live as screen\n"
        "from smofi.report.results import History, RunProgress\n"
        "console = rich.console.Console(stderr=True)\n"
        "shown = screen.Screen(console, [RunProgress(History('fedavg'), 3)], lambda: 0.0)\n"
        "shown.start(); print('mine'); shown.stop()\n"
    )
    leader, follower = pty.openpty()
    with (tmp_path / "out").open("w") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, stderr=follower, check=True, timeout=60)
    os.close(follower)
    drawn = os.read(leader, 100_000).decode()
    os.close(leader)
    assert "fedavg" in drawn
    assert "mine" not in drawn
    assert (tmp_path / "out").read_text() == "mine\n"


def test_a_callback_of_rounds_alone() -> None:
    seen: list[Record] = []
    assert train(on_round=seen.append).history == seen
    assert [record.round for record in seen] == [1, 2, 3]


# Threads


@pytest.mark.parametrize(("asked", "used"), [({}, 1), ({"threads": 3}, 3)], ids=["by default", "asked for"])
def test_threads_are_as_asked_and_as_before_afterwards(asked: dict[str, int], used: int) -> None:
    before, seen = torch.get_num_threads(), set[int]()

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        seen.add(torch.get_num_threads())
        return nn.functional.cross_entropy(outputs, targets)

    torch.set_num_threads(2)
    try:
        train(loss=loss, **asked)
        assert torch.get_num_threads() == 2
        with pytest.raises(smofi.InputError):
            train(batch_size=1000, **asked)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == {used}


# What comes back


def test_the_model_is_in_eval_mode() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 3)).double().train()
    result = smofi.train(model, [(X, Y)], rounds=1, participation=1.0, batch_size=4)
    assert not any(module.training for module in result.model.modules())
    assert all(module.training for module in model.modules())


def test_results_and_sessions_are_readable() -> None:
    result = train(target_accuracy=1e-9)
    accuracy = result.history[0].accuracy
    assert repr(result) == (f"Result(1 round, accuracy {accuracy:.4g} after round 1, {result.stopped})")
    session = smofi.prepare(perceptron(), [(X, Y)], method="fedavg", batch_size=4, rounds=2)
    assert repr(session) == "Session(fedavg, 1 client, 0 of 2 rounds done)"
