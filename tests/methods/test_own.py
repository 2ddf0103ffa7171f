"""A method of one's own, as python:module:function: wherever a method may be named, and refused in a sentence."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import smofi
from smofi.cli import main
from smofi.config import Config, read_config
from smofi.errors import InputError
from smofi.methods import parse_method
from support.processes import ENVIRONMENT

MODULE = """
import smofi

def anchor(mu=0.01):
    "FedProx under another name."
    return smofi.methods.fedprox(mu)

def number():
    return 3

def breaks():
    raise KeyError("lost")

thing = 5
"""
RUN = ["run", "--model", "cnn", "--width", "4", "--clients", "4", "--batch-size", "64", "--local-epochs", "1"]
RUN += ["--participation", "0.5", "--executor", "loop", "--display", "quiet"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module to be in; a name of its own, for modules stay imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.delitem(sys.modules, "own_methods", raising=False)
    (tmp_path / "own_methods.py").write_text(MODULE)
    return tmp_path


def losses(run: Path) -> list[float]:
    return [json.loads(line)["train_loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_alone_with_parameters_and_joined_with_others() -> None:
    assert parse_method("python:own_methods:anchor").name == "python:own_methods:anchor"
    joined = parse_method("python:own_methods:anchor(mu=0.5) + smofi")
    assert joined.name == "python:own_methods:anchor(mu=0.5)+smofi"
    assert joined.pull
    assert joined.fuse
    with pytest.raises(smofi.CompositionError, match=r"python:own_methods:anchor and fedprox\(mu=1\) cannot be comb"):
        parse_method("python:own_methods:anchor+fedprox(1)")


def test_a_run_from_a_file_goes_on_and_is_that_of_the_method_it_stands_for(folder: Path) -> None:
    (folder / "own.yaml").write_text("method: python:own_methods:anchor(mu=0.5)\nrounds: 1\n")
    assert main([*RUN[:1], "own.yaml", *RUN[1:], "--workers", "2", "--output", "own"]) == 0
    assert main(["run", "--resume", "own", "--rounds", "2", "--display", "quiet", "--workers", "1"]) == 0
    config = Config(
        model="cnn", width=4, clients=4, batch_size=64, local_epochs=1, rounds=2, participation=0.5, executor="loop"
    )
    plain = smofi.train(**config.arguments(), method="fedprox(0.5)")
    assert losses(folder / "own") == [record.train_loss for record in plain.history]


@pytest.mark.slow
def test_the_example_on_the_page(folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/methods.md").read_text()
    (module,) = re.findall(r"```python\n# mine.py\n(.*?)```", page, flags=re.DOTALL)
    (command,) = re.findall(r"```sh\nsmofi (run .*?)\n```", page)
    words = [word.replace("python:mine:", "python:page_methods:") for word in shlex.split(command)]
    (folder / "page_methods.py").write_text(module)
    assert main([*words, *RUN[1:]]) == 0
    assert len(losses(folder / "mine" / "fedavg")) == 2
    assert len(list((folder / "mine").glob("*/metrics.jsonl"))) == 3


def test_a_run_can_be_shown_without_its_module(folder: Path) -> None:
    text = yaml.safe_dump({"method": "python:gone:anchor(0.5)+smofi"})
    (folder / "away.yaml").write_text(text)
    assert read_config("away.yaml").method == ("python:gone:anchor(0.5)+smofi",)


def test_train_takes_it_as_a_string() -> None:
    arguments = Config(model="cnn", width=4, clients=4, rounds=1, local_epochs=1).arguments()
    own = smofi.train(**arguments, method="python:own_methods:anchor(0.5)")
    assert own.history[0].train_loss == smofi.train(**arguments, method="fedprox(0.5)").history[0].train_loss


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("python:nosuch:f", "there is no nosuch in the current folder, .*, or among the installed packages"),
        ("python:own_methods:ancor", "which has no 'ancor' .did you mean 'anchor'.."),
        ("python:own_methods:thing", "expected a function, but 'thing' of module own_methods is of type int"),
        ("python:own_methods:number", "expected a function that returns a smofi.Method, but it returned int"),
        ("python:own_methods:breaks", "calling it failed with KeyError: 'lost'"),
        (
            "python:own_methods:anchor(nu=1)",
            r"keyword argument 'nu'; it is written python:own_methods:anchor\(mu=0.01\)",
        ),
        ("python:own_methods", "expected a name, with its parameters in brackets if it has any"),
        ("python:own_methods:", 'a module and a function in it, such as "python:module:function"'),
    ],
)
def test_what_cannot_be_used_is_refused_by_train_and_by_the_command(
    text: str, sentence: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_method(text)
    assert main([*RUN, "--rounds", "1", "--method", text, "--output", "none"]) == 2
    assert text.partition("(")[0] in capsys.readouterr().err
    assert not (folder / "none").exists()


@pytest.mark.slow
def test_workers_that_are_started_anew_know_it_too(folder: Path) -> None:
    asked = [
        *RUN,
        "--rounds",
        "1",
        "--method",
        "python:own_methods:anchor(mu=0.5)",
        "--workers",
        "2",
        "--output",
        "two",
    ]
    started = [sys.executable, "-m", "smofi", *asked]
    subprocess.run(started, cwd=folder, env=ENVIRONMENT | {"SMOFI_START": "spawn"}, check=True, timeout=120)
    assert main([*RUN, "--rounds", "1", "--method", "fedprox(0.5)", "--output", "plain"]) == 0
    assert losses(folder / "two") == losses(folder / "plain")
