"""Values written as strings: what they stand for, that nothing in them is executed, and a user's own functions."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smofi.errors import InputError
from smofi.methods import parse_method
from smofi.spec import Call, build, build_one, describe, import_function, read_calls


def read(text: str) -> list[Call]:
    return read_calls("method", text, "fedprox(mu=0.01)+smofi")


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (" smofi ", [Call("smofi")]),
        ("smofi()", [Call("smofi")]),
        ("fedprox(0.01)", [Call("fedprox", (0.01,))]),
        ("slowmo(1, momentum=0.5)", [Call("slowmo", (1,), (("momentum", 0.5),))]),
        ("smofi(alpha=-1)", [Call("smofi", (), (("alpha", -1),))]),
        ("smofi(align=False)", [Call("smofi", (), (("align", False),))]),
        ('sflv1("epoch")', [Call("sflv1", ("epoch",))]),
        ("sflv1(epoch)", [Call("sflv1", ("epoch",))]),
        ("mergesfl(steps=None)", [Call("mergesfl", (), (("steps", None),))]),
        ("adam(betas=(0.8, 0.95))", [Call("adam", (), (("betas", (0.8, 0.95)),))]),
        ("a(1) + b(x=2) + c", [Call("a", (1,)), Call("b", (), (("x", 2),)), Call("c")]),
        ("(a + b) + (c + d)", [Call("a"), Call("b"), Call("c"), Call("d")]),
    ],
)
def test_calls_joined_by_plus(text: str, calls: list[Call]) -> None:
    assert read(text) == calls


@settings(max_examples=40)
@given(
    name=st.from_regex(r"x[a-z0-9_]{0,8}", fullmatch=True),
    args=st.lists(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5), max_size=4),
)
def test_reading_is_the_inverse_of_writing(name: str, args: list[object]) -> None:
    (call,) = read(f"{name}({', '.join(map(repr, args))})")
    assert call == Call(name, tuple(args))
    assert [type(value) for value in call.args] == [type(value) for value in args]


HARMFUL = [
    "__import__('os').system('x')", "fedprox(__import__('os').system('x'))", "fedprox(mu=open('harm', 'w'))",
    "fedprox(mu=fedavg())", "fedprox(mu=1)(2)", "smofi.methods", "smofi[0]", "lambda: 0", "fedprox(lambda: 0)",
    "fedprox(mu=[x for x in (1, 2)])", "[fedavg for _ in (1,)]", "fedprox(*[1])", "fedprox(**{'mu': 1})",
    "fedprox(mu=(y := 1))", "fedprox(f'{1}')", "fedprox(mu=1 if 1 else 2)", "fedprox(mu=2**9999)",
    "fedprox(mu=9**9**9**9)", "fedprox(mu=1, mu=2)", "fedavg - smofi", "+fedavg", "fedavg and smofi", "fedavg, smofi",
    "fedavg; smofi", "import os", "fedavg\nsmofi", "5", "'fedavg'", "None", "", "+", "fedavg+", "fedavg(", "fed-avg",
    "1fedavg", "fedavg\0", "fedprox({[]: 1})", "🦆",
]  # fmt: skip
ENDLESS = {
    "parentheses": "(" * 10_000,
    "nested": "(" * 5_000 + "fedavg" + ")" * 5_000,
    "signs": "fedprox(" + "-" * 100_000 + "1)",
    "brackets": "fedprox(" + "[" * 5_000 + "]" * 5_000 + ")",
    "calls": "f(" * 5_000 + ")" * 5_000,
    "attributes": "a" + ".a" * 50_000,
    "words": "fedavg " * 20_000,
    "digits": "fedprox(" + "9" * 10_000 + ")",
    "too large for a float": f"fedprox(mu=1{'0' * 400})",
    "methods": "+".join(["fedavg"] * 50_000),
}


@pytest.mark.parametrize("text", HARMFUL, ids=ascii)
def test_anything_but_names_with_plain_parameters_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refusal:
        parse_method(text)
    assert str(refusal.value) == (
        f"method={text!r} is not accepted: expected a name, with its parameters in brackets if it has any, "
        'such as "fedprox(mu=0.01)+smofi"'
    )
    assert not list(tmp_path.iterdir()), "it was executed"


@pytest.mark.parametrize("kind", ENDLESS)
def test_very_long_and_very_nested_strings_are_refused(kind: str) -> None:
    with pytest.raises(InputError, match="is not accepted: expected"):
        parse_method(ENDLESS[kind])


@settings(max_examples=50)
@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert all(call.name.isidentifier() for call in read(text))
    except InputError:
        with pytest.raises(InputError) as refusal:
            parse_method(text)
        assert str(refusal.value).startswith(f"method={text!r} is not accepted: expected ")


def pair(a: int, b: int = 2) -> tuple[int, int]:
    if b == 0:
        raise TypeError("mine")
    return a, b


def test_parameters_go_by_position_or_by_name_and_misfits_are_told_how_it_is_written() -> None:
    assert build(pair, Call("pair", (7,), (("b", 8),))) == (7, 8)
    assert describe(pair) == "pair(a, b=2)"
    for call, problem in (
        (Call("pair"), "missing a required argument: 'a'"),
        (Call("pair", (1, 2, 3)), "too many positional arguments"),
        (Call("pair", (1,), (("c", 3),)), "got an unexpected keyword argument 'c'"),
    ):
        with pytest.raises(InputError) as refusal:
            build(pair, call)
        assert str(refusal.value) == f"pair is not accepted: {problem}; it is written pair(a, b=2)"
    with pytest.raises(TypeError, match="mine"):  # its own error is no misfit
        build(pair, Call("pair", (1, 0)))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("pear(1)", "kind='pear' is not accepted: expected one of pair, triple (did you mean 'pair'?)"),
        ("pair(1)+pair(2)", "kind='pair(1)+pair(2)' is not accepted: expected a single one, such as \"pair(1)\""),
        ("pair(1", "kind='pair(1' is not accepted: expected a name, with its parameters in brackets if it has any, "),
    ],
)
def test_a_name_that_is_not_in_the_table_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as refusal:
        build_one("kind", text, {"pair": pair, "triple": pair}, "pair(1)")
    assert str(refusal.value).startswith(sentence)


# ----------------------------------------------------------------------------------------------- python:module:function


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory whose modules are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    known = set(sys.modules)
    yield tmp_path  # type: ignore[misc]
    for name in set(sys.modules) - known:
        del sys.modules[name]


def test_a_function_of_the_working_directory_is_found(here: Path) -> None:
    (here / "their_helper.py").write_text("VALUE = 7\n")
    (here / "their_data.py").write_text("def load():\n    import their_helper\n    return their_helper.VALUE\n")
    (here / "their_package").mkdir()
    (here / "their_package" / "inner.py").write_text("def load(): return 3\n")
    assert import_function("data", "python:their_data:load")() == 7
    assert import_function("data", "python:their_package.inner:load")() == 3


@pytest.mark.parametrize(
    "text", ["math:sqrt", "python:", "python:math", "python::sqrt", "python:.math:sqrt", "python:a b:c",
             "python:math:sqrt:x", "python:../math:sqrt", "python:math:__import__('os')", "python:math:a.b"]
)  # fmt: skip
def test_what_is_not_a_module_and_a_function_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"data=.* is not accepted: expected a module and a function in it"):
        import_function("data", text)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("raise KeyError('lost')", "importing broken failed with KeyError: 'lost'"),
        ("def (", "importing broken failed with SyntaxError"),
        ("import sys; sys.exit(3)", "importing broken failed with SystemExit: 3"),
        ("import nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("load = 3", "a function, but 'load' of module broken is of type int"),
        ("def loud(): pass", r"a function of module broken, which has no 'load' \(did you mean 'loud'\?\)"),
    ],
)
def test_failures_are_told_with_their_cause(here: Path, content: str, said: str) -> None:
    (here / "broken.py").write_text(content)
    with pytest.raises(InputError, match=f"^model='python:broken:load' is not accepted: .*{said}") as refused:
        import_function("model", "python:broken:load")
    assert (refused.value.__cause__ is not None) == ("Error" in said or "Exit" in said)


def test_interrupting_an_import_interrupts(here: Path) -> None:
    (here / "slow.py").write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        import_function("data", "python:slow:load")
