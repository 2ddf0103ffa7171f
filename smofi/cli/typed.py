"""What was typed: flags that are on or off as people write them, and settings by the flags that gave them."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from cyclopts import App

SWITCHED = {"true": "true", "yes": "true", "on": "true", "1": "true"} | dict.fromkeys(
    ("false", "no", "off", "0"), "false"
)
FIELD = re.compile(r"(?<![\w(.-])(?:--)?([a-z_0-9]+)=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\[[^\[\]]*\]|)")
"""A setting with its value in a sentence, as `refuse` writes it; a value cut off in the middle is left as it is."""


@dataclass(frozen=True)
class Typed:
    """A command line, how many of its words name the command, and which flags of that are on or off, and which take one
    or more values."""

    arguments: Sequence[str]
    switches: Collection[str] = ()
    lists: Collection[str] = ()
    depth: int = 1

    @classmethod
    def of(cls, app: App, arguments: Sequence[str]) -> Typed:
        """The arguments, with what the command that they name says about its flags."""
        depth = 0
        for word in arguments:
            if word.startswith("-") or word not in app:
                break
            app, depth = app[word], depth + 1
        if app.default_command is None:  # there is none, or it has commands of its own
            return cls(arguments)
        known = app.assemble_argument_collection()
        switches = {name for one in known if one.hint is bool for name in one.names if not name.startswith("--no-")}
        return cls(arguments, switches, {name for one in known if one.token_count()[1] for name in one.names}, depth)

    @property
    def command(self) -> Sequence[str]:
        """The words that name the command.

        >>> Typed(["certs", "issue", "pki"], depth=2).command
        ['certs', 'issue']
        """
        return self.arguments[: self.depth]

    @property
    def plainly(self) -> list[str]:
        """The arguments with one way to write what is on or off.

        >>> Typed(["run", "--compile", "yes", "--rounds", "1"], {"--compile"}).plainly
        ['run', '--compile=true', '--rounds', '1']
        """
        plain: list[str] = []
        for word in self.arguments:
            flag, equals, value = word.partition("=")
            if plain and plain[-1] in self.switches and word.lower() in SWITCHED:
                plain[-1] += f"={SWITCHED[word.lower()]}"
            elif equals and flag in self.switches:
                plain.append(f"{flag}={SWITCHED.get(value.lower(), value)}")
            else:
                plain.append(word)
        return plain

    def named_by_flags(self, sentence: str) -> str:
        """The sentence with flags in place of the settings that they gave.

        >>> Typed(["run", "--batch-size", "0"]).named_by_flags("batch_size='0' is not accepted")
        '--batch-size 0 is not accepted'
        >>> Typed(["show", "nowhere"]).named_by_flags("folder='nowhere' is not accepted")
        'nowhere is not accepted'
        """
        first = self.arguments[self.depth : self.depth + 1]
        flags = {_setting(word): word.partition("=")[0] for word in self.arguments if word.startswith("--")}

        def by_flag(found: re.Match[str]) -> str:
            if found[1] in flags:
                return f"{flags[found[1]]} {_as_typed(found[2])}"
            return word if (word := _as_typed(found[2])) and word in first else found[0]

        named = FIELD.sub(by_flag, sentence)
        for flag in self.switches:
            named = named.replace(f"{flag} True is", f"{flag} is")
        return named

    def values_after(self, flag: str) -> list[str]:
        """All that stands between a flag and the next one.

        >>> Typed(["run", "--method", "fedavg", "smofi", "--rounds", "3"]).values_after("--method")
        ['fedavg', 'smofi']
        """
        values: list[str] = []
        for word in self.arguments[self.arguments.index(flag) + 1 :] if flag in self.arguments else ():
            if word.startswith("-"):
                break
            values.append(word)
        return values


def _setting(flag: str) -> str:
    return flag.partition("=")[0].removeprefix("--").removeprefix("no-").replace("-", "_")


def _as_typed(value: str) -> str:
    """A value as it is written in a shell."""
    if not value:
        return ""
    try:
        read: Any = ast.literal_eval(value)
    except (SyntaxError, ValueError):  # a list that was cut off in the middle
        return value
    return shlex.join(map(str, read)) if isinstance(read, list) else shlex.quote(read)
