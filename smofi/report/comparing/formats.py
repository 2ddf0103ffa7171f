"""What a table's target may be, what the table can be written as, and into which file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from smofi.errors import InputError, check_choice, refuse
from smofi.files import write_atomically

# --------------------------------------------------------------------------------------------------------------------
# The accuracy that rounds and hours are counted to, as it is written on the command line.


ACCEPTED = "a share of the baseline's best such as 0.9 or 1.0, or a fixed accuracy such as 70%"


@dataclass(frozen=True)
class Target:
    """A share of the best of the baseline with the same seed, or a fixed value.

    >>> Target.read("0.9"), Target.read("70%")
    (Target(share=0.9, fixed=None), Target(share=0.9, fixed=0.7))
    """

    share: float = 0.9
    fixed: float | None = None

    @classmethod
    def read(cls, text: str, field: str = "target") -> Target:
        """From what was typed; refused with a sentence that names the field."""
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
# What a table can be written as, and into which file.

SUFFIXES = {"text": ".txt", "markdown": ".md", "latex": ".tex", "csv": ".csv"}
FORMATS = tuple(SUFFIXES)
MADE = "Made by smofi compare"
"""In the first line of every file but CSV, which begins with its columns."""
FIRST_COLUMNS = "setup,"


def format_of(wanted: str | None, output: Path | None) -> str:
    """The format that was asked for, else the one that the file's name ends in, else text.

    >>> format_of(None, Path("table.tex")), format_of("csv", None), format_of(None, None)
    ('latex', 'csv', 'text')
    """
    if wanted is not None:
        return check_choice("format", wanted, FORMATS)
    if output is None:
        return "text"
    for name, suffix in SUFFIXES.items():
        if output.suffix.lower() == suffix:
            return name
    refuse("--output", str(output), f"a file name that ends in {', '.join(SUFFIXES.values())}, or a --format")


def check_new(output: Path, force: bool) -> Path:
    """A file that may be written: a new one or a table of ours, unless `force`, in a folder that exists."""
    try:
        there, folder = output.exists() or output.is_symlink(), output.parent.is_dir()
    except (OSError, ValueError) as error:  # a name that is too long, or has a zero byte
        raise InputError(f"--output={str(output)!r} is not accepted: {getattr(error, 'strerror', error)}") from None
    if output.is_dir() or not folder:
        refuse("--output", str(output), "a file in a folder that exists")
    if there and not force and not _is_ours(output):
        refuse("--output", str(output), "a new file, or a table that smofi wrote; --force replaces any other")
    return output


def _is_ours(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            first = file.readline(100).decode(errors="replace")
    except OSError:
        return False
    return path.is_file() and (MADE in first or first.startswith(FIRST_COLUMNS))


def write_table(output: Path, text: str) -> Path:
    """Write the file whole or not at all."""
    try:
        write_atomically(output, text.encode())
    except OSError as error:
        raise InputError(f"{output} cannot be written: {error.strerror}") from None
    return output
