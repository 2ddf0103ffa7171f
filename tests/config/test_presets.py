"""The presets against the paper's settings, as a table that was written from the paper."""

from __future__ import annotations

import pytest

from smofi.config import Config, read_config
from smofi.optim import parse_optimizer, sgd

# task: model, clients, partition, participation, B, lr, weight decay, factor per round, rounds
PAPER = {
    "cifar10": ("resnet18", 100, "dirichlet(0.2)", 0.2, 32, 0.05, 5e-4, 0.998, 1000),
    "cifar100": ("resnet18", 100, "dirichlet(0.2)", 0.2, 32, 0.05, 5e-4, 0.998, 600),
    "tiny-imagenet": ("resnet34", 200, "dirichlet(0.2)", 0.2, 64, 0.05, 1e-3, 0.998, 400),
    "shakespeare": ("transformer", 100, "natural", 0.2, 100, 0.01, 5e-4, 1.0, 250),
    "speech-commands": ("vgg11", 200, "dirichlet(0.2)", 0.1, 32, 0.01, 5e-4, 1.0, 300),
}

# FedAvgM's momentum, SlowMo's learning rate and momentum, SMoFi's global momentum, T
TUNED = {
    "cifar10": (0.3, 0.5, 0.4, 0.3, 75),
    "cifar100": (0.5, 1, 0.6, 0.5, 75),
    "tiny-imagenet": (0.5, 1, 0.6, 0.5, 40),
    "shakespeare": (0.7, 1, 0.6, 0.5, 115),
    "speech-commands": (0.5, 1, 0.6, 0.5, 15),
}

# Tiny-ImageNet's models: learning rate and weight decay
MODELS = {
    "vgg11": (0.01, 5e-4),
    "vgg16": (0.01, 5e-4),
    "mobilenetv2": (0.01, 5e-4),
    "resnet18": (0.05, 5e-4),
    "resnet34": (0.05, 1e-3),
    "densenet121": (0.05, 1e-3),
    "densenet169": (0.05, 1e-3),
}


def five(avgm: float, slow: float, slow_momentum: float, smofi: float, steps: int) -> tuple[str, ...]:
    """As a configuration has them, which leaves out defaults."""
    methods = (
        "fedavg",
        f"fedavgm(momentum={avgm})",
        f"slowmo(lr={slow}, momentum={slow_momentum}, steps={steps})",
        f"fednag(steps={steps})",
        f"smofi(global_momentum={smofi})",
    )
    return Config(method=methods).method


@pytest.mark.parametrize("name", PAPER)
def test_a_task_is_as_in_the_paper(name: str) -> None:
    model, clients, partition, participation, batch, lr, weight_decay, lr_decay, rounds = PAPER[name]
    config = read_config(name, {})
    assert (config.model, config.width, config.norm) == (model, None, None)
    assert (config.clients, config.partition, config.participation) == (clients, partition, participation)
    assert (config.batch_size, config.local_epochs, config.cut, config.rounds) == (batch, 5, "2", rounds)
    assert parse_optimizer(config.optimizer) == sgd(lr, 0.9, weight_decay=weight_decay, lr_decay=lr_decay)
    assert config.method == five(*TUNED[name])


@pytest.mark.parametrize("model", MODELS)
def test_a_model_on_tiny_imagenet_is_as_in_the_paper(model: str) -> None:
    lr, weight_decay = MODELS[model]
    optimizer = sgd(lr, 0.9, weight_decay=weight_decay, lr_decay=0.998)
    config, whole = read_config(f"tiny-imagenet-{model}", {}), read_config("tiny-imagenet", {})
    assert parse_optimizer(config.optimizer) == optimizer
    changed = {"model": model, "rounds": 150, "optimizer": config.optimizer}
    assert config == Config(**whole.model_dump() | changed)
    assert config.method == five(0.5, 1, 0.6, 0.5, 40)


@pytest.mark.parametrize(("name", "steps"), [("shakespeare", 47), ("speech-commands", 14)])
def test_the_small_text_and_speech_have_the_papers_five_with_their_own_steps(name: str, steps: int) -> None:
    *tuned, _ = TUNED[name]
    assert read_config(name, {}, scale="small").method == five(*tuned, steps=steps)
