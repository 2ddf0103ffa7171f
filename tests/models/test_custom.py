"""Models of one's own by name; every way in which that can fail is a sentence that names the setting."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
import torch

from smofi.errors import InputError
from smofi.models import build

NUMBERS = count()

GOOD = """
from torch import nn

def net(input_shape, classes, width=4):
    return nn.Sequential(nn.Flatten(), nn.Linear(input_shape[1] * input_shape[2], width), nn.Linear(width, classes))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that no test has imported yet; its file, to be written, is in the current folder."""
    monkeypatch.chdir(tmp_path)
    return f"own_model_{next(NUMBERS)}"


def made(name: str, **options: object) -> torch.nn.Sequential:
    return build(name, seed=1, input_shape=(1, 8, 8), classes=10, **options)  # type: ignore[arg-type]


def test_a_function_in_the_current_folder_or_in_a_package(module: str) -> None:
    Path(f"{module}.py").write_text(GOOD)
    model = made(f"python:{module}:net")
    assert [tuple(p.shape) for p in model.parameters()] == [(4, 64), (4,), (10, 4), (10,)]
    assert torch.equal(model[1].weight, made(f"python:{module}:net")[1].weight)  # the seed's
    assert made(f"python:{module}:net", width=7)[1].out_features == 7
    Path(f"{module}_too").mkdir()
    Path(f"{module}_too", "inner.py").write_text(GOOD)
    assert len(made(f"python:{module}_too.inner:net")) == 3


@pytest.mark.parametrize(
    ("source", "function", "options", "sentence"),
    [
        (None, "net", {}, "there is no own_model_.* in the current folder, .*, or among the installed packages"),
        (GOOD, "nett", {}, "which has no 'nett' .did you mean 'net'"),
        ("import nosuchmodule", "net", {}, "importing own_model_.* failed with ModuleNotFoundError: .*nosuchmodule"),
        ("raise SystemExit(3)", "net", {}, "importing own_model_.* failed with SystemExit: 3"),
        (
            "def net(input_shape, classes): 1 / 0",
            "net",
            {},
            "calling it failed with ZeroDivisionError: division by zero",
        ),
        ("def net(input_shape, classes): return 3", "net", {}, r"an nn\.Sequential of blocks.*, but it returned int"),
        (
            GOOD,
            "net",
            {"norm": "group"},
            r"norm='group', but it is net\(input_shape, classes, width=4\): .*'norm'",
        ),
        ("def net(classes): ...", "net", {}, r"it is net\(classes\): .*'input_shape'"),
    ],
)
def test_failures_name_setting_and_value(
    module: str, source: str | None, function: str, options: dict[str, object], sentence: str
) -> None:
    if source is not None:
        Path(f"{module}.py").write_text(source)
    with pytest.raises(InputError, match=f"^model='python:{module}:{function}' is not accepted: .*{sentence}"):
        made(f"python:{module}:{function}", **options)
