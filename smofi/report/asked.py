"""Check what the commands are asked for, before anything is read: targets, formats, figures, and files to write."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from smofi.errors import InputError, check_choice, check_path, refuse
from smofi.files import read_regular, write_atomically

# --------------------------------------------------------------------------------------------------------------------
# The accuracy that rounds and hours are counted to, as it is written on the command line.

ACCEPTED = "a share of the baseline's best such as 0.9 or 1.0, or a fixed accuracy such as 70%"


@dataclass(frozen=True)
class Target:
    """A share of the best of the baseline with the same seed, or a fixed value."""

    share: float = 0.9
    fixed: float | None = None

    @classmethod
    def read(cls, text: str, field: str = "target") -> Target:
        plain = text.strip()
        fixed = plain.endswith("%")
        try:
            number = float(plain.removesuffix("%")) / (100 if fixed else 1)
        except ValueError:
            refuse(field, text, ACCEPTED)
        if not 0 < number <= 1:
            refuse(field, text, ACCEPTED)
        return cls(fixed=number) if fixed else cls(share=number)


# --------------------------------------------------------------------------------------------------------------------
# A figure of finished runs.

KINDS = ("curves", "panels", "bars")
VALUES = ("accuracy", "mean", "rounds", "hours")
WIDTHS = ("column", "page")


@dataclass(frozen=True)
class Request:
    """The kind of figure, or None for what suits the runs; the values of bars and points; the setting that panels stand
    for, or that points stand over; whether curves are over hours; the target with its baseline; the width."""

    kind: str | None = None
    values: Sequence[str] = ("accuracy",)
    by: str | None = None
    over: str | None = None
    hours: bool = False
    target: Target = field(default_factory=Target)
    baseline: str = "fedavg"
    width: str | None = None

    def __post_init__(self) -> None:
        for value in self.values:
            check_choice("value", value, VALUES)
        for name, options in (("kind", KINDS), ("width", WIDTHS)):
            if getattr(self, name) is not None:
                check_choice(name, getattr(self, name), options)
        for name in ("kind", "by"):
            if self.over is not None and getattr(self, name) is not None:
                refuse("over", self.over, f"no --{name} with it: it draws points")
        if self.kind == "curves" and self.by is not None:
            refuse("by", self.by, "--kind panels or bars with it, or no --kind")
        if self.hours and (self.over or self.kind == "bars"):
            refuse("hours", True, "curves; bars and points show hours with --value hours")

    def check_curves(self, field: str) -> None:
        """Refuse a flag that is for curves where others are asked for."""
        if self.over or self.kind == "bars":
            refuse(field, True, "curves, without --over and --kind bars")


# --------------------------------------------------------------------------------------------------------------------
# Files to write. Nothing of the user's is replaced unasked: only what smofi wrote itself.

PICTURES = {".png": b"Software\0smofi", ".svg": b"<dc:title>smofi</dc:title>", ".pdf": b"/Creator (smofi)"}
"""Bytes that are in every picture of ours, by its suffix."""
TABLES = {"text": ".txt", "markdown": ".md", "latex": ".tex", "csv": ".csv"}
MADE = "Made by smofi compare"
"""In the first line of every table but CSV, which begins with its columns."""
PAGE = "<!doctype html>\n<!-- smofi report 1 -->\n"
"""The beginning of every page of ours."""
LARGEST = 64 * 2**20  # bytes of a file that is looked into


def format_of(wanted: str | None, output: Path | None) -> str:
    """Return the format that was asked for, else the one that the file's name ends in, else text."""
    if wanted is not None:
        return check_choice("format", wanted, tuple(TABLES))
    if output is None:
        return "text"
    for name, suffix in TABLES.items():
        if output.suffix.lower() == suffix:
            return name
    refuse("--output", str(output), f"a file name that ends in {', '.join(TABLES.values())}, or a --format")


def check_output(output: str | Path, field: str, kind: str, *, force: bool) -> Path:
    """Check a file that a "picture", a "table" or a "page" is to be written to: its name and its folder, and, unless
    `force`, that it is new or one of ours."""
    path = check_path(field, output)
    suffix, endings = path.suffix.lower(), {"picture": tuple(PICTURES), "table": (), "page": (".html", ".htm")}[kind]
    if endings and suffix not in endings:
        refuse(field, str(path), f"a file name that ends in {', '.join(endings[:-1])} or {endings[-1]}")
    try:
        there, writable = path.exists() or path.is_symlink(), path.parent.is_dir() and not path.is_dir()
    except (OSError, ValueError) as error:  # a name that is too long, or has a zero byte
        raise InputError(f"{field}={str(path)!r} is not accepted: {getattr(error, 'strerror', error)}") from None
    if not writable:
        refuse(field, str(path), "a file in a folder that exists")
    if there and not force:
        content = b""
        with suppress(InputError):  # no regular file, or a larger one than ours are
            content = read_regular(path, LARGEST, "a file")
        first = content.partition(b"\n")[0]
        ours = {
            "picture": PICTURES.get(suffix, PAGE.encode()) in content,
            "table": MADE.encode() in first or first.startswith(b"setup,"),
            "page": content.startswith(PAGE.encode()),
        }
        if not ours[kind]:
            refuse(field, str(path), f"a new file, or a {kind} that smofi wrote; --force replaces any other")
    return path


def write_file(path: Path, content: bytes) -> Path:
    """Write a file whole or not at all."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    return path
