"""Figures for a paper, from histories."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from smofi.errors import InputError
from smofi.report import History
from smofi.report.figures import Drawing, Panel, bars_figure, curves_figure, points_figure
from smofi.report.figures.drawing import keys_of
from smofi.report.style import METHODS

HOURS = [1.0, 2.0, 3.0]


def seeds(name: str, *values: Sequence[float | None], hours: Sequence[float] = HOURS) -> list[History]:
    return [History(name, list(one), seed=seed, hours=list(hours)) for seed, one in enumerate(values)]


FEDAVG = seeds("fedavg", [0.2, 0.6, 0.8], [0.4, 0.6, 0.7])
SMOFI = seeds("smofi(alpha=-1)", [0.6, 0.8, 0.9], [0.7, 0.8, 0.9])
SLOW = seeds("slowmo", [0.1, 0.2, 0.3], [0.1, 0.2, 0.3])
PANEL = Panel("IID", [*FEDAVG, *SMOFI, *SLOW])


def drawn(drawing: Drawing) -> Any:
    figure = Figure(figsize=drawing.size, layout="constrained")
    drawing.compose(figure)
    return figure


def legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize("suffix", [".svg", ".pdf", ".png"])
@pytest.mark.parametrize("make", [curves_figure, bars_figure, points_figure])
def test_the_same_histories_give_the_same_bytes(
    make: Callable[[Sequence[Panel]], Drawing], suffix: str, tmp_path: Path
) -> None:
    first, second = (make([PANEL]).save(tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "two"))
    assert first == second
    assert b"Date" not in first


SAVE = """
import sys
from smofi.report import History
from smofi.report.figures import Panel, curves_figure
curves_figure([Panel("IID", [History("fedavg", [0.2, 0.6])])]).save(sys.argv[1])
"""


@pytest.mark.slow
def test_another_process_gives_the_same_bytes_too(tmp_path: Path) -> None:
    for name in ("one.pdf", "two.pdf", "one.svg", "two.svg"):
        environment = {"PYTHONHASHSEED": str(len(list(tmp_path.iterdir()))), "PYTHONPATH": ":".join(sys.path)}
        subprocess.run([sys.executable, "-c", SAVE, tmp_path / name], check=True, env=environment)
    for suffix in ("pdf", "svg"):
        assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()


def test_a_pdf_has_its_fonts_as_truetype(tmp_path: Path) -> None:
    content = curves_figure([PANEL]).save(tmp_path / "curves.pdf").read_bytes()
    assert b"/FontFile2" in content
    assert b"/Type3" not in content


def test_curves_show_the_mean_and_a_band_of_one_deviation() -> None:
    figure = drawn(curves_figure([PANEL]))
    (axes,) = figure.axes
    by_label = {line.get_color(): line for line in axes.lines}
    fedavg = by_label[METHODS["fedavg"].colour]
    assert list(fedavg.get_xdata()) == [1, 2, 3]
    assert list(fedavg.get_ydata()) == pytest.approx([0.3, 0.6, 0.75])
    band = axes.collections[0].get_paths()[0].vertices
    assert [band[:, 1].min(), band[:, 1].max()] == pytest.approx([0.3 - 0.02**0.5, 0.75 + 0.005**0.5])
    assert legend(figure) == ["FedAvg", "SMoFi", "SlowMo", "± std, 2 seeds"]
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == ("IID", "round", "accuracy (%)")


def test_one_seed_has_no_band() -> None:
    figure = drawn(curves_figure([Panel("", FEDAVG[:1])]))
    assert len(figure.axes[0].collections) == 0
    assert legend(figure) == ["FedAvg"]


def test_curves_over_hours_need_a_clock() -> None:
    figure = drawn(curves_figure([PANEL], over_hours=True))
    assert list(figure.axes[0].lines[0].get_xdata()) == [1, 2, 3]
    assert figure.axes[0].get_xlabel() == "hours on the clients' devices"
    with pytest.raises(InputError, match="hours=True is not accepted: expected runs that all have a clock"):
        curves_figure([Panel("", [*FEDAVG, History("smofi", [0.5])])], over_hours=True)


def test_a_fixed_target_has_a_line() -> None:
    (axes,) = drawn(curves_figure([Panel("", FEDAVG, target=0.7)])).axes
    assert [list(line.get_ydata()) for line in axes.lines][-1] == [0.7, 0.7]


@pytest.mark.parametrize(("count", "shape"), [(1, (1, 1)), (3, (1, 3)), (5, (2, 3)), (8, (2, 4))])
def test_panels_stand_in_rows(count: int, shape: tuple[int, int]) -> None:
    figure = drawn(curves_figure([PANEL] * count))
    grid = figure.axes[0].get_gridspec()
    assert (grid.nrows, grid.ncols) == shape
    assert len(figure.axes) == count


def test_panels_have_the_same_range_of_values_unless_each_has_its_own() -> None:
    low, high = Panel("", SLOW), Panel("", SMOFI)
    first, second = drawn(curves_figure([low, high])).axes
    assert first.get_ylim() == second.get_ylim()
    assert first.get_ylim()[0] <= 0.1
    assert first.get_ylim()[1] >= 0.9
    first, second = drawn(curves_figure([low, high], own_axes=True)).axes
    assert first.get_ylim()[1] < second.get_ylim()[0]


def test_bars_have_heights_deviations_and_say_what_was_missed() -> None:
    """The targets are 0.72 and 0.63: FedAvg is there in round 3 with both seeds, SMoFi in rounds 2 and 1."""
    figure = drawn(bars_figure([PANEL], ["accuracy", "mean", "rounds", "hours"]))
    heights = [[patch.get_height() for patch in axes.patches] for axes in figure.axes]
    assert heights[0] == pytest.approx([0.75, 0.9, 0.3])
    assert heights[1] == pytest.approx([1.65 / 3, 2.35 / 3, 0.2])
    assert heights[2] == heights[3] == pytest.approx([3, 1.5, 3])
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "best accuracy (%)",
        "mean accuracy (%)",
        "rounds to target",
        "hours to target",
    ]
    assert [text.get_text() for text in figure.axes[2].texts] == ["3", "1.5", ">3"]
    assert [patch.get_hatch() for patch in figure.axes[2].patches] == [None, None, "////"]
    assert legend(figure)[-1] == "± std, 2 seeds"


def test_groups_of_bars_stand_side_by_side() -> None:
    (axes,) = drawn(bars_figure([PANEL, Panel("shards", [*FEDAVG, *SMOFI])])).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["IID", "shards"]
    assert len(axes.patches) == 5


def test_points_stand_over_the_setting_and_fedavg_is_dashed() -> None:
    panels = [Panel(cut, [*FEDAVG, *SMOFI]) for cut in ("0", "1-2", "3")]
    figure = drawn(points_figure(panels, ["accuracy", "rounds"], setting="cut"))
    accuracy, rounds = figure.axes
    assert [label.get_text() for label in accuracy.get_xticklabels()] == ["0", "1-2", "3"]
    fedavg, smofi = (line for line in accuracy.lines if len(line.get_xdata()) == 3)
    assert list(fedavg.get_ydata()) == pytest.approx([0.75] * 3)
    assert list(smofi.get_ydata()) == pytest.approx([0.9] * 3)
    assert (fedavg.is_dashed(), smofi.is_dashed()) == (True, False)
    assert (accuracy.get_xlabel(), rounds.get_ylabel()) == ("cut", "rounds to target")


def test_a_point_that_missed_the_target_is_an_open_triangle() -> None:
    (axes,) = drawn(points_figure([Panel("0", [*FEDAVG, *SLOW])], ["rounds"])).axes
    assert [line.get_ydata() for line in axes.lines if line.get_marker() == "^"] == [[3.0]]


def test_on_every_base_a_plugin_looks_the_same() -> None:
    names = ("fedavg", "smofi", "fedprox(mu=0.01)", "fedprox(mu=0.01)+smofi")
    one = [Panel("", [History(name) for name in names[:2]]), Panel("", [History(name) for name in names[2:]])]
    keys = keys_of(one)
    assert [keys[name].title for name in names] == ["base alone", "+ SMoFi", "base alone", "+ SMoFi"]
    assert keys["smofi"].look == keys["fedprox(mu=0.01)+smofi"].look == METHODS["smofi"]
    together = keys_of([Panel("", [History(name) for name in names])])
    assert [together[name].title for name in names] == ["FedAvg", "SMoFi", "FedProx", "FedProx + SMoFi"]
    assert len({together[name].look for name in names}) == 4


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: curves_figure([Panel("", [History("fedavg", [None])])]), "at least one history with a number"),
        (lambda: bars_figure([PANEL], ["speed"]), "value='speed' is not accepted: expected one of accuracy, mean"),
        (
            lambda: bars_figure([Panel("", [History("fedavg", [0.5])])], ["hours"]),
            "value='hours' is not accepted: expected runs with a clock",
        ),
        (
            lambda: curves_figure([Panel("", [*FEDAVG, History("smofi", [0.5], metrics={"gain": "gain"})])]),
            "runs judged by the same metric",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(make: Callable[[], Drawing], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make()
