"""The public fence: what `smofi` offers exists, is described, can be typed, and is all that the documentation uses."""

import ast
import builtins
import importlib
import inspect
import pkgutil
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
FREE = {
    "Any",
    "Callable",
    "ClassVar",
    "Iterable",
    "Iterator",
    "Literal",
    "Mapping",
    "Sequence",
    "Tensor",
    "nn",
    "torch",
    "np",
}
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


def test_the_module_docstring_maps_every_name() -> None:
    overview = (smofi.__doc__ or "").split("Public are")[0]
    described = set(re.findall(r"\w+", overview))
    assert [name for name in smofi.__all__ if name not in described] == []
    classes = {word for word in described if re.fullmatch(r"([A-Z][a-z]+){2,}", word)}
    assert classes <= set(smofi.__all__)


def test_every_name_has_a_docstring() -> None:
    assert [name for name in smofi.__all__ if not description(name)] == []


def description(name: str) -> str | None:
    """The docstring of a class, a function or a module; of an alias, the string below it."""
    value = getattr(smofi, name)
    if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value):
        return value.__doc__
    tree = ast.parse((ROOT / "smofi/api.py").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    origin = next(node.module for node in imports if name in [alias.name for alias in node.names])
    below = iter(ast.parse(inspect.getsource(importlib.import_module(str(origin)))).body)
    for node in below:
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in [word.id for word in names_in(node)]:
            follows = next(below)
            return ast.literal_eval(follows.value) if isinstance(follows, ast.Expr) else None
    return None


def names_in(node: ast.Assign | ast.AnnAssign) -> list[ast.Name]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target for target in targets if isinstance(target, ast.Name)]


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_prose_names_public_names_only(page: Path) -> None:
    for path in re.findall(r"`(smofi\.[\w.]+)", page.read_text()):
        if not re.search(r"\.(py|yaml|md)$", path):
            assert_public(path)


def assert_public(path: str) -> None:
    """`smofi.train` and `smofi.data.load` are; `smofi.engine.run` is not."""
    first, *rest = path.split(".")
    if first == "smofi" and rest:
        assert rest[0] in (*smofi.__all__, *PUBLIC), path
        if rest[0] in PUBLIC and rest[1:]:
            assert rest[1] in listed(f"smofi.{rest[0]}"), path


def test_every_package_says_whether_it_is_public() -> None:
    packages = [one.name for one in pkgutil.iter_modules(smofi.__path__) if one.ispkg]
    assert set(PUBLIC) < set(packages)
    for name in packages:
        text = " ".join((importlib.import_module(f"smofi.{name}").__doc__ or "").split())
        ending = "Public: the names in `__all__`." if name in PUBLIC else "Internal: may change without notice."
        assert text.endswith(ending), f"the docstring of smofi.{name} does not end with: {ending}"
        assert (f"`smofi.{name}`" in str(smofi.__doc__)) is (name in PUBLIC)
