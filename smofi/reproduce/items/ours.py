"""What the paper does not have: does SMoFi gain more with a deeper model, on data of this size? What do the reading of
Dirichlet and the normalisation change, of which the paper does not say which it means? Is it stale momentum at very
different sizes that costs SMoFi its lead? What if clients are of nearly one size, as with many classes? And what do
smaller numbers at the cut cost?"""

from __future__ import annotations

from smofi.reproduce.items.lines import THREE, beside, five_on
from smofi.reproduce.items.parts import MEAN, POINTS, Changes, Check, Claim, Item, Line, Panel
from smofi.reproduce.items.tasks import CIFAR10, CIFAR100, FASHION, FASHION_80, SMALL_CIFAR10

NORMS = {"BatchNorm": None, "GroupNorm of 2 groups": "group(2)"}

READINGS = {
    "by class, balanced": "dirichlet(0.2)",
    "by class": "dirichlet(0.2, balance=False)",
    "by client": "dirichlet(0.2, by='client')",
}

STALE = (-0.1, -1, -10)

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


def _partition(scale: str) -> tuple[Panel, ...]:
    task = CIFAR10 if scale == "paper" else FASHION
    return tuple(
        Panel(f"{task.title}, Dir 0.2 {reading}, {title}", task, five_on(task), {"partition": written, "norm": norm})
        for title, norm in NORMS.items()
        for reading, written in READINGS.items()
    )


def _staleness(scale: str) -> tuple[Panel, ...]:
    task = CIFAR10 if scale == "paper" else FASHION
    lines = tuple(
        Line(f"SMoFi, α = {alpha}", f"smofi(alpha={alpha}, global_momentum={task.beta})", value=f"{alpha}")
        for alpha in STALE
    )
    return tuple(
        Panel(f"{task.title}, Dir 0.2 {reading}", task, (Line("FedAvg", "fedavg"), *lines), {"partition": written})
        for reading, written in READINGS.items()
    )


def _many_classes(scale: str) -> tuple[Panel, ...]:
    """At full size CIFAR-100 itself has them."""
    task = CIFAR100 if scale == "paper" else FASHION_80
    quick = Line("FedAvg + SMoFi, α = -1", f"smofi(alpha=-1, global_momentum={task.beta})")
    beside = tuple(one for one in THREE if "CIFAR-10," not in one)
    return (Panel(f"{task.title}, Dir 0.2", task, (*five_on(task), quick), beside=beside),)


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
    claims=(
        Claim(
            "SMoFi gains more with deeper models. (The paper has no table of this.)",
            (Check("FedAvg + SMoFi", by=MEAN, panel=1, than=(0,), over="FedAvg"),),
        ),
    ),
    published="table1",
)
PARTITION = Item(
    "partition",
    "Three readings of Dirichlet, two normalisations",
    _partition,
    remarks=(
        "The paper supports more than one reading of its Dirichlet (partitions.md has all three), and does not name "
        "the normalisation: GroupNorm of 2 groups is what FedNAR's program has. All other tables have what the first "
        "panel has.",
    ),
)
STALENESS = Item(
    "staleness",
    "Stale momentum and the sizes of clients",
    _staleness,
    draw=(POINTS,),
    remarks=(
        "Sizes differ most by class, less by class with the balance rule, and hardly by client: so does the time for "
        "which the momentum of finished clients is fused.",
    ),
)
MANY_CLASSES = Item(
    "many-classes",
    "Many classes, and so clients of nearly one size",
    _many_classes,
    published="table1",
    remarks=(
        "At small scale, Fashion-MNIST in 80 classes: each article turned by 0, 90, 180 or 270 degrees, as it is or as "
        "a negative, is a class of its own. The sizes of clients then have a deviation of 0.12 of their mean; with "
        "CIFAR-100 it is 0.11, with Tiny-ImageNet 0.07, and with ten classes 0.53.",
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
