"""What cannot be served is refused before anything is read or started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import smofi
from smofi import models
from smofi.config import read_config
from smofi.errors import InputError
from smofi.runs import RunFolder, resuming_command
from smofi.serving import saving_every_round
from smofi.serving.calls import settled
from smofi.serving.checks import Serving, check_serving
from smofi.serving.client import Joining
from smofi.serving.limits import largest_message, limits_for
from smofi.serving.own_data import OwnData
from smofi.serving.server import Server
from smofi.serving.setups import setup_of, task_of
from support.deployed import small


@pytest.mark.parametrize(
    ("evaluate", "settings", "sentence"),
    [
        ("clients", {"metrics": ("top1", "macro_f1")}, "metrics='macro_f1' is not accepted: expected top1"),
        ("none", {"target_accuracy": 0.5}, "target_accuracy=0.5 is not accepted: with evaluate=none, none is ever"),
    ],
)
def test_measures_that_nobody_takes(evaluate: str, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        check_serving(Serving(small(**settings), Path("run"), evaluate=evaluate))
    check_serving(Serving(small(**settings), Path("run")))


def test_a_file_is_not_what_a_run_goes_on_with(tmp_path: Path) -> None:
    """It would have been ignored."""
    with pytest.raises(InputError, match=r"config='run\.yaml' is not accepted: expected with resume, a mapping"):
        smofi.serve("run.yaml", str(tmp_path), insecure=True, resume=True)


def test_a_client_takes_what_a_server_may_send() -> None:
    """VGG-16 on images of 224 pixels sends 411 MB at its first cut."""
    config, shape = small(model="vgg16", cut="0", batch_size=32), (3, 224, 224)
    model = models.build("vgg16", seed=0, input_shape=shape, classes=10, width=64)
    setup = setup_of(config, model, torch.device("cpu"))
    task = task_of("image", shape, 10, setup.layout)
    largest = largest_message(setup, config, task, 8, whole_model=False)
    assert largest > 32 * 64 * 224 * 224 * 4
    with pytest.raises(InputError, match="clients take at most"):
        limits_for(10**10)
    assert limits_for(largest).payload <= Joining("localhost:7443", OwnData("digits")).limits.waiting_bytes


def test_a_client_may_send_a_few_of_the_largest_messages_a_second() -> None:
    """And in any run as much as an honest client can on a fast machine: it waits for an answer to each message."""
    small_ones, large_ones = limits_for(10**6), limits_for(10**9)
    assert small_ones.bytes_per_second == 512 * 2**20
    assert large_ones.bytes_per_second == 4 * large_ones.payload


def test_the_command_that_goes_on_with_a_served_run(tmp_path: Path) -> None:
    assert resuming_command(RunFolder(tmp_path)) == f"smofi run --resume {tmp_path}"
    (tmp_path / "clients.json").write_text("[]\n")
    assert resuming_command(RunFolder(tmp_path)) == f"smofi serve --resume {tmp_path}"


def test_a_client_that_claims_too_many_samples_does_not_fit(tmp_path: Path) -> None:
    """What is random in a step is drawn when the round begins: a claim must not take the server's memory."""
    server = Server(Serving(small(batch_size=8, local_epochs=2), tmp_path / "run", listen="127.0.0.1:0"))
    planner = server.assembly.session(server.config, server.hub, None).run.planner
    assert server._fits(planner, "a", 8 * 500_000) is None
    assert server._fits(planner, "a", 8 * 500_001) == (
        "its 4,000,008 samples are 1,000,002 steps a round, and at most 1,000,000 are accepted"
    )


def test_a_server_saves_every_round_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    """By a setting that is given to it: a file may come from `smofi config`, which names every setting."""
    path, said = tmp_path / "run.yaml", list[str]()
    for text in ("rounds: 3", "checkpoint_every: 1"):
        path.write_text(text)
        assert saving_every_round(read_config(path), (), said.append).checkpoint_every == 1
    assert not said
    path.write_text("checkpoint_every: 3")
    given = {"checkpoint_every": 4}
    assert saving_every_round(read_config(path, given), given, said.append).checkpoint_every == 4
    assert not said
    assert saving_every_round(read_config(path), (), said.append).checkpoint_every == 1
    assert said == ["Every round is saved, although the file says 3; to save less often, give --checkpoint-every 3"]


def test_from_python_a_mapping_says_how_often_it_saves(tmp_path: Path) -> None:
    path, said = tmp_path / "run.yaml", list[str]()
    path.write_text("checkpoint_every: 3")
    assert settled({"checkpoint_every": 3}, tmp_path, False, said.append).checkpoint_every == 3
    assert settled({}, tmp_path, False, said.append).checkpoint_every == 1
    assert not said
    assert settled(str(path), tmp_path, False, said.append).checkpoint_every == 1
    assert said[0].endswith("to save less often, give a mapping of settings with checkpoint_every=3")


def test_a_run_goes_on_to_save_as_often_as_it_did() -> None:
    """Its user may have said so to the server when it began."""
    said, stored = list[str](), small(checkpoint_every=3)
    assert saving_every_round(stored, (), said.append, resumed=True) is stored
    assert said == [
        "This run is saved every 3 rounds, as its folder says; to save every round, give --checkpoint-every 1"
    ]
    saving_every_round(small(), (), said.append, resumed=True)
    saving_every_round(stored, {"checkpoint_every": 3}, said.append, resumed=True)
    assert len(said) == 1
