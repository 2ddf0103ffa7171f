"""Damaged run folders: nothing damaged is believed, nothing is lost, and no command ends in a traceback."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace as with_other
from pathlib import Path

import pytest

from smofi.config import Config
from smofi.engine.events import Event, RoundStarted
from smofi.experiment import start
from smofi.runs import RunFolder
from support import damage as damages
from support.crash import same_end, spawning
from support.damage import COMMANDS, TINY_RUN, Case, Damage, Files, Told, call, files_in, told

TINY = Config(
    clients=6, participation=0.5, model="cnn", width=2, max_train=300, local_epochs=1, batch_size=32, threads=1,
    method=("smofi",), rounds=3, checkpoint_every=1,
)  # fmt: skip
KEPT_ASIDE = {"metrics.sums"}
"""Files that every command can do without: at most rounds after the last save do not count."""


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
        "comparison": Case(home / "comparison", ("fedavg", "smofi"), "fedavg"),
        "best": Case(home / "best", best=True),
    }


# ------------------------------------------------------------------------------------------------------------ the trial


def needed(command: str, case: Case, name: str) -> bool:
    """Whether what a command does depends on a file, so that damage to it has to be told."""
    run, _, file = name.rpartition("checkpoints/")
    run, _, file = (run, "", f"checkpoints/{file}") if "checkpoints/" in name else name.rpartition("/")
    names = files_in(case.folder)
    states = sorted(one for one in names if one.startswith(f"{run}checkpoints/round-".lstrip("/")))
    newest = states and name == states[-1]
    finished = f"{run}/model.safetensors".strip("/") in names
    if file in ("metrics.sums", "curves.png"):
        return False
    if command == "show":
        return True
    if command == "file:":
        return run.strip("/") == case.exported and file in ("manifest.json", "partition.safetensors")
    if command == "resume":
        return newest or not file.startswith("checkpoints/round-")
    if run.strip("/") != case.exported:
        return False
    if file.startswith("checkpoints/"):
        return "best" in file if case.best else bool(newest and not finished)
    return file not in ("partition.safetensors", *(("model.safetensors", "result.json") if case.best else ()))


def told_of(damage: Damage, result: Told) -> bool:
    """Whether a command refused or warned, naming a damaged file. Where the manifest is damaged, any may be named."""
    names = {Path(name).name for name in damage.names}
    return ("manifest.json" in names and result.code == 2) or any(name in result.said for name in names)


class Trial:
    """One kind of run folder: what the commands make of it, and of a damaged copy in the same place."""

    def __init__(self, case: Case, place: Path) -> None:
        self.original, self.case, self.aside = case.folder, with_other(case, folder=place / "run"), place / "aside"
        self.undamaged: dict[str, Told] = {}
        self.resumed: Files = {}
        for command in COMMANDS:
            self.fresh()
            self.undamaged[command] = told(command, self.case, self.aside)
            assert self.undamaged[command].code == 0
            assert not any(Path(name).name in self.undamaged[command].said for name in files_in(self.original))
        self.resumed = files_in(self.case.folder)

    def fresh(self) -> Path:
        """A new copy of the run folder."""
        shutil.rmtree(self.case.folder, ignore_errors=True)
        return Path(shutil.copytree(self.original, self.case.folder))

    def harmless(self, damage: Damage) -> bool:
        """Whether only rounds after the last save were touched."""
        (name, *more) = damage.names
        if more or not name.endswith("metrics.jsonl"):
            return False
        original = (self.original / name).read_bytes()
        listed = RunFolder((self.original / name).parent).manifest().saved[-1].content.size
        now = self.case.folder / name
        return now.exists() and now.read_bytes()[:listed] == original[:listed]

    def run(self, command: str, damage: Damage) -> str:
        """Try a command on the damaged copy; what came of it: refused, warned or unaffected."""
        before, original = files_in(self.case.folder), files_in(self.original)
        harmless = self.harmless(damage)
        result = told(command, self.case, self.aside)
        after = files_in(self.case.folder)
        assert result.code in (0, 2), f"exit code {result.code}: {result.said}"
        complained = told_of(damage, result)
        if result.code == 2:
            assert complained, f"refused, but no damaged file is named: {result.said}"
        if not complained:
            same = result.outcome == self.undamaged[command].outcome
            assert same, f"accepted without a word, and the outcome is another: {result.outcome!s:.2000}"
            depends = [name for name in damage.names if needed(command, self.case_of_original(), name)]
            assert harmless or not depends, f"accepted without a word: {result.said}"
        if command != "resume" or result.code == 2:
            assert after == before, "files were changed: " + ", ".join(
                sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
            )
        else:
            assert result.outcome == self.undamaged[command].outcome, "resumed to another end"
            lost = [name for name in before if name in self.resumed and name not in (*damage.names, *after)]
            assert not lost, f"lost: {lost}"
            whole = ("about.json", "partition.safetensors", "config.yaml", "model.safetensors", "result.json")
            assert all(after[name] == original[name] for name in original if name.endswith(whole))
        return "refused" if result.code == 2 else "warned" if complained else "unaffected"

    def case_of_original(self) -> Case:
        return with_other(self.case, folder=self.original)


CHOSEN = [
    # what is done to which file; how show, export, file: and resume take it
    (damages.flip, "model.safetensors", "refused refused unaffected refused"),
    (damages.flip, "partition.safetensors", "refused unaffected refused refused"),
    (damages.edit, "config.yaml", "refused refused unaffected refused"),
    (damages.remove_line, "config.yaml", "refused refused unaffected refused"),
    (damages.flip, "metrics.jsonl", "refused refused unaffected refused"),
    (damages.empty, "about.json", "refused refused unaffected refused"),
    (damages.truncate, "manifest.json", "refused refused refused refused"),
    (damages.append, "result.json", "refused refused unaffected refused"),
    (damages.zero, "checkpoints/round-000003.safetensors", "refused unaffected unaffected warned"),
    ("delete", "checkpoints/round-000003.safetensors", "refused unaffected unaffected warned"),
    ("delete", "model.safetensors", "refused refused unaffected warned"),
    ("delete", "manifest.json", "refused refused refused refused"),
    ("replace", "model.safetensors", "refused refused unaffected refused"),
    ("replace", "checkpoints/round-000003.safetensors", "refused unaffected unaffected warned"),
    ("delete checkpoints/", "checkpoints/", "refused unaffected unaffected warned"),
]


@pytest.fixture(scope="module")
def trial(finished: Case, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return Trial(finished, tmp_path_factory.mktemp("trial"))


@pytest.mark.parametrize(("kind", "name", "expected"), CHOSEN, ids=lambda value: getattr(value, "__name__", str(value)))
def test_chosen_damages(kind: object, name: str, expected: str, trial: Trial, others: Mapping[str, Path]) -> None:
    found = []
    for command in COMMANDS:
        folder = trial.fresh()
        if callable(kind):
            damage = damages.damage_one(folder, name, kind, random.Random(0))
        elif kind == "delete":
            damage = damages.delete(folder, name)
        elif kind == "replace":
            damage = damages.replace(folder, name, others[Path(name).name])
        else:
            damage = damages.delete_checkpoints(folder)
        found.append(trial.run(command, damage))
    assert " ".join(found) == expected


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
    sys.stdout.write(f"{count} damages, {sum(counts.values())} commands: {dict(ways)}\n")
    assert not failed, "\n".join([f"{len(failed)} of {count * len(COMMANDS)} failed", *failed])
