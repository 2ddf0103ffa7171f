"""One seed or several: how they are written, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from smofi.cli import main
from smofi.config import Config, config_yaml, read_config, sentence_of
from smofi.errors import InputError
from smofi.settings import FIRST_SEEDS


@pytest.mark.parametrize(
    ("written", "seeds"),
    [
        (["--seeds", "0-2"], "0-2"),
        (["--seeds", "0", "1", "2"], "0-2"),
        (["--seeds", "0,3,5"], "0,3,5"),
        (["--seeds=7", "--seeds=0-1"], "7,0-1"),
        (["digits", "--seeds", "4,5"], "4-5"),
    ],
)
def test_ranges_and_lists_are_the_same_everywhere(
    written: list[str], seeds: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", *written, "--rounds", "3"]) == 0
    printed = capsys.readouterr().out
    assert "\nseed: null\n" in printed
    assert f"\nseeds: {seeds}\n" in printed
    (tmp_path / "my.yaml").write_text(printed)
    config = read_config(tmp_path / "my.yaml")
    assert config == Config(seeds=list(config.each_seed), rounds=3)
    assert config_yaml(config) == printed
    assert config.seed == config.each_seed[0]


@pytest.mark.parametrize("given", [{"seed": 4}, {"seeds": 4}, {"seeds": "4"}, {"seeds": [4]}, {"seeds": "4-4"}])
def test_a_single_seed_is_a_seed(given: dict[str, Any]) -> None:
    assert Config(**given, rounds=3) == Config(seed=4, rounds=3)
    assert Config(**given).each_seed == (4,)


def test_the_first_run_has_three_seeds_and_another_one_has_one() -> None:
    assert Config().seeds == Config(workers=1).seeds == FIRST_SEEDS == (0, 1, 2)
    assert Config(rounds=30).each_seed == Config(method="smofi").each_seed == (0,)


def test_one_takes_the_place_of_several_and_several_that_of_one(tmp_path: Path) -> None:
    (file := tmp_path / "my.yaml").write_text("seeds: 0-2\nrounds: 3\n")
    assert read_config(file, {"seed": 7}).each_seed == (7,)
    assert read_config(file, {"seeds": None}).each_seed == (0,)
    file.write_text("seed: 7\nrounds: 3\n")
    assert read_config(file, {"seeds": "1-2"}).each_seed == (1, 2)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("--seed 0 --seeds 0-2", "is not accepted: expected --seed or --seeds, not both"),
        ("--seeds 2-0", "is not accepted: expected seeds such as 0-2 or 0,3,5, each a whole number >= 0 "),
        ("--seeds 1,x", "is not accepted: expected seeds such as 0-2"),
        ("--seeds 1 1", "is not accepted: expected seeds such as 0-2"),
        ("--seeds 0-3,2", "is not accepted: expected seeds such as 0-2"),
        ("--seeds -1", "is not accepted: expected seeds such as 0-2"),
        ("--seeds 0-123456789012345678901234567890", "is not accepted: expected at most 1000 seeds"),
        (f"--seeds {'1,' * 300}1", "is not accepted: expected seeds such as 0-2"),
        ("--seeds", "--seeds requires at least 1 element"),
    ],
)
def test_a_refusal_names_the_flag_and_what_is_accepted(
    written: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("run", "plan", "advise", "config"):
        assert main([command, *written.split()]) == 2
        printed = capsys.readouterr().err
        assert sentence in printed
        assert printed.count("\n") == 1


def test_a_file_with_both_is_refused(tmp_path: Path) -> None:
    (file := tmp_path / "my.yaml").write_text("seed: 0\nseeds: 0-2\n")
    with pytest.raises(InputError, match=r"my.yaml has both seed and seeds: expected one of them"):
        read_config(file)
    file.write_text("rounds: 2\nseeds: 1-0\n")
    with pytest.raises(InputError, match=r"my.yaml, line 2: seeds: 1-0 is not accepted: expected seeds such as 0-2"):
        read_config(file)
    with pytest.raises(ValidationError) as refused:
        Config(seed=1, seeds="0-2")
    assert sentence_of(refused.value) == "seeds='0-2' is not accepted: expected seed or seeds, not both, and seed is 1"
