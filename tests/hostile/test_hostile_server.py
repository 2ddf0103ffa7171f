"""A server that is after its clients: whatever it sends, a client refuses in a sentence, takes no memory for it and
loads nothing that it names."""

from __future__ import annotations

import json
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import smofi
from smofi.config import Config
from smofi.config.federation import read_source
from smofi.cut import Cut, parse_cut
from smofi.engine.plan import ClientPlan
from smofi.engine.remote.crossing import Crossing
from smofi.engine.remote.messages import Begin, CutGradient, Evaluate, Output, Rest
from smofi.errors import SmofiError
from smofi.net.frames import Frame, encode, read
from smofi.net.messages import pack
from smofi.serving.offer import OFFER, Offer, pack_offer
from smofi.serving.setups import layout_hash, setup_of, task_of
from smofi.serving.told import OVER, pack_told
from support.ends import Arrived, Joined, listener_at

SETTINGS: dict[str, Any] = dict(data="digits", model="cnn", width=4, cut="1", clients=2, max_train=64, batch_size=8)
SETTINGS |= dict(method=("fedavg",), participation=1.0, local_epochs=1, partition="iid", optimizer="sgd(lr=0.1)")


@cache
def crossing() -> Crossing:
    config = Config(**SETTINGS)
    source = read_source(config)
    setup = setup_of(config, config.build_model(source), torch.device("cpu"))
    task = task_of(source.kind, source.input_shape, source.classes, setup.layout)
    return Crossing(setup, parse_cut(config.cut, setup.layout, 2).options[0], task)


@cache
def offer() -> Offer:
    config = Config(**SETTINGS)
    return Offer.read(
        read(Offer.of(config, read_source(config), layout_hash(crossing().setup.layout), "server", 2).pack())
    )


def begin(**changes: Any) -> Begin:
    """A beginning that a client accepts, unless it is changed."""
    weights, statistics, moments = (
        torch.zeros(shape.sizes, dtype=shape.dtype) for shape in crossing().of_columns().values()
    )
    plan = ClientPlan(seed=0, round=0, client=0, steps=4, batch_size=8)
    return replace(Begin(plan, 0.1, crossing().cut, True, weights, statistics, moments, ()), **changes)


@contextmanager
def serving(*payloads: bytes) -> Iterator[int]:
    """A server that welcomes with the first of these, and answers every message with the next; yields its port."""
    listener = listener_at("127.0.0.1:0")
    port, stop = listener.start(), threading.Event()

    def serve() -> None:
        left = list(payloads)
        while not stop.is_set():
            try:
                event = listener.events.get(0.05)
            except queue.Empty:
                continue
            if isinstance(event, Joined):
                listener.welcome(event.name, left.pop(0))
            if isinstance(event, Arrived) and left:
                listener.send(event.name, left.pop(0))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield port
    finally:
        stop.set()
        thread.join()
        listener.stop("the test is over", 0.1)


def refusal(*payloads: bytes) -> str:
    """What a client says that gets these."""
    with serving(*payloads) as port, pytest.raises(SmofiError) as refused:
        smofi.join(f"127.0.0.1:{port}", "digits", insecure=True, name="victim", part=0, allow_labels=True)
    return str(refused.value)


def offering(**changes: Any) -> bytes:
    given = asdict(offer())
    for name, value in changes.items():
        part = "settings" if name in given["settings"] else "task" if name in given["task"] else None
        if part:
            given[part][name] = value
        else:
            given[name] = value
    return pack_offer(json.dumps(given))


def about_data(**changes: Any) -> bytes:
    return offering(task=offer().task | changes)


@cache
def joined_once() -> None:
    """What it takes to join is loaded."""
    refusal(b"nothing")


@pytest.fixture
def frugal() -> Iterator[None]:
    """No more than 200 MiB are taken at any moment."""
    crossing()
    joined_once()
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    yield
    assert peak() - before < 200, f"{before} MiB became {peak()} MiB"


def peak() -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) // 1024


OFFERS: dict[str, tuple[Callable[[], bytes], str]] = {
    "noise": (lambda: b"\x80\x04\x95 a pickle", "sent something that is not accepted: magic is"),
    "no JSON": (lambda: pack_offer("{" * 5000), "it cannot be read"),
    "no text": (lambda: encode(Frame(OFFER, {"offer": 5})), "fields.offer is 5"),
    "another message": (lambda: pack(Rest(0, "x")), "kind is rest: expected offer first"),
    "no settings": (lambda: offering(settings={}), "other settings than this version of smofi knows"),
    "too many parts": (lambda: offering(code="x"), "it cannot be read"),
    "a model of code": (lambda: offering(model="python:this:s"), "no server may name code of yours"),
    "a method of code": (lambda: offering(method=["python:this:s"]), "no server may name code of yours"),
    "a method with code": (lambda: offering(method=["fedavg+python:this:s"]), "no server may name code of yours"),
    "an optimizer of code": (lambda: offering(optimizer="python:this:s"), "no server may name code of yours"),
    "an augment of code": (lambda: offering(augment="python:this:s"), "no server may name code of yours"),
    "a partition of a file": (lambda: offering(partition="file:secret"), "no server may name a file of yours"),
    "a path for a model": (lambda: offering(model="../../model"), "model"),
    "a list for a model": (lambda: offering(model=["cnn", "cnn"]), "model"),
    "a wide model": (lambda: offering(width=10**8), "not accepted"),
    "an enormous picture": (lambda: offering(image_size=10**6), "not accepted"),
    "an enormous shape": (lambda: offering(input_shape=[2**19, 2**19, 2**19]), "its samples have the shape"),
    "no classes": (lambda: offering(classes=[]), "no kind, input_shape or classes"),
    "other classes": (lambda: offering(classes=["a", "b"]), "which it does not know"),
    "a class many times": (lambda: offering(classes=[str(n % 10) for n in range(9000)]), "not accepted"),
    "ragged means": (lambda: about_data(mean=[[1.0], [2.0, 3.0]], deviation=[[1.0], 2.0]), "no list of numbers"),
    "a mean of text": (lambda: about_data(mean="zero"), "no list of numbers"),
    "a mean too large": (lambda: about_data(mean=[10**400]), "no list of numbers"),
    "a mean of inputs that have none": (lambda: about_data(mean=[1.0], deviation=[1.0]), "mean 0 and deviation 1"),
    "another kind of data": (lambda: offering(kind="text"), "it is for text"),
    "a kind that is none": (lambda: offering(kind=["image"]), "no kind, input_shape or classes"),
    "clients without end": (lambda: offering(clients=10**15, cut="[1, 2]"), "not accepted"),
    "a cut that is none": (lambda: offering(cut="99"), "cut"),
    "a precision that is none": (lambda: offering(precision="int1"), "precision"),
    "a batch without end": (lambda: offering(batch_size=2**70), "batch_size"),
    "signs of life without end": (lambda: offering(keepalive=1e-9), "its keepalive is no number of seconds"),
    "no sign of life ever": (lambda: offering(keepalive=1e9), "no number of seconds from 0.1 to 3600"),
    "no time to connect": (lambda: offering(connect=-1), "its connect is no number of seconds"),
    "a time of text": (lambda: offering(connect="soon"), "its connect is no number of seconds"),
    "another model": (lambda: offering(layout="0" * 64), "other tensors than the one here"),
}


@pytest.mark.usefixtures("frugal")
@pytest.mark.parametrize("case", OFFERS)
def test_a_client_refuses_what_it_cannot_or_should_not_accept(case: str) -> None:
    make, expected = OFFERS[case]
    assert expected in (sentence := refusal(make()))
    assert "\n" not in sentence
    assert "this" not in sys.modules


def gradient(**changes: Any) -> bytes:
    shape = crossing().activation
    return pack(CutGradient(**{"round": 0, "step": 0, "gradient": torch.zeros(8, *shape.sizes)} | changes))


def listed(kind: str, *tensors: object) -> bytes:
    text = json.dumps({"kind": kind, "fields": {"round": 0, "step": 0}, "tensors": tensors}).encode()
    return b"SMOF" + (1).to_bytes(4, "little") + len(text).to_bytes(4, "little") + text


ROUNDS: dict[str, tuple[Callable[[], list[bytes]], str]] = {
    "weights that are no numbers": (
        lambda: [pack(begin(weights=begin().weights + torch.nan))],
        "tensors.weights has numbers that are not finite",
    ),
    "weights of another model": (
        lambda: [pack(begin(weights=torch.zeros(10**4)))],
        "tensors.weights.shape is [10000]",
    ),
    "a step before the round": (lambda: [gradient()], "kind is cut_gradient: expected begin first"),
    "another cut": (lambda: [pack(begin(cut=Cut(1, 3, 5)))], "fields.first is [1, 3]: expected blocks of a cut"),
    "a batch larger than the data": (
        lambda: [pack(begin(plan=ClientPlan(0, 0, 0, 3, 10**6)))],
        "fields.batch_size is 1000000: expected 8",
    ),
    "single samples, which reveal more": (
        lambda: [pack(begin(plan=ClientPlan(0, 0, 0, 32, 1)))],
        "fields.batch_size is 1: expected 8",
    ),
    "all samples at once": (
        lambda: [pack(begin(plan=ClientPlan(0, 0, 0, 1, 32)))],
        "fields.batch_size is 32: expected 8",
    ),
    "single samples, by a method that regulates batches": (
        lambda: [offering(method=["mergesfl"]), pack(begin(plan=ClientPlan(0, 0, 0, 32, 1)))],
        "fields.batch_size is 1: expected 8",
    ),
    "more samples than the slowest, where machines are not timed": (
        lambda: [offering(method=["mergesfl(reference='slowest')"]), pack(begin(plan=ClientPlan(0, 0, 0, 2, 16)))],
        "fields.batch_size is 16: expected 8",
    ),
    "batches of more samples than the client has": (
        lambda: [offering(batch_size=33), pack(begin(plan=ClientPlan(0, 0, 0, 1, 32)))],
        "a batch has 33 samples, and with 32 training samples here this client could never take part",
    ),
    "a round after the last": (
        lambda: [offering(rounds=2), pack(begin(plan=ClientPlan(0, 2, 0, 4, 8)))],
        "fields.round is 2: expected a whole number from 0 to 1",
    ),
    "batches of another seed": (
        lambda: [pack(begin(plan=ClientPlan(5, 0, 0, 4, 8)))],
        "fields.seed is 5: expected 0",
    ),
    "a rate that was not offered": (lambda: [pack(begin(lr=0.09))], "fields.lr is 0.09"),
    "a rate that has not decayed": (
        lambda: [offering(optimizer="sgd(lr=0.1, lr_decay=0.5)"), pack(begin(plan=ClientPlan(0, 1, 0, 4, 8)))],
        "fields.lr is 0.1: expected a number from 0.05 to 0.05",
    ),
    "a round without end": (
        lambda: [pack(begin(plan=ClientPlan(0, 0, 0, 2**31, 8)))],
        "fields.steps is 2147483648: expected 4",
    ),
    "a rate below zero": (lambda: [pack(begin(lr=-1.0))], "fields.lr is -1.0"),
    "a gradient that is no number": (
        lambda: [pack(begin()), gradient(gradient=torch.full((8, *crossing().activation.sizes), torch.inf))],
        "tensors.gradient has numbers that are not finite",
    ),
    "a gradient of another round": (lambda: [pack(begin()), gradient(round=7)], "fields.round is 7: expected 0"),
    "a gradient of another step": (lambda: [pack(begin()), gradient(step=2)], "fields.step is 2: expected 0"),
    "the same step twice": (lambda: [pack(begin()), gradient(), gradient()], "fields.step is 0: expected 1"),
    "a gradient of another shape": (
        lambda: [pack(begin()), gradient(gradient=torch.zeros(8, 5))],
        "tensors.gradient.shape is [8, 5]",
    ),
    "an enormous gradient": (
        lambda: [pack(begin()), listed("cut_gradient", ["gradient", "float32", [2**19, 2**19], None, None])],
        "tensors.gradient needs 1099511627776 bytes",
    ),
    "an output without a U shape": (
        lambda: [pack(begin()), pack(Output(0, 0, torch.zeros(8, 10)))],
        "kind is 'output': expected cut_gradient",
    ),
    "a model to judge, which would tell how many samples a class has": (
        lambda: [pack(Evaluate(0, torch.zeros(10**4), torch.zeros(0)))],
        "kind is evaluate: this run was not offered with evaluation by clients",
    ),
    "an enormous model to judge": (
        lambda: [offering(evaluates="clients"), pack(Evaluate(0, torch.zeros(10**4), torch.zeros(0)))],
        "tensors.weights.shape is [10000]",
    ),
    "a message of a client": (
        lambda: [pack(begin()), listed("activation")],
        "kind is 'activation': expected cut_gradient",
    ),
    "another offer in the middle": (
        lambda: [pack(begin()), offering(model="python:this:s")],
        "no server may name code of yours",
    ),
    "a notice without an end": (
        lambda: [encode(Frame("notice", {"sentence": 501 * "x"}))],
        "expected text of at most 500 characters",
    ),
    "1 MiB of nothing": (lambda: [bytes(2**20)], "magic is"),
}


@pytest.mark.usefixtures("frugal")
@pytest.mark.parametrize("case", ROUNDS)
def test_a_client_checks_every_message_of_its_server(case: str) -> None:
    make, expected = ROUNDS[case]
    assert expected in refusal(offering(), *make())


@pytest.mark.usefixtures("frugal")
@pytest.mark.parametrize("before", [(), (offering(),)], ids=["as an offer", "after an offer"])
def test_a_client_takes_no_message_that_is_larger_than_any_of_the_run(before: tuple[bytes, ...]) -> None:
    said: list[str] = []
    with serving(*before, bytes(30 * 2**20), pack_told(OVER, "enough")) as port:
        how: dict[str, Any] = {"insecure": True, "name": "victim", "part": 0, "allow_labels": True, "say": said.append}
        assert smofi.join(f"127.0.0.1:{port}", "digits", **how) == "enough"
    assert any("does not keep to the protocol: a payload has more than" in one for one in said)
