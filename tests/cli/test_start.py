"""Help, lists and refusals come at once: nothing that takes long to load is loaded for them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from smofi.cli.commands import app
from smofi.config.definition import DEVICES
from smofi.config.settings import SETTINGS
from support.processes import ENVIRONMENT

SLOW_TO_LOAD = ("torch", "numpy", "sklearn", "scipy", "matplotlib", "PIL", "asyncio")

COMMANDS = [name for name in app if not name.startswith("-")]
ANSWERED = ["--version", "--help", *(f"{command} --help" for command in COMMANDS), "certs issue --help"]
ANSWERED += ["methods", "presets", "config cifar10 --scale small"]

REFUSED = {
    **dict.fromkeys(SETTINGS, "nope"),
    "data_folder": "",
    "partition": "dirichlet(-1)",
    "method": "fedprox(mu=-1)",
    "optimizer": "sgd(lr=-1)",
    "augment": "crop(-1)",
    "executor": "vmap(at_least=0)",
    "device": "gpu",
}
"""A value of each setting that it does not accept."""

COMPLAINTS = [
    *(f"run --{name.replace('_', '-')}={value}" for name, value in REFUSED.items()),
    "nope",
    "run --nope",
    "run nope.yaml",
    "run wrong.yaml",
    "run cifar10 --scale nope",
    "run --patience 3",
    "run --workers 500",
    "run --width 3 --model python:mine:network --cut [1,2]",
    "run --resume nope",
    "run --resume .",
    "run --track nope",
    "compare . --target nope",
    "compare . --output nope.doc",
    "plot . -o nope.gif",
    "plot . -o nope.pdf --kind nope",
    "advise --cut nope",
    "advise --output nope.gif",
    "sweep wrong.yaml",
    "sweep right.yaml --jobs 0",
    "sweep right.yaml --output right.yaml",
    "tune nope",
    "tune fedavg",
    "tune fedprox --grid nope",
    "data nope",
    "data cifar10 --partition nope",
    "models nope",
    "models --width 3",
    "export nope x --format nope",
    "export nope .",
    "show nope",
    "show .",
    "timeline nope",
    "timeline . --output nope.gif",
    "certs init wrong.yaml",
    "certs issue nope --client ../a",
    "certs revoke nope a",
    "serve",
    "serve --insecure --away 0",
    "join localhost:7443 --data digits",
    "join localhost --data digits --certs pki",
]

PROGRAM = f"""
import contextlib, io, json, sys
from smofi.cli import main

for line in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = main(line.split())
    print(json.dumps([line, code, [name for name in {SLOW_TO_LOAD} if name in sys.modules]]))
"""


def test_help_lists_and_refusals_load_nothing_that_takes_long(tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text("round: 5")
    (tmp_path / "right.yaml").write_text("grid: {seed: [0, 1]}")
    command = [sys.executable, "-c", PROGRAM, json.dumps([*ANSWERED, *COMPLAINTS])]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    expected = [[one, code, []] for code, several in ((0, ANSWERED), (2, COMPLAINTS)) for one in several]
    assert [json.loads(line) for line in done.stdout.splitlines()] == expected


def test_names_of_a_package_are_loaded_when_asked_for() -> None:
    import smofi.data.loading
    import smofi.models.costing

    assert callable(smofi.data.load)
    assert callable(smofi.models.costs)
    assert smofi.data.partitions.natural is smofi.data.natural
    assert {"load", "natural"} <= set(dir(smofi.data))
    with pytest.raises(AttributeError, match=r"module 'smofi\.data' has no attribute 'lode'"):
        _ = smofi.data.lode  # type: ignore[attr-defined]


def test_the_names_of_devices_are_those_that_torch_knows() -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.device("nope")
    assert all(f"{name}," in f"{refused.value}".replace(" device type", ",") for name in DEVICES)
