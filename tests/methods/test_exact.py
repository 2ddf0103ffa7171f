"""The library against the plain loops of `reference.py`, to 1e-10: every method, composition, optimizer and cut.

Six clients of 5, 9, 3, 17, 13 and 8 samples with batches of 4, so that the numbers of steps differ and the third has
too little data; three of them a round, three rounds, with weight decay and a decaying learning rate. Each case also
has to differ from what it would be without its ingredients, so that none can pass by doing nothing. Every method and
every optimizer and cut is tried every time; all of their combinations only by `make slow`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import smofi
from reference import Method, Optimizer, Result, convnet, federation, perceptron
from reference import train as train_by_reference
from smofi import methods
from support.often import in_turn, often

torch.set_num_threads(1)

FEDAVG = Method()
KNOWN: dict[str, Result] = {}  # the reference's results, since many cases are compared with the same few


@dataclass(frozen=True)
class Case:
    """A method of the library, the same in the reference, and methods that must give something else."""

    name: str
    method: smofi.Method
    expected: Method
    others: tuple[Method, ...] = (FEDAVG,)

    def __str__(self) -> str:
        return self.name


def case(name: str, method: smofi.Method, **expected: Any) -> Case:
    return Case(name, method, Method(**expected), (FEDAVG,) if expected else ())


def pair(a: Case, b: Case) -> Case:
    """Two methods composed, which must differ from each alone (unless one of them is FedAvg and adds nothing)."""
    switches = {k: v for one in (a, b) for k, v in vars(one.expected).items() if v != getattr(FEDAVG, k)}
    merged = Method(**switches)
    others = {FEDAVG, a.expected, b.expected} - {merged}
    return Case(f"{a}+{b}", smofi.compose(a.method, b.method), merged, tuple(others))


OPTIMIZERS: dict[str, tuple[Any, Optimizer]] = {
    "sgd": (
        smofi.sgd(lr=0.1, weight_decay=0.02, lr_decay=0.8),
        Optimizer("sgd", lr=0.1, weight_decay=0.02, lr_decay=0.8),
    ),
    "momentum": (
        smofi.sgd(lr=0.05, momentum=0.9, weight_decay=0.02, lr_decay=0.8),
        Optimizer("sgd", lr=0.05, momentum=0.9, weight_decay=0.02, lr_decay=0.8),
    ),
    "nag": (
        smofi.sgd(lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.02, lr_decay=0.8),
        Optimizer("sgd", lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.02, lr_decay=0.8),
    ),
    "adam": (
        smofi.adam(lr=0.02, betas=(0.8, 0.95), weight_decay=0.02, lr_decay=0.8),
        Optimizer("adam", lr=0.02, betas=(0.8, 0.95), weight_decay=0.02, lr_decay=0.8),
    ),
    "adamw": (
        smofi.adamw(lr=0.02, betas=(0.8, 0.95), weight_decay=0.2, lr_decay=0.8),
        Optimizer("adamw", lr=0.02, betas=(0.8, 0.95), weight_decay=0.2, lr_decay=0.8),
    ),
}

PROX = case("fedprox", methods.fedprox(0.5), prox=0.5)
NAR = case("fednar", methods.fednar(max_norm=0.4), nar=True, nar_norm=0.4)
NAR_PART = case("fednar(part)", methods.fednar(max_norm=0.2, scope="part"), nar=True, nar_norm=0.2, nar_scope="part")
AVG = case("fedavg", methods.fedavg())
BASES = [AVG, PROX, NAR]

AVGM = case("fedavgm", methods.fedavgm(0.5), outer="momentum", outer_momentum=0.5)
SLOWMO = case("slowmo", methods.slowmo(0.6, 0.4), outer="slowmo", outer_lr=0.6, outer_momentum=0.4)
NAG = case("fednag", methods.fednag(), carry=True)
SMOFI = case("smofi", methods.smofi(alpha=-0.5, global_momentum=0.3), alpha=-0.5, outer="momentum", outer_momentum=0.3)
PLUGINS = [AVGM, SLOWMO, NAG, SMOFI]

SFLV1_STEP = case("sflv1(step)", methods.sflv1("step"), share="step")
SFLV1_EPOCH = case("sflv1(epoch)", methods.sflv1("epoch"), share="epoch")
SFLV1_ROUND = case("sflv1(round)", methods.sflv1("round"))
SFLV2_STEP = case("sflv2(step)", methods.sflv2("step"), server="visits by step")
SFLV2_CLIENT = case("sflv2(client)", methods.sflv2("client"), server="visits by client")
MERGESFL = case("mergesfl", methods.mergesfl(), server="merged")
SURROGATES = [SFLV1_STEP, SFLV1_EPOCH, SFLV1_ROUND]
PLACEMENTS = [*SURROGATES, SFLV2_STEP, SFLV2_CLIENT, MERGESFL]

CLIP = case("clip", methods.clip(0.3), clip_norm=0.3)
CLIP_PART = case("clip(part)", methods.clip(0.15, scope="part"), clip_norm=0.15, clip_scope="part")


def check(
    case: Case,
    optimizer: str = "momentum",
    *,
    model: Callable[[], nn.Sequential] = convnet,
    sizes: Sequence[int] = (5, 9, 3, 17, 13, 8),
    participation: float = 0.5,
    wire: Callable[[Tensor, str, int], Tensor] | None = None,
    **changes: Any,
) -> smofi.Result:
    """Train with the library and with the reference, and compare everything they have in common."""
    network, clients = model(), federation([1, 4, 4] if model is convnet else [3], sizes)
    shared: dict[str, Any] = {"cut": 1, "local_epochs": 2, "batch_size": 4, "seed": 5, "speeds": None, **changes}
    tried, expected_optimizer = OPTIMIZERS[optimizer]
    got = smofi.train(
        network,
        clients,
        method=case.method,
        optimizer=tried,
        rounds=3,
        participation=participation,
        wire=wire,
        **shared,
    )
    eligible = {j for j, size in enumerate(sizes) if size >= shared["batch_size"]}
    selected = [record.selected for record in got.history]
    wanted = max(1, round(participation * len(sizes)))
    assert [len(ids) for ids in selected] == [min(wanted, len(eligible))] * 3
    assert all(eligible.issuperset(ids) for ids in selected), "a client with less than a batch took part"

    def reference(method: Method) -> Result:
        relevant = {**shared, "cut": None} if method == FEDAVG else shared
        key = repr((model.__name__, sizes, optimizer, selected, method, relevant))
        if key not in KNOWN:
            KNOWN[key] = train_by_reference(network, clients, method, expected_optimizer, selected=selected, **shared)
        return KNOWN[key]

    expected = reference(case.expected)
    assert [record.steps for record in got.history] == expected.steps
    assert distance(got.model, expected) < 1e-10
    for other in case.others:
        assert distance(got.model, reference(other)) > 1e-5, f"no different from {other}"
    return got


def distance(model: nn.Module, result: Result) -> float:
    """The largest difference in any weight or BatchNorm statistic."""
    state = model.state_dict()
    expected = {**result.weights, **result.statistics}
    assert expected.keys() == {name for name, value in state.items() if value.is_floating_point()}
    return max(float((state[name] - value).abs().max()) for name, value in expected.items())


@pytest.mark.parametrize("base", BASES, ids=str)
def test_a_base_alone(base: Case) -> None:
    check(base)


@pytest.mark.parametrize(
    ("base", "plugin"), often(lambda base, plugin: base is AVG or plugin is SMOFI, BASES, PLUGINS), ids=str
)
def test_a_base_with_a_plugin(base: Case, plugin: Case) -> None:
    check(pair(base, plugin))


@pytest.mark.parametrize(
    ("base", "placement"),
    often(
        lambda base, placement: base is AVG or placement is MERGESFL or (base is NAR and placement is SFLV2_STEP),
        [*BASES, NAR_PART],
        PLACEMENTS,
    ),
    ids=str,
)
def test_a_base_on_a_placement(base: Case, placement: Case) -> None:
    if placement is MERGESFL and base is NAR:  # a merged step has no one client's norm of the whole model
        with pytest.raises(smofi.CompositionError):
            pair(base, placement)
    else:
        check(pair(base, placement))


OTHER_OPTIMIZERS = ["sgd", "nag", "adam", "adamw"]
METHODS = [AVG, PROX, NAR, NAR_PART, CLIP, AVGM, SLOWMO, NAG, SMOFI, *PLACEMENTS]


@pytest.mark.parametrize(
    ("method", "optimizer"),
    often(in_turn(METHODS, OTHER_OPTIMIZERS, SMOFI), METHODS, OTHER_OPTIMIZERS),
    ids=str,
)
def test_every_optimizer(method: Case, optimizer: str) -> None:
    # Without momentum FedNAG has none to carry, and is FedAvg.
    others = () if optimizer == "sgd" and method is NAG else method.others
    check(replace(method, others=others), optimizer, model=perceptron)


WITH_MOMENTS, MOMENTS = [NAG, SMOFI, SFLV1_STEP, SFLV2_STEP, MERGESFL], ["nag", "adam", "adamw"]


@pytest.mark.parametrize(("method", "optimizer"), often(in_turn(WITH_MOMENTS, MOMENTS), WITH_MOMENTS, MOMENTS), ids=str)
def test_every_optimizer_with_statistics(method: Case, optimizer: str) -> None:
    check(method, optimizer)


def send(tensor: Tensor, direction: str, client: int) -> Tensor:
    """A wire: what arrives is a copy."""
    return tensor.clone()


OWN_CUTS = [0, 2, 1, (1, 1), 3, (0, 2)]
CUTS = [0, 3, (0, 1), (1, 2), "0-3", OWN_CUTS]
SPLIT = [NAR_PART, SMOFI, SFLV1_STEP, SFLV1_EPOCH, SFLV2_STEP, SFLV2_CLIENT, MERGESFL]


@pytest.mark.parametrize(
    ("method", "cut"),
    often(lambda method, cut: in_turn(SPLIT, CUTS, SMOFI)(method, cut) or cut == OWN_CUTS, SPLIT, CUTS),
    ids=str,
)
def test_every_cut(method: Case, cut: Any) -> None:
    if isinstance(cut, list) and method.expected.server != "surrogates":  # one server model, one cut
        with pytest.raises(smofi.SmofiError):
            check(method, cut=cut)
    else:
        check(method, cut=cut)


@pytest.mark.parametrize(
    ("method", "cut", "optimizer"),
    often(
        lambda method, cut, optimizer: (
            (method is SMOFI and optimizer == "adam")
            or (method, cut, optimizer) in [(NAG, OWN_CUTS, "nag"), (SFLV1_STEP, "0-3", "nag")]
        ),
        [NAG, SMOFI, pair(PROX, SMOFI), SFLV1_STEP],
        ["0-3", OWN_CUTS],
        ["nag", "adam"],
    ),
    ids=str,
)
def test_cuts_that_differ_with_moments(method: Case, cut: Any, optimizer: str) -> None:
    check(method, optimizer, cut=cut)


REAL, REAL_CUTS = [AVG, PROX, NAR, NAR_PART, SMOFI, *PLACEMENTS, pair(NAR_PART, MERGESFL)], [1, (1, 2), "0-3"]


@pytest.mark.parametrize(("method", "cut"), often(in_turn(REAL, REAL_CUTS, SMOFI), REAL, REAL_CUTS), ids=str)
def test_a_split_that_is_real(method: Case, cut: Any) -> None:
    """With a wire the parts have separate graphs, and only activations and their gradients pass between them."""
    check(replace(method, others=()), cut=cut, wire=send)


@pytest.mark.parametrize(
    "method",
    often(lambda method: method in (NAR, SMOFI, SFLV1_STEP), [NAR, NAR_PART, SMOFI, *SURROGATES]),
    ids=str,
)
def test_a_split_that_is_real_at_each_clients_own_cut(method: Case) -> None:
    check(replace(method, others=()), cut=OWN_CUTS, wire=send)


@pytest.mark.parametrize(
    ("name", "steps", "optimizer"),
    often(
        lambda *one: one in [("slowmo", 3, "momentum"), ("fednag", 7, "adam"), ("mergesfl", 3, "adam")],
        ["slowmo", "fednag", "mergesfl"],
        [3, 7],
        ["momentum", "adam"],
    ),
)
def test_fixed_steps(name: str, steps: int, optimizer: str) -> None:
    """Three steps are less than any client's local epochs, seven more than some have."""
    method, without = {
        "slowmo": (methods.slowmo(0.6, 0.4, steps=steps), SLOWMO.expected),
        "fednag": (methods.fednag(steps=steps), NAG.expected),
        "mergesfl": (methods.mergesfl(steps=steps), MERGESFL.expected),
    }[name]
    got = check(Case(name, method, replace(without, steps=steps), (FEDAVG, without)), optimizer)
    assert [record.steps for record in got.history] == [[steps] * 3] * 3


@pytest.mark.parametrize(
    ("base", "steps", "cut"),
    often(
        lambda *one: one in [(AVG, None, 1), (PROX, None, (1, 1)), (NAR_PART, 6, 1)],
        [AVG, PROX, NAR_PART],
        [None, 6],
        [1, (1, 1)],
    ),
    ids=str,
)
def test_mergesfl_with_batches_by_speed(base: Case, steps: int | None, cut: Any) -> None:
    """Batches of 4, 3, 2, 1 and 1 when all clients are there; the fastest of a round's three always has 4."""
    merged = case("mergesfl", methods.mergesfl(steps=steps), server="merged", steps=steps)
    check(pair(base, merged), cut=cut, speeds=[1.0, 0.7, 5.0, 0.4, 0.3, 0.05])


@pytest.mark.parametrize(
    ("steps", "cut"), often(lambda *one: one in [(None, 1), (6, (1, 1))], [None, 6], [1, (1, 1)]), ids=str
)
def test_mergesfl_with_more_samples_for_faster_clients(steps: int | None, cut: Any) -> None:
    """The slowest of a round's three always has 4; the fastest would have many more than its samples."""
    fastest = Method(server="merged", steps=steps)
    merged = Case(
        "mergesfl(slowest)", methods.mergesfl(steps, reference="slowest"), replace(fastest, slowest=True),
        (FEDAVG, fastest),
    )  # fmt: skip
    check(merged, cut=cut, speeds=[1.0, 0.7, 5.0, 0.4, 0.3, 0.2])


CLIPPED = [
    CLIP,
    CLIP_PART,
    pair(PROX, CLIP),
    pair(NAR, CLIP_PART),
    pair(CLIP, SMOFI),
    pair(CLIP, SFLV2_STEP),
    pair(CLIP_PART, MERGESFL),
    pair(pair(PROX, CLIP_PART), SMOFI),
]


@pytest.mark.parametrize(
    ("method", "optimizer"),
    often(in_turn(CLIPPED, ["momentum", "adamw"]), CLIPPED, ["momentum", "adamw"]),
    ids=str,
)
def test_clipping(method: Case, optimizer: str) -> None:
    check(method, optimizer, model=perceptron)


@pytest.mark.parametrize("optimizer", ["momentum", "adamw"])
def test_fedprox_comes_before_fednar_bounds_the_norm(optimizer: str) -> None:
    check(pair(PROX, NAR), optimizer, model=perceptron)


@pytest.mark.parametrize("optimizer", ["momentum", "adamw"])
def test_fednars_own_decay_replaces_the_optimizers(optimizer: str) -> None:
    mine = case("fednar", methods.fednar(decay=0.3, max_norm=0.4), nar=True, nar_decay=0.3, nar_norm=0.4)
    check(replace(mine, others=(FEDAVG, NAR.expected, replace(mine.expected, nar_norm=10.0))), optimizer)


ALPHAS, FUSED = [-0.1, -1.0, -10.0], ["momentum", "nag", "adam"]


@pytest.mark.parametrize(("alpha", "optimizer"), often(in_turn(ALPHAS, FUSED, -0.1), ALPHAS, FUSED))
def test_staleness(alpha: float, optimizer: str) -> None:
    """Without global momentum only the fusion is left, and the exponent shows."""
    mine = case("smofi", methods.smofi(alpha=alpha, global_momentum=0.0), alpha=alpha)
    check(replace(mine, others=(FEDAVG, Method(alpha=alpha / 2))), optimizer, model=perceptron, cut=0)


def test_smofi_without_alignment_is_global_momentum() -> None:
    check(case("smofi", methods.smofi(global_momentum=0.4, align=False), outer="momentum", outer_momentum=0.4))


UPDATED = [SFLV1_STEP, SFLV2_STEP, SFLV2_CLIENT, MERGESFL]


@pytest.mark.parametrize(
    ("plugin", "placement"),
    often(lambda plugin, placement: in_turn(UPDATED, [AVGM, SLOWMO])(placement, plugin), [AVGM, SLOWMO], UPDATED),
    ids=str,
)
def test_a_global_update_on_a_placement(plugin: Case, placement: Case) -> None:
    check(pair(plugin, placement))


def test_fixed_steps_on_a_placement() -> None:
    slowmo = case("slowmo", methods.slowmo(0.6, 0.4, steps=5), **{**vars(SLOWMO.expected), "steps": 5})
    check(pair(slowmo, SFLV1_STEP))
    check(pair(slowmo, SFLV2_STEP))


@settings(max_examples=30)
@given(
    base=st.sampled_from([AVG, PROX, NAR_PART, CLIP_PART]),
    other=st.sampled_from([AVG, *PLUGINS, *PLACEMENTS]),
    optimizer=st.sampled_from(["momentum", "nag", "adam", "adamw"]),
    sizes=st.lists(st.integers(2, 12), min_size=1, max_size=5).filter(lambda sizes: max(sizes) >= 4),
    participation=st.floats(0.1, 1.0),
    batch_size=st.integers(2, 4),
    local_epochs=st.integers(1, 3),
    cut=st.sampled_from([0, 1, 2, (0, 1), (0, 2), (1, 1), "0-2"]),
    real=st.booleans(),
)
def test_any_federation(base: Case, other: Case, optimizer: str, real: bool, **drawn: Any) -> None:
    case = replace(pair(base, other), others=())
    check(case, optimizer, model=perceptron, wire=send if real else None, **drawn)


def test_what_a_round_reports() -> None:
    """Training loss, test loss and accuracy of every round, and its learning rate, from the reference's models."""
    network, clients = convnet(), federation([1, 4, 4])
    x, y = (torch.cat(parts) for parts in zip(*federation([1, 4, 4], sizes=(20, 20), seed=8), strict=True))
    tried, optimizer = OPTIMIZERS["momentum"]
    shared: dict[str, Any] = {"cut": 1, "local_epochs": 2, "batch_size": 4, "seed": 5}
    got = smofi.train(
        network, clients, (x, y), method=SMOFI.method, optimizer=tried, rounds=3, participation=0.5, **shared
    )
    selected = [record.selected for record in got.history]
    for n, record in enumerate(got.history):
        expected = train_by_reference(network, clients, SMOFI.expected, optimizer, selected=selected[: n + 1], **shared)
        network_after = convnet()
        network_after.load_state_dict({**expected.weights, **expected.statistics}, strict=False)
        with torch.no_grad():
            output = network_after.eval()(x)
        assert record.round == n + 1
        assert record.learning_rate == pytest.approx(0.05 * 0.8**n, rel=1e-12)
        assert record.train_loss == pytest.approx(expected.losses[n], abs=1e-10)
        assert record.loss == pytest.approx(nn.functional.cross_entropy(output, y).item(), abs=1e-10)
        assert record.accuracy == pytest.approx((output.argmax(1) == y).double().mean().item(), abs=1e-12)
