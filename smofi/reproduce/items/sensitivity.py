"""How much SMoFi depends on its own parameters and on the cut, and what each of its two parts does."""

from __future__ import annotations

from smofi.reproduce.items.parts import BEST, POINTS, ROUNDS, Check, Claim, Item, Line, Panel
from smofi.reproduce.items.targets import Target
from smofi.reproduce.items.tasks import TINY, Task, images

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
