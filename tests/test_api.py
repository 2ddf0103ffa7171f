"""The public fence: what `smofi` offers exists, is described, can be typed, and is all that the documentation uses."""

import ast
import builtins
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ParamSpec

import pytest

import smofi

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PUBLIC = ("config", "data", "experiment", "export", "methods", "models", "track")
FREE = {"Any", "Callable", "ClassVar", "Iterable", "Iterator", "Literal", "Mapping", "Sequence"}
FREE |= {"Tensor", "nn", "torch", "np"}
"""Names of the standard library, torch and NumPy in annotations."""

OPAQUE = {"Session.layout", "Session.run"}
"""Fields that a user has no business with: `train()` and `result()` are what a session is for."""


def listed(package: str) -> list[str]:
    """The public names of `smofi`, or of one of its packages."""
    names: list[str] = importlib.import_module(package).__all__
    return names


def test_all_is_sorted_and_exists() -> None:
    assert smofi.__all__ == sorted(smofi.__all__)
    assert [name for name in smofi.__all__ if not hasattr(smofi, name)] == []


def test_every_name_has_a_docstring() -> None:
    values = {name: getattr(smofi, name) for name in smofi.__all__}
    own = {name: one for name, one in values.items() if inspect.isclass(one) or inspect.isroutine(one)}
    assert [name for name, one in own.items() if not one.__doc__] == []


@pytest.mark.parametrize("name", [*smofi.__all__, *(f"methods.{name}" for name in listed("smofi.methods"))])
def test_annotations_mention_public_types_only(name: str) -> None:
    """So that a user can type a callback, a method, a list of devices."""
    value = smofi
    for word in name.split("."):
        value = getattr(value, word)
    hidden = []
    for place, annotation in annotations(name, value):
        names = re.findall(r"(?<![\w.'\"])[A-Za-z_]\w*", re.sub(r"(['\"]).*?\1", "", annotation))
        hidden += [f"{place}: {one}" for one in names if place not in OPAQUE and not known(value, one)]
    assert hidden == []


def annotations(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """The annotations of a function or of a class's fields, as text."""
    if inspect.isclass(value):
        own = [getattr(base, "__annotations__", {}) for base in value.__mro__ if base.__module__.startswith("smofi")]
        found = [(f"{name}.{field}", kind) for fields in own for field, kind in fields.items()]
    elif inspect.isfunction(value):
        signature = inspect.signature(value)
        found = [(f"{name}({one.name})", one.annotation) for one in signature.parameters.values()]
        found += [(f"{name} ->", signature.return_annotation)]
    else:
        found = []
    for place, kind in found:
        yield place, kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))


def known(value: Any, word: str) -> bool:
    """Whether a user can write this name: it is public, a kind of something public, or a type variable."""
    if word in {*smofi.__all__, *FREE, *dir(builtins)}:
        return True
    meant = getattr(inspect.getmodule(inspect.unwrap(value)), word, None)
    public = [getattr(smofi, name) for name in smofi.__all__]
    return isinstance(meant, ParamSpec) or any(base in public for base in getattr(meant, "__mro__", ()))


def examples() -> Iterator[tuple[str, ast.Module]]:
    for page in PAGES:
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)):
            yield f"{page.name}-{number}", ast.parse(textwrap.dedent(code))


EXAMPLES = dict(examples())


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_use_public_names_only(example: str) -> None:
    for node in ast.walk(EXAMPLES[example]):
        if isinstance(node, ast.Import):
            assert [one.name for one in node.names if one.name.startswith("smofi.")] == []
        elif isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "smofi":
            assert node.module in ("smofi", *(f"smofi.{name}" for name in PUBLIC))
            assert {one.name for one in node.names} <= set(listed(str(node.module)))
        elif isinstance(node, ast.Attribute):
            assert_public(ast.unparse(node))


def assert_public(path: str) -> None:
    """`smofi.train` and `smofi.data.load` are; `smofi.engine.run` is not."""
    first, *rest = path.split(".")
    if first == "smofi" and rest:
        assert rest[0] in (*smofi.__all__, *PUBLIC), path
        if rest[0] in PUBLIC and rest[1:]:
            assert rest[1] in listed(f"smofi.{rest[0]}"), path
