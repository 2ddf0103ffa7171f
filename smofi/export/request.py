"""What is asked of an export: the formats by name, and what is refused before torch is loaded."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

from smofi.config import Config, run_config
from smofi.errors import InputError, check_choice, refuse
from smofi.later import function_later
from smofi.runs import RunFolder, folders_in

PARTS = ("client", "server")
FORMATS: dict[str, Callable[..., list[str]]] = {
    "safetensors": function_later("smofi.export.exporting", "write_safetensors"),
    "torch": function_later("smofi.export.exporting", "write_torch"),
    "onnx": function_later("smofi.export.exporting", "write_onnx"),
}


def check_request(folder: Path, destination: Path, formats: Sequence[str] | None, part: str | None) -> None:
    """Refuse what `export_run` would refuse without a look at the model."""
    chosen_formats(formats)
    checked_destination(destination)
    checked_config(RunFolder(folder))
    if part is not None:
        check_choice("part", part, PARTS)


def chosen_formats(formats: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Return the formats to write, in a fixed order, and what to say about those left out."""
    if formats is None:
        try:
            check_onnx()
        except InputError as error:
            return [name for name in FORMATS if name != "onnx"], [f"onnx is left out: {error}"]
        return list(FORMATS), []
    if isinstance(formats, str) or not formats:
        refuse("formats", formats, "one or more of " + ", ".join(FORMATS) + ", in a list")
    for name in formats:
        check_choice("formats", name, FORMATS)
    if "onnx" in formats:
        check_onnx()
    return [name for name in FORMATS if name in formats], []


def checked_destination(path: Path) -> Path:
    """Refuse a folder in which something would be lost."""
    if path.is_dir() and not any(path.iterdir()):
        return path
    if path.exists():
        refuse("destination", str(path), "a folder that is new or empty")
    return path


def check_onnx() -> None:
    """Refuse ONNX where the packages for it are missing."""
    for package in ("onnx", "onnxscript"):
        if importlib.util.find_spec(package) is None:
            raise InputError(f'{package} is not installed; it comes with: pip install "smofi[onnx]"')


def checked_config(folder: RunFolder) -> Config:
    """Return the configuration of a single run."""
    config = run_config(folder)
    if config is None:
        raise InputError(f"{folder.path} is not a run folder: it has no {folder.config_file.name}")
    if len(config.method) > 1:
        runs = ", ".join(str(one.path) for one in folders_in(folder.path))
        raise InputError(f"{folder.path} compares {len(config.method)} methods; export one of its runs: {runs}")
    return config
