"""What each setting accepts: a check per name, which returns the value as it is kept or refuses it in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from smofi.clock import CLOCKS
from smofi.cut import read_cut
from smofi.data import check_data_name
from smofi.data.augment import parse_augment
from smofi.data.partitions.kinds import parse as parse_partition
from smofi.data.partitions.saved import PREFIX as SAVED
from smofi.engine.cohort.choosing import EXECUTORS
from smofi.engine.cohort.wire import COMPRESSIONS
from smofi.engine.evaluate import CLIENT_METRICS, TEST_METRICS
from smofi.engine.memory.limit import parse_bytes
from smofi.errors import InputError, SmofiError, check_choice, check_count, check_flag, check_number, refuse
from smofi.methods import parse_method
from smofi.models import check_model_name
from smofi.models.norm import NORMS
from smofi.optim import parse_optimizer
from smofi.training import PRECISIONS

Check = Callable[[str, Any], Any]


def _optional(check: Check) -> Check:
    return lambda field, value: None if value in (None, "null", "none") else check(field, value)


def _read(convert: Callable[[str], Any], check: Check) -> Check:
    """Flags come as text: convert it, or let the check refuse it as it was written."""

    def read(field: str, value: Any) -> Any:
        if isinstance(value, str):
            with suppress(ValueError, KeyError):
                return check(field, convert(value))
        return check(field, value)

    return read


_count = _read(int, check_count)
_flag = _read({"true": True, "false": False}.__getitem__, check_flag)


def _number(**limits: Any) -> Check:
    return _read(float, partial(check_number, **limits))


def _choice(options: Any) -> Check:
    return lambda field, value: check_choice(field, value, options)


def _written(example: str, parse: Callable[[str], object]) -> Check:
    """A string that `parse` understands, kept with single spaces; what it refuses inside is said of the whole."""

    def check(field: str, value: Any) -> str:
        if not isinstance(value, str):
            refuse(field, value, f'a string, as "{example}"')
        text = " ".join(value.split())
        try:
            parse(text)
        except SmofiError as error:
            whole = "" if str(error).startswith(f"{field}=") else f"{field}={value!r}: "
            raise InputError(f"{whole}{error}") from None
        return text

    return check


def _method(field: str, value: Any) -> str:
    """A method by its full name, so that "fedavgm(0.3)" and "fedavgm(momentum=0.3)" are the same."""
    return parse_method(_written("fedprox(mu=0.01)+smofi", parse_method)(field, value)).name


def _several(example: str, one: Check) -> Check:
    """One string or a list of them, none twice."""

    def check(field: str, value: Any) -> tuple[str, ...]:
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, (list, tuple)) or not given:
            refuse(field, value, f"one, as {example}, or a list of them")
        kept = tuple(one(field, each) for each in given)
        if len(set(kept)) < len(kept):
            refuse(field, list(kept), "each one once")
        return kept

    return check


def _cut(field: str, value: Any) -> str:
    """A cut in its string form; YAML may give a number, or a list with one per client."""
    if isinstance(value, (list, tuple)) and all(type(one) is int for one in value):
        text = "[" + ",".join(map(str, value)) + "]" if isinstance(value, list) else ",".join(map(str, value))
    elif isinstance(value, str) or type(value) is int:
        text = "".join(str(value).split())
    else:
        text = repr(value)
    read_cut(text)
    return text


def _device(field: str, value: Any) -> str:
    """A device's name; whether there is such a device is found out when it is used."""
    if isinstance(value, (str, torch.device)):
        with suppress(RuntimeError):
            return str(torch.device(value))
    refuse(field, value, "the name of a torch device, as cpu or cuda:0")


def _partition(field: str, value: Any) -> str:
    """A partition as it is written; the path in "file:PATH" is left alone."""
    if isinstance(value, str) and value.startswith(SAVED):
        return str(parse_partition(value))
    return str(_written("dirichlet(0.2)", parse_partition)(field, value))


def _folder(field: str, value: Any) -> str:
    """A folder's name; whether it is there is found out when it is read."""
    if not isinstance(value, (str, Path)) or not str(value):
        refuse(field, value, "the path of a folder")
    return str(value)


def _bytes(field: str, value: Any) -> str:
    """A size, kept as it is written."""
    parse_bytes(field, value)
    return str(value)


def _names_or_csv(*names: str) -> Check:
    """One of these names, or a CSV file's; whether it is there is found out when it is read."""

    def check(field: str, value: Any) -> str:
        if isinstance(value, (str, Path)) and (str(value) in names or str(value).endswith(".csv")):
            return str(value)
        refuse(field, value, f"{' or '.join(names)}, or the path of a .csv file")

    return check


CHECKS: dict[str, Check] = {
    "data": check_data_name,
    "data_folder": _optional(_folder),
    "image_size": _optional(_count),
    "max_train": _optional(_count),
    "max_test": _optional(_count),
    "augment": _optional(_written("crop(4)+flip", parse_augment)),
    "clients": _count,
    "partition": _partition,
    "model": lambda field, value: check_model_name(value),
    "width": _optional(_count),
    "norm": _optional(_choice(NORMS)),
    "method": _several("smofi", _method),
    "optimizer": _written("sgd(lr=0.05, momentum=0.9)", parse_optimizer),
    "cut": _cut,
    "rounds": _count,
    "participation": _number(above=0, high=1),
    "local_epochs": _count,
    "batch_size": _count,
    "seed": _read(int, partial(check_count, low=0)),
    "device": _device,
    "validation": _number(low=0, below=1),
    "patience": _optional(_count),
    "target_accuracy": _optional(_number(above=0, high=1)),
    "eval_every": _count,
    "checkpoint_every": _count,
    "metrics": _several("top1", _choice((*TEST_METRICS, *CLIENT_METRICS))),
    "diagnose": _flag,
    "executor": _choice(EXECUTORS),
    "precision": _choice(PRECISIONS),
    "compile": _flag,
    "memory_limit": _optional(_bytes),
    "wire": _optional(_choice(COMPRESSIONS)),
    "clock": _choice(CLOCKS),
    "devices": _names_or_csv("phones"),
    "availability": _names_or_csv("always", "phones"),
    "server_speedup": _number(above=0),
    "server_parallel": _optional(_count),
    "step_deadline": _optional(_number(above=0)),
}
