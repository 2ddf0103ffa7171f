"""Lines that several items share."""

from __future__ import annotations

from smofi.reproduce.items.parts import Line
from smofi.reproduce.items.tasks import Task

THREE = ("CIFAR-10, Dir 0.2", "CIFAR-100, Dir 0.2", "Tiny-ImageNet, Dir 0.2")
"""The setups of the paper's two main tables."""


def five_on(task: Task, base: str = "FedAvg") -> tuple[Line, ...]:
    """A base alone, and with each of the four plugins.

    >>> from smofi.reproduce.items.tasks import FASHION
    >>> [line.method for line in five_on(FASHION, "FedNAR")][:2]
    ['fednar', 'fednar+fedavgm(momentum=0.3)']
    """
    written = task.bases[base]
    return tuple(
        Line(base, written)
        if method == "fedavg"
        else Line(f"{base} + {name}", method if written == "fedavg" else f"{written}+{method}")
        for name, method in task.five.items()
    )


def beside(task: Task, how: str = "Dir 0.2") -> tuple[str, ...]:
    """The setup of the paper's tables that is this task in full; for a small task all three.

    >>> from smofi.reproduce.items.tasks import CIFAR100
    >>> beside(CIFAR100, "IID")
    ('CIFAR-100, IID',)
    """
    three = tuple(one.replace("Dir 0.2", how) for one in THREE)
    return (f"{task.title}, {how}",) if task.scale == "full" else three
