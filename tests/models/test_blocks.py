"""A model in the manner of torchvision, cut by naming its pieces."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import smofi
from smofi.errors import InputError
from smofi.models.architectures import BasicBlock


class Network(nn.Module):
    """conv1, bn1, relu, maxpool, layers, avgpool, and a flatten that only `forward` knows of."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(2)
        self.layer1 = nn.Sequential(*(BasicBlock(4, 4, stride=1, norm="batch") for _ in range(2)))
        self.layer2 = nn.Sequential(BasicBlock(4, 8, stride=2, norm="batch"))
        self.avgpool, self.drop, self.fc = nn.AdaptiveAvgPool2d(1), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer2(self.layer1(self.maxpool(self.relu(self.bn1(self.conv1(x))))))
        out: Tensor = self.fc(self.drop(torch.flatten(self.avgpool(x), 1)))
        return out


STEM = ["conv1", "bn1", "relu", "maxpool"]
PIECES: list[Any] = [STEM, "layer1.0", "layer1.1", "layer2", ["avgpool", lambda x: x.flatten(1), "drop", "fc"]]
SAMPLE = torch.randn(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def network() -> Network:
    torch.manual_seed(0)
    model = Network()
    for _ in range(3):  # running statistics that are not 0 and 1
        model(SAMPLE)
    return model


def test_the_blocks_are_the_module_and_nothing_is_disturbed() -> None:
    model = network()
    model.bn1.eval()
    modes = [module.training for module in model.modules()]
    tensors = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    sample, random = SAMPLE.clone(), torch.get_rng_state()
    made = smofi.blocks(model, PIECES, sample=sample)
    assert [module.training for module in model.modules()] == modes
    assert made.training
    assert all(torch.equal(tensor, tensors[key]) for key, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.equal(sample, SAMPLE)
    assert list(dict(made.named_children())) == ["input", "core1", "core2", "core3", "output"]
    assert {id(p) for p in made.parameters()} == {id(p) for p in model.parameters()}
    assert made[1] is model.layer1[0]
    assert torch.equal(copy.deepcopy(made).eval()(SAMPLE), model.eval()(SAMPLE))


def test_modules_and_functions_are_pieces_too() -> None:
    model = network()
    pieces = [
        [model.conv1, model.bn1, torch.relu, nn.MaxPool2d(2)],
        [model.layer1, model.layer2],
        [model.avgpool, nn.Flatten(), model.drop, model.fc],
    ]
    made = smofi.blocks(model, pieces, sample=SAMPLE)
    assert "Function(relu)" in repr(made)
    assert list(dict(made[0].named_children())) == ["Conv2d", "BatchNorm2d", "relu", "MaxPool2d"]


HEAD: list[Any] = ["avgpool", nn.Flatten(), "drop", "fc"]


def raising(x: Tensor) -> Tensor:
    raise RuntimeError("out of luck")


@pytest.mark.parametrize(
    ("pieces", "sentence"),
    [
        ([STEM, ["layer2", *HEAD]], r"layer1\.0\..*conv1\.weight, .* and \d+ more are left out"),
        ([["conv1", "relu", "maxpool"], "layer1", "layer2", HEAD], r"bn1\.weight, bn1\.bias, bn1\.running_mean"),
        ([STEM, "layer1", "layer2", ["avgpool", nn.Flatten(), "fc"]], "drop is left out"),
        ([STEM, "layer1", ["layer1.1", "layer2"], HEAD], r"layer1\.1\..* is used twice, by layer1 and by layer1\.1"),
        ([STEM, "layer1", "layer2", [*HEAD, nn.Linear(3, 3)]], "weight of Linear does not belong to the module"),
        ([STEM, "layer1", "layer2", ["avgpool", "drop", "fc"]], "fc, in block 3, fails"),
        ([STEM, "layer1", "layer2", [raising, *HEAD]], "raising, in block 3, fails: out of luck"),
        ([["conv1", "bn1", "maxpool"], "layer1", "layer2", HEAD], "differ by up to 0"),
        ([STEM, "layer1", "layer2", [*HEAD, lambda x: x[:, :2]]], r"its shape is \(5, 3\), theirs \(5, 2\)"),
        ([STEM, "layer1", "layer2", [*HEAD, lambda x: [x]]], "not Tensor and list"),
        ([STEM, "layer3", HEAD], r"pieces='layer3'.*did you mean 'layer[12]'"),
        ([STEM, 3, HEAD], "pieces=3 "),
        ([STEM, [], HEAD], r"pieces=\[\].*at least one piece"),
        ([STEM], "at least two blocks"),
        ("conv1", "pieces='conv1'.*a list"),
    ],
)
def test_mistakes_are_named(pieces: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        smofi.blocks(network(), pieces, sample=SAMPLE)


def test_hidden_layers_and_what_is_no_module_or_no_sample_are_refused() -> None:
    model = network()
    hidden = [STEM, "layer1", "layer2", lambda x: model.fc(model.drop(model.avgpool(x).flatten(1)))]
    with pytest.raises(InputError, match=r"fc\.bias, drop are left out; what a function calls cannot be seen"):
        smofi.blocks(model, hidden, sample=SAMPLE)
    with pytest.raises(InputError, match="sample is not accepted"):
        smofi.blocks(network(), PIECES, sample=torch.zeros(2, 3, 8, 8))
    with pytest.raises(InputError, match=r"an nn\.Module"):
        smofi.blocks(lambda x: x, PIECES, sample=SAMPLE)  # type: ignore[arg-type]
