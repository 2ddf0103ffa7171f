"""What the paper does not have: does SMoFi gain more with a deeper model, on data of this size? What does the
normalisation change, of which the paper says nothing? And what do smaller numbers at the cut cost?"""

from __future__ import annotations

from smofi.reproduce.items.lines import beside, five_on
from smofi.reproduce.items.parts import Changes, Item, Line, Panel
from smofi.reproduce.items.tasks import CIFAR10, FASHION, SMALL_CIFAR10

NORMS = {"BatchNorm": None, "GroupNorm of 2 groups": "group(2)"}

WIRES = {"fp32": None, "bf16": "bf16", "fp16": "fp16", "int8": "int8"}

SMALL_ROUNDS = 20
"""At small scale: a ResNet-18 takes minutes for each run of that length."""


def _depth(scale: str) -> tuple[Panel, ...]:
    task = CIFAR10 if scale == "paper" else SMALL_CIFAR10
    quick = Line("FedAvg + SMoFi, α = -1", f"smofi(alpha=-1, global_momentum={task.beta})")
    fewer: Changes = {} if scale == "paper" else {"rounds": SMALL_ROUNDS}
    models: dict[str, Changes] = {
        "ResNet-8": {"model": "resnet8", "width": 16, "cut": "1"},
        "ResNet-18": {"model": "resnet18", "width": None if scale == "paper" else 16, "cut": "2"},
    }
    return tuple(
        Panel(f"{task.title}, {name}", task, (*five_on(task), quick), {**changes, **fewer}, beside=beside(CIFAR10))
        for name, changes in models.items()
    )


def _norm(scale: str) -> tuple[Panel, ...]:
    task = CIFAR10 if scale == "paper" else FASHION
    lines = tuple(line for line in five_on(task) if line.label.split(" + ")[-1] in ("FedAvg", "FedAvgM", "SMoFi"))
    return tuple(Panel(f"{task.title}, {title}", task, lines, {"norm": norm}) for title, norm in NORMS.items())


def _wire(scale: str) -> tuple[Panel, ...]:
    """All but FedAvg with the split executed for real, as it is in a deployment."""
    task = CIFAR10 if scale == "paper" else FASHION
    formats = (
        Line(f"FedAvg + SMoFi, {name}", task.smofi, {"wire": wire, "executor": "loop"}) for name, wire in WIRES.items()
    )
    return (Panel(task.title, task, (Line("FedAvg", "fedavg"), *formats)),)


DEPTH = Item(
    "cifar10-depth",
    "A shallow and a deeper model",
    _depth,
    claims=("The paper says that SMoFi gains more with deeper models; it has no table of this.",),
    published="table1",
)
NORM = Item(
    "norm",
    "BatchNorm and GroupNorm",
    _norm,
    remarks=(
        "The paper does not say which normalisation its ResNets have. BatchNorm is ours everywhere else; GroupNorm of "
        "2 groups is what FedNAR's program has.",
    ),
)
WIRE = Item(
    "wire",
    "Smaller numbers at the cut",
    _wire,
    remarks=(
        "Activations and gradients cross the cut in this format, and training goes on with what arrives; weights "
        "travel as they are. A number takes 4 bytes in fp32, 2 in bf16 and fp16, 1 in int8, which has 4 more per "
        "sample.",
    ),
)
