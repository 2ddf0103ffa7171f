"""Values written as strings: what they stand for, and that nothing in them is ever executed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smofi.errors import InputError
from smofi.methods import parse_method
from smofi.optim import adam, adamw, parse_optimizer, sgd
from smofi.spec import Call, build, build_one, describe, read_calls


def read(text: str) -> list[Call]:
    return read_calls("method", text, "fedprox(mu=0.01)+smofi")


# Reading


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("smofi", [Call("smofi")]),
        ("smofi()", [Call("smofi")]),
        (" smofi ", [Call("smofi")]),
        ("fedprox(0.01)", [Call("fedprox", (0.01,))]),
        ("fedprox(mu=0.01)", [Call("fedprox", (), (("mu", 0.01),))]),
        ("slowmo(1, momentum=0.5)", [Call("slowmo", (1,), (("momentum", 0.5),))]),
        ("smofi(alpha=-1)", [Call("smofi", (), (("alpha", -1),))]),
        ("smofi(align=False)", [Call("smofi", (), (("align", False),))]),
        ("sflv1('epoch')", [Call("sflv1", ("epoch",))]),
        ('sflv1("epoch")', [Call("sflv1", ("epoch",))]),
        ("mergesfl(steps=None)", [Call("mergesfl", (), (("steps", None),))]),
        ("adam(betas=(0.8, 0.95))", [Call("adam", (), (("betas", (0.8, 0.95)),))]),
        ("clip(1e-3)", [Call("clip", (0.001,))]),
        ("a+b", [Call("a"), Call("b")]),
        ("a(1) + b(x=2) + c", [Call("a", (1,)), Call("b", (), (("x", 2),)), Call("c")]),
        ("(a + b) + (c + d)", [Call("a"), Call("b"), Call("c"), Call("d")]),
    ],
)
def test_calls_joined_by_plus(text: str, calls: list[Call]) -> None:
    assert read(text) == calls


def test_numbers_keep_their_type() -> None:
    (call,) = read("f(1, 1.0, -1, True)")
    assert [type(value) for value in call.args] == [int, float, int, bool]


@given(
    name=st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True),
    args=st.lists(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5), max_size=4),
)
def test_reading_is_the_inverse_of_writing(name: str, args: list[object]) -> None:
    name = f"x{name}"  # never a keyword of Python
    assert read(f"{name}({', '.join(map(repr, args))})") == [Call(name, tuple(args))]


HARMFUL = [
    "__import__('os').system('x')",
    "fedprox(__import__('os').system('x'))",
    "fedprox(mu=open('harm', 'w'))",
    "fedprox(mu=fedavg())",
    "fedprox(mu=1)(2)",
    "smofi.methods",
    "smofi[0]",
    "lambda: 0",
    "fedprox(lambda: 0)",
    "fedprox(mu=[x for x in (1, 2)])",
    "[fedavg for _ in (1,)]",
    "fedprox(*[1])",
    "fedprox(**{'mu': 1})",
    "fedprox(mu=(y := 1))",
    "fedprox(f'{1}')",
    "fedprox(mu=1 if 1 else 2)",
    "fedprox(mu=2**9999)",
    "fedprox(mu=9**9**9**9)",
    "fedavg - smofi",
    "fedavg * 2",
    "+fedavg",
    "not fedavg",
    "fedavg and smofi",
    "fedavg, smofi",
    "fedavg; smofi",
    "import os",
    "fedavg\nsmofi",
    "5",
    "'fedavg'",
    "None",
    "",
    "   ",
    "+",
    "fedavg+",
    "fedavg(",
    "fedavg)",
    "fed avg",
    "fed-avg",
    "1fedavg",
    "\0",
    "fedavg\0",
    "fedprox({[]: 1})",
    "fedprox({[1]})",
    "🦆",
]
ENDLESS = {
    "parentheses": "(" * 10_000,
    "nested": "(" * 5_000 + "fedavg" + ")" * 5_000,
    "signs": "fedprox(" + "-" * 100_000 + "1)",
    "brackets": "fedprox(" + "[" * 5_000 + "]" * 5_000 + ")",
    "calls": "f(" * 5_000 + ")" * 5_000,
    "attributes": "a" + ".a" * 50_000,
    "not a name": "fedavg " * 20_000,
    "digits": "fedprox(" + "9" * 10_000 + ")",
}


def test_a_word_needs_no_quotes_and_a_wrong_one_is_refused_by_its_parameter() -> None:
    assert parse_method("sflv1(period=round)").name == "sflv1(period='round')"
    with pytest.raises(InputError, match=r"^smofi: alpha='hello' is not accepted: expected a number <= 0$"):
        parse_method("smofi(alpha=hello)")


@pytest.mark.parametrize("text", HARMFUL, ids=ascii)
def test_anything_but_names_with_plain_parameters_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refusal:
        parse_method(text)
    message = str(refusal.value)
    assert message == (
        f"method={text!r} is not accepted: expected a name, with its parameters in brackets if it has any, "
        'such as "fedprox(mu=0.01)+smofi"'
    )
    assert "\n" not in message
    assert not list(tmp_path.iterdir()), "it was executed"


@pytest.mark.parametrize("kind", ENDLESS)
def test_very_long_and_very_nested_strings_are_refused(kind: str) -> None:
    with pytest.raises(InputError, match="is not accepted: expected"):
        parse_method(ENDLESS[kind])


def test_many_methods_are_refused_rather_than_too_deep() -> None:
    with pytest.raises(InputError, match="is not accepted: expected"):
        parse_method("+".join(["fedavg"] * 50_000))


def test_a_number_too_large_for_a_float_is_refused() -> None:
    with pytest.raises(InputError, match=r"mu=10+\.\.\. is not accepted: expected a number >= 0"):
        parse_method(f"fedprox(mu=1{'0' * 400})")


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert all(call.name.isidentifier() for call in read(text))
    except InputError:
        with pytest.raises(InputError) as refusal:
            parse_method(text)
        assert str(refusal.value).startswith(f"method={text!r} is not accepted: expected ")


def test_a_parameter_given_twice_is_refused() -> None:
    with pytest.raises(InputError):
        parse_method("fedprox(mu=1, mu=2)")


# Building


def pair(a: int, b: int = 2) -> tuple[int, int]:
    return a, b


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (Call("pair", (1,)), (1, 2)),
        (Call("pair", (1, 3)), (1, 3)),
        (Call("pair", (), (("b", 5), ("a", 4))), (4, 5)),
        (Call("pair", (7,), (("b", 8),)), (7, 8)),
    ],
)
def test_parameters_go_by_position_or_by_name(call: Call, value: tuple[int, int]) -> None:
    assert build(pair, call) == value


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (Call("pair"), "missing a required argument: 'a'"),
        (Call("pair", (1, 2, 3)), "too many positional arguments"),
        (Call("pair", (1,), (("c", 3),)), "got an unexpected keyword argument 'c'"),
        (Call("pair", (1,), (("a", 3),)), "multiple values for argument 'a'"),
    ],
    ids=["missing", "too many", "unknown", "twice"],
)
def test_parameters_that_do_not_fit_are_told_how_it_is_written(call: Call, problem: str) -> None:
    with pytest.raises(InputError) as refusal:
        build(pair, call)
    assert str(refusal.value) == f"pair is not accepted: {problem}; it is written pair(a, b=2)"


def test_an_error_of_the_builder_itself_is_not_taken_for_a_misfit() -> None:
    def broken(a: int) -> None:
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        build(broken, Call("broken", (1,)))


def test_a_builder_is_described_as_it_is_written() -> None:
    assert describe(pair) == "pair(a, b=2)"
    assert describe(sgd) == "sgd(lr, momentum=0.0, nesterov=False, weight_decay=0.0, lr_decay=1.0)"


# A single value of a table


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("pear(1)", "kind='pear' is not accepted: expected one of pair, triple (did you mean 'pair'?)"),
        ("zzz", "kind='zzz' is not accepted: expected one of pair, triple"),
        ("pair(1)+pair(2)", "kind='pair(1)+pair(2)' is not accepted: expected a single one, such as \"pair(1)\""),
        (
            "pair(1",
            "kind='pair(1' is not accepted: expected a name, with its parameters in brackets if it has any, "
            'such as "pair(1)"',
        ),
    ],
)
def test_a_name_that_is_not_in_the_table_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as refusal:
        build_one("kind", text, {"pair": pair, "triple": pair}, "pair(1)")
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("sgd(0.1)", sgd(lr=0.1)),
        ("sgd(lr=0.1, momentum=0.9, nesterov=True)", sgd(lr=0.1, momentum=0.9, nesterov=True)),
        ("sgd(0.1, 0.9, weight_decay=5e-4, lr_decay=0.998)", sgd(0.1, 0.9, weight_decay=0.0005, lr_decay=0.998)),
        ("adam", adam()),
        ("adam(betas=(0.8, 0.9))", adam(betas=(0.8, 0.9))),
        ("adamw(0.01, eps=1e-3)", adamw(lr=0.01, eps=0.001)),
    ],
)
def test_optimizers_as_strings(text: str, value: object) -> None:
    assert parse_optimizer(text) == value


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sdg(lr=0.1)", "optimizer='sdg' is not accepted: expected one of sgd, adam, adamw (did you mean 'sgd'?)"),
        ("sgd", "missing a required argument: 'lr'; it is written sgd(lr, momentum=0.0, nesterov=False"),
        ("sgd(lr=0.1)+adam", "expected a single one"),
        ("sgd(lr='fast')", "lr='fast' is not accepted: expected a number > 0"),
        ("exec('x')", "optimizer='exec' is not accepted: expected one of"),
    ],
)
def test_optimizers_as_strings_that_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as refusal:
        parse_optimizer(text)
    assert sentence in str(refusal.value)
