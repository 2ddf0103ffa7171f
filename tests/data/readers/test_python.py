from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from smofi.data.decoded import Decoded
from smofi.data.readers.python import read_python
from smofi.data.source import Source, as_source
from smofi.errors import InputError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("own_data", None)


def given(here: Path, result: str) -> Decoded | Source:
    imports = "import numpy as np\nimport torch\nfrom smofi.data import Source, TensorSamples\n"
    (here / "own_data.py").write_text(f"{imports}def load():\n    {result}\n")
    return read_python("python:own_data:load")


ARRAYS = "np.arange(20.0).reshape(10, 2), np.arange(10) % 2"


@pytest.mark.parametrize(
    ("result", "train", "test"),
    [
        (f"return {ARRAYS}", 8, 2),
        (f"return ({ARRAYS}) * 2", 10, 10),
        (f"return [{ARRAYS}]", 8, 2),
        ("return dict(x=torch.ones(10, 1, 4, 4), y=torch.arange(10) % 2, client=np.array(list('abababcccc')))", 8, 2),
    ],
)
def test_what_a_function_gives(here: Path, result: str, train: int, test: int) -> None:
    decoded = given(here, result)
    assert isinstance(decoded, Decoded)
    assert (len(decoded.train.targets), len(decoded.test.targets)) == (train, test)
    assert decoded.owners == (("a", "b", "c") if "client" in result else ())


def test_of_arrays_that_are_made_when_asked_for_only_the_needed_are(here: Path) -> None:
    lazy = (
        "class Lazy(dict):\n        def __getitem__(self, key): return np.arange(8).reshape(4, 2) if key == 'x' else "
    )
    result = f"{lazy}np.arange(4) % {{'y': 2}}[key]\n    return Lazy(x=0, y=0, objects=0)"
    assert isinstance(given(here, result), Decoded)


def test_what_is_to_be_standardised_is(here: Path) -> None:
    decoded = given(here, "return dict(x=np.arange(10, dtype=int)[:, None], y=np.arange(10) % 2)")
    assert isinstance(decoded, Decoded)
    inputs = as_source("own", decoded).train.tensors()[0]
    assert abs(float(inputs.mean())) < 1e-6
    assert abs(float(inputs.std(correction=0)) - 1) < 1e-6


def test_a_source_is_given_as_it_is(here: Path) -> None:
    samples = "TensorSamples.of(torch.zeros(4, 1, 8, 8), torch.zeros(4, dtype=torch.int64))"
    source = given(here, f"some = {samples}; return Source('own', some, some, ('a', 'b'))")
    assert isinstance(source, Source)
    assert source.input_shape == (1, 8, 8)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("return 1 / 0", r" is not accepted: own_data\.load\(\) failed with ZeroDivisionError: division by zero"),
        ("exit(3)", r" is not accepted: own_data\.load\(\) failed with SystemExit: 3"),
        ("return None", " is not accepted: expected .* to return arrays by key .* but it returned a NoneType"),
        ("return 1, 2, 3", " is not accepted: expected .* but it returned a tuple of 3"),
        ("return np.ones(3)", " is not accepted: expected .* but it returned a ndarray"),
        ("return {'x': np.ones((4, 2))}", r": what own_data\.load\(\) gives is not accepted: .* there is no y"),
        ("return [1, 2], [0, 1]", ": what .* is not accepted: expected x to be a numpy array .* it is of type list"),
        (
            "class Lazy(dict):\n        def __getitem__(self, key): raise OSError('gone')\n    return Lazy(x=0, y=0)",
            r" is not accepted: reading what own_data\.load\(\) gives failed with OSError: gone",
        ),
    ],
)
def test_failures_name_the_setting_and_the_cause(here: Path, result: str, said: str) -> None:
    with pytest.raises(InputError, match=rf"^data='python:own_data:load'{said}") as refused:
        given(here, result)
    if "failed with" in said:
        assert refused.value.__cause__ is not None
        assert refused.value.__cause__.__traceback__ is not None
