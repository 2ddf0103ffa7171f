"""Define a setting: what it accepts, and what its definition says."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from types import NoneType
from typing import Any, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from smofi.clock.devices import PHONES, read_phones
from smofi.cut import read_cut
from smofi.data.partitions import PREFIX as SAVED
from smofi.data.partitions import parse as parse_partition
from smofi.engine.cohort.execution import parse_executor
from smofi.errors import SmofiError, check_choice, check_count, check_number, check_seed, check_size, refuse
from smofi.later import torch
from smofi.methods import method_name

# --------------------------------------------------------------------------------------------------------------------
# What the definition of a setting says.

Check = Callable[[str, Any], Any]
"""What a setting accepts: a function of its name and a value that returns the value to keep, or refuses it."""


@dataclass(frozen=True)
class Setting:
    """One setting of a run.

    check           what it accepts, and in which words it refuses the rest
    help            a line for `smofi run --help`, the comments in YAML and the reference page
    default         its value where none is given
    argument        what the argument of `smofi.train` with its name accepts, if there is one
    argument_help   a line for `help(smofi.train)`, if not the same
    timing          whether it is a field of `smofi.Timing`
    resumable       whether it may change when a run is resumed
    computing       whether it says how a run is computed and kept, and not what is learnt, except for last bits
    page            the page of the documentation that says more
    served          what it means where clients are real, if that is something else
    unserved        where clients are real and it means nothing: what is accepted, and why
    """

    check: Check
    help: str
    default: Any
    argument: Check | None = None
    argument_help: str = ""
    timing: bool = False
    resumable: bool = False
    computing: bool = False
    page: str = ""
    served: str = ""
    unserved: str = ""


def setting(default: Any, check: Check, help: str, **more: Any) -> Any:
    """Define a setting, as a field of a pydantic model; `more` as in `Setting`."""
    definition: Any = {"setting": Setting(check, help, default, **more)}
    return Field(default, description=help, json_schema_extra=definition)


def definition_of(field: FieldInfo) -> Setting:
    """Return the definition of a setting that is a field of a pydantic model."""
    found: Any = field.json_schema_extra
    return cast(Setting, found["setting"])


FROM_TEXT: dict[type, Callable[[str], Any]] = {
    int: int,
    float: float,
    bool: lambda text: {"true": True, "false": False}[text.lower()],
}


class Checked(BaseModel):
    """A model of settings, each checked by its definition. Of a file or a flag, "5" is a number and "null" is None."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _check_field(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        field = cls.model_fields[name]
        check, kinds = definition_of(field).check, get_args(field.annotation) or (field.annotation,)
        alone = value[0] if isinstance(value, list) and len(value) == 1 else value  # of a flag that takes several
        if NoneType in kinds and alone in (None, "null", "none"):
            return None
        for read in (FROM_TEXT[one] for one in kinds if one in FROM_TEXT and isinstance(value, str)):
            with suppress(ValueError, KeyError):  # what is refused is shown as it was written
                return check(name, read(value))
        return check(name, value)


# --------------------------------------------------------------------------------------------------------------------
# What settings accept.

epochs = partial(check_count, high=100_000)  # the order of all batches of a round is drawn at once
threads = partial(check_count, high=1024)
workers = partial(check_count, high=4096)


def one_of(options: Iterable[str]) -> Check:
    return partial(check_choice, options=list(options))


def number(**limits: Any) -> Check:
    """Accept a number within limits, as `check_number` takes them."""
    return partial(check_number, **limits)


def optional(check: Check) -> Check:
    return lambda field, value: None if value is None else check(field, value)


def text_for(example: str, parse: Callable[[str], object]) -> Check:
    """Accept a string that `parse` understands, and keep it with single spaces; a refusal names the whole string."""

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

    return check


def text_or(check: Check, accepted: str, *kinds: Any) -> Check:
    """Accept, in Python, a string by the check, or a value of one of these kinds."""

    def accept(field: str, value: Any) -> None:
        if isinstance(value, str):
            check(field, value)
        elif not isinstance(value, kinds):
            refuse(field, value, accepted)

    return accept


def anything(field: str, value: Any) -> None:
    """Accept anything, in Python: a better check follows once data and model are known."""


def several(example: str, check_item: Check) -> Check:
    """Accept one string or a list of them, none twice."""

    def check(field: str, value: Any) -> tuple[str, ...]:
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, (list, tuple)) or not given:
            refuse(field, value, f"a value such as {example}, or a list of them")
        values = tuple(check_item(field, item) for item in given)
        if len(set(values)) < len(values):
            refuse(field, list(values), "each of them once")
        return values

    return check


def executor(field: str, value: Any) -> str:
    """Accept an executor, written in full: "vmap(3)" and "vmap(at_least=3)" are the same."""
    return str(parse_executor(text_for("vmap(at_least=3)", parse_executor)(field, value)))


def executors(field: str, value: Any) -> tuple[str, ...]:
    """Accept one executor, or a list with one per method; how many methods there are shows later."""
    given = value if isinstance(value, (list, tuple)) and value else [value]
    return tuple(executor(field, one) for one in given)


def method(field: str, value: Any) -> str:
    """Accept a method, by its full name: "fedavgm(0.3)" and "fedavgm(momentum=0.3)" are the same. None of the user's
    own is imported.
    """
    return method_name(text_for("fedprox(mu=0.01)+smofi", method_name)(field, value))


def cut(field: str, value: Any) -> str:
    """Accept a cut as a string; YAML may give a number, or a list with one per client."""
    if isinstance(value, (list, tuple)) and all(type(one) is int for one in value):
        text = "[" + ",".join(map(str, value)) + "]" if isinstance(value, list) else ",".join(map(str, value))
    elif isinstance(value, str) or type(value) is int:
        text = "".join(str(value).split())
    else:
        text = repr(value)
    read_cut(text)
    return text


DEVICES = (
    *("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy"),
    *("vulkan", "mps", "meta", "hpu", "mtia", "privateuseone"),
)
"""The kinds of devices that torch has names for. Packages can add more, which torch knows once it is loaded."""


def device(field: str, value: Any) -> str:
    """Accept a device's name. Whether the machine has such a device shows when it is used."""
    given = isinstance(value, str) or ("torch" in sys.modules and isinstance(value, torch.device))
    text = str(value) if given else ""
    if (found := re.fullmatch(r"([a-z]\w*)(:(0|[1-9]\d?|1[01]\d|12[0-7]))?", text)) and found[1] in DEVICES:
        return text
    if found and entry_points(group="torch.backends"):
        with suppress(RuntimeError):
            return str(torch.device(text))
    refuse(field, value, "the name of a torch device, such as cpu or cuda:0")


def partition(field: str, value: Any) -> str:
    """Accept a partition, in the one way that equal ones share; the path in "file:PATH" is left alone."""
    if not isinstance(value, str) or not value.startswith(SAVED):
        value = text_for("dirichlet(0.2)", parse_partition)(field, value)
    return str(parse_partition(value))


def folder(field: str, value: Any) -> str:
    """Accept a folder's name. Whether it exists shows when it is read."""
    if not isinstance(value, (str, Path)) or not str(value):
        refuse(field, value, "the path of a folder")
    return str(value)


def column(field: str, value: Any) -> str:
    """Accept a column's name. Whether there is one shows when the file is read."""
    if not isinstance(value, str) or not value.strip():
        refuse(field, value, "the name of a column")
    return value.strip()


def size(field: str, value: Any) -> str:
    """Accept a number of bytes, kept as it is written."""
    check_size(field, value)
    return str(value)


def names_or_csv(*names: str) -> Check:
    """Accept one of these names, or a CSV file's. Whether the file exists shows when it is read."""

    def check(field: str, value: Any) -> str:
        if isinstance(value, (str, Path)) and (str(value) in names or str(value).endswith(".csv")):
            return str(value)
        refuse(field, value, f"{' or '.join(names)}, or the path of a .csv file")

    return check


def devices(field: str, value: Any) -> str:
    """Accept phones, written in full, or a CSV file's name."""
    if isinstance(value, str) and (named := read_phones(value)):
        return str(named)
    return str(names_or_csv(PHONES)(field, value))


# --------------------------------------------------------------------------------------------------------------------
# Several seeds: how they are written, and read.

MOST = 1000
ACCEPTED = "seeds such as 0-2 or 0,3,5, each a whole number >= 0 and given once"


def read_seeds(field: str, value: Any) -> tuple[int, ...]:
    """Return the seeds that a text, a number or a list of them stands for, in the order given.

    >>> read_seeds("seeds", "0-2"), read_seeds("seeds", [7, "0-1"]), read_seeds("seeds", "0,3,5")
    ((0, 1, 2), (7, 0, 1), (0, 3, 5))
    """

    def each() -> Iterator[Any]:
        for item in value if isinstance(value, (list, tuple)) else [value]:
            for part in "".join(item.split()).split(",") if isinstance(item, str) else ():
                span = re.fullmatch(r"(\d{1,40})(?:-(\d{1,40}))?", part)
                if not span or int(span[2] or span[1]) < int(span[1]):
                    refuse(field, item, ACCEPTED)
                yield from range(int(span[1]), int(span[2] or span[1]) + 1)
            if not isinstance(item, str):
                yield item

    found: list[int] = []
    for seed in each():
        found.append(check_seed(field, seed))
        if len(found) > MOST:
            refuse(field, value, f"at most {MOST} seeds")
    if not found or len(set(found)) < len(found):
        refuse(field, value, ACCEPTED)
    return tuple(found)


def seeds_text(seeds: Sequence[int]) -> str:
    """Write seeds, neighbours that follow each other as a range.

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
