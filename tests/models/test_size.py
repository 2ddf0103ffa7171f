"""Models larger than memory are refused by arithmetic, before anything is allocated."""

from __future__ import annotations

import pytest
import torch

from smofi import models
from smofi.cli import main
from smofi.errors import InputError
from smofi.memory import limited


@pytest.mark.parametrize(
    ("width", "said"),
    [
        ("200000", "4 copies of 3,280,020,000,010 parameters x 4 bytes = 52,480.3 GB"),
        ("1000000000", "it would have more than 2^60 parameters"),
        (str(2**63 - 1), "it would have more than 2^60 parameters"),
    ],
)
def test_a_width_without_measure_is_refused(width: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--model", "cnn", "--width", width]) == 2
    printed = capsys.readouterr().err
    assert f"--width {width} is not accepted: expected a model that fits into the " in printed
    assert printed.endswith(f"but {said}\n")


def test_a_limit_on_memory_counts_for_models() -> None:
    with limited("1MB"), pytest.raises(InputError, match=r"0 MB that memory_limit=1MB leaves, but 158,527,210 param"):
        models.build("cnn", seed=0, input_shape=(1, 32, 32), classes=10, width=390)


def test_without_a_width_it_is_the_model_that_is_named() -> None:
    with limited("1MB"), pytest.raises(InputError, match=r"^model='mlp' is not accepted: .* but [\d,]+ parameters x 4"):
        models.build("mlp", seed=0, input_shape=(10**7,), classes=10)


def test_counting_does_not_change_what_is_built() -> None:
    arguments = {"seed": 3, "input_shape": (1, 8, 8), "classes": 10}
    before = models.build("resnet8", **arguments).state_dict()
    with torch.device("meta"):  # where nothing is counted
        models.build("resnet8", **arguments)
    state = torch.get_rng_state()
    after = models.build("resnet8", **arguments).state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert torch.equal(torch.get_rng_state(), state)
