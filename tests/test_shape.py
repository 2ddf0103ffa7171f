"""The shape of the code: files, functions and constructors that fit a screen and a head."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "smofi"
MOST_LINES, MOST_FUNCTION_LINES, MOST_PARAMETERS = 300, 60, 8

RECORDS = {"Arguments", "Decoded", "Method", "PlanSummary", "Record", "RoundPlan", "Row", "RunStarted", "Settings"}
RECORDS |= {"Joining", "Limits", "Request", "Serving", "Source"}
"""Classes that do nothing but list facts by name, and so may have as many fields as there are facts."""


def parameters_of(node: ast.ClassDef) -> int:
    """How many parameters the constructor of a class takes, as it is written or as a dataclass makes it."""
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and one.name == "__init__":
            return len(one.args.posonlyargs + one.args.args + one.args.kwonlyargs) - 1
    if not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return 0
    fields = [one for one in node.body if isinstance(one, ast.AnnAssign) and "ClassVar" not in ast.unparse(one)]
    return sum("init=False" not in ast.unparse(one) for one in fields)


def too_large(path: Path) -> list[str]:
    """What in a file is larger than it should be."""
    text, found = path.read_text(), []
    if (lines := len(text.splitlines())) > MOST_LINES:
        found.append(f"{path.name} has {lines} lines")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if lines > MOST_FUNCTION_LINES:
                found.append(f"{path.name}: {node.name} has {lines} lines")
        elif isinstance(node, ast.ClassDef) and parameters_of(node) > MOST_PARAMETERS and node.name not in RECORDS:
            found.append(f"{path.name}: {node.name} takes {parameters_of(node)} parameters")
    return found


def test_files_functions_and_constructors_are_small() -> None:
    found = [text for path in sorted(PACKAGE.rglob("*.py")) for text in too_large(path)]
    assert not found, "\n".join(found)


def entries(text: str) -> set[str]:
    """The names that a map lists: columns, two or more spaces apart, that consist of names and nothing else."""
    found = set()
    for column in re.split(r"\n|\s{2,}", text):
        names = re.sub(r" \(.*?\)", "", column).rstrip(",").split(", ")
        if all(re.fullmatch(r"\w+(\.py|/)?", name) for name in names):
            found |= {re.sub(r"\.py$|/$", "", name) for name in names}
    return found


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("plan.py    a dry run      show/    runs", {"plan", "show", "runs"}),
        ("Virtual time.\n\nwav, logmel   sound as an image", {"wav", "logmel"}),
        ("by name    cifar (cifar10, cifar100), digits,\n           npz", {"cifar", "digits", "npz"}),
        ("state      what a run carries; checkpoint, the same\nplan a round", {"state"}),
    ],
)
def test_a_name_in_a_sentence_is_no_entry_of_a_map(text: str, names: set[str]) -> None:
    assert entries(text) == names


def test_every_package_has_a_map_of_itself() -> None:
    """Its docstring lists every module and every package in it."""
    missing = []
    for init in sorted(PACKAGE.rglob("*/__init__.py")):
        folder, text = init.parent, ast.get_docstring(ast.parse(init.read_text())) or ""
        packages = {one.name for one in folder.iterdir() if (one / "__init__.py").exists()}
        modules = {one.stem for one in folder.glob("*.py") if one.stem != "__init__"}
        missing += [f"{folder.relative_to(PACKAGE)}: {name}" for name in sorted((packages | modules) - entries(text))]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize(
    ("code", "parameters"),
    [
        ("class A:\n    def __init__(self, a, *, b): ...", 2),
        ("@dataclass(frozen=True)\nclass A:\n    a: int\n    b: int = 0\n    c: int = field(init=False)", 2),
        ("class A:\n    a: int", 0),
    ],
)
def test_parameters_are_counted(code: str, parameters: int) -> None:
    (node,) = ast.parse(code).body
    assert isinstance(node, ast.ClassDef)
    assert parameters_of(node) == parameters
