"""The pages say where things are: paths that they name exist, the index leads to all, the design is the code's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "benchmarks/README.md"]
DESIGN = (ROOT / "docs/design.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_paths_in_the_text_exist(page: Path) -> None:
    """Blocks of code aside, which may make files."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert [path for path in paths_in(prose) if not (ROOT / path).exists()] == []


def paths_in(text: str) -> list[str]:
    return re.findall(r"(?<![\w./~])((?:smofi|tests|benchmarks|examples|docs)/[\w./]*[\w/])", text)


def test_paths_are_recognised() -> None:
    found = paths_in("`smofi/flat.py`, ~/.cache/smofi/NAME (tests/support/). ../benchmarks/x https://host/docs/a")
    assert found == ["smofi/flat.py", "tests/support/"]


def test_the_index_leads_to_every_page() -> None:
    listed = set(re.findall(r"\]\(([\w.]+)\)", (ROOT / "docs/index.md").read_text()))
    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    front = (ROOT / "README.md").read_text()
    for page in ("docs/index.md", "docs/design.md", "CONTRIBUTING.md"):
        assert f"]({page})" in front


def test_the_design_names_every_package() -> None:
    packages = [path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "smofi").rglob("__init__.py")]
    assert len(packages) > 20
    assert [name for name in packages if name != "smofi" and f"`{name}/`" not in DESIGN] == []


def test_the_readme_names_every_room() -> None:
    front = (ROOT / "README.md").read_text()
    rooms = [path.parent.name for path in (ROOT / "smofi").glob("*/__init__.py")]
    assert [name for name in rooms if f"](smofi/{name})" not in front] == []


def test_classes_are_where_the_design_says() -> None:
    rows = re.findall(r"\| `(\w+)` \| .* \| `(\S+\.py)` \|$", DESIGN, flags=re.MULTILINE)
    assert len(rows) >= 8
    for name, path in rows:
        assert re.search(rf"^class {name}\b", (ROOT / path).read_text(), flags=re.MULTILINE), f"{path} has no {name}"


def test_the_design_draws_the_layers() -> None:
    """From top to bottom as in the contract, without modules in parentheses."""
    declared = re.search(r"^layers = \[\n(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL | re.MULTILINE)
    assert declared
    layers = [set(re.findall(r"\w+", re.sub(r"\(\w+\)", "", line))) for line in declared[1].splitlines()]
    drawing = [line[4:40] for line in DESIGN.split("## Rooms")[1].splitlines() if line.startswith("    ")]
    assert [set(re.findall(r"\w+", line)) for line in drawing] == [layer for layer in layers if layer]
