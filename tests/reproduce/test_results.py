"""Which runs belong to a cell, and how long the others will take."""

import time
from pathlib import Path

import pytest

from smofi.reproduce.estimate import Kind, estimate
from smofi.reproduce.items import ITEMS
from smofi.reproduce.results import Asked, Measured, Results, collect, read_results, results_in, without
from smofi.sweep.store import Cell
from support.small_runs import write_finished


def test_data_that_stands_in_counts_and_its_folder_is_not_kept(tmp_path: Path) -> None:
    """Google Speech at small scale: our own runs are on a file of twelve words."""
    panel = ITEMS["table-text-audio"].at("small").panels[1]
    for (_, seed), cell in panel.cells_of(panel.lines[:2], [0]).items():
        config = cell.config.model_copy(update={"data": f"npz:{tmp_path}/words.npz"})
        write_finished(tmp_path / "runs", Cell(config, f"{cell.method} {seed}"), [0.3, 0.5])
    collect(tmp_path / "files", results_in(tmp_path / "runs").runs.values())
    assert {path.name for path in (tmp_path / "files").iterdir()} == {"words.csv", "words.yaml"}
    assert "data: npz:words.npz\n" in (tmp_path / "files/words.yaml").read_text()
    measured = Measured.of(panel, [0], read_results(tmp_path / "files"))
    assert [row.best for row in measured.rows.values()] == [0.5, 0.5]
    assert len(measured.missing) == 3
    asked = Asked("small", (0,), tmp_path)
    left = without(read_results(tmp_path / "files"), ["table-text-audio"], asked)
    assert len(left) == 10 - 2
    assert not {cell.title for cell in left} & {"Google Speech, Dir 0.2, FedAvg, seed 0"}


def test_a_run_with_fewer_rounds_is_another_one(tmp_path: Path) -> None:
    (cell, *_) = ITEMS["ablation"].at("small").cells([0])
    write_finished(tmp_path, Cell(cell.config.model_copy(update={"rounds": 4})), [0.3, 0.5])
    assert cell not in results_in(tmp_path)


def test_time_left_is_taken_from_finished_runs_of_the_same_model(tmp_path: Path) -> None:
    """40 rounds of half a second each; with half the clients in a round, about half of that, evaluation aside."""
    cells = ITEMS["ablation"].at("small").cells([0])
    write_finished(tmp_path, cells[0], [0.3, 0.5])
    results = results_in(tmp_path)
    assert estimate(cells[1:], results).seconds == pytest.approx(3 * 20.0)
    assert estimate(cells[1:], results).measured
    (fewer, *_) = ITEMS["table-participation"].at("small").panels[1].cells([0]).values()
    samples = 0.1 * 5 * 10_000 + 2_000 / 3, 0.2 * 5 * 10_000 + 2_000 / 3
    assert estimate([fewer], results).seconds == pytest.approx(20.0 * samples[0] / samples[1])


def test_time_left_without_a_run_is_that_of_steps_as_they_will_be_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small network of many clients at once takes less than client by client; in the time of this process, for others
    on the machine may hold up the one or the other."""
    monkeypatch.setattr("smofi.planning.summary.stopwatch", lambda _: time.process_time)
    (cell, *_) = ITEMS["fig-models"].at("small").panels[0].cells([0]).values()
    alone = Cell(cell.config.model_copy(update={"executor": ("loop",)}))
    timed: dict[Kind, float] = {}
    at_once = estimate([cell], Results(), timed)
    assert not at_once.measured
    assert at_once.seconds > 0
    assert at_once.seconds < estimate([alone], Results(), timed).seconds
    assert {kind.executor for kind in timed} == {("vmap",), ("loop",)}
    timed = dict.fromkeys(timed, 1.0)  # what was timed before is not timed again: a second for each sample
    assert estimate([cell], Results(), timed).seconds == pytest.approx(40 * (0.2 * 5 * 10_000 + 2_000 / 3))


def test_text_and_sound_can_be_timed() -> None:
    for panel in ITEMS["table-text-audio"].at("small").panels:
        (cell, *_) = panel.cells([0]).values()
        assert estimate([cell], Results()).seconds > 0
