"""Define what all commands share: the program, its console, the flags, and the configuration they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import pydantic
from cyclopts import App, Group, Parameter
from rich.console import Console

import smofi
from smofi.config import Config, Settings, read_config
from smofi.config.definition import seeds_text
from smofi.config.reading import stored_config
from smofi.config.settings import SERVED_DEFAULTS, SERVED_HELP, SETTINGS, UNSERVED
from smofi.errors import InputError, SmofiError, refuse

if TYPE_CHECKING:
    from smofi.data.decoded import ReadProgress

NARROWEST = 20
SEVERAL = "Options marked with dots take one or more values: --method fedavg smofi.\n"
SWITCHES = "Those without a value are on or off: --compile, --compile false, --no-compile.\n"
OPTIONAL = "An optional setting is left out with null: --max-train null.\n\n"
HOW_TO_WRITE = SEVERAL + SWITCHES + OPTIONAL


def default_as_typed(value: Any) -> str | None:
    """Write a default as an option would give it; none is shown for what is off or not given.

    >>> default_as_typed(("fedavg", "smofi")), default_as_typed(100.0), default_as_typed(False)
    ('fedavg smofi', '100', None)
    """
    if value is None or value is False:
        return None
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


console = Console()
if console.width < NARROWEST:  # in which nothing can be drawn: then the terminal wraps lines
    console.width = NARROWEST
app = App(
    name="smofi",
    help="Split federated learning that works on heterogeneous data. Start with: smofi run",
    version=smofi.__version__,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    console=console,
    help_format="plaintext",  # Markdown takes a tenth of a second to load
    default_parameter=Parameter(show_default=default_as_typed, negative_bool=(), negative_iterable=()),
    group_parameters=Group("Options", sort_key=-1),
)
COMMAND_LINE: list[str] = []
"""What this command was called with, for the workers it starts and for the record."""


def command(
    *examples: str, options: str = "", name: str | None = None, of: App = app
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Make a function a command, after those that are there; below its help stand how options are written, and
    examples."""

    def add(function: Callable[..., int]) -> Callable[..., int]:
        heading = [f"Example{'s' * (len(examples) > 1)}:"] if examples else []
        below = options + "\n".join([*heading, *examples])
        of.command(function, name=name, help_epilogue=below or None, sort_key=len(list(of)))
        return function

    return add


def print_line(text: object) -> None:
    """Print a line as it is: no colours, no wrapping."""
    console.print(str(text), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def reading(name: str) -> Iterator[ReadProgress]:
    """Show a bar on standard error while a data set is read; on a terminal only, and removed at the end."""
    from rich.progress import Progress

    terminal = Console(stderr=True)
    with Progress(console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        task = bar.add_task(f"reading {name}", total=None, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)


# --------------------------------------------------------------------------------------------------------------------
# Flags that several commands accept, and the configuration that follows from them.

RUNS = Path("runs")
"""Where runs are made and looked for, unless told otherwise."""

ONE_OR_MORE = Parameter(consume_multiple=(1, None))
"""Lets a flag take one or more values: `--method fedavg smofi`, or the flag again for each."""


def doc(help: str) -> Parameter:
    return Parameter(help=help)


SECTIONS = {
    "data": "Data",
    "model": "Model, method and optimizer",
    "rounds": "Rounds",
    "validation": "Evaluating and stopping",
    "executor": "How it is computed",
    "clock": "Virtual time",
}
"""The groups of settings in the help, each by its first one."""


class ServedSettings(Settings):
    """The flags of a server: its help leaves out settings that it refuses, and says what others mean to it."""


_group = None
for _name, _field in Settings.model_fields.items():
    _group = Group.create_ordered(SECTIONS[_name]) if _name in SECTIONS else _group
    _served: dict[str, Any] = {"show": _name not in UNSERVED}
    if _name in SERVED_HELP:
        _served["help"] = SERVED_HELP[_name]
    if _name in SERVED_DEFAULTS:
        _served["show_default"] = lambda shown, value=SERVED_DEFAULTS[_name]: str(value)
    _field.metadata.append(Parameter(group=_group))  # which cyclopts alone looks at
    ServedSettings.model_fields[_name].metadata = [*_field.metadata, Parameter(**_served)]

NONE_GIVEN, NONE_SERVED = Settings(), ServedSettings()
FLAT = Parameter(name="*", negative_bool="no-")
Flags: TypeAlias = Annotated[Settings, FLAT, ONE_OR_MORE]
ServedFlags: TypeAlias = Annotated[ServedSettings, FLAT, ONE_OR_MORE]
Source: TypeAlias = Annotated[str | None, doc("a YAML file or the name of a preset; options take precedence over it")]
Scale: TypeAlias = Annotated[str | None, doc("size of a preset: full, or small for a version that suits a CPU")]
NewRun: TypeAlias = Annotated[Path | None, doc("the folder of the new run; by default one below runs/")]
Folder: TypeAlias = Annotated[Path, doc("the folder of a run")]
Runs: TypeAlias = Annotated[Path, doc("folders of runs or comparisons, or with several below them; by default runs")]
Display: TypeAlias = Annotated[
    Literal["auto", "live", "plain", "quiet", "jsonl"],
    doc("how progress is shown; auto: live on a terminal, plain elsewhere"),
]
Picture: TypeAlias = Annotated[Path | None, doc("also draw a picture into this file: .png, .svg or .pdf")]


def flag(setting: str) -> Parameter:
    """Return the flag of a setting, for a command that takes only some of them."""
    return doc(SETTINGS[setting].help)


def settings_given(flags: Settings) -> dict[str, Any]:
    """Return the settings that the command line names."""
    if {"seed", "seeds"} <= flags.model_fields_set:
        refuse("seeds", seeds_text(flags.seeds or ()), "--seed or --seeds, not both")
    return {name: getattr(flags, name) for name in flags.model_fields_set}


def resolve(source: str | None, given: Mapping[str, Any], scale: str | None = None) -> Config:
    """Return the configuration from a file, a preset or the defaults, with the settings given."""
    if source is None and scale is not None:
        refuse("scale", scale, "the name of a preset too, for example: smofi run cifar10 --scale small")
    return Config(**given) if source is None else read_config(source, given, scale=scale)


def resolve_or_resume(
    source: str | None,
    given: Mapping[str, Any],
    scale: str | None,
    output: Path | None,
    resume: Path | None,
    *,
    served: bool = False,
) -> Config:
    """Return the configuration of a new run, or of the run in the folder `resume`, with the settings given."""
    if resume is None:
        return resolve(source, given, scale)
    if source is not None or output is not None or scale is not None:
        raise InputError("--resume is not accepted with a file, --scale or --output: the run's folder has its settings")
    return stored_config(resume, given, served=served)


def resolve_with_clock(source: str | None, given: Mapping[str, Any], scale: str | None) -> Config:
    """Return the configuration with a full clock, unless it has another; devices may be given without a clock."""
    full = resolve(source, {**given, "clock": "full"}, scale)
    with suppress(SmofiError, pydantic.ValidationError):
        if (config := resolve(source, given, scale)).clock != "none":
            return config
    return full
