"""Refuse what was typed wrongly on the command line, in words that name it as it was typed."""

from __future__ import annotations

import ast
import difflib
import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, get_args

import cyclopts
import pydantic
from cyclopts import App, Argument
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from smofi.config import sentence_of
from smofi.config.presets import preset_names
from smofi.errors import LONGEST, shortened

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


# --------------------------------------------------------------------------------------------------------------------
# A sentence for every mistake on the command line, which names what was typed.

KINDS = {int: "a whole number", float: "a number", bool: "true or false"}


def sentence_for(error: Exception, app: App, typed: Typed) -> str:
    """What is wrong, without the box and the type names that cyclopts and pydantic put around it."""
    cause = error.__cause__ or error.__context__
    if isinstance(error, cyclopts.CycloptsError):
        sentence = sentence_of(cause) if isinstance(cause, pydantic.ValidationError) else _parsing(error, app, typed)
    elif isinstance(error, pydantic.ValidationError):
        sentence = sentence_of(error)
    elif isinstance(error, OSError) and error.filename and error.strerror:
        sentence = f"{shortened(str(error.filename), LONGEST)}: {error.strerror}"
    elif isinstance(error, MemoryError):
        sentence = "there is not enough memory"
    else:
        sentence = str(error)
    return _rewritten(typed, sentence, isinstance(error, MissingArgumentError)) or typed.named_by_flags(sentence)


def _parsing(error: cyclopts.CycloptsError, app: App, typed: Typed) -> str:
    """Arguments that do not fit the command."""
    command = " ".join(["smofi", *(error.command_chain or ())])
    if isinstance(error, UnknownCommandError):
        return _no_command((error.unused_tokens or [""])[0], app, error.command_chain or ())
    if isinstance(error, UnknownOptionError):
        asked = (error.token.keyword or error.token.value).partition("=")[0]
        shown = [name for one in error.argument_collection if one.show for name in one.names]
        options = [name for name in shown if name.startswith("--")]
        options.append("--help")
        return f"{command} has no option {asked}{_near(asked, options) or f'; {command} --help lists them'}"
    if isinstance(error, UnusedCliTokensError):
        return _too_many(command, (error.unused_tokens or [""])[0], _command(app, typed.command))
    if isinstance(error, RepeatArgumentError):
        return f"{error.token.keyword} is given twice"
    if isinstance(error, MissingArgumentError) and error.argument:
        return _missing(command, error.argument, error.keyword, typed)
    if isinstance(error, CoercionError) and error.argument and error.token:
        return f"{error.token.keyword or error.argument.name} {error.token.value} is not accepted: " + _expected(
            error.argument, error.token.value
        )
    return str(error)


def _no_command(asked: str, app: App, chain: Sequence[str]) -> str:
    if chain:
        commands = [name for name in _command(app, chain) if not name.startswith("-")]
        return f"there is no command {' '.join(chain)} {asked}{_near(asked, commands)}; there are {', '.join(commands)}"
    commands = [name for name in app if not name.startswith("-")]
    if asked.startswith("-"):
        known = asked in {name for one in app["run"].assemble_argument_collection() for name in one.names}
        belongs = f"{asked} stands before the command; write smofi run {asked}"
        return belongs if known else f"smofi has no option {asked}; smofi --help lists the commands"
    if asked in ("help", "version"):
        return f"there is no command {asked}: write smofi --{asked}"
    return f"there is no command {asked}{_near(asked, commands)}; the commands are {', '.join(commands)}"


def _command(app: App, words: Sequence[str]) -> App:
    return reduce(lambda found, word: found[word], words, app)


def _too_many(command: str, extra: str, app: App) -> str:
    places = [one for one in app.assemble_argument_collection() if one.index is not None]
    if not places:
        return f"{command} takes no arguments, but {extra} is given"
    takes = " and ".join(_name(one) for one in places)
    meant = f", {_help(places[0])}" if len(places) == 1 and _help(places[0]) else ""
    return f"{extra} is one argument too many: {command} takes {'one ' * (len(places) == 1)}{takes}{meant}"


def _missing(command: str, argument: Argument, keyword: str | None, typed: Typed) -> str:
    if argument.index is not None:
        return f"{command} needs {_name(argument)}" + (f", {_help(argument)}" if _help(argument) else "")
    flag = keyword or argument.name
    if flag not in typed.arguments and _help(argument):
        return f"{command} needs {flag}, {_help(argument)}"
    place = typed.arguments.index(flag) + 1 if flag in typed.arguments else len(typed.arguments)
    follows = f", but {typed.arguments[place]} follows" if place < len(typed.arguments) else ""
    return f"{flag} needs a value{follows}"


def _expected(argument: Argument, value: str) -> str:
    kinds_of = (argument.hint, *get_args(argument.hint))  # of an optional setting, None is one more
    choices = [one for kind in kinds_of for one in get_args(kind) if isinstance(one, str)]
    if choices:
        return f"expected one of {', '.join(choices)}{_near(value, choices)}"
    kinds = [KINDS[kind] for kind in (argument.hint, *get_args(argument.hint)) if kind in KINDS]
    return f"expected {' or '.join(kinds) or 'another value'}"


def _rewritten(typed: Typed, sentence: str, missing: bool) -> str | None:
    """What has to be written in another way: a file or a preset behind a flag that takes several values, such values
    with commas between them, a switch that is neither on nor off."""
    for flag in typed.lists:
        values = typed.values_after(flag)
        for place, value in enumerate(values):
            named = repr(value) in sentence
            if place and (missing or (named and (value in preset_names() or _exists(value)))):
                others = " ".join([flag, *(one for one in values if one != value)])
                return (
                    f"{value} follows {flag}, so it is read as one of its values; "
                    f"write it first: smofi {' '.join(typed.command)} {value} {others}"
                )
            if named and "," in value and "(" not in value and flag != "--seeds":  # which takes them
                return f"{flag} {value} is not accepted: write {flag} {' '.join(value.split(','))}"
    for flag in typed.switches:
        for value in typed.values_after(flag)[:1]:
            if sentence.startswith(f"{value} does not exist"):
                return f"{flag} {value} is not accepted: expected true or false"
    return None


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return False


def _name(argument: Argument) -> str:
    return argument.name.lstrip("-").upper()


def _help(argument: Argument) -> str:
    return (argument.parameter.help or "").partition(";")[0]


def _near(asked: str, names: Iterable[str]) -> str:
    near: Sequence[Any] = difflib.get_close_matches(asked, list(names), n=1, cutoff=0.6 if len(asked) < 5 else 0.7)
    return f" (did you mean {near[0]}?)" if near else ""
