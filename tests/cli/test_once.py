"""What is said about damage is said once: not again as a raw Python warning."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from smofi.cli import main
from smofi.config import Config
from smofi.engine.events import Event, RoundDone
from smofi.errors import TrainingWarning
from smofi.experiment import resume, start


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A run that was interrupted after two rounds, and whose newest checkpoint has lost its end."""
    config = Config(
        clients=8, model="cnn", width=4, method="fedavg", rounds=3, local_epochs=1, executor="loop", checkpoint_every=1
    )

    def interrupt(event: Event) -> None:
        if isinstance(event, RoundDone) and event.record.round == 2:
            run.session.run.interrupt()

    (run,) = start(config, tmp_path / "run", interrupt)
    run.train()
    newest = tmp_path / "run" / "checkpoints" / "round-000002.safetensors"
    newest.write_bytes(newest.read_bytes()[:-100])
    return tmp_path / "run"


def test_damage_is_told_once_by_the_command_and_warned_of_in_python(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(damaged, tmp_path / "same")
    assert main(["run", "--resume", str(damaged), "--display", "quiet"]) == 0
    out, err = capsys.readouterr()
    assert (out.count("round-000002.safetensors"), out.count("\n"), err) == (1, 1, ""), out
    with pytest.warns(TrainingWarning, match=r"round-000002\.safetensors"):
        (run,) = resume(tmp_path / "same", {})
    run.close()
