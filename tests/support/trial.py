"""What a command makes of a damaged run folder, and whether that is right."""

from __future__ import annotations

import shutil
from dataclasses import replace as with_other
from pathlib import Path

from smofi.runs import RunFolder
from support.damage import COMMANDS, Case, Damage, Files, Told, files_in, run_and_file, told


def needed(command: str, case: Case, name: str) -> bool:
    """Whether what a command does depends on a file, so that damage to it has to be told."""
    run, file = run_and_file(name)
    names = files_in(case.folder)
    newest = name == max((one for one in names if one.startswith(f"{run}checkpoints/round-")), default="")
    finished = f"{run}model.safetensors" in names
    if file in ("metrics.sums", "curves.png"):
        return False
    if command == "show":
        return True
    if command == "file:":
        return run == case.exported and file in ("manifest.json", "partition.safetensors")
    if command == "resume":
        return newest or not file.startswith("checkpoints/round-")
    if run != case.exported:
        return False
    if file.startswith("checkpoints/"):
        return "best" in file if case.best else newest and not finished
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

    def cut_short(self, damage: Damage) -> bool:
        """Whether the folder is as if the run had been killed while it recorded its last round."""
        (name, *more) = damage.names
        now = self.case.folder / name
        if more or not name.endswith(("metrics.jsonl", "metrics.sums")) or not now.exists():
            return False
        original = (self.original / name).read_bytes()
        kept = b"".join(original.splitlines(keepends=True)[:-1])
        return original.startswith(now.read_bytes()) and now.read_bytes().startswith(kept)

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
        harmless, cut_short = self.harmless(damage), self.cut_short(damage)
        result = told(command, self.case, self.aside)
        after = files_in(self.case.folder)
        assert result.code in (0, 2), f"exit code {result.code}: {result.said}"
        complained = told_of(damage, result)
        if result.code == 2:
            assert complained, f"refused, but no damaged file is named: {result.said}"
        if not complained:
            same = result.outcome == self.undamaged[command].outcome or (cut_short and command == "show")
            assert same or (cut_short and command == "show"), (
                f"accepted without a word, and the outcome is another: {result.outcome!s:.2000}"
            )
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
