"""A client that is selected for a round and sends what it should not: it is told which field, and the round goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from smofi.net.certs import Identity, client_credentials, issue
from smofi.net.frames import Frame, Parsed, encode, read
from smofi.net.transport.channels import grpc
from smofi.net.transport.envelope import Kind, pack, unpack
from smofi.serving.offer import Accepted
from support.attackers import PATIENCE, TESTS, Mallory, Participant, Tally, crossing_of
from support.chaos import Fleet, Nursery, make_pki, rounds_in, until
from support.ports import free_port

SETTINGS = ["--data", "digits", "--model", "cnn", "--width", "4", "--cut", "1", "--clients", "2", "--max-train", "64"]
SETTINGS += ["--max-test", "20", "--partition", "iid", "--local-epochs", "1", "--batch-size", "8"]
SETTINGS += ["--participation", "1", "--method", "smofi", "--seed", "1"]
SETTINGS += ["--rounds", "100000", "--eval-every", "100000"]

Make = Callable[[int, Tensor, Tensor], Frame]


def activation(round: int, step: int, **tensors: Tensor) -> Frame:
    return Frame("activation", {"round": round, "step": step}, tensors)


SABOTAGE: dict[str, Make] = {
    "tensors.targets has other classes than 0 to 9": lambda r, x, y: activation(r, 0, activation=x, targets=y + 10),
    "tensors.targets.shape is [3]": lambda r, x, y: activation(r, 0, activation=x, targets=y[:3]),
    "tensors.targets is missing": lambda r, x, y: activation(r, 0, activation=x),
    "tensors.extra is not expected": lambda r, x, y: activation(r, 0, activation=x, targets=y, extra=y),
    "tensors.activation.dtype is 'float64'": lambda r, x, y: activation(r, 0, activation=x.double(), targets=y),
    "tensors.activation.shape is": lambda r, x, y: activation(r, 0, activation=x[:, :1], targets=y),
    "fields.step is 1: expected 0": lambda r, x, y: activation(r, 1, activation=x, targets=y),
    "fields.round is": lambda r, x, y: activation(r + 1, 0, activation=x, targets=y),
    "kind is 'finished': expected activation": lambda r, x, y: Frame("finished", {"round": r}, {"weights": x}),
}


async def until_a(kind: str, call: Any) -> Mapping[str, Any]:
    """Wait for a message of this kind; returns its fields."""
    while True:
        answer = await asyncio.wait_for(call.read(), 4 * PATIENCE)
        assert answer is not grpc.aio.EOF
        message = unpack(answer)
        if message.kind == Kind.PAYLOAD and (frame := read(message.body)).kind == kind:
            return frame.fields


async def begun(mallory: Mallory, call: Any) -> int:
    """Accept what is offered, as an honest client would, and wait for a round; returns its number."""
    assert await mallory._enter(call)
    assert mallory.offer
    await call.write(pack(Kind.PAYLOAD, 1, 1, Accepted(16, 0, mallory.offer.layout).pack()))
    round: int = (await until_a("begin", call))["round"]
    return round


async def sabotage(address: str, certs: Path, shape: tuple[int, ...]) -> dict[str, str]:
    """Each kind once; returns what the server said. Numbers that are none leave a client out of the round, no more."""
    mallory = Mallory(address, client_credentials(Identity.load(certs, "client")), "mallory", Tally(), 0)
    inputs, targets, said = torch.zeros(8, *shape), torch.zeros(8, dtype=torch.int64), {}
    for expected, make in SABOTAGE.items():
        call = mallory._stream()
        frame = encode(make(await begun(mallory, call), inputs, targets))
        said[expected] = await mallory._send(call, pack(Kind.PAYLOAD, 2, 1, frame))
        call.cancel()
    call = mallory._stream()
    frame = encode(activation(await begun(mallory, call), 0, activation=inputs + torch.nan, targets=targets))
    await call.write(pack(Kind.PAYLOAD, 2, 1, frame))
    said[""] = (await until_a("rest", call))["reason"]
    await mallory.close()
    return said


def test_every_field_of_a_message_is_checked_and_the_others_go_on(nursery: Nursery, tmp_path: Path) -> None:
    port, pki = free_port(), make_pki(tmp_path / "pki", 2)
    issue(pki, client="mallory")
    address = f"127.0.0.1:{port}"
    one = Fleet(nursery, pki, tmp_path / "run", SETTINGS, 2, address, address)
    one.environment["SMOFI_TESTS_PATIENT"] = "1"
    one.serve()
    one.join_all()
    one.wait_for_round(1, 300)
    said = asyncio.run(sabotage(address, pki / "mallory", (8, 2, 2)))
    assert (
        said.pop("")
        == "its model has diverged: tensors.activation has numbers that are not finite, or larger than 1e+06"
    )
    for expected, answer in said.items():
        assert f"refused: its message was not accepted: {expected}" in answer
    done = len(rounds_in(one.output))
    until(lambda: len(rounds_in(one.output)) > done, 120, "the round does not go on")
    left_out = [json.loads(line)["left_out"] for line in rounds_in(one.output)]
    assert [2] in left_out
    assert all(numbers in ([], [2]) for numbers in left_out)


# ----------------------------------------------------------- numbers that are finite, and out of all proportion


def scaled(kind: str, name: str, value: float) -> tuple[str, Callable[[Frame], Frame]]:
    """Messages of this kind have one tensor full of this number."""

    def spoil(frame: Frame) -> Frame:
        others = {"statistics": torch.ones_like(frame.tensors["statistics"])} if kind == "finished" else {}
        spoilt = {name: torch.full_like(frame.tensors[name], value)}
        return Frame(frame.kind, frame.fields, {**frame.tensors, **others, **spoilt})

    return kind, spoil


SPOILT: dict[str, dict[str, tuple[str, Callable[[Frame], Frame]]]] = {
    "1": {
        "tensors.activation has numbers that are not finite, or larger": scaled("activation", "activation", -1e12),
        "its weights moved by ": scaled("finished", "weights", 1e30),
        "its statistics moved by ": scaled("finished", "statistics", 1e30),
        "a running variance is negative": scaled("finished", "statistics", -1.0),
    },
    "1,1": {
        "tensors.gradient has numbers that are not finite, or larger": scaled("returned", "gradient", 1e12),
        "fields.loss is 1e+300: expected -1e+30 to 1e+30": (
            "returned", lambda frame: Frame(frame.kind, {**frame.fields, "loss": 1e300}, frame.tensors),
        ),
    },
}  # fmt: skip
"""By the cut and by why the client is left out of the round."""


async def spoil_rounds(address: str, certs: Path, cut: str) -> dict[str, str]:
    """Play along, each time until a message is spoilt; returns why the round goes on without this client."""
    found = {}
    for expected, (kind, spoil) in SPOILT[cut].items():
        place = address, client_credentials(Identity.load(certs, "client")), "mallory"
        one = Participant(*place, Tally(), len(found), samples=16, diverges=False)
        call = one._stream()
        assert await one._enter(call)
        assert one.offer
        one.crossings, one.number, one.heard = crossing_of(one.offer), 0, 1
        await one._say(call, Accepted(one.samples, TESTS, one.offer.layout).pack())
        answer = await one._next(call)
        while not (isinstance(answer, Parsed) and answer.kind == "rest"):
            assert isinstance(answer, Parsed), answer
            if (frame := one._valid(answer)) is not None:
                await one._say(call, encode(spoil(frame) if frame.kind == kind else frame))
            answer = await one._next(call)
        found[expected] = str(answer.fields["reason"])
        call.cancel()
        await one.close()
    return found


@pytest.mark.parametrize("cut", SPOILT)
def test_finite_numbers_out_of_all_proportion_leave_a_client_out(cut: str, nursery: Nursery, tmp_path: Path) -> None:
    """They would be finite, and the average of all worth nothing."""
    port, pki = free_port(), make_pki(tmp_path / "pki", 2)
    issue(pki, client="mallory")
    address = f"127.0.0.1:{port}"
    settings = [*SETTINGS, "--model", "resnet8", "--cut", cut]
    for replaced in ("--model", "--cut"):
        place = settings.index(replaced)
        del settings[place : place + 2]
    one = Fleet(nursery, pki, tmp_path / "run", settings, 2, address, address)
    one.environment["SMOFI_TESTS_PATIENT"] = "1"
    one.serve()
    one.join_all()
    one.wait_for_round(1, 300)
    for expected, reason in asyncio.run(spoil_rounds(address, pki / "mallory", cut)).items():
        assert expected in reason
    done = len(rounds_in(one.output))
    until(lambda: len(rounds_in(one.output)) > done, 120, "the round does not go on")
    records = [json.loads(line) for line in rounds_in(one.output)]
    assert [2] in [record["left_out"] for record in records]
    assert all(record["left_out"] in ([], [2]) and record["train_loss"] < 10 for record in records)
