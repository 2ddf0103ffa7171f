"""The accuracy that rounds and hours are counted to, as it is written on the command line."""

from __future__ import annotations

from dataclasses import dataclass

from smofi.errors import refuse

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
