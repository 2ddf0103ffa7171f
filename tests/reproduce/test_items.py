"""Items as data: which runs they need, and that every one of them could start."""

import pytest

from smofi.methods.registry import method_name
from smofi.reproduce.estimate import check
from smofi.reproduce.items import CIFAR10, CIFAR100, ITEMS, SCALES, SHAKESPEARE, SPEECH, TINY, Task
from smofi.sweep.store import Cell

RUNS = {
    "fig-momentum": (4, 4),
    "table1": (15, 45),
    "table2": (8, 24),
    "fig-alpha": (7, 21),
    "fig-cut": (5, 25),
    "fig-optimizers": (15, 20),
    "fig-models": (20, 35),
    "fig-beta": (11, 33),
    "ablation": (4, 12),
    "table-distributions": (10, 30),
    "table-participation": (15, 15),
    "table-text-audio": (10, 10),
    "cifar10-depth": (12, 12),
    "partition": (30, 30),
    "staleness": (12, 12),
    "many-classes": (6, 6),
    "wire": (5, 5),
}
"""Of one seed, at each scale."""


@pytest.mark.parametrize("name", RUNS)
def test_an_item_has_these_runs_and_every_one_could_start(name: str) -> None:
    for scale, runs in zip(SCALES, RUNS[name], strict=True):
        cells = ITEMS[name].at(scale).cells([0])
        assert len(cells) == runs
        for cell in cells:
            check(cell)


def test_seeds_multiply_the_runs() -> None:
    assert len(ITEMS["ablation"].at("small").cells([0, 1, 2])) == 12


def test_the_paper_has_its_own_numbers_of_rounds() -> None:
    def rounds(name: str) -> list[int]:
        return [panel.config(panel.lines[0]).rounds for panel in ITEMS[name].at("paper").panels]

    assert rounds("table1") == [1000, 600, 400]
    assert set(rounds("fig-models")) == {150}


def test_items_share_their_runs() -> None:
    """FedAvg is run once for all items on the same data."""
    small = [
        cell for name in ("table1", "fig-alpha", "fig-cut", "ablation") for cell in ITEMS[name].at("small").cells([0])
    ]
    fedavg = {cell.key for cell in small if cell.method == "fedavg"}
    assert len(fedavg) == 1


def test_a_cut_that_the_model_does_not_have_is_refused() -> None:
    from smofi.errors import InputError

    (cell, *_) = ITEMS["fig-cut"].at("small").cells([0])
    wrong = Cell(cell.config.model_copy(update={"cut": "9"}), "wrong")
    with pytest.raises(InputError, match=r"^wrong: cut='9' is not accepted: expected 0 <= L <= 3"):
        check(wrong)


@pytest.mark.parametrize("task", [CIFAR10, CIFAR100, TINY, SHAKESPEARE, SPEECH], ids=lambda task: task.preset)
def test_the_methods_have_the_presets_parameters(task: Task) -> None:
    assert tuple(map(method_name, task.five.values())) == task.config({}).method
