"""What the definition of a setting says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from smofi.settings.checks import Accept, Check


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
