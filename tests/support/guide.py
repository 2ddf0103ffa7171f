"""CONTRIBUTING.md as something that can be carried out: the edits it shows, and the commands that follow them.

A block of Python that begins with a comment naming a file is that file. A block of `diff` names a file in its first
line, and then shows changes with the lines around them, separated by @@. Commands stand in blocks of `sh`.

    python tests/support/guide.py COMMAND...    runs the commands one after the other, all in this process, and prints
                                                a line before each and one after those that fail
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """What stands below one heading."""

    text: str

    @property
    def new_files(self) -> dict[str, str]:
        """Their text by their path."""
        blocks = (code.split("\n", 1) for kind, code in BLOCK.findall(self.text) if kind == "python")
        return {first.removeprefix("# "): rest for first, rest in blocks}

    @property
    def changes(self) -> list[tuple[str, list[str]]]:
        """The path of a file, and what changes in it."""
        blocks = (code.split("\n", 1) for kind, code in BLOCK.findall(self.text) if kind == "diff")
        return [(first.removeprefix("+++ "), rest.split("@@\n")) for first, rest in blocks]

    @property
    def commands(self) -> list[str]:
        return [line for kind, code in BLOCK.findall(self.text) if kind == "sh" for line in code.splitlines()]

    def apply(self, root: Path) -> list[Path]:
        """Make all edits below this folder; the files they touch. What a change expects must be there, once."""
        for path, text in self.new_files.items():
            if (root / path).exists():
                raise ValueError(f"{path} is there already")
            (root / path).write_text(text)
        for path, hunks in self.changes:
            content = (root / path).read_text()
            for hunk in hunks:
                content = changed(content, hunk, path)
            (root / path).write_text(content)
        return [root / path for path in (*self.new_files, *(path for path, _ in self.changes))]


def changed(content: str, hunk: str, path: str) -> str:
    """The content after a change.

    >>> changed("a\\nb\\n", " a\\n-b\\n+c\\n", "file")
    'a\\nc\\n'
    """
    lines = hunk.splitlines(keepends=True)
    if misplaced := [line for line in lines if line[0] not in " +-"]:
        raise ValueError(f"not a line of a change: {misplaced[0]}")
    before, after = ("".join(line[1:] for line in lines if line[0] in marks) for marks in (" -", " +"))
    if content.count(before) != 1:
        raise ValueError(f"{path} has this {content.count(before)} times, not once:\n{before}")
    return content.replace(before, after)


def sections() -> dict[str, Section]:
    """The sections that show how to add something, by their headings."""
    _, *rest = re.split(r"^## (.*)\n", PAGE.read_text(), flags=re.MULTILINE)
    return {heading: Section(text) for heading, text in zip(rest[::2], rest[1::2], strict=True) if "Add " in heading}


def run(command: str) -> int:
    """One command as it is written, without the seconds that a process of its own takes to import torch."""
    program, *arguments = shlex.split(command)
    if program == "smofi":
        from smofi.cli import main

        return int(main(arguments))
    if program == "python":
        runpy.run_path(arguments[0], run_name="__main__")
        return 0
    if command.startswith("make test ARGS="):
        import pytest

        before = dict(os.environ)
        try:
            return int(pytest.main(["-q", "-p", "no:cacheprovider", *shlex.split(arguments[1].removeprefix("ARGS="))]))
        finally:
            os.environ.update(before)  # tests have a cache of data of their own
    raise ValueError(f"not a command of the guide: {command}")


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(f"$ {given}")  # noqa: T201
        if code := run(given):
            print(f"failed with {code}: {given}")  # noqa: T201
