"""Damaged run folders: nothing damaged is believed, nothing is lost, and no command ends in a traceback."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from smofi.config import Config
from smofi.engine.events import Event, RoundStarted
from smofi.errors import TrainingWarning
from smofi.experiment import start
from support import damage as damages
from support.crash import same_end, spawning
from support.damage import COMMANDS, TINY_RUN, Case, call, files_in
from support.trial import Trial

TINY = Config(
    clients=6, participation=0.5, model="cnn", width=2, max_train=300, local_epochs=1, batch_size=32, threads=1,
    method=("smofi",), rounds=3, checkpoint_every=1,
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------- run folders


def train(folder: Path, config: Config) -> None:
    for one in start(config, folder):
        one.train()


def killed(folder: Path, config: Config, method: str, round: int) -> None:
    """A run whose process is killed as it begins this round of this method."""
    process = spawning.Process(target=_train_until, args=(folder, config, method, round))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def _train_until(folder: Path, config: Config, method: str, round: int) -> None:
    training: list[str] = []

    def watch(event: Event) -> None:
        if isinstance(event, RoundStarted) and event.round == round and training[-1] == method:
            os.kill(os.getpid(), signal.SIGKILL)

    for one in start(config, folder, watch):
        training.append(one.name)
        one.train()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A finished run with its picture."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    settings = [*TINY_RUN[:-2], "--display", "quiet", "--method", "smofi", "--rounds", "3", "--checkpoint-every", "1"]
    assert call("run", *settings, "--output", folder)[0] == 0
    return Case(folder)


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of another finished run by their names."""
    folder = tmp_path_factory.mktemp("other") / "run"
    train(folder, TINY.model_copy(update={"seed": 1, "validation": 0.1}))
    return {path.name: path for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def cases(finished: Case, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """Run folders of all kinds, by what has become of the run."""
    home = tmp_path_factory.mktemp("cases")
    rare = TINY.model_copy(update={"rounds": 7, "checkpoint_every": 3})
    both = TINY.model_copy(update={"method": ("fedavg", "smofi")})
    killed(home / "interrupted", rare, "smofi", 6)
    killed(home / "comparison", both, "smofi", 2)
    train(home / "best", TINY.model_copy(update={"validation": 0.1}))
    train(home / "straight", rare)
    train(home / "straight-both", both)
    for name, straight, runs in (
        ("interrupted", "straight", [""]),
        ("comparison", "straight-both", ["fedavg", "smofi"]),
    ):
        shutil.copytree(home / name, home / "resumed")
        assert call("run", "--resume", home / "resumed", "--workers", "1", "--display", "jsonl")[0] == 0
        for run in runs:
            same_end(home / "resumed" / run, home / straight / run)
        shutil.rmtree(home / "resumed")
    return {
        "finished": finished,
        "interrupted": Case(home / "interrupted"),
        "comparison": Case(home / "comparison", ("fedavg", "smofi"), "fedavg/"),
        "best": Case(home / "best", best=True),
    }


def test_a_finished_run_that_never_had_room_for_a_state_is_finished(finished: Case, tmp_path: Path) -> None:
    """Its rounds are on record with its model; it is not begun again."""
    (run,) = start(TINY, tmp_path / "run")
    folder = tmp_path / "run/checkpoints"
    folder.mkdir()
    for number in range(1, 4):
        (folder / f".round-{number:06d}.safetensors.part").mkdir()  # cannot be opened for writing
    with pytest.warns(TrainingWarning, match="there is no checkpoint yet"):
        run.train()
    before = files_in(tmp_path / "run")
    assert call("show", tmp_path / "run")[0] == 0
    code, out, _ = call("run", "--resume", tmp_path / "run", "--workers", "1", "--display", "jsonl")
    assert code == 0
    assert "RoundDone" not in out
    assert files_in(tmp_path / "run") == before
    same_end(tmp_path / "run", finished.folder)
    code, _, err = call("run", "--resume", tmp_path / "run", "--rounds", "4", "--workers", "1")
    assert code == 2
    assert "it is finished after 3 rounds, and more need its last state: there is none" in err
    assert files_in(tmp_path / "run") == before


def test_of_a_comparison_that_is_refused_no_run_is_touched(tmp_path: Path) -> None:
    both = tmp_path / "both"
    train(both, TINY.model_copy(update={"method": ("fedavg", "smofi")}))
    (both / "fedavg/checkpoints/round-000003.safetensors").write_bytes(b"")  # it could go on from round 2
    (both / "smofi/partition.safetensors").unlink()
    before = files_in(both)
    code, _, err = call("run", "--resume", both, "--workers", "1")
    assert code == 2
    assert f"{both / 'smofi/partition.safetensors'} is missing" in err
    assert files_in(both) == before
    shutil.rmtree(both / "smofi")
    code, _, err = call("run", "--resume", both, "--workers", "1")
    assert code == 2
    assert f"{both / 'smofi'} is missing" in err
    assert not (both / "smofi").exists()


CHOSEN = [
    # what is done to which file; how show, export, file: and resume take it, - where it is not tried
    (damages.flip, "model.safetensors", "refused refused - refused"),
    (damages.flip, "partition.safetensors", "refused unaffected refused refused"),
    (damages.edit, "config.yaml", "refused refused - refused"),
    (damages.remove_line, "config.yaml", "refused refused - refused"),
    (damages.flip, "metrics.jsonl", "refused refused - refused"),
    (damages.empty, "about.json", "refused refused - refused"),
    (damages.truncate, "manifest.json", "refused refused refused refused"),
    (damages.append, "result.json", "refused refused - refused"),
    (damages.zero, "checkpoints/round-000003.safetensors", "refused unaffected - warned"),
    ("delete", "checkpoints/round-000003.safetensors", "refused unaffected - warned"),
    ("delete", "model.safetensors", "refused refused - warned"),
    ("delete", "manifest.json", "refused refused refused refused"),
    ("replace", "model.safetensors", "refused refused - refused"),
    ("replace", "checkpoints/round-000003.safetensors", "refused unaffected - warned"),
    ("delete checkpoints/", "checkpoints/", "refused unaffected - warned"),
]


@pytest.fixture(scope="module")
def trial(finished: Case, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return Trial(finished, tmp_path_factory.mktemp("trial"))


@pytest.mark.parametrize(("kind", "name", "expected"), CHOSEN, ids=lambda value: getattr(value, "__name__", str(value)))
def test_chosen_damages(kind: object, name: str, expected: str, trial: Trial, others: Mapping[str, Path]) -> None:
    for command, how in zip(COMMANDS, expected.split(), strict=True):
        if how == "-":
            continue
        folder = trial.fresh()
        if callable(kind):
            damage = damages.damage_one(folder, name, kind, random.Random(0))
        elif kind == "delete":
            damage = damages.delete(folder, name)
        elif kind == "replace":
            damage = damages.replace(folder, name, others[Path(name).name])
        else:
            damage = damages.delete_checkpoints(folder)
        assert trial.run(command, damage) == how, command


@pytest.mark.slow
def test_random_damages(cases: dict[str, Case], others: dict[str, Path], tmp_path: Path) -> None:
    """To see the counts: pytest -s. DAMAGE_SEED=... repeats a failure, DAMAGES=... does more or fewer."""
    seed = int(os.environ.get("DAMAGE_SEED") or random.SystemRandom().randrange(2**32))
    count = int(os.environ.get("DAMAGES") or 440)
    counts: Counter[tuple[str, str, str, str]] = Counter()
    failed: list[str] = []
    trials = {name: Trial(case, tmp_path / name) for name, case in cases.items()}
    for number in range(count):
        kind, trial = list(trials.items())[number % len(trials)]
        for command in COMMANDS:
            damage = damages.at_random(trial.fresh(), others, random.Random(f"{seed}-{number}"))
            file = damage.names[0] if len(damage.names) == 1 or damage.kind == "swap" else "checkpoints/"
            try:
                counts[Path(file).name or file, damage.kind, command, trial.run(command, damage)] += 1
            except AssertionError as error:
                failed.append(f"DAMAGE_SEED={seed}, number {number}: {kind}, {damage}, {command}: {error}")
                sys.stdout.write(f"{failed[-1]}\n")
    for (file, what, command, how), times in sorted(counts.items()):
        sys.stdout.write(f"{file:40}{what:26}{command:8}{how:12}{times}\n")
    ways = Counter(key[3] for key in counts.elements())
    sys.stdout.write(f"seed {seed}: {count} damages, {sum(counts.values())} commands: {dict(ways)}\n")
    assert not failed, "\n".join([f"{len(failed)} of {count * len(COMMANDS)} failed", *failed])
