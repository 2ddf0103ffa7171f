"""Every method's docstring has its maths, arguments, example and reference; every field of a slot type is described."""

import dataclasses
import doctest
import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from smofi import method, methods
from smofi.method import Method
from smofi.methods import METHODS, registry

OURS = {name: builder for name, builder in METHODS.items() if builder.__module__.startswith("smofi.")}
SLOT_TYPES = [one for one in vars(method).values() if isinstance(one, type) and dataclasses.is_dataclass(one)]
HEADINGS = ["Arguments", "Example", "Reference"]


def described(text: str) -> list[str]:
    """The names that stand at the start of a line, apart from what is said of them."""
    return re.findall(r"^ *(\w+) {2,}\S", text, flags=re.MULTILINE)


def sections(builder: Callable[..., Method]) -> dict[str, str]:
    """The paragraphs of a docstring by their headings; those above the first heading by "text" and "maths"."""
    above, *rest = re.split(r"^(\w+):\n", inspect.cleandoc(builder.__doc__ or ""), flags=re.MULTILINE)
    text, _, maths = above.partition("\n\n")
    return {"text": text, "maths": maths, **dict(zip(rest[::2], rest[1::2], strict=True))}


@pytest.fixture(params=OURS.values(), ids=OURS.keys())
def builder(request: pytest.FixtureRequest) -> Callable[..., Method]:
    found: Callable[..., Method] = request.param
    return found


def test_all_methods_are_looked_at() -> None:
    assert len(OURS) >= 11
    assert {"Method", "Placement", "Tick", "Turnout", "Candidates", "Limit", "Decay", "Outer"} == {
        one.__name__ for one in SLOT_TYPES
    }


def test_sections_stand_in_their_order(builder: Callable[..., Method]) -> None:
    found = sections(builder)
    assert list(found) == ["text", "maths", *HEADINGS]
    assert found["text"].endswith(".")
    assert "=" in found["maths"]


def test_every_argument_is_described(builder: Callable[..., Method]) -> None:
    arguments = sections(builder)["Arguments"]
    names = list(inspect.signature(builder).parameters)
    assert described(arguments) == names
    assert names or arguments.strip() == "none"


def test_example_runs(builder: Callable[..., Method]) -> None:
    names = vars(inspect.getmodule(inspect.unwrap(builder))).copy()
    (example,) = doctest.DocTestFinder(recurse=False).find(builder, globs=names)
    assert example.examples
    assert any(builder.__name__ in step.source for step in example.examples)
    assert doctest.DocTestRunner().run(example).failed == 0


def test_reference_has_a_year_and_a_link(builder: Callable[..., Method]) -> None:
    reference = sections(builder)["Reference"]
    assert re.search(
        r" et al\., .+ (19|20)\d\d,\s+https://(arxiv\.org/abs|doi\.org)/\S+$", reference.strip(), re.DOTALL
    )


@pytest.mark.parametrize("slot_type", SLOT_TYPES, ids=[one.__name__ for one in SLOT_TYPES])
def test_every_field_is_described(slot_type: type) -> None:
    assert slot_type.__doc__
    assert described(slot_type.__doc__) == [field.name for field in dataclasses.fields(slot_type)]  # type: ignore[arg-type]


def test_the_page_of_methods_has_the_same_links(builder: Callable[..., Method]) -> None:
    (link,) = re.findall(r"https://\S+", sections(builder)["Reference"])
    page = (Path(__file__).parents[2] / "docs/methods.md").read_text()
    assert re.search(rf"^\| \[`{builder.__name__}\(.*\)`\]\({re.escape(link)}\) \|", page, flags=re.MULTILINE)


def test_the_package_maps_its_modules() -> None:
    folder = Path(inspect.getfile(registry)).parent
    modules = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
    assert set(re.findall(r"\w+\.py", methods.__doc__ or "")) == modules
