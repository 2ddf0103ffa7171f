from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from smofi.methods import METHODS as REGISTERED
from smofi.report.style import METHODS, OTHERS, looks

COMBINED = ["smofi(alpha=-1)", "smofi(alpha=-0.5)", "fedprox(mu=0.01)", "fedprox(mu=0.01)+smofi", "clip(1.0)+fedavg"]


def test_every_method_has_a_look_of_its_own() -> None:
    assert set(METHODS) >= set(REGISTERED)
    every = [*METHODS.values(), *OTHERS]
    for field in ("colour", "glyph"):
        assert len({getattr(look, field) for look in every}) == len(every)


def test_a_method_looks_the_same_whatever_is_beside_it() -> None:
    alone = {name: looks([name])[0] for name in METHODS}
    for first, second in itertools.permutations(METHODS, 2):
        assert looks([first, second, "fedprox+smofi"])[:2] == [alone[first], alone[second]]


def test_arguments_change_a_look_only_beside_another_of_the_same_method() -> None:
    assert looks(["fedprox(mu=0.01)"]) == [METHODS["fedprox"]]
    plain, changed = looks(["smofi", "smofi(alpha=-1)"])
    assert plain == METHODS["smofi"]
    assert changed in OTHERS


@given(names=st.permutations([*METHODS, *COMBINED]))
def test_a_picture_has_no_two_alike_whatever_their_order(names: list[str]) -> None:
    found = dict(zip(names, looks(names), strict=True))
    assert len(set(found.values())) == len(names)
    assert found == dict(zip(sorted(names), looks(sorted(names)), strict=True))


def test_of_very_many_each_has_some_look() -> None:
    assert len(looks([f"method{number}" for number in range(100)])) == 100
