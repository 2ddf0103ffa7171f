"""What a server may ask of a client: nothing that names code, unless the client's user does."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
import torch

from smofi import data
from smofi.errors import InputError
from smofi.net.frames import BadFrame, Frame, encode, read
from smofi.net.transport.times import Times
from smofi.serving.offer import LONGEST, Accepted, Offer, pack_offer
from support.deployed import small

CODE = "python:mine:made"


def offered(**settings: Any) -> Offer:
    return Offer.of(small(**settings), data.load("digits", max_train=10), "hash", "server", 8)


@pytest.mark.parametrize(
    ("setting", "value"), [("model", CODE), ("method", [CODE]), ("method", [f"fedprox(mu=0.1)+{CODE}"])]
)
def test_code_is_refused_unless_the_user_names_it(setting: str, value: Any) -> None:
    offer = offered()
    offer.settings[setting] = value
    text = value if isinstance(value, str) else value[0]
    with pytest.raises(InputError, match="no server may name code of yours; if you have it and trust it, say so with"):
        offer.config()
    with pytest.raises(InputError, match="no server may name code of yours"):
        offer.config({"model" if setting == "method" else "method": CODE})
    found = offer.config({setting: text})
    assert getattr(found, setting) == (text if setting == "model" else (text,))


def test_a_part_of_a_composition_is_not_the_whole() -> None:
    offer = offered()
    offer.settings["method"] = [f"fedprox(mu=0.1)+{CODE}"]
    with pytest.raises(InputError, match="no server may name code of yours"):
        offer.config({"method": CODE})


def test_code_of_ones_own_changes_no_other_run() -> None:
    """A server that compares methods offers one after the other; only one of them is code."""
    assert offered(method="fedprox(mu=0.1)").config({"method": CODE}).method == ("fedprox(mu=0.1)",)
    assert offered(model="cnn").config({"model": CODE}).model == "cnn"


@pytest.mark.parametrize("setting", ["optimizer", "augment", "partition"])
def test_code_elsewhere(setting: str) -> None:
    offer = offered()
    offer.settings[setting] = CODE
    with pytest.raises(InputError, match=f"its {setting} is {CODE}, and no server may name code of yours$"):
        offer.config({"model": CODE, "method": CODE})


def test_it_arrives_as_it_was_sent() -> None:
    offer = offered(method="smofi", cut="1,1")
    found = Offer.read(read(offer.pack()))
    assert found.config() == offer.config()
    assert (found.layout, found.evaluates, found.clients) == ("hash", "server", 8)
    assert (found.keepalive, found.connect) == (4.0, 10.0)
    told = Offer.of(small(), data.load("digits", max_train=10), "hash", "server", 8, Times(keepalive=2, connect=0.5))
    found = Offer.read(read(told.pack()))
    assert (found.keepalive, found.connect) == (2, 0.5)


@pytest.mark.parametrize(
    "changes",
    [{"settings": {}}, {"settings": 1}, {"layout": None}, {"task": {}}, {"own": {"model": CODE}}, {"another": 1}],
    ids=str,
)
def test_what_is_no_offer(changes: dict[str, Any]) -> None:
    sent = json.loads(json.dumps(asdict(offered()), default=list)) | changes
    with pytest.raises(InputError, match="this server's run is not accepted"):
        Offer.read(read(pack_offer(json.dumps(sent))))


def test_a_task_of_many_columns() -> None:
    """Each has a mean and a deviation, and there may be more of them than a header holds."""
    offer, many = offered(), [0.123456789 + number for number in range(20_000)]
    offer.task.update(mean=many, deviation=many)
    assert Offer.read(read(offer.pack())).task["mean"] == many


@pytest.mark.parametrize(
    ("tensors", "sentence"),
    [
        ({}, "tensors.offer is missing"),
        ({"offer": torch.zeros(2, 2, dtype=torch.uint8)}, "tensors.offer.shape"),
        ({"offer": torch.zeros(2)}, "tensors.offer.dtype"),
        ({"offer": torch.zeros(LONGEST + 1, dtype=torch.uint8)}, "more than 16,777,216"),
    ],
    ids=["none", "a matrix", "numbers", "long"],
)
def test_what_is_no_text(tensors: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Offer.read(read(encode(Frame("offer", {}, tensors))))


def test_counts_of_classes_travel_with_the_acceptance() -> None:
    accepted = Accepted(10, 2, "hash", (4, 0, 6))
    assert Accepted.read(read(accepted.pack()), classes=3) == accepted


@pytest.mark.parametrize(
    ("counts", "classes", "sentence"),
    [
        ((4, 0, 7), 3, "tensors.counts is no division of 10 samples"),
        ((11, 0, -1), 3, "tensors.counts is no division of 10 samples"),
        ((4, 6), 3, r"tensors.counts.shape is \[2\]"),
        ((), 3, "tensors.counts is missing"),
        ((4, 0, 6), 0, "tensors.counts is not expected"),
    ],
)
def test_counts_that_are_none(counts: tuple[int, ...], classes: int, sentence: str) -> None:
    with pytest.raises(BadFrame, match=sentence):
        Accepted.read(read(Accepted(10, 2, "hash", counts).pack()), classes)
