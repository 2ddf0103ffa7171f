"""Whole numbers of any length, from flags, files and Python, are refused in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from smofi.cli import main
from smofi.config import Config, read_config, sentence_of
from smofi.errors import InputError
from smofi.settings import Settings

WHOLE = [name for name, field in Settings.model_fields.items() if "int" in str(field.annotation)]
LONG = ["9" * 400, "9" * 5000, "-" + "9" * 5000]


def test_there_are_settings_that_are_whole_numbers() -> None:
    assert {"rounds", "clients", "batch_size", "seed", "width", "local_epochs", "eval_every"} <= set(WHOLE)


@pytest.mark.parametrize("digits", LONG, ids=["400", "5000", "-5000"])
@pytest.mark.parametrize("name", WHOLE)
def test_a_long_number_is_refused(name: str, digits: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", f"--{name.replace('_', '-')}={digits}"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: {name}=")
    assert "a whole number >= " in printed
    assert printed.count("\n") == 1
    assert len(printed) < 700

    (tmp_path / "c.yaml").write_text(f"{name}: {digits}\n")
    with pytest.raises(InputError, match=f"line 1: {name}: |digits"):
        read_config(tmp_path / "c.yaml")

    with pytest.raises(ValidationError) as refused:
        Config(**{name: 10 ** len(digits) * (-1 if digits[0] == "-" else 1)})
    assert "a whole number >= " in sentence_of(refused.value)


@pytest.mark.parametrize("name", ["nonsense", "method", "data", "participation", "norm", "cut", "memory_limit"])
def test_other_settings_name_it_too(name: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Config(**{name: 10**5000})
    assert sentence_of(refused.value).startswith(f"{name}=")


def test_as_many_epochs_as_can_be_drawn_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--local-epochs", "100001"]) == 2
    assert "a whole number >= 1 and <= 100000" in capsys.readouterr().err
