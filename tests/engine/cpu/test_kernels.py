"""The choice of convolution kernels."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from smofi.engine.cpu.kernels import convolutions, suits_onednn


def test_a_handful_of_tiny_images_is_left_to_torch() -> None:
    model = nn.Sequential(nn.Conv2d(1, 8, 3))
    assert not suits_onednn(model, batch_size=8, pixels=64)
    assert suits_onednn(model, batch_size=16, pixels=64)
    assert suits_onednn(model, batch_size=8, pixels=1024)


@pytest.mark.parametrize(
    ("layer", "safe"),
    [
        (nn.Conv2d(4, 8, 1, stride=2), False),
        (nn.Conv2d(4, 8, 1, stride=(1, 2)), False),
        (nn.Conv2d(32, 8, 1, stride=2, groups=8), False),
        (nn.Conv2d(4, 8, 1), True),
        (nn.Conv2d(4, 8, 3, stride=2), True),
        (nn.Conv2d(16, 8, 1, stride=2), True),
    ],
)
def test_layers_on_which_onednn_overruns_its_memory_are_left_to_torch(layer: nn.Conv2d, safe: bool) -> None:
    assert suits_onednn(nn.Sequential(layer), batch_size=32, pixels=1024) is safe


def test_the_setting_is_put_back_even_after_an_error() -> None:
    before = torch.backends.mkldnn.enabled
    with convolutions(onednn=False):
        assert not torch.backends.mkldnn.enabled
    with pytest.raises(ZeroDivisionError), convolutions(onednn=False):
        1 / 0  # noqa: B018
    assert torch.backends.mkldnn.enabled == before


def test_onednn_stays_off_where_torch_is_told_not_to_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    with convolutions(onednn=True):
        assert not torch.backends.mkldnn.enabled
    assert not torch.backends.mkldnn.enabled


def test_other_settings_of_onednn_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "deterministic", True)
    with convolutions(onednn=True):
        assert torch.backends.mkldnn.deterministic


def test_flags_that_are_frozen_are_set_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """By `mkldnn.flags`, as torch asks for after `torch.backends.disable_global_flags()`."""
    monkeypatch.setattr(torch.backends.mkldnn, "deterministic", True)
    with monkeypatch.context() as frozen:
        frozen.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", False)
        with pytest.raises(RuntimeError, match="disable_global_flags"):
            torch.backends.mkldnn.enabled = False
        with convolutions(onednn=False):
            assert not torch.backends.mkldnn.enabled
            assert torch.backends.mkldnn.deterministic
        assert torch.backends.mkldnn.enabled
        assert torch.backends.mkldnn.deterministic


@pytest.mark.slow
def test_a_narrow_resnet_trains_without_corrupting_memory() -> None:
    code = """
import torch
torch.set_num_threads(1)
from smofi import data, models, train
x, y = data.load("digits").train.tensors()
model = models.build("resnet8", seed=0, input_shape=(1, 8, 8), classes=10, width=4)
train(model, [(x[:320], y[:320])], rounds=20, participation=1.0, local_epochs=2, batch_size=16)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
