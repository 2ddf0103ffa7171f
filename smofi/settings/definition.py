"""What a setting is: its definition, what it accepts, and several seeds as they are written."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from smofi.clock.devices import PHONES, read_phones
from smofi.cut import read_cut
from smofi.data.partitions import PREFIX as SAVED
from smofi.data.partitions import parse as parse_partition
from smofi.engine.cohort.execution import parse_executor
from smofi.errors import SmofiError, check_choice, check_count, check_flag, check_number, check_seed, check_size, refuse
from smofi.later import torch
from smofi.methods import method_name

# --------------------------------------------------------------------------------------------------------------------
# What a setting accepts. A check returns the value to keep, or refuses it in a sentence.


Accept = Callable[[str, Any], Any]
"""A function of a setting's name and a value."""

DEVICES = (
    *("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy"),
    *("vulkan", "mps", "meta", "hpu", "mtia", "privateuseone"),
)
"""The kinds of devices that torch has names for. Packages can add more, which torch knows once it is loaded."""


@dataclass(frozen=True)
class Check:
    """What a setting accepts: what `accept` does, and None if it is `optional`.

    Called, it takes values as Python has them. `read` is for files and flags, where "5" is a number and "null" is None:
    `from_text` turns text into such a value.

    >>> count("rounds", 5), count.read("rounds", "5"), optional(count).read("patience", "null")
    (5, 5, None)
    """

    accept: Accept
    from_text: Callable[[str], Any] | None = None
    optional: bool = False

    def __call__(self, field: str, value: Any) -> Any:
        return None if self.optional and value is None else self.accept(field, value)

    def read(self, field: str, value: Any) -> Any:
        """The value that a file or a flag stands for; what is refused is shown as it was written."""
        alone = (
            value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value
        )  # of a flag that takes several
        if self.optional and alone in (None, "null", "none"):
            return None
        if self.from_text and isinstance(value, str):
            with suppress(ValueError, KeyError):
                return self(field, self.from_text(value))
        return self(field, value)


# --------------------------------------------------------------------------------------------------- numbers and words

count = Check(check_count, int)
flag = Check(check_flag, lambda text: {"true": True, "false": False}[text.lower()])
seed = Check(check_seed, int)
epochs = Check(partial(check_count, high=100_000), int)  # the order of all batches of a round is drawn at once
threads = Check(partial(check_count, high=1024), int)
workers = Check(partial(check_count, high=4096), int)


def number(**limits: Any) -> Check:
    """A number within limits, as `check_number` takes them."""
    return Check(partial(check_number, **limits), float)


def one_of(options: Iterable[str]) -> Check:
    """One of several words."""
    return Check(lambda field, value: check_choice(field, value, options))


def optional(check: Check | Accept) -> Check:
    """The same, or None."""
    return replace(check, optional=True) if isinstance(check, Check) else Check(check, optional=True)


# ------------------------------------------------------------------------------------- strings that stand for something


def text_for(example: str, parse: Callable[[str], object]) -> Check:
    """A string that `parse` understands, kept with single spaces. A refusal by `parse` names the whole string."""

    def check(field: str, value: Any) -> str:
        if not isinstance(value, str):
            refuse(field, value, f'a string such as "{example}"')
        text = " ".join(value.split())
        try:
            parse(text)
        except SmofiError as error:
            whole = "" if str(error).startswith(f"{field}=") else f"{field}={value!r}: "
            raise type(error)(f"{whole}{error}") from None
        return text

    return Check(check)


def several(example: str, check_item: Accept) -> Check:
    """One string or a list of them, none twice."""

    def check(field: str, value: Any) -> tuple[str, ...]:
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, (list, tuple)) or not given:
            refuse(field, value, f"a value such as {example}, or a list of them")
        values = tuple(check_item(field, item) for item in given)
        if len(set(values)) < len(values):
            refuse(field, list(values), "each of them once")
        return values

    return Check(check)


def one_or_each(check_item: Accept) -> Check:
    """One value, or a list of them, one per method; how many methods there are shows later."""

    def check(field: str, value: Any) -> tuple[Any, ...]:
        if isinstance(value, (list, tuple)) and value:
            return tuple(check_item(field, item) for item in value)
        return (check_item(field, value),)

    return Check(check)


def executor(field: str, value: Any) -> str:
    """An executor as it is written in full, so that "vmap(3)" and "vmap(at_least=3)" are the same."""
    return str(parse_executor(text_for("vmap(at_least=3)", parse_executor)(field, value)))


def method(field: str, value: Any) -> str:
    """A method by its full name, so that "fedavgm(0.3)" and "fedavgm(momentum=0.3)" are the same. One of the user's own
    is not imported."""
    return method_name(text_for("fedprox(mu=0.01)+smofi", method_name)(field, value))


def cut(field: str, value: Any) -> str:
    """A cut in its string form; YAML may give a number, or a list with one per client."""
    if isinstance(value, (list, tuple)) and all(type(one) is int for one in value):
        text = "[" + ",".join(map(str, value)) + "]" if isinstance(value, list) else ",".join(map(str, value))
    elif isinstance(value, str) or type(value) is int:
        text = "".join(str(value).split())
    else:
        text = repr(value)
    read_cut(text)
    return text


def device(field: str, value: Any) -> str:
    """A device's name. Whether the machine has such a device shows when it is used."""
    text = str(value) if isinstance(value, str) or _is_device(value) else ""
    if (found := re.fullmatch(r"([a-z]\w*)(:(0|[1-9]\d?|1[01]\d|12[0-7]))?", text)) and found[1] in DEVICES:
        return text
    if found and entry_points(group="torch.backends"):
        with suppress(RuntimeError):
            return str(torch.device(text))
    refuse(field, value, "the name of a torch device, such as cpu or cuda:0")


def _is_device(value: Any) -> bool:
    return "torch" in sys.modules and isinstance(value, torch.device)


def partition(field: str, value: Any) -> str:
    """Return a partition in the one way that equal ones share; the path in "file:PATH" is left alone."""
    if not isinstance(value, str) or not value.startswith(SAVED):
        value = text_for("dirichlet(0.2)", parse_partition)(field, value)
    return str(parse_partition(value))


def folder(field: str, value: Any) -> str:
    """A folder's name. Whether it exists shows when it is read."""
    if not isinstance(value, (str, Path)) or not str(value):
        refuse(field, value, "the path of a folder")
    return str(value)


def column(field: str, value: Any) -> str:
    """A column's name. Whether there is one shows when the file is read."""
    if not isinstance(value, str) or not value.strip():
        refuse(field, value, "the name of a column")
    return value.strip()


def size(field: str, value: Any) -> str:
    """A number of bytes, kept as it is written."""
    check_size(field, value)
    return str(value)


def names_or_csv(*names: str) -> Check:
    """One of these names, or a CSV file's. Whether the file exists shows when it is read."""

    def check(field: str, value: Any) -> str:
        if isinstance(value, (str, Path)) and (str(value) in names or str(value).endswith(".csv")):
            return str(value)
        refuse(field, value, f"{' or '.join(names)}, or the path of a .csv file")

    return Check(check)


def devices(field: str, value: Any) -> str:
    """Phones as they are written in full, or a CSV file's name."""
    if isinstance(value, str) and (named := read_phones(value)):
        return str(named)
    return str(names_or_csv(PHONES)(field, value))


# ------------------------------------------------------------------------------------------- arguments of `smofi.train`


def text_or(check: Accept, accepted: str, *kinds: Any) -> Accept:
    """In Python: a string by the check, or a value of one of these kinds."""

    def accept(field: str, value: Any) -> None:
        if isinstance(value, str):
            check(field, value)
        elif not isinstance(value, kinds):
            refuse(field, value, accepted)

    return accept


def checked_later(field: str, value: Any) -> None:
    """Accept anything: a better check follows once data and model are known."""


# --------------------------------------------------------------------------------------------------------------------
# Several seeds: how they are written, and read.

MOST = 1000
ACCEPTED = "seeds such as 0-2 or 0,3,5, each a whole number >= 0 and given once"


def read_seeds(field: str, value: Any) -> tuple[int, ...]:
    """The seeds that a text, a number or a list of them stands for, in the order given.

    >>> read_seeds("seeds", "0-2"), read_seeds("seeds", [7, "0-1"]), read_seeds("seeds", "0,3,5")
    ((0, 1, 2), (7, 0, 1), (0, 3, 5))
    """
    found: list[int] = []
    for seed in _each(field, value):
        found.append(check_seed(field, seed))
        if len(found) > MOST:
            refuse(field, value, f"at most {MOST} seeds")
    if not found or len(set(found)) < len(found):
        refuse(field, value, ACCEPTED)
    return tuple(found)


def _each(field: str, value: Any) -> Iterator[Any]:
    for item in value if isinstance(value, (list, tuple)) else [value]:
        if not isinstance(item, str):
            yield item
            continue
        for part in "".join(item.split()).split(","):
            span = re.fullmatch(r"(\d{1,40})(?:-(\d{1,40}))?", part)
            if not span or int(span[2] or span[1]) < int(span[1]):
                refuse(field, item, ACCEPTED)
            yield from range(int(span[1]), int(span[2] or span[1]) + 1)


several_seeds = Check(read_seeds)


def seeds_text(seeds: Sequence[int]) -> str:
    """Seeds as they are written, neighbours that follow each other as a range.

    >>> seeds_text([0, 1, 2]), seeds_text([0, 3, 5]), seeds_text([4]), seeds_text([7, 0, 1, 2])
    ('0-2', '0,3,5', '4', '7,0-2')
    """
    spans: list[list[int]] = []
    for seed in seeds:
        if spans and seed == spans[-1][-1] + 1:
            spans[-1].append(seed)
        else:
            spans.append([seed])
    return ",".join(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans)


# --------------------------------------------------------------------------------------------------------------------
# What the definition of a setting says.


class Same(Enum):
    """Stands for "the same as in a configuration"."""

    SAME = "same"


SAME = Same.SAME


@dataclass(frozen=True)
class Argument:
    """The argument of `smofi.train` with the setting's name: its default, its check and its help where they differ."""

    default: Any = SAME
    check: Accept | None = None
    help: str = ""


@dataclass(frozen=True)
class Setting:
    """One setting of a run.

    default     its value where none is given
    check       what it accepts, and in which words it refuses the rest
    help        a line for `smofi run --help`, the comments in YAML and the reference page
    argument    the argument of `smofi.train`, if there is one with the same meaning
    timing      whether it is a field of `smofi.Timing`
    resumable   whether it may change when a run is resumed
    computing   whether it says how a run is computed and kept, and not what is learnt: last bits at most depend on it
    page        the page of the documentation that says more

    Pydantic calls it to describe the setting in a JSON schema.
    """

    default: Any
    check: Check
    help: str
    argument: Argument | None = None
    timing: bool = False
    resumable: bool = False
    computing: bool = False
    page: str = ""

    def check_argument(self, field: str, value: Any) -> None:
        """Refuse what `smofi.train` does not accept."""
        check: Accept = (self.argument and self.argument.check) or self.check
        check(field, value)

    @property
    def argument_default(self) -> Any:
        """The default in `smofi.train`."""
        return self.default if self.argument is None or self.argument.default is SAME else self.argument.default

    @property
    def argument_help(self) -> str:
        """The line in `help(smofi.train)`."""
        return (self.argument and self.argument.help) or self.help

    def __call__(self, schema: dict[str, Any]) -> None:
        schema["resumable"] = self.resumable


def setting(default: Any, check: Check, help: str, **more: Any) -> Any:
    """The definition of a setting, as a field of a pydantic model; `more` as in `Setting`."""
    definition = Setting(default, check, help, **more)
    return Field(default, description=help, json_schema_extra=definition)


def definitions(model: type[BaseModel]) -> dict[str, Setting]:
    """The definitions of a model's settings, by name."""
    found = {name: field.json_schema_extra for name, field in model.model_fields.items()}
    return {name: definition for name, definition in found.items() if isinstance(definition, Setting)}


class Checked(BaseModel):
    """A model of settings, each checked by its definition."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _check_field(cls, value: Any, info: ValidationInfo) -> Any:
        assert info.field_name
        return definitions(cls)[info.field_name].check.read(info.field_name, value)
