"""The paper's tables and figures as data: what varies, with which methods, and what the paper says of it.

An item has panels, a panel has lines to be compared with each other, and a line has a run for each seed. Tasks are
presets with the parameters that the paper tuned for them; claims name the comparisons by which they hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from statistics import fmean
from typing import Any

from smofi.config import Config
from smofi.config.presets import preset_text
from smofi.plain_yaml import parse_settings
from smofi.sweep.store import Cell

# --------------------------------------------------------------------------------------------------------------------
# The accuracy that a panel's methods have to reach.


@dataclass(frozen=True)
class Target:
    """A share of the best accuracy of the panel's first line, with the same seed; or `fixed`, one for all; or, with
    `rounded`, that share of the mean best over seeds, rounded down to a whole percent, one for all.

    >>> NINE_TENTHS.words("FedAvg"), Target(fixed=0.7).words("FedAvg")
    ('90 % of the best accuracy of FedAvg with the same seed', '70 %')
    """

    share: float = 0.9
    fixed: float | None = None
    rounded: bool = False

    def given(self, bests: list[float]) -> float | None:
        """The accuracy, where it is the same for all seeds; `bests` are those of the first line.

        >>> Target(rounded=True).given([0.83, 0.84])
        0.75
        """
        if self.rounded:
            return math.floor(100 * self.share * fmean(bests)) / 100
        return self.fixed

    def words(self, baseline: str) -> str:
        """What it is, in words."""
        if self.fixed is not None:
            return f"{100 * self.fixed:g} %"
        share = f"{100 * self.share:g} % of"
        if self.rounded:
            return f"{share} the mean best accuracy of {baseline}, rounded down to a whole percent"
        return f"{share} the best accuracy of {baseline} with the same seed"


NINE_TENTHS = Target()
ALL_OF_IT = Target(share=1.0)


# --------------------------------------------------------------------------------------------------------------------
# What is trained: a preset, and the paper's methods with the parameters it tuned for that task.

CLOCK: Mapping[str, Any] = {"clock": "paper"}
"""All runs have it, so that one run of FedAvg serves every item."""


@dataclass(frozen=True)
class Tuned:
    """What the paper tuned for a task: `beta` of SMoFi's global momentum and, unless `avgm` says otherwise, of FedAvgM;
    `slow` SlowMo's learning rate and momentum; `mu` FedProx's penalty."""

    beta: float
    slow: tuple[float, float]
    mu: float = 0.01
    avgm: float | None = None


LIGHT = Tuned(0.3, (0.5, 0.4))
HEAVY = Tuned(0.5, (1, 0.6))


@dataclass(frozen=True, eq=False)
class Task:
    """A preset at a scale, with the parameters of its methods; `steps` is the fixed number of local steps.
    Results with the settings of `stand_in` count as well: where we do not have the data itself."""

    title: str
    preset: str
    scale: str | None
    tuned: Tuned
    steps: int
    changes: Mapping[str, Any] = field(default_factory=lambda: CLOCK)
    stand_in: Mapping[str, Any] = field(default_factory=dict)

    def config(self, given: Mapping[str, Any]) -> Config:
        """The preset with these settings."""
        return Config(**{**_preset(self.preset, self.scale), **given})

    @property
    def beta(self) -> float:
        """Of the global momentum."""
        return self.tuned.beta

    @property
    def fedavgm(self) -> str:
        return f"fedavgm(momentum={self.tuned.avgm or self.beta})"

    @property
    def smofi(self) -> str:
        return f"smofi(global_momentum={self.beta})"

    @property
    def five(self) -> dict[str, str]:
        """FedAvg and the four plugins of the paper's Table 1, by their names there."""
        lr, momentum = self.tuned.slow
        return {
            "FedAvg": "fedavg",
            "FedAvgM": self.fedavgm,
            "SlowMo": f"slowmo(lr={lr:g}, momentum={momentum}, steps={self.steps})",
            "FedNAG": f"fednag(steps={self.steps})",
            "SMoFi": self.smofi,
        }

    @property
    def bases(self) -> dict[str, str]:
        """The three bases of Table 1."""
        return {"FedAvg": "fedavg", "FedProx": f"fedprox(mu={self.tuned.mu})", "FedNAR": "fednar"}


@cache
def _preset(name: str, scale: str | None) -> Mapping[str, Any]:
    """The settings of a preset, read once: an item has dozens of runs."""
    return parse_settings(preset_text(name, scale), f"preset {name}")


CIFAR10 = Task("CIFAR-10", "cifar10", "full", LIGHT, steps=75)
CIFAR100 = Task("CIFAR-100", "cifar100", "full", HEAVY, steps=75)
TINY = Task("Tiny-ImageNet", "tiny-imagenet", "full", replace(HEAVY, mu=0.1), steps=40)
SHAKESPEARE = Task("Shakespeare", "shakespeare", "full", replace(HEAVY, avgm=0.7), steps=115, changes={})
SPEECH = Task("Google Speech", "speech-commands", "full", HEAVY, steps=15, changes={})
IMAGES = (CIFAR10, CIFAR100, TINY)

FASHION = Task("Fashion-MNIST", "fashion-mnist", "small", LIGHT, steps=29)
FASHION_HEAVY = replace(FASHION, tuned=HEAVY)
"""With what the paper tuned for CIFAR-100 and Tiny-ImageNet, as in its figures of optimizers and of models."""
FASHION_80 = Task(
    "Fashion-MNIST in 80 classes",
    "fashion-mnist",
    "small",
    HEAVY,
    steps=29,
    changes={**CLOCK, "data": "python:smofi.reproduce.turned:fashion_80"},
)
"""Stands for CIFAR-100 and Tiny-ImageNet, whose clients are of nearly one size."""
SMALL_CIFAR10 = Task("CIFAR-10", "cifar10", "small", LIGHT, steps=29)


def images(scale: str) -> tuple[Task, ...]:
    """The paper's three image data sets; at small scale Fashion-MNIST, with what the paper tuned for CIFAR-10.

    >>> [task.title for task in images("small")]
    ['Fashion-MNIST']
    """
    return IMAGES if scale == "paper" else (FASHION,)


# --------------------------------------------------------------------------------------------------------------------
# What an item is made of: panels with lines, and each line with a run per seed.

Changes = Mapping[str, Any]
SCALES = ("small", "paper")
CURVES, HOURS, POINTS, BARS = "curves", "hours", "points", "bars"
"""Kinds of figures: accuracy over rounds, over hours; best accuracy and rounds over what varies, or as bars."""
BEST, MEAN, ROUNDS, HOURS_TO, MISSES = "best", "mean", "rounds", "hours to", "misses"
"""What is compared: accuracies, rounds and hours to the target; or whether the target is missed."""
SEEDS = (0, 1, 2)
ONE_BY_ONE = ("sflv2", "mergesfl")
"""Methods with one server model: their clients are never computed at once."""


@dataclass(frozen=True, eq=False)
class Line:
    """A row of a table, or a curve: one method with some settings, over all seeds.

    `changes` are its own settings, beside those of the panel; `value` is what varies along the axis of a figure, and
    `group` which curve it belongs to there; `published` is what the paper calls it, if not `label`.
    """

    label: str
    method: str
    changes: Changes = field(default_factory=dict)
    value: str = ""
    group: str = ""
    published: str = ""


@dataclass(frozen=True, eq=False)
class Panel:
    """Lines to be compared with each other, all with the task's settings and the panel's `changes`.

    The first line is the baseline, whose best sets the target. `beside` are the setups of the paper's table that belong
    next to it.
    """

    title: str
    task: Task
    lines: tuple[Line, ...]
    changes: Changes = field(default_factory=dict)
    target: Target = NINE_TENTHS
    beside: tuple[str, ...] = ()

    def config(self, line: Line) -> Config:
        """The settings of a line's runs, but for the seed."""
        given = {**self.task.changes, **self.changes, **line.changes, "method": line.method}
        if self.task.scale == "small" and "executor" not in given:
            one_by_one = any(name in line.method for name in ONE_BY_ONE)
            given["executor"] = "loop" if one_by_one else "vmap"
        return self.task.config(given)

    def cells(self, seeds: Sequence[int]) -> dict[tuple[Line, int], Cell]:
        """All its runs, each with a label for people; seed after seed, so that early seeds are complete first."""
        return self.cells_of(self.lines, seeds)

    def cells_of(self, lines: Sequence[Line], seeds: Sequence[int]) -> dict[tuple[Line, int], Cell]:
        """The runs of some of its lines."""
        configs = {line: self.config(line) for line in lines}
        return {
            (line, seed): Cell(config.model_copy(update={"seed": seed}), f"{self.title}, {line.label}, seed {seed}")
            for seed in seeds
            for line, config in configs.items()
        }


@dataclass(frozen=True)
class Check:
    """A comparison by which a claim holds: line `ours` is ahead of `others`, or of all lines on its base, in each panel
    or in one. With `than`, it is ahead of itself in those panels instead. With `over`, gains over that line are
    compared."""

    ours: str
    others: tuple[str, ...] = ()
    by: str = BEST
    panel: int | None = None
    than: tuple[int, ...] = ()
    over: str = ""


@dataclass(frozen=True)
class Claim:
    """What the paper says, in our words, and the checks that must hold for it to be so here; `why` it cannot be told if
    there are none."""

    words: str
    checks: tuple[Check, ...] = ()
    why: str = ""


@dataclass(frozen=True, eq=False)
class Item:
    """A table or a figure of the paper, or one of ours. `claims` is what the paper says it shows;
    `source` is its label in the paper, `published` the file with its numbers, if it has any; `draw` its kinds of
    figures."""

    name: str
    title: str
    panels: Callable[[str], tuple[Panel, ...]]
    draw: tuple[str, ...] = (CURVES,)
    source: str = ""
    claims: tuple[Claim, ...] = ()
    published: str = ""
    remarks: tuple[str, ...] = ()
    seeds: tuple[int, ...] = SEEDS

    def at(self, scale: str) -> Scaled:
        """Its panels at a scale."""
        return Scaled(self, scale)


@dataclass(frozen=True, eq=False)
class Scaled:
    """An item at one scale."""

    item: Item
    scale: str

    @cached_property
    def panels(self) -> tuple[Panel, ...]:
        return self.item.panels(self.scale)

    def cells(self, seeds: Sequence[int]) -> list[Cell]:
        """All runs it needs, each once."""
        found = {cell.key: cell for panel in self.panels for cell in panel.cells(seeds).values()}
        return list(found.values())


# --------------------------------------------------------------------------------------------------------------------
# Lines that several items share.

THREE = ("CIFAR-10, Dir 0.2", "CIFAR-100, Dir 0.2", "Tiny-ImageNet, Dir 0.2")
"""The setups of the paper's two main tables."""


def five_on(task: Task, base: str = "FedAvg") -> tuple[Line, ...]:
    """A base alone, and with each of the four plugins.

    >>> from smofi.reproduce.items import FASHION
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

    >>> from smofi.reproduce.items import CIFAR100
    >>> beside(CIFAR100, "IID")
    ('CIFAR-100, IID',)
    """
    three = tuple(one.replace("Dir 0.2", how) for one in THREE)
    return (f"{task.title}, {how}",) if task.scale == "full" else three


# --------------------------------------------------------------------------------------------------------------------
# The paper's two main tables.

FIVE = (0, 1, 2, 3, 4)
BASES = ("FedAvg", "FedProx", "FedNAR")
MERGED = ("MergeSFL, fastest gets B", "MergeSFL, slowest gets B")


def _table1(scale: str) -> tuple[Panel, ...]:
    return tuple(
        Panel(
            f"{task.title}, Dir 0.2",
            task,
            tuple(line for base in task.bases for line in five_on(task, base)),
            beside=beside(task),
        )
        for task in images(scale)
    )


def _split(task: Task) -> tuple[Line, ...]:
    """Both readings of SFLV2 and of MergeSFL: the paper does not say which it means."""
    merged, steps = "MergeSFL", f"steps={task.steps}"
    return (
        Line("FedAvg", "fedavg"),
        Line("SFLV1, every step", 'sflv1("step")', published="SFLV1(step)"),
        Line("SFLV1, every epoch", 'sflv1("epoch")', published="SFLV1(epoch)"),
        Line("SFLV2, client after client", 'sflv2(turns="client")', published="SFLV2"),
        Line("SFLV2, step by step", 'sflv2(turns="step")', published="SFLV2"),
        Line("MergeSFL, fastest gets B", f"mergesfl({steps})", published=merged),
        Line("MergeSFL, slowest gets B", f'mergesfl({steps}, reference="slowest")', published=merged),
        Line("SMoFi", task.smofi),
    )


def _table2(scale: str) -> tuple[Panel, ...]:
    return tuple(Panel(f"{task.title}, Dir 0.2", task, _split(task), beside=beside(task)) for task in images(scale))


TABLE1 = Item(
    "table1",
    "SMoFi and momentum-based methods on three bases",
    _table1,
    source="tab:exp_result_momentum; curves as in fig:supp_learning_curve_baselines",
    claims=(
        Claim("SMoFi has the highest accuracy on each base.", tuple(Check(f"{base} + SMoFi") for base in BASES)),
        Claim(
            "SMoFi reaches the target in the fewest rounds on each base.",
            tuple(Check(f"{base} + SMoFi", by=ROUNDS) for base in BASES),
        ),
        Claim(
            "SMoFi gains most where task and model are most complex, on Tiny-ImageNet with ResNet-34.",
            why="there is one task at this size; `cifar10-depth` compares two models",
        ),
    ),
    published="table1",
    seeds=FIVE,
)
TABLE2 = Item(
    "table2",
    "SMoFi and split federated learning: accuracy, rounds and hours",
    _table2,
    draw=(CURVES, HOURS),
    source="tab:exp_result_SFL",
    claims=(
        Claim("SFLV1 that averages after every step misses the target.", (Check("SFLV1, every step", by=MISSES),)),
        Claim(
            "SFLV1 that averages after every epoch needs fewer rounds than the one that does so after every step.",
            (Check("SFLV1, every epoch", ("SFLV1, every step",), ROUNDS),),
        ),
        Claim(
            "SFLV2 is more accurate than SFLV1 in most cases.",
            tuple(Check(f"SFLV2, {how}", ("SFLV1, every epoch",)) for how in ("client after client", "step by step")),
        ),
        Claim("MergeSFL needs more rounds than SMoFi.", (Check("SMoFi", MERGED, ROUNDS),)),
        Claim(
            "MergeSFL needs fewer hours than SMoFi on both CIFARs.",
            tuple(Check(merged, ("SMoFi",), HOURS_TO) for merged in MERGED),
        ),
        Claim("SMoFi has the highest accuracy of the split methods.", (Check("SMoFi", by=BEST),)),
    ),
    published="table2",
    seeds=FIVE,
    remarks=(
        "The paper does not say how steps add up to a round. Here step-synchronous methods wait for the slowest client "
        "at every step, SFLV1(epoch) every epoch, FedAvg every round.",
    ),
)


# --------------------------------------------------------------------------------------------------------------------
# How much SMoFi depends on its own parameters and on the cut, and what each of its two parts does.

ALPHAS = (-0.01, -0.1, -0.5, -1, -5, -10)
BETAS = (0.1, 0.2, 0.3, 0.4, 0.5)
RESNET34_RANGES = ("0-3", "4-7", "8-13", "14-16")
BETA_TARGETS = {"CIFAR-10": 0.7, "CIFAR-100": 0.43, "Tiny-ImageNet": 0.3}
FEDAVG = Line("FedAvg", "fedavg")


def _alpha(scale: str) -> tuple[Panel, ...]:
    def lines(task: Task) -> tuple[Line, ...]:
        return tuple(
            Line(f"SMoFi, α = {alpha}", f"smofi(alpha={alpha}, global_momentum={task.beta})", value=f"{alpha}")
            for alpha in ALPHAS
        )

    return tuple(Panel(task.title, task, (FEDAVG, *lines(task))) for task in images(scale))


def _cuts(task: Task) -> tuple[str, ...]:
    """All of ResNet-18 (eight core blocks) or of ResNet-8 (three); ranges, drawn anew each round, of ResNet-34."""
    return RESNET34_RANGES if task is TINY else tuple(map(str, range(4 if task.scale == "small" else 9)))


def _cut(scale: str) -> tuple[Panel, ...]:
    def lines(task: Task) -> tuple[Line, ...]:
        return tuple(Line(f"SMoFi, L = {cut}", task.smofi, {"cut": cut}, value=cut) for cut in _cuts(task))

    return tuple(Panel(task.title, task, (FEDAVG, *lines(task))) for task in images(scale))


def _beta_target(task: Task) -> Target:
    return Target(fixed=BETA_TARGETS[task.title]) if task.title in BETA_TARGETS else Target(rounded=True)


def _beta(scale: str) -> tuple[Panel, ...]:
    both = {"SMoFi": "smofi(global_momentum={})", "FedAvgM": "fedavgm(momentum={})"}
    lines = tuple(
        Line(f"{name}, β_g = {beta}", method.format(beta), value=f"{beta}", group=name)
        for name, method in both.items()
        for beta in BETAS
    )
    return tuple(Panel(task.title, task, (FEDAVG, *lines), target=_beta_target(task)) for task in images(scale))


def _ablation(scale: str) -> tuple[Panel, ...]:
    return tuple(
        Panel(
            task.title,
            task,
            (
                FEDAVG,
                Line("SMoFi without momentum fusion", f"fedavgm(momentum={task.beta})"),
                Line("SMoFi without global momentum", "smofi(global_momentum=0)"),
                Line("SMoFi", task.smofi),
            ),
        )
        for task in images(scale)
    )


ALPHA = Item(
    "fig-alpha",
    "SMoFi by staleness factor α",
    _alpha,
    draw=(POINTS,),
    source="fig:exp_sensitivity_study, fig:supp_sensitivity_study (left two panels)",
    claims=(
        Claim(
            "CIFAR-10: a smaller α such as -1 is faster.",
            (Check("SMoFi, α = -1", ("SMoFi, α = -0.1",), ROUNDS),),
        ),
        Claim("CIFAR-10: a smaller α may end lower.", (Check("SMoFi, α = -0.1", ("SMoFi, α = -1",)),)),
        Claim(
            "CIFAR-100: a smaller α is slower, and ends slightly higher; Tiny-ImageNet: a larger α ends higher.",
            why="neither is here at this size",
        ),
    ),
    remarks=(
        "A finished client weighs (age + 1)^α here, by the paper's count of steps from 1. A loop that counts from 0 "
        "would give age^α, which differs by 7 % at α = -0.1 and much at α = -10.",
    ),
)
CUT = Item(
    "fig-cut",
    "SMoFi by cut layer L",
    _cut,
    draw=(POINTS,),
    source="fig:exp_sensitivity_study, fig:supp_sensitivity_study (right two panels)",
    claims=(
        Claim(
            "SMoFi is above FedAvg at every cut, also where the output block alone is the server's.",
            tuple(Check(f"SMoFi, L = {cut}", ("FedAvg",)) for cut in range(4)),
        ),
        Claim(
            "It gains more in accuracy and in speed at smaller L, where the server has more of the model.",
            tuple(Check("SMoFi, L = 0", ("SMoFi, L = 3",), by) for by in (BEST, ROUNDS)),
        ),
    ),
)
BETA = Item(
    "fig-beta",
    "SMoFi and FedAvgM by global momentum β_g",
    _beta,
    draw=(POINTS,),
    source="fig:supp_sensitivity_study_global_momentum",
    claims=(
        *(
            Claim(
                f"SMoFi is above FedAvgM in {words} at every β_g.",
                tuple(Check(f"SMoFi, β_g = {beta}", (f"FedAvgM, β_g = {beta}",), by) for beta in BETAS),
            )
            for by, words in ((BEST, "accuracy"), (ROUNDS, "speed"))
        ),
        Claim(
            "β_g matters more on CIFAR-100 and Tiny-ImageNet, where a larger one is better.",
            why="neither is here at this size",
        ),
    ),
)
ABLATION = Item(
    "ablation",
    "SMoFi without each of its parts",
    _ablation,
    source="fig:supp_ablation_study",
    claims=(
        Claim("Momentum fusion raises accuracy.", (Check("SMoFi without global momentum", ("FedAvg",)),)),
        Claim(
            "Momentum fusion does more for the speed than global momentum.",
            (Check("SMoFi without global momentum", ("SMoFi without momentum fusion",), ROUNDS),),
        ),
        Claim("Global momentum adds to it.", (Check("SMoFi", ("SMoFi without global momentum",)),)),
    ),
    remarks=("SMoFi without fusion is FedAvgM with the same momentum.",),
)


# --------------------------------------------------------------------------------------------------------------------
# Local momentum, other optimizers, other models.

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


# --------------------------------------------------------------------------------------------------------------------
# The appendix: other distributions, fewer clients a round, text and audio.

DISTRIBUTIONS = {"Dir 0.5": "dirichlet(0.5)", "IID": "iid"}
SHARES = {10: 0.05, 20: 0.1, 30: 0.15}
"""Of 200 clients, as in the paper; at small scale the same shares of 100."""

SMALL_TEXT = Task("Shakespeare", "shakespeare", "small", SHAKESPEARE.tuned, steps=47, changes={"executor": "auto"})
SMALL_SPEECH = Task(
    "Google Speech",
    "speech-commands",
    "small",
    SPEECH.tuned,
    steps=14,
    changes={"executor": "loop"},
    stand_in={"data": "npz:words.npz"},
)


def _distributions(scale: str) -> tuple[Panel, ...]:
    return tuple(
        Panel(f"{task.title}, {how}", task, five_on(task), {"partition": partition}, beside=beside(task, how))
        for how, partition in DISTRIBUTIONS.items()
        for task in images(scale)
    )


def _participation(scale: str) -> tuple[Panel, ...]:
    task, clients = (TINY, 200) if scale == "paper" else (FASHION, 100)
    return tuple(
        Panel(
            f"{task.title}, {round(share * clients)} of {clients}",
            task,
            five_on(task),
            {"participation": share},
            beside=(f"Tiny-ImageNet, {number} of 200",),
        )
        for number, share in SHARES.items()
    )


def _text_audio(scale: str) -> tuple[Panel, ...]:
    text, speech = (SHAKESPEARE, SPEECH) if scale == "paper" else (SMALL_TEXT, SMALL_SPEECH)
    return (
        Panel("Shakespeare", text, five_on(text), beside=("Shakespeare",)),
        Panel("Google Speech, Dir 0.2", speech, five_on(speech), beside=("Google Speech, Dir 0.2",)),
    )


DISTRIBUTION = Item(
    "table-distributions",
    "Moderately non-IID and IID data",
    _distributions,
    source="tab:supp_exp_result_DIR_0.5_IID",
    claims=(
        Claim("SMoFi has the highest accuracy under both distributions.", (Check("FedAvg + SMoFi"),)),
        Claim("SMoFi takes the fewest rounds under both.", (Check("FedAvg + SMoFi", by=ROUNDS),)),
        Claim(
            "Its gain is larger for less balanced data.",
            (Check("FedAvg + SMoFi", by=MEAN, panel=0, than=(1,), over="FedAvg"),),
        ),
    ),
    published="distributions",
)
PARTICIPATION = Item(
    "table-participation",
    "Fewer clients in a round",
    _participation,
    source="tab:supp_exp_result_involvement",
    claims=(
        Claim("SMoFi is ahead with 5 % of the clients already.", (Check("FedAvg + SMoFi", by=BEST, panel=0),)),
        Claim(
            "It is further ahead the more take part.",
            tuple(Check("FedAvg + SMoFi", by=MEAN, panel=more, than=(more - 1,), over="FedAvg") for more in (1, 2)),
        ),
        Claim(
            "FedAvg takes more rounds the more clients take part.",
            tuple(Check("FedAvg", by=ROUNDS, panel=fewer, than=(fewer + 1,)) for fewer in (0, 1)),
        ),
        Claim(
            "FedAvg ends higher the more clients take part.",
            tuple(Check("FedAvg", by=BEST, panel=more, than=(more - 1,)) for more in (1, 2)),
        ),
    ),
    published="participation",
)
TEXT_AUDIO = Item(
    "table-text-audio",
    "Text and audio",
    _text_audio,
    source="tab:supp_exp_result_momentum_extra_dataset",
    claims=(
        Claim("Shakespeare: SMoFi has the highest accuracy.", (Check("FedAvg + SMoFi", panel=0),)),
        Claim("Shakespeare: FedAvgM reaches the target first.", (Check("FedAvg + FedAvgM", by=ROUNDS, panel=0),)),
        Claim("Google Speech: SMoFi reaches the target first.", (Check("FedAvg + SMoFi", by=ROUNDS, panel=1),)),
    ),
    published="text-audio",
    remarks=(
        "At small scale our own runs of Google Speech are on words.npz: log-mel spectrograms of twelve of the 35 "
        "words, tested on speakers who are not trained on.",
    ),
)


# --------------------------------------------------------------------------------------------------------------------
# What the paper does not have: does SMoFi gain more with a deeper model, on data of this size? What do the reading of
# Dirichlet and the normalisation change, of which the paper does not say which it means? Is it stale momentum at very
# different sizes that costs SMoFi its lead? What if clients are of nearly one size, as with many classes? And what do
# smaller numbers at the cut cost?

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


# --------------------------------------------------------------------------------------------------------------------
# The paper's tables and figures as data: what varies, with which methods, and what the paper says of it.

ITEMS = {
    item.name: item
    for item in (
        MOMENTUM,
        TABLE1,
        TABLE2,
        ALPHA,
        CUT,
        OPTIMIZER,
        MODELS,
        BETA,
        ABLATION,
        DISTRIBUTION,
        PARTICIPATION,
        TEXT_AUDIO,
        DEPTH,
        PARTITION,
        STALENESS,
        MANY_CLASSES,
        WIRE,
    )
}
"""By name, in the paper's order."""

HETEROGENEITY = "fig-heterogeneity"
"""The item that needs no run: how clients differ in data and devices."""
