"""The values that a method's parameters are tuned over."""

from __future__ import annotations

import pytest

from smofi.errors import SmofiError
from smofi.methods import method_name
from smofi.sweep.tuning import GRIDS, variants


def methods(text: str, *grid: str) -> list[str]:
    return [variant.method for variant in variants(text, grid)]


def test_the_paper_searched_over_these_values() -> None:
    """Appendix, "Hyperparameter Choice"."""
    assert methods("fedprox") == [f"fedprox(mu={mu})" for mu in (0.0001, 0.001, 0.01, 0.1)]


def test_every_value_that_the_paper_reports_as_the_best_is_tried() -> None:
    assert {"fedavgm(momentum=0.3)", "fedavgm(momentum=0.5)", "fedavgm(momentum=0.7)"} <= set(methods("fedavgm"))
    assert {"slowmo(lr=0.5, momentum=0.4)", "slowmo(lr=1.0, momentum=0.6)"} <= set(methods("slowmo"))
    assert {"smofi", "smofi(global_momentum=0.5)", "smofi(alpha=-1.0)"} <= set(methods("smofi"))
    assert len(methods("smofi")) == 20


def test_all_grids_are_of_parameters_that_the_methods_have() -> None:
    assert all(len(methods(name)) == len(set(methods(name))) > 1 for name in GRIDS)


def test_what_is_written_in_the_method_stays() -> None:
    held = [f"smofi(alpha=-1, global_momentum={beta})" for beta in (0.1, 0.2, 0.4, 0.5)]
    assert sorted(methods("smofi(alpha=-1)")) == sorted(["smofi(alpha=-1)", *held])  # 0.3 is the default
    momenta = GRIDS["fedavgm"]["momentum"]
    assert methods("fedprox(0.01)+fedavgm") == [f"fedprox(mu=0.01)+fedavgm(momentum={one})" for one in momenta]
    assert len(methods("fedprox+slowmo(steps=29)")) == 4 * 6


def test_given_values_are_the_only_ones_that_vary() -> None:
    assert methods("fednag", "steps=15,30") == ["fednag(steps=15)", "fednag(steps=30)"]
    assert methods("fedprox(mu=1)+smofi", "alpha=-1,-0.5") == [
        "fedprox(mu=1)+smofi(alpha=-1)",
        "fedprox(mu=1)+smofi(alpha=-0.5)",
    ]
    assert methods("slowmo", "slowmo.lr=1", "momentum=0.1, 0.2") == [
        "slowmo(lr=1, momentum=0.1)",
        "slowmo(lr=1, momentum=0.2)",
    ]
    assert methods("python:mine:pull+smofi", "beta=1,2") == [
        method_name("python:mine:pull(beta=1)+smofi"),
        method_name("python:mine:pull(beta=2)+smofi"),
    ]


REFUSED = {
    ("fedprx",): "did you mean 'fedprox'?",
    ("fedavg",): "expected values to try, such as --grid NAME=0.1,0.5; parameters of fedavg: none",
    ("fednag",): "parameters of fednag: steps",
    ("fedprox", "nu=1"): "--grid nu is not accepted: expected one of the parameters of fedprox: mu",
    ("fedprox", "mu"): "--grid mu is not accepted: expected a parameter and its values, as in mu=0.001,0.01",
    ("fedprox", "mu="): "expected a parameter and its values",
    ("fedprox", "mu=a,1"): "--grid mu: 'a' is not accepted: expected numbers, as in mu=0.001,0.01",
    ("fedprox", "mu=1,1.0"): "--grid mu has a value twice",
    ("fedprox", "mu=1", "mu=2"): "--grid names a parameter twice",
    ("fedprox(mu=1)", "mu=1,2"): "--grid mu is not accepted: the method has a value for it, fedprox(mu=1)",
    ("fedprox", "mu=-1"): "mu=-1 is not accepted: expected a number >= 0",
    ("slowmo", "lr=1,2"): "missing a required argument: 'momentum'",
    ("clip+clip", "norm=1"): "--grid norm is",
}


@pytest.mark.parametrize("asked", REFUSED, ids=" ".join)
def test_what_is_wrong_is_said(asked: tuple[str, ...]) -> None:
    with pytest.raises(SmofiError) as refused:
        variants(asked[0], asked[1:])
    assert REFUSED[asked] in str(refused.value)
