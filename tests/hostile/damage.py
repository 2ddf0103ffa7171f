"""Damage run folders at random and see that nothing damaged is believed: `make damage`, or python -m hostile.damage.

Each damaged copy is shown, resumed, exported, and its partition is taken for another run. No command may end in a
traceback. Where a command does something else than with the undamaged copy, it has to name a damaged file; where it
refuses, it may change nothing; and a run that goes on has to end in the same bits.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import shutil
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import safe_open

from smofi.cli import main as smofi
from smofi.config import Config
from smofi.engine.events import Event, RoundStarted
from smofi.experiment import start
from smofi.runs import RunFolder, folders_in

TINY = Config(
    clients=4, participation=0.5, partition="iid", max_train=120, max_test=40, model="cnn", width=2, local_epochs=1,
    batch_size=16, threads=1, executor=("loop",), method=("smofi",), rounds=3, checkpoint_every=1,
)  # fmt: skip
Files = dict[str, bytes]


def files_in(folder: Path) -> Files:
    """Return all files below a folder by name, but the lock, which has the id of the last writer."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


# ---------------------------------------------------------------------------------------------------------- the damages


KINDS = ("flip", "lose a block", "cut", "append", "empty", "repeat a line", "edit")


def changed(kind: str, content: bytes, dice: random.Random) -> bytes:
    """Return a content with one kind of damage."""
    place, lines = dice.randrange(len(content)), content.splitlines(keepends=True)
    if kind == "flip":
        return content[:place] + bytes([content[place] ^ 1 << dice.randrange(8)]) + content[place + 1 :]
    if kind == "lose a block":
        block = content[place : place + dice.choice([8, 64, 512])]
        return content[:place] + bytes(len(block)) + content[place + len(block) :]
    if kind == "cut":
        return content[:place]
    if kind == "append":
        return content + dice.choice([b"\0", b"\n", b"garbage\n", dice.randbytes(100)])
    if kind == "repeat a line":
        line = dice.randrange(len(lines))
        return b"".join([*lines[: line + 1], *lines[line:]])
    if kind == "edit":
        for old, new in ((b"lr=0.05", b"lr=0.5"), (b"seed: ", b"seed: 1"), (b'"accuracy": 0.', b'"accuracy": 0.9')):
            content = content.replace(old, new)
        return content
    return b""


def damage(folder: Path, others: Mapping[str, bytes], dice: random.Random) -> tuple[str, list[str]]:
    """Damage a folder until something is different; return what was done, and to which files. `others` are another
    run's."""
    before = files_in(folder)
    while True:
        kind = dice.choice([*KINDS, "delete", "replace", "swap", "delete all states"])
        name, other = dice.choice(list(before)), dice.choice(list(before))
        if kind in KINDS and before[name]:
            (folder / name).write_bytes(changed(kind, before[name], dice))
        elif kind == "delete":
            (folder / name).unlink()
        elif kind == "replace":
            (folder / name).write_bytes(others.get(Path(name).name, before[name]))
        elif kind == "swap":
            (folder / name).write_bytes(before[other])
            (folder / other).write_bytes(before[name])
        elif kind == "delete all states" and name.rpartition("/")[0].endswith("checkpoints"):
            shutil.rmtree((folder / name).parent)
        after = files_in(folder)
        if harmed := [name for name in before if after.get(name) != before[name]]:
            return kind, harmed


# ------------------------------------------------------------------------------------------------------ the run folders


@dataclass(frozen=True)
class Case:
    """A run folder, and the run of it that is exported and whose partition is taken."""

    folder: Path
    exported: str = ""
    best: bool = False

    def saved(self, name: str) -> bytes | None:
        """Return the content that the run saved in a file; None if the file is not one that it saved."""
        path = self.folder / name
        run = path.parent.parent if path.parent.name == "checkpoints" else path.parent
        manifest = RunFolder(run).manifest()
        if path.name == "metrics.jsonl":
            return path.read_bytes()[: manifest.saved[-1].content.size]
        listed = path.name == "manifest.json" or path.relative_to(run).as_posix() in manifest.files
        return path.read_bytes() if listed else None


def make_cases(home: Path) -> list[Case]:
    """Train a run with a best round to its end, and a comparison until its second run has begun its last round."""
    (best,) = start(TINY.model_copy(update={"validation": 0.2, "seed": 1}), home / "best")
    best.train()
    (home / "best/curves.png").write_bytes(b"a picture")

    def stop(event: Event) -> None:
        if isinstance(event, RoundStarted) and event.round == 4 and training == ["fedavg", "smofi"]:
            raise KeyboardInterrupt  # each write is whole or absent, so that a kill leaves the same

    both = TINY.model_copy(update={"method": ("fedavg", "smofi"), "rounds": 4, "checkpoint_every": 2})
    training: list[str] = []
    with contextlib.suppress(KeyboardInterrupt):
        for one in start(both, home / "both", stop):
            training.append(one.name)
            one.train()
    assert [len(run.records()) for run in folders_in(home / "both")] == [4, 3]
    return [Case(home / "best", best=True), Case(home / "both", exported="smofi")]


# --------------------------------------------------------------------------------------------------------- the commands


@dataclass(frozen=True)
class Told:
    """How a command ended: its code, what it said, and what came of it."""

    code: int
    said: str
    outcome: Any


def call(*arguments: object) -> tuple[int, str, str]:
    """Call a command in this process; return its code, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            code = smofi([str(one) for one in arguments])
        except BaseException as error:
            raise AssertionError(f"{arguments}: {''.join(traceback.format_exception(error))}") from error
    assert "Traceback" not in out.getvalue() + err.getvalue(), f"{arguments}: {out.getvalue()}{err.getvalue()}"
    return code, out.getvalue(), err.getvalue()


def show(case: Case, aside: Path) -> Told:
    code, out, err = call("show", case.folder)
    return Told(code, err, out)


def partition(case: Case, aside: Path) -> Told:
    shared = ("--clients", 4, "--max-train", TINY.max_train, "--partition", f"file:{case.folder / case.exported}")
    code, out, err = call("data", "digits", *shared)
    return Told(code, err, out)


def export(case: Case, aside: Path) -> Told:
    more = ["--best"] if case.best else []
    code, _, err = call("export", case.folder / case.exported, aside, "--format", "safetensors", *more)
    if code:
        return Told(code, err, None)
    with safe_open(aside / "model.safetensors", framework="np") as file:
        tensors = {name: file.get_tensor(name).tobytes() for name in file.keys()}  # noqa: SIM118  # not a mapping
        return Told(code, err, (tensors, file.metadata(), (aside / "README.md").read_text()))


def resume(case: Case, aside: Path) -> Told:
    code, out, err = call("run", "--resume", case.folder, "--workers", 1, "--display", "jsonl")
    if code:
        return Told(code, out + err, None)
    runs = folders_in(case.folder)
    rounds = [[record | {"seconds": 0} for record in run.records()] for run in runs]
    return Told(code, out + err, ([run.model_file.read_bytes() for run in runs], rounds))


COMMANDS = (show, partition, export, resume)


class Trial:
    """One kind of run folder: what the commands make of it, and of a damaged copy in the same place."""

    def __init__(self, original: Case, home: Path) -> None:
        self.original, self.aside = original, home / "aside"
        self.case = replace(original, folder=home / original.folder.name)
        self.undamaged: dict[Callable[[Case, Path], Told], Told] = {}
        for command in COMMANDS:
            self.fresh()
            self.undamaged[command] = self.told(command)
            assert self.undamaged[command].code == 0, self.undamaged[command].said
        self.resumed = files_in(self.case.folder)

    def fresh(self) -> Path:
        """Make a new copy of the run folder."""
        shutil.rmtree(self.case.folder, ignore_errors=True)
        return Path(shutil.copytree(self.original.folder, self.case.folder))

    def told(self, command: Callable[[Case, Path], Told]) -> Told:
        shutil.rmtree(self.aside, ignore_errors=True)
        return command(self.case, self.aside)

    def harmed(self, name: str, files: Files) -> bool:
        """Tell whether a file that the run saved is not in these files as it was."""
        saved, found = self.original.saved(name), files.get(name, b"")
        return saved is not None and saved != (found[: len(saved)] if name.endswith("metrics.jsonl") else found)

    def run(self, command: Callable[[Case, Path], Told], names: list[str]) -> str:
        """Try a command on the copy, where these files are damaged: it refused, warned or was unaffected."""
        before = files_in(self.case.folder)
        told, undamaged = self.told(command), self.undamaged[command]
        after = files_in(self.case.folder)
        assert told.code in (0, 2), f"exit code {told.code}: {told.said}"
        named = any(Path(name).name in told.said for name in names)
        # without a manifest, any of its files may be named
        named = named or (told.code == 2 and any(name.endswith("manifest.json") for name in names))
        if told.code == 2:
            assert named, f"refused, but no damaged file is named: {told.said}"
        elif not named or command is resume:
            assert told.outcome == undamaged.outcome, f"another outcome: {told.outcome!s:.2000}"
        if command is show:  # it checks all files
            assert told.code == 2 or not any(self.harmed(name, before) for name in names), "shown without a word"
        if command is resume and told.code == 0:
            lost = [name for name in before if name in self.resumed and name not in (*names, *after)]
            assert not lost, f"lost: {lost}"
        else:
            assert after == before, f"changed: {sorted(name for name in before if after.get(name) != before[name])}"
        return "refused" if told.code == 2 else "warned" if named else "unaffected"


def try_damages(home: Path, count: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """Damage a run folder `count` times and try every command on each; yield each command, the damage and what came
    of it."""
    trials = [Trial(case, home) for case in make_cases(home / "cases")]
    others = {Path(name).name: content for name, content in files_in(trials[0].original.folder).items()}
    for number in range(count):
        trial = trials[number % len(trials)]
        for command in COMMANDS:
            kind, names = damage(trial.fresh(), others, random.Random(f"{seed}-{number}"))
            try:
                yield command.__name__, kind, trial.run(command, names)
            except AssertionError as error:
                what = f"damage {number} of seed {seed}: {trial.case.folder.name}, {kind} {names}, {command.__name__}"
                yield command.__name__, kind, f"FAILED {what}: {error}"


def main() -> int:
    """Print how often each command refused, warned, or was unaffected by each kind of damage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="how many damaged copies")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32), help="repeats a failure")
    asked = parser.parse_args()
    counts: Counter[tuple[str, str, str]] = Counter()
    failed = 0
    with tempfile.TemporaryDirectory() as home:
        for command, kind, how in try_damages(Path(home), asked.count, asked.seed):
            if how.startswith("FAILED"):
                failed += 1
                print(how, flush=True)
            else:
                counts[command, kind, how] += 1
    for (command, kind, how), times in sorted(counts.items()):
        print(f"{command:12}{kind:20}{how:12}{times}")
    print(f"seed {asked.seed}: {asked.count} damaged run folders, {failed} of {len(COMMANDS) * asked.count} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
