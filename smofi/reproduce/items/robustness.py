"""Local momentum, other optimizers, other models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from smofi.reproduce.items.lines import five_on
from smofi.reproduce.items.parts import BARS, CURVES, MEAN, ROUNDS, Check, Claim, Item, Line, Panel
from smofi.reproduce.items.targets import ALL_OF_IT
from smofi.reproduce.items.tasks import CIFAR10, CIFAR100, FASHION, FASHION_HEAVY, TINY

SGD = "sgd(lr=0.05, momentum={}, weight_decay=5e-4, lr_decay=0.998)"
OPTIMIZERS = {
    "SGDM": SGD.format(0.9),
    "NAG": "sgd(lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4, lr_decay=0.998)",
    "Adam": "adam(lr=0.001, weight_decay=0, lr_decay=0.998)",
}
ADAMW = {"AdamW": "adamw(lr=0.001, weight_decay=0, lr_decay=0.998)"}
"""Without weight decay, as the paper says, it is Adam: at small scale it is not run again."""

SLOW_START: Mapping[str, Any] = {"optimizer": "sgd(lr=0.01, momentum=0.9, weight_decay=5e-4, lr_decay=0.998)"}
SMALL_MODELS: dict[str, Mapping[str, Any]] = {
    "CNN": {"model": "cnn", "width": 8, **SLOW_START},
    "ResNet-8": {},
    "ResNet-18": {"model": "resnet18", "width": 8, "cut": "2"},
    "MobileNetV2": {"model": "mobilenetv2", "width": 4, "cut": "2", **SLOW_START},
}
PAPER_MODELS = {
    "VGG-11": "vgg11",
    "VGG-16": "vgg16",
    "MobileNetV2": "mobilenetv2",
    "ResNet-18": "resnet18",
    "ResNet-34": "resnet34",
    "DenseNet-121": "densenet121",
    "DenseNet-169": "densenet169",
}
"""Each has a preset, with its own learning rate and weight decay, and 150 rounds."""

WITH, WITHOUT = "FedAvg with local momentum 0.9", "FedAvg without local momentum"


def _momentum(scale: str) -> tuple[Panel, ...]:
    task = CIFAR10 if scale == "paper" else FASHION
    lines = (
        Line(WITH, "fedavg"),
        Line(WITHOUT, "fedavg", {"optimizer": SGD.format(0)}),
    )
    return tuple(
        Panel(f"{task.title}, {title}", task, lines, {"partition": partition})
        for title, partition in (("Dir 0.5", "dirichlet(0.5)"), ("Dir 0.1", "dirichlet(0.1)"))
    )


def _optimizers(scale: str) -> tuple[Panel, ...]:
    task = CIFAR100 if scale == "paper" else FASHION_HEAVY
    kinds = OPTIMIZERS | (ADAMW if scale == "paper" else {})
    return tuple(
        Panel(f"{task.title}, {name}", task, five_on(task), {"optimizer": written}) for name, written in kinds.items()
    )


def _models(scale: str) -> tuple[Panel, ...]:
    if scale == "small":
        return tuple(
            Panel(f"{FASHION.title}, {name}", FASHION_HEAVY, five_on(FASHION_HEAVY), changes, ALL_OF_IT)
            for name, changes in SMALL_MODELS.items()
        )
    tasks = {name: replace(TINY, preset=f"{TINY.preset}-{model}") for name, model in PAPER_MODELS.items()}
    return tuple(Panel(f"{TINY.title}, {name}", task, five_on(task), target=ALL_OF_IT) for name, task in tasks.items())


MOMENTUM = Item(
    "fig-momentum",
    "Local momentum on and off",
    _momentum,
    source="fig:motivation",
    claims=(
        Claim("Momentum in local optimizers ends higher.", (Check(WITH, (WITHOUT,)),)),
        Claim("It slows learning down.", (Check(WITHOUT, (WITH,), ROUNDS),)),
        Claim(
            "The slowing is stronger the more heterogeneous the data.",
            (Check(WITHOUT, by=MEAN, panel=1, than=(0,), over=WITH),),
        ),
    ),
    remarks=("The paper names neither the data set nor the two distributions: both are chosen by us.",),
)
OPTIMIZER = Item(
    "fig-optimizers",
    "SMoFi and its counterparts under other local optimizers",
    _optimizers,
    source="fig:exp_various_optimizers",
    claims=(
        Claim("SMoFi ends higher than its counterparts under SGDM, NAG, Adam and AdamW.", (Check("FedAvg + SMoFi"),)),
        Claim("SMoFi is faster than they are.", (Check("FedAvg + SMoFi", by=ROUNDS),)),
    ),
    remarks=(
        "The paper uses Adam and AdamW without weight decay, where both are the same rule: its two panels should "
        "coincide. At small scale Adam is run alone.",
        "Whether Adam's learning rate decays by 0.998 a round is not said; here it does, as for SGD.",
    ),
)
MODELS = Item(
    "fig-models",
    "SMoFi and its counterparts with other models",
    _models,
    draw=(CURVES, BARS),
    source="fig:exp_various_models; curves as in fig:supp_learning_curve_varying_model",
    claims=(
        Claim("SMoFi improves accuracy with all models.", (Check("FedAvg + SMoFi", ("FedAvg",)),)),
        Claim("SMoFi improves speed with all models.", (Check("FedAvg + SMoFi", ("FedAvg",), ROUNDS),)),
        Claim(
            "The gain is larger for deeper or more complex models, such as DenseNet-121 and DenseNet-169.",
            (Check("FedAvg + SMoFi", by=MEAN, panel=2, than=(1,), over="FedAvg"),),
        ),
    ),
)
