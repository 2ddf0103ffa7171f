"""Where torch's private symbols stand, and that smofi trains without any of them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from support.processes import ENVIRONMENT, ROOT
from support.without_privates import trained

ROOMS = {"smofi/engine/at_once/private.py", "smofi/engine/cpu/private.py"}
SUBCLASSES_MAY = {"_modules", "_parameters", "_buffers"}
"""What every module is made of, in whatever torch."""

INNER = {name for one in (torch.empty(0), nn.Conv2d(1, 1, 1), nn.BatchNorm1d(1)) for name in dir(one)} - SUBCLASSES_MAY

GUARDED = """
import sys, torch
whole = torch._C._functorch
class Guard:
    def __getattr__(self, name):
        if sys._getframe(1).f_globals["__name__"].startswith("smofi"):
            raise SystemExit("torch._C._functorch." + name + " was asked for")
        return getattr(whole, name)
torch._C._functorch = Guard()
from support.without_privates import trained
print(trained("loop")[0])
print(trained("vmap")[0])
"""


def private_names(source: str) -> Iterator[str]:
    """The names in a program that are private and torch's."""
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and _is_private(node.attr):
            names = [ast.unparse(node)]
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if node.attr in INNER and not own:
                yield names[0]
        for name in names:
            if name.split(".")[0] == "torch" and any(map(_is_private, name.split("."))):
                yield name


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def run(*arguments: str, cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**ENVIRONMENT, "SMOFI_DATA": str(cache)}
    asked = [sys.executable, *arguments]
    return subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_private_names_are_recognised() -> None:
    source = "import torch._C\nfrom torch.nn import _reduction\ntorch._C._x()\nx._is_view()\nself._is_view\nx._mine"
    assert set(private_names(source)) == {"torch._C", "torch.nn._reduction", "torch._C._x", "x._is_view"}


def test_they_stand_in_one_file_per_room() -> None:
    found = {}
    for path in (ROOT / "smofi").rglob("*.py"):
        if names := set(private_names(path.read_text())):
            found[str(path.relative_to(ROOT))] = names
    assert found.keys() <= ROOMS, found


@pytest.mark.slow
def test_smofi_trains_without_them_to_the_same_bits(tmp_path: Path) -> None:
    done = run(str(ROOT / "tests/support/without_privates.py"), cache=tmp_path)
    assert done.returncode == 0, done.stderr
    computed, bits = zip(*json.loads(done.stdout).values(), strict=True)
    assert bits == (trained("loop")[1],) * 3
    loop, vmap, _ = computed
    assert loop == "client by client"
    assert vmap.startswith("client by client (clients cannot be computed at once: torch ")
    assert "has no torch._C._functorch.maybe_current_level" in vmap
    assert trained("vmap")[0] == "up to 4 clients at once"


@pytest.mark.slow
def test_client_by_client_the_inside_of_vmap_is_never_asked_for(tmp_path: Path) -> None:
    done = run("-c", GUARDED, cache=tmp_path)
    assert done.stdout == "client by client\n"
    assert done.stderr.endswith("torch._C._functorch.maybe_current_level was asked for\n")
