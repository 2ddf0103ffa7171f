"""The command line that all programs understand."""

from __future__ import annotations

import argparse
from pathlib import Path


def options(description: str | None, repetitions: int | None = None) -> argparse.ArgumentParser:
    """How often to measure, and where the rows go."""
    parser = parser_for(description)
    parser.add_argument(
        "--repetitions", type=positive, default=repetitions, help="by default, as many as the model's setting says"
    )
    parser.add_argument("--results", type=Path, help="file for the rows, lines of JSON")
    return parser


def parser_for(description: str | None) -> argparse.ArgumentParser:
    """A parser that shows a program's docstring as it is."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def positive(text: str) -> int:
    """A whole number from one up.

    >>> positive("3")
    3
    """
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is not accepted: expected a whole number >= 1")
    return number
