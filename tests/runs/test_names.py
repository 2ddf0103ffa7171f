"""The files of a run folder are named in `smofi/runs` and nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import smofi
from smofi.runs import checkpoint, comparison, folder, history, lock, manifest, partition, taking, writing

PACKAGE = Path(smofi.__file__).parent
NAMES = {
    *(folder.CONFIG, folder.ABOUT, folder.RESULT, folder.MODEL, folder.CHECKPOINTS, folder.BEST.rpartition("/")[2]),
    *(folder.CURVES, folder.CURVES_OVER_HOURS, folder.TRACKING, folder.TENSORBOARD),
    *(history.METRICS, history.SUMS, lock.LOCK, manifest.MANIFEST, partition.PARTITION),
}
OTHERS = {
    ("data/cache/arrays.py", "about.json"),  # a file in the cache of decoded data
    ("data/cache/unfinished.py", ".lock"),  # what the lock of a folder there ends in
    ("net/certs/files.py", ".lock"),  # the lock of an authority
    ("export/formats.py", "model.safetensors"),  # a file of an export, for other programs
    ("report/show/facts.py", "checkpoints"),  # a word on the screen
    ("track/build.py", "tensorboard"),  # the name of a tracker, and of the package it needs
    ("track/tensorboard.py", "tensorboard"),
}


def named(tree: ast.AST) -> Iterator[str]:
    """The names in a module's strings, also at the end of a path or a pattern; those of docstrings do not count."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, documented) and node.body
                  and isinstance(node.body[0], ast.Expr)}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            last = node.value.rpartition("/")[2]
            if last in NAMES or last.startswith("round-"):
                yield last


def test_no_other_module_names_them() -> None:
    found = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in PACKAGE.rglob("*.py")
        if PACKAGE / "runs" not in path.parents
        for name in named(ast.parse(path.read_text()))
    }
    assert found - OTHERS == set()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('path / "config.yaml"', ["config.yaml"]),
        ('path.glob("*/config.yaml")', ["config.yaml"]),
        ('f"{path}/result.json"', ["result.json"]),
        ('f"round-{number}.safetensors"', ["round-"]),
        ('"""Writes config.yaml"""', []),
        ('def f():\n    """.lock"""', []),
        ('"it has no config.yaml"', []),
    ],
)
def test_names_are_recognised(source: str, expected: list[str]) -> None:
    assert list(named(ast.parse(source))) == expected


def test_every_name_in_the_modules_of_runs_is_looked_for() -> None:
    modules = (checkpoint, comparison, folder, history, lock, manifest, partition, taking, writing)
    values = {value for module in modules for name, value in vars(module).items() if name.isupper()}
    texts = {value.rpartition("/")[2] for value in values if isinstance(value, str)}
    assert {text for text in texts if re.search(r"\.[a-z]+$", text)} - NAMES == {folder.ROUND.rpartition("/")[2]}
