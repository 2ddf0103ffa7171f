"""Methods as values and as strings: which go together, which do not and why, and methods of somebody else's."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import smofi
from reference import federation, perceptron
from smofi import CompositionError, InputError, Method, compose, methods
from smofi.methods import METHODS, parse_method

SLOTS = ("pull", "decay", "limit", "fuse", "carry", "outer", "placement", "steps", "batch_sizes", "nesterov")


def filled(method: Method) -> set[str]:
    return {slot for slot in SLOTS if getattr(method, slot) is not None}


# Names


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (methods.fedavg(), "fedavg"),
        (methods.fedprox(0.01), "fedprox(mu=0.01)"),
        (methods.fedprox(mu=0.01), "fedprox(mu=0.01)"),
        (methods.fednar(), "fednar"),
        (methods.fednar(None, 10), "fednar"),
        (methods.fednar(scope="part", decay=0.1), "fednar(decay=0.1, scope='part')"),
        (methods.fedavgm(0.3), "fedavgm(momentum=0.3)"),
        (methods.slowmo(1, 0.5), "slowmo(lr=1, momentum=0.5)"),
        (methods.slowmo(momentum=0.5, lr=1, steps=7), "slowmo(lr=1, momentum=0.5, steps=7)"),
        (methods.fednag(), "fednag"),
        (methods.fednag(steps=3), "fednag(steps=3)"),
        (methods.smofi(), "smofi"),
        (methods.smofi(-0.1, 0.3, True), "smofi"),
        (methods.smofi(alpha=-1), "smofi(alpha=-1)"),
        (methods.smofi(global_momentum=0, align=False), "smofi(global_momentum=0, align=False)"),
        (methods.sflv1(), "sflv1"),
        (methods.sflv1("epoch"), "sflv1(period='epoch')"),
        (methods.sflv2(turns="client"), "sflv2"),
        (methods.sflv2("step"), "sflv2(turns='step')"),
        (methods.mergesfl(steps=4), "mergesfl(steps=4)"),
        (methods.clip(1), "clip(max_norm=1)"),
        (compose(methods.fedprox(0.1), methods.clip(1), methods.smofi()), "fedprox(mu=0.1)+clip(max_norm=1)+smofi"),
    ],
    ids=str,
)
def test_a_name_is_how_the_method_is_written_and_reads_back(method: Method, name: str) -> None:
    assert method.name == str(method) == name
    again = parse_method(name)
    assert again.name == name
    assert filled(again) == filled(method)


def test_a_name_that_is_near_one_is_suggested() -> None:
    with pytest.raises(InputError) as refusal:
        parse_method("fedprox(0.1)+smoffi")
    assert str(refusal.value) == (
        "method='smoffi' is not accepted: expected one of " + ", ".join(METHODS) + " (did you mean 'smofi'?)"
    )


def test_a_name_that_is_near_none_gets_no_suggestion() -> None:
    with pytest.raises(InputError) as refusal:
        parse_method("qqqq")
    assert str(refusal.value) == "method='qqqq' is not accepted: expected one of " + ", ".join(METHODS)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fedprox", "fedprox is not accepted: missing a required argument: 'mu'; it is written fedprox(mu)"),
        (
            "fedprox(nu=1, mu=1)",
            "fedprox is not accepted: got an unexpected keyword argument 'nu'; it is written fedprox(mu)",
        ),
        ("fedavg(1)", "fedavg is not accepted: too many positional arguments; it is written fedavg()"),
        (
            "slowmo(1)",
            "slowmo is not accepted: missing a required argument: 'momentum'; it is written "
            "slowmo(lr, momentum, steps=None)",
        ),
    ],
)
def test_wrong_parameters_are_told_how_the_method_is_written(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as refusal:
        parse_method(text)
    assert str(refusal.value) == sentence


# What goes together

BASES = {"fedavg": set[str](), "fedprox(0.01)": {"pull"}, "fednar": {"decay"}}
PLUGINS = {
    "fedavgm(0.3)": {"outer"},
    "slowmo(1, 0.5)": {"outer"},
    "fednag": {"carry", "nesterov"},
    "smofi": {"fuse", "outer"},
}
PLACEMENTS = {"sflv1": {"placement"}, "sflv2": {"placement"}, "mergesfl": {"placement", "batch_sizes"}}
LEGAL = [
    *((base, "fedavg", slots) for base, slots in BASES.items()),
    *((base, plugin, BASES[base] | PLUGINS[plugin]) for base, plugin in itertools.product(BASES, PLUGINS)),
    *(("fedprox(0.01)", placement, {"pull"} | slots) for placement, slots in PLACEMENTS.items()),
    *(('fednar(scope="part")', placement, {"decay"} | slots) for placement, slots in PLACEMENTS.items()),
    *(('clip(1, scope="part")', placement, {"limit"} | slots) for placement, slots in PLACEMENTS.items()),
    ("fednar", "sflv1", {"decay", "placement"}),
    ("fednar", "sflv2", {"decay", "placement"}),
    ("fednar", "clip(1)", {"decay", "limit"}),
    ("fedavgm(0.3)", "mergesfl", {"outer", "placement", "batch_sizes"}),
    ("fednag", "sflv2", {"carry", "nesterov", "placement"}),
    ("fednag", "sflv1('round')", {"carry", "nesterov", "placement"}),
    ("smofi", "sflv1('round')", {"fuse", "outer", "placement"}),
    ("smofi(global_momentum=0)", "slowmo(1, 0.5)", {"fuse", "outer"}),
    ("smofi(align=False)", "sflv2", {"outer", "placement"}),
    ("slowmo(1, 0.5, steps=4)", "sflv1", {"outer", "steps", "placement"}),
]


@pytest.mark.parametrize(("one", "other", "slots"), LEGAL, ids=lambda value: value if isinstance(value, str) else "")
def test_what_goes_together_fills_the_slots_of_both(one: str, other: str, slots: set[str]) -> None:
    both = parse_method(f"{one} + {other}")
    assert both.name == f"{parse_method(one)}+{parse_method(other)}"
    assert filled(both) == slots
    assert filled(parse_method(f"{other} + {one}")) == slots


def test_composing_takes_the_very_values_of_the_slots() -> None:
    prox, smofi_, clip = methods.fedprox(0.1), methods.smofi(), methods.clip(2)
    both = compose(prox, smofi_, clip)
    assert both.pull is prox.pull
    assert both.fuse is smofi_.fuse
    assert both.outer is smofi_.outer
    assert both.limit is clip.limit
    assert compose(compose(prox, smofi_), clip) == both
    assert filled(prox) == {"pull"}, "composing changes nothing"


def test_what_the_methods_slots_say() -> None:
    assert [methods.smofi(alpha=-1).fuse(age) for age in (0, 1, 3)] == [1, 1 / 2, 1 / 4]
    assert methods.smofi(global_momentum=0).outer is None
    assert methods.smofi(align=False).fuse is None
    assert methods.fednar(0.1, 3, "part").decay == smofi.Decay(0.1, smofi.Limit(3, "part"))
    assert methods.mergesfl().batch_sizes(32, [2.0, 1.0, 0.01, 2.0], [100, 100, 100, 20]) == [32, 16, 1, 20]


# What does not

TAKEN = [
    ("fedprox(0.1)", "fedprox(mu=0.2)", "both pull the gradient"),
    ("fednar", "fednar(scope='part')", "both take over weight decay"),
    ("clip(1)", "clip(2)", "both clip the gradient"),
    ("smofi(global_momentum=0)", "smofi(alpha=-1)", "both fuse the momentum within a round"),
    ("fednag", "fednag(steps=3)", "both carry momentum from round to round"),
    ("fedavgm(0.3)", "slowmo(1, 0.5)", "both own the global update after a round"),
    ("fedavgm(0.3)", "smofi", "both own the global update after a round"),
    ("slowmo(1, 0.5)", "smofi", "both own the global update after a round"),
    ("sflv1", "sflv2", "both decide where the server part trains"),
    ("sflv2", "mergesfl", "both decide where the server part trains"),
    ("sflv1", "mergesfl", "both decide where the server part trains"),
    ("slowmo(1, 0.5, steps=3)", "mergesfl(steps=3)", "both fix the number of local steps"),
    ("fednag(steps=3)", "slowmo(1, 0.5, steps=3)", "both fix the number of local steps"),
]


@pytest.mark.parametrize(("one", "other", "claim"), TAKEN, ids=lambda value: "" if "both" in value else value)
def test_a_slot_taken_twice(one: str, other: str, claim: str) -> None:
    for first, second in ((one, other), (other, one)):
        a, b = parse_method(first), parse_method(second)
        with pytest.raises(CompositionError) as refusal:
            compose(a, b)
        assert str(refusal.value) == f"{a} and {b} cannot be combined: {claim}; leave one of them out"


def mine(**slots: Any) -> Method:
    return Method(name="mine", **slots)


@pytest.mark.parametrize(
    ("other", "slots", "claim"),
    [
        ("mergesfl", {"batch_sizes": lambda size, speeds, sizes: [size] * len(sizes)}, "both choose the batch sizes"),
        ("fednag", {"nesterov": True}, "both choose the local optimizer"),
    ],
)
def test_a_slot_taken_by_a_method_of_ones_own(other: str, slots: dict[str, Any], claim: str) -> None:
    with pytest.raises(CompositionError) as refusal:
        compose(mine(**slots), parse_method(other))
    assert str(refusal.value) == f"mine and {other} cannot be combined: {claim}; leave one of them out"


SHARED = (
    "{0} and {1} cannot be combined: {0} fuses the momentum of one server model per client, and {1} keeps a single "
    "server model for all clients"
)
NONE_TO_FUSE = (
    "{0} and {1} cannot be combined: {1} resets the server's momentum within the round, so there is none to fuse"
)
NONE_TO_CARRY = (
    "{0} and {1} cannot be combined: {1} resets the server's momentum within the round, so there is none to carry"
)
FROM_ZERO = (
    "{0} and {1} cannot be combined: {0} carries each client's momentum into the next round, and {1} starts every "
    "round from zero"
)
NO_NORM = (
    "{0} and {1} cannot be combined: {1} trains the server on the merged batch of all clients, so no norm spans a "
    'client\'s whole model; use scope="part"'
)
CONTRADICTIONS = [
    ("smofi", "sflv2", SHARED),
    ("smofi(alpha=-1)", "sflv2('step')", SHARED),
    ("smofi", "mergesfl", SHARED),
    ("smofi", "sflv1", NONE_TO_FUSE),
    ("smofi(global_momentum=0)", "sflv1('epoch')", NONE_TO_FUSE),
    ("fednag", "sflv1", NONE_TO_CARRY),
    ("fednag", "sflv1('epoch')", NONE_TO_CARRY),
    ("fednag", "smofi", FROM_ZERO),
    ("fednag(steps=3)", "smofi(global_momentum=0)", FROM_ZERO),
    ("fednar", "mergesfl", NO_NORM),
    ("fednar(decay=0.1)", "mergesfl(steps=3)", NO_NORM),
    ("clip(1)", "mergesfl", NO_NORM),
]


@pytest.mark.parametrize(("one", "other", "sentence"), CONTRADICTIONS, ids=lambda v: "" if "{0}" in v else v)
def test_slots_that_contradict_each_other(one: str, other: str, sentence: str) -> None:
    a, b = parse_method(one), parse_method(other)
    for order in ((a, b), (b, a), (methods.fedprox(0.1), a, b)):
        with pytest.raises(CompositionError) as refusal:
            compose(*order)
        assert str(refusal.value) == sentence.format(a, b)
    with pytest.raises(CompositionError):
        parse_method(f"{one}+{other}")


# Parameters that are refused

NAN, INFINITY = float("nan"), float("inf")
NOT_BELOW_ZERO = "a number >= 0", (-1, NAN, INFINITY, "1", True)
ABOVE_ZERO = "a number > 0", (0, -1, NAN, "1", False)
SHARE = "a number >= 0 and < 1", (-0.1, 1, NAN, "half")
COUNT = "a whole number >= 1", (0, -3, 1.5, True)
SCOPE = "one of model, part", ("whole", 1)
Case = tuple[Callable[..., Any], dict[str, Any], str, Any, str]


def bad(builder: Callable[..., Any], field: str, accepted: tuple[str, tuple[Any, ...]], **others: Any) -> list[Case]:
    return [(builder, others, field, value, accepted[0]) for value in accepted[1]]


def case_name(case: Case) -> str:
    return f"{case[0].__name__}({case[2]}={case[3]!r})"


BAD_METHODS = [
    *bad(methods.fedprox, "mu", NOT_BELOW_ZERO),
    *bad(methods.fedprox, "mu", ("a number >= 0", (None,))),
    *bad(methods.fednar, "decay", NOT_BELOW_ZERO),
    *bad(methods.fednar, "max_norm", ABOVE_ZERO),
    *bad(methods.fednar, "scope", SCOPE),
    *bad(methods.clip, "max_norm", ABOVE_ZERO),
    *bad(methods.clip, "max_norm", ("a number > 0", (INFINITY,))),
    *bad(methods.clip, "scope", SCOPE, max_norm=1),
    *bad(methods.clip, "scope", ("one of model, part (did you mean 'model'?)", ("Model",)), max_norm=1),
    *bad(methods.fedavgm, "momentum", SHARE),
    *bad(methods.slowmo, "lr", ABOVE_ZERO, momentum=0.5),
    *bad(methods.slowmo, "momentum", SHARE, lr=1),
    *bad(methods.slowmo, "steps", COUNT, lr=1, momentum=0.5),
    *bad(methods.fednag, "steps", COUNT),
    *bad(methods.mergesfl, "steps", COUNT),
    *bad(methods.smofi, "alpha", ("a number <= 0", (0.1, NAN, -INFINITY, "-1", None))),
    *bad(methods.smofi, "global_momentum", SHARE),
    *bad(methods.smofi, "align", ("True or False", (1, 0, "yes", None))),
    *bad(methods.sflv1, "period", ("one of step, epoch, round", (1, None, "never"))),
    *bad(methods.sflv1, "period", ("one of step, epoch, round (did you mean 'step'?)", ("steps",))),
    *bad(methods.mergesfl, "reference", ("one of fastest, slowest", (1, None, "mean"))),
    *bad(methods.sflv2, "turns", ("one of client, step", (1, None, "round"))),
    *bad(methods.sflv2, "turns", ("one of client, step (did you mean 'client'?)", ("clients",))),
]


@pytest.mark.parametrize("case", BAD_METHODS, ids=case_name)
def test_a_bad_parameter_of_a_method_names_method_field_and_value(case: Case) -> None:
    builder, others, field, value, accepted = case
    with pytest.raises(InputError) as refusal:
        builder(**others, **{field: value})
    assert str(refusal.value) == f"{builder.__name__}: {field}={value!r} is not accepted: expected {accepted}"


BAD_OPTIMIZERS = [
    *bad(smofi.sgd, "lr", ABOVE_ZERO),
    *bad(smofi.sgd, "momentum", SHARE, lr=0.1),
    *bad(smofi.sgd, "nesterov", ("True or False", ("no", 1, None)), lr=0.1, momentum=0.9),
    *bad(smofi.sgd, "nesterov", ("False without momentum, or a momentum > 0 with it", (True,)), lr=0.1),
    *bad(smofi.sgd, "weight_decay", NOT_BELOW_ZERO, lr=0.1),
    *bad(smofi.sgd, "lr_decay", ("a number > 0 and <= 1", (0, -1, 1.1, NAN, "1")), lr=0.1),
]
for adam in (smofi.adam, smofi.adamw):
    BAD_OPTIMIZERS += [
        *bad(adam, "lr", ABOVE_ZERO),
        *bad(adam, "betas", ("two numbers, as (0.9, 0.999)", (0.9, (0.9,), (0.9, 0.9, 0.9), "ab", None))),
        *bad(adam, "eps", ABOVE_ZERO),
        *bad(adam, "weight_decay", NOT_BELOW_ZERO),
        *bad(adam, "lr_decay", ("a number > 0 and <= 1", (0, -1, 1.1, NAN, "1"))),
    ]


@pytest.mark.parametrize("case", BAD_OPTIMIZERS, ids=case_name)
def test_a_bad_parameter_of_an_optimizer_names_field_and_value(case: Case) -> None:
    builder, others, field, value, accepted = case
    with pytest.raises(InputError) as refusal:
        builder(**others, **{field: value})
    assert str(refusal.value) == f"{field}={value!r} is not accepted: expected {accepted}"


@pytest.mark.parametrize("builder", [smofi.adam, smofi.adamw])
@pytest.mark.parametrize("beta", [1, -0.1, "0.9", float("nan")])
def test_each_beta_is_looked_at(builder: Callable[..., Any], beta: Any) -> None:
    for betas in ((beta, 0.9), (0.9, beta)):
        with pytest.raises(InputError) as refusal:
            builder(betas=betas)
        assert str(refusal.value) == f"betas={beta!r} is not accepted: expected a number >= 0 and < 1"


# Methods of somebody else's


@pytest.fixture(autouse=True)
def _same_table_afterwards() -> Iterator[None]:
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


def weights(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def train(method: Any, rounds: int = 1) -> Tensor:
    settings: dict[str, Any] = dict(rounds=rounds, participation=0.5, local_epochs=2, batch_size=4, seed=5)
    return weights(smofi.train(perceptron(), federation([3]), method=method, **settings).model)


def test_a_method_of_ones_own_joins_by_registering() -> None:
    @methods.register
    def partway(step: float = 0.5) -> Method:
        """Go only part of the way to the average."""

        def update(weights: Tensor, average: Tensor, memory: Tensor, lr: float) -> None:
            weights += step * (average - weights)

        return Method(outer=smofi.Outer(update))

    start, average = weights(perceptron()), train("fedavg")
    expected = start + 0.25 * (average - start)
    assert (train(partway(step=0.25)) - expected).abs().max() < 1e-14
    assert torch.equal(train("partway(0.25)"), train(partway(step=0.25)))
    assert (expected - average).abs().max() > 1e-3
    assert partway().name == "partway"
    assert parse_method("fedprox(0.1)+partway(0.25)").name == "fedprox(mu=0.1)+partway(step=0.25)"
    with pytest.raises(CompositionError, match="both own the global update"):
        compose(partway(), methods.smofi())


def test_the_global_updates_memory_lives_from_round_to_round() -> None:
    @methods.register
    def counted() -> Method:
        def update(weights: Tensor, average: Tensor, memory: Tensor, lr: float) -> None:
            memory[0] += 1
            memory[1] += memory[0]
            weights.copy_(memory.sum(0))

        return Method(outer=smofi.Outer(update, vectors=2))

    # after three rounds the first row is 3 and the second 1 + 2 + 3
    assert train(counted(), rounds=3).unique().tolist() == [9]


def test_a_pull_of_ones_own_is_part_of_every_step() -> None:
    """With a gradient made constant, two rounds of one client are n steps of -lr each."""

    def ones(gradient: Tensor, weights: Tensor, start: Tensor) -> None:
        gradient.fill_(1)

    clients = federation([3], sizes=(9,))
    result = smofi.train(
        *(perceptron(), clients),
        method=Method(name="ones", pull=ones),
        optimizer=smofi.sgd(lr=0.01),
        **dict(rounds=2, participation=1.0, local_epochs=3, batch_size=4, seed=0),
    )
    assert (weights(result.model) - (weights(perceptron()) - 0.01 * 12)).abs().max() < 1e-12


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that somebody installed, with methods in its entry points."""
    (tmp_path / "nearby.py").write_text(
        "from smofi import Method, Outer\n\n\n"
        "def halfway(share=0.5):\n"
        "    def update(weights, average, memory, lr):\n"
        "        weights.lerp_(average, share)\n"
        "    return Method(outer=Outer(update))\n"
    )
    info = tmp_path / "nearby-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nearby\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[smofi.methods]\nhalfway = nearby:halfway\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("nearby", None)


@pytest.mark.usefixtures("installed")
def test_a_method_of_an_installed_package_needs_no_registering() -> None:
    assert "halfway" not in METHODS
    start, average = weights(perceptron()), train("fedavg")
    got = train("halfway(share=0.25)")
    assert (got - (start + 0.25 * (average - start))).abs().max() < 1e-14
    assert parse_method("fedprox(0.1)+halfway").name == "fedprox(mu=0.1)+halfway"


def test_without_the_package_its_method_is_unknown() -> None:
    with pytest.raises(InputError, match="method='halfway' is not accepted"):
        parse_method("halfway")
