"""What a dry run says would leave is what leaves: every tensor and number in words, and its bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from smofi.config.federation import gather
from smofi.engine.remote.messages import Activation, Begin, CutGradient, Down, Evaluate, Finished, Output, Returned, Up
from smofi.memory import as_text
from smofi.net.frames import Parsed, read
from smofi.net.messages import pack
from smofi.serving.leaving import COLUMNS, LOSS, SQUARE, WORDS, AtCut, about, model_bytes
from smofi.serving.offer import Offer
from smofi.serving.participation import Agreed, Participation
from smofi.serving.setups import layout_hash, setup_of
from support.deployed import session_of, small
from support.local_links import LocalLinks, remotely

HEADER = 600
"""Bytes of a message besides its tensors, at most."""

ONE = dict(clients=1, participation=1.0, rounds=1, max_train=40, max_test=20, model="resnet8", width=4, partition="iid")
RUNS: dict[str, dict[str, Any]] = {
    "smofi": {},
    "the U shape": {"cut": "1,1"},
    "fednag": {"method": "fednag"},
    "fednar": {"method": "fednar(0.01)"},
    "fednar in the U shape": {"method": "fednar(0.01)", "cut": "1,1"},
    "clip": {"method": "smofi+clip(max_norm=5)"},
    "int8": {"wire": "int8", "cut": "1,1"},
    "without normalisation": {"model": "cnn", "method": "fedavg"},
}


@dataclass
class Heard:
    """The messages of a run, and the bytes of each."""

    messages: list[tuple[Up | Down, Parsed, int]] = field(default_factory=list)

    def of(self, *kinds: type) -> list[tuple[Parsed, int]]:
        return [(parsed, length) for message, parsed, length in self.messages if isinstance(message, kinds)]

    def bytes(self, *kinds: type) -> int:
        """Of their tensors."""
        return sum(header.bytes for parsed, _ in self.of(*kinds) for header in parsed.tensors.values())

    def headers(self, *kinds: type) -> float:
        """The largest difference between a message and its tensors."""
        return max(length - sum(one.bytes for one in parsed.tensors.values()) for parsed, length in self.of(*kinds))


def agreed_to(settings: dict[str, Any], evaluates: str = "server") -> Agreed:
    config = small(**ONE | settings)
    federation = gather(config)
    layout = setup_of(config, config.build_model(federation.source), torch.device("cpu")).layout
    offer = Offer.read(read(Offer.of(config, federation.source, layout_hash(layout), evaluates, 1).pack()))
    return Agreed.of(offer, offer.config(), federation.source.train, federation.source.test, torch.device("cpu"))


def heard_of(agreed: Agreed, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Heard:
    """A round of this client."""
    heard, crossed = Heard(), LocalLinks._crossed

    def listening(links: LocalLinks, message: Down | Up) -> Any:
        before, parsed = links.bytes, crossed(links, message)
        heard.messages.append((message, parsed, links.bytes - before))
        return parsed

    monkeypatch.setattr(LocalLinks, "_crossed", listening)
    session = session_of(small(**ONE | settings))
    remotely(session).clients[0] = Participation(agreed)
    session.train()
    return heard


@pytest.mark.parametrize("run", RUNS)
def test_what_leaves_was_said(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agreed = agreed_to(RUNS[run])
    said = list(about(agreed, allow_labels=True))
    lines = {line.strip().partition(":")[0].partition(",")[0]: line for line in said}
    heard = heard_of(agreed, RUNS[run], monkeypatch)
    (crossing,) = agreed.crossings.values()
    at, steps = AtCut(agreed, crossing), len(heard.of(CutGradient))
    assert at.plan.steps == steps == 5

    up, down = heard.bytes(Activation, Returned), heard.bytes(Output, CutGradient)
    assert (steps * at.bytes_of(at.up), steps * at.bytes_of(at.down)) == (up, down)
    assert lines["up"].endswith(f"; {as_text(up / steps)}")
    assert lines["down"].endswith(f"; {as_text(down / steps)}")
    assert at.column_bytes == heard.bytes(Finished) == heard.bytes(Begin)
    assert lines["down before a round"].endswith(f"; {as_text(at.column_bytes)}")
    whole = [as_text(one + at.column_bytes) for one in (up, down)]
    assert lines["a round"].endswith(f": {whole[0]} up, {whole[1]} down")
    assert heard.headers(Activation, Returned, Output, CutGradient, Begin, Finished) < HEADER

    each, after = lines["up"], lines["down before a round"]
    for message, parsed, _ in heard.messages:
        for name, one in parsed.tensors.items():
            if isinstance(message, Activation | Returned):
                assert WORDS[type(message), name] in each
            elif isinstance(message, Finished):
                assert (COLUMNS[name] in after) == bool(one.bytes)
        if isinstance(message, Activation | Returned | Finished):
            assert parsed.fields.keys() <= {"round", "step", "loss", "square"}
    told = {name for parsed, _ in heard.of(Activation, Returned, Finished) for name in parsed.fields}
    assert (LOSS in each, SQUARE in each) == ("loss" in told, "square" in told)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("smofi", "your part's 348 weights and 24 statistics of normalisation layers; "),
        ("fednag", " weights, 24 statistics of normalisation layers and 348 numbers of momentum; "),
        ("fednar", ", labels (8 int64) and the squared norm of your gradient; "),
        ("fednar in the U shape", ", the loss and the squared norm of your gradient; "),
        ("int8", " int8), the gradient of the server's output ("),
    ],
)
def test_in_words(run: str, words: str) -> None:
    assert words in "\n".join(about(agreed_to(RUNS[run])))


def test_the_whole_model_comes_to_those_who_judge_it() -> None:
    agreed = agreed_to({}, "clients")
    layout = agreed.device.setup.layout
    message = Evaluate(0, torch.zeros(layout.size), torch.ones(layout.statistics_size))
    sent = b"".join(pack(message))
    assert 0 <= len(sent) - model_bytes(agreed) < HEADER
    (line,) = [line for line in about(agreed) if line.startswith("After a round")]
    assert f"the whole model comes here ({as_text(model_bytes(agreed))})" in line
    (answer,) = Participation(agreed).answers(read(sent))
    assert len(b"".join(pack(answer))) < HEADER
    assert line.endswith("the server is told how many samples you hold out and how many of them are right.")


def test_what_leaves_when_it_joins() -> None:
    agreed = agreed_to({"method": "mergesfl(bandwidth=3)"})
    accepted, said = agreed.accepted(), "\n".join(about(agreed))
    assert f"{accepted.samples} samples to train on, {accepted.tests} held out. These two numbers leave" in said
    assert ("told, too, how many samples of each class you have" in said) == bool(accepted.counts)
    assert accepted.counts
    assert "of each class" not in "\n".join(about(agreed_to({})))
