"""What a figure is to show, as it is asked for on the command line: checked before any run is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from smofi.errors import check_choice, refuse
from smofi.report.comparing.formats import Target

KINDS = ("curves", "panels", "bars")
VALUES = ("accuracy", "mean", "rounds", "hours")
WIDTHS = ("column", "page")


@dataclass(frozen=True)
class Request:
    """The kind of figure, or None for what suits the runs; the values of bars and points; the setting that panels stand
    for, or that points stand over; whether curves are over hours; the target with its baseline; the width.

    >>> Request(kind="pie")
    Traceback (most recent call last):
    smofi.errors.InputError: kind='pie' is not accepted: expected one of curves, panels, bars
    """

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

    @property
    def inches(self) -> Literal["column", "page"] | None:
        """The width, as figures take it."""
        return "column" if self.width == "column" else "page" if self.width == "page" else None
