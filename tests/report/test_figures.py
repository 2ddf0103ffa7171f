"""Figures of results: curves of a run, and curves, bars and points for a paper."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from smofi.config import Config
from smofi.errors import InputError
from smofi.report.figures import Panel, bars_figure, curves_figure, keys_of, points_figure, run_figure
from smofi.report.names import details, setting
from smofi.report.results import History
from smofi.report.style import METHODS, Drawing
from support.histories import histories

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


# ------------------------------------------------------------------------------------------------ the curves of a run


def test_the_picture_of_a_run_says_what_it_shows(tmp_path: Path) -> None:
    config = Config(seed=7, cut="2", clients=1, data="csv:/far/away/patients.csv")
    runs = [*FEDAVG, *SMOFI]
    drawing = run_figure(runs, 0.63, setting(config), details(config))
    one, other = (drawing.save(tmp_path / f"{name}.svg").read_bytes() for name in "ab")
    assert one == other
    assert b"<dc:date>" not in one
    text = one.decode()
    said = ("csv:patients.csv, 1 client", "cut 2, seed 7", "FedAvg", "SMoFi", "target 63.0%", "± std, 2 seeds", "round")
    for words in said:
        assert f"<!-- {words}" in text, words
    assert {"#0072b2", "#009e73"} <= set(re.findall("#[0-9a-f]{6}", text))
    assert run_figure(runs, None, "", over_hours=True).content(".png").startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize(
    "curves",
    [
        {"one point": [0.5]},
        {"gaps": [0.5, None, math.nan, 0.7], "nothing": [None]},
        {"$not \\maths$": [0.1, 0.2]},
        {f"curve {number}": [number / 10, 0.5] for number in range(12)},
    ],
)
def test_difficult_curves_are_drawn(curves: dict[str, list[float | None]], tmp_path: Path) -> None:
    assert len(run_figure(histories(curves), None, "$x").content()) > 1000


def test_what_cannot_be_saved_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    for name, sentence in {
        "curves.gif": r"ends in \.png, \.svg or \.pdf",
        "nowhere/curves.png": "a file in a folder that exists",
        "folder.png": "a file in a folder that exists",
    }.items():
        with pytest.raises(InputError, match=sentence):
            run_figure(FEDAVG, None, "").save(tmp_path / name)
    with pytest.raises(InputError, match="at least one history"):
        run_figure([History("a", [None])], None, "")


# ---------------------------------------------------------------------------------------------------------- for a paper


@pytest.mark.parametrize(("make", "suffix"), [(curves_figure, ".svg"), (bars_figure, ".pdf"), (points_figure, ".png")])
def test_the_same_histories_give_the_same_bytes(
    make: Callable[[Sequence[Panel]], Drawing], suffix: str, tmp_path: Path
) -> None:
    first, second = (make([PANEL]).save(tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "two"))
    assert first == second
    assert b"Date" not in first
    if suffix == ".pdf":  # its fonts as TrueType
        assert b"/FontFile2" in first
        assert b"/Type3" not in first


def test_curves_show_the_mean_and_a_band_of_one_deviation() -> None:
    figure = drawn(curves_figure([PANEL]))
    (axes,) = figure.axes
    fedavg = {line.get_color(): line for line in axes.lines}[METHODS["fedavg"].colour]
    assert list(fedavg.get_xdata()) == [1, 2, 3]
    assert list(fedavg.get_ydata()) == pytest.approx([0.3, 0.6, 0.75])
    band = axes.collections[0].get_paths()[0].vertices
    assert [band[:, 1].min(), band[:, 1].max()] == pytest.approx([0.3 - 0.02**0.5, 0.75 + 0.005**0.5])
    assert legend(figure) == ["FedAvg", "SMoFi", "SlowMo", "± std, 2 seeds"]
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == ("IID", "round", "accuracy (%)")
    one = drawn(curves_figure([Panel("", FEDAVG[:1], target=0.7)]))
    assert len(one.axes[0].collections) == 0
    assert legend(one) == ["FedAvg"]
    assert [list(line.get_ydata()) for line in one.axes[0].lines][-1] == [0.7, 0.7]


def test_the_line_goes_on_over_rounds_without_an_evaluation_and_breaks_where_one_diverged() -> None:
    values = [0.0, None, None, 0.6, math.inf, 0.7]
    (axes,) = drawn(curves_figure([Panel("", [History("fedavg", values)])])).axes
    assert list(axes.lines[0].get_xdata()) == [1, 4, 5, 6]
    assert repr(list(map(float, axes.lines[0].get_ydata()))) == "[0.0, 0.6, nan, 0.7]"


def test_over_hours_rounds_stand_at_the_mean_of_their_seeds() -> None:
    slow = seeds("smofi", [0.6, 0.8, 0.9], [0.7, 0.8, 0.9], hours=[2.0, 4.0, 6.0])
    (axes,) = drawn(curves_figure([Panel("", [*FEDAVG, *slow])], over_hours=True)).axes
    assert [list(line.get_xdata()) for line in axes.lines] == [[1, 2, 3], [2, 4, 6]]
    assert axes.get_xlabel() == "hours on the clients' devices"


def test_bars_have_heights_deviations_and_say_what_was_missed() -> None:
    """The targets are 0.72 and 0.63: FedAvg is there in round 3 with both seeds, SMoFi in rounds 2 and 1."""
    figure = drawn(bars_figure([PANEL], ["accuracy", "mean", "rounds", "hours"]))
    heights = [[patch.get_height() for patch in axes.patches] for axes in figure.axes]
    assert heights[0] == pytest.approx([0.75, 0.9, 0.3])
    assert heights[1] == pytest.approx([1.65 / 3, 2.35 / 3, 0.2])
    assert heights[2] == heights[3] == pytest.approx([3, 1.5, 3])
    labels = ["best accuracy (%)", "mean accuracy (%)", "rounds to target", "hours to target"]
    assert [axes.get_ylabel() for axes in figure.axes] == labels
    assert [text.get_text() for text in figure.axes[2].texts] == ["3", "1.5", ">3"]
    assert [patch.get_hatch() for patch in figure.axes[2].patches] == [None, None, "////"]
    assert legend(figure)[-1] == "± std, 2 seeds"
    (axes,) = drawn(bars_figure([PANEL, Panel("shards", [*FEDAVG, *SMOFI])])).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["IID", "shards"]
    assert len(axes.patches) == 5


def test_points_stand_over_the_setting_and_fedavg_is_dashed() -> None:
    panels = [Panel(cut, [*FEDAVG, *SMOFI]) for cut in ("0", "1-2", "3")]
    accuracy, rounds = drawn(points_figure(panels, ["accuracy", "rounds"], setting="cut")).axes
    assert [label.get_text() for label in accuracy.get_xticklabels()] == ["0", "1-2", "3"]
    fedavg, smofi = (line for line in accuracy.lines if len(line.get_xdata()) == 3)
    assert list(fedavg.get_ydata()) == pytest.approx([0.75] * 3)
    assert list(smofi.get_ydata()) == pytest.approx([0.9] * 3)
    assert (fedavg.is_dashed(), smofi.is_dashed()) == (True, False)
    assert (accuracy.get_xlabel(), rounds.get_ylabel()) == ("cut", "rounds to target")
    (axes,) = drawn(points_figure([Panel("0", [*FEDAVG, *SLOW])], ["rounds"])).axes
    assert [line.get_ydata() for line in axes.lines if line.get_marker() == "^"] == [[3.0]]  # missed: an open triangle


def test_on_every_base_a_plugin_looks_the_same() -> None:
    names = ("fedavg", "smofi", "fedprox(mu=0.01)", "fedprox(mu=0.01)+smofi")
    one = [Panel("", [History(name) for name in names[:2]]), Panel("", [History(name) for name in names[2:]])]
    keys = keys_of(one)
    assert [keys[name].title for name in names] == ["base alone", "+ SMoFi", "base alone", "+ SMoFi"]
    assert keys["smofi"].look == keys["fedprox(mu=0.01)+smofi"].look == METHODS["smofi"]
    together = keys_of([Panel("", [History(name) for name in names])])
    assert [together[name].title for name in names] == ["FedAvg", "SMoFi", "FedProx", "FedProx + SMoFi"]
    assert len({together[name].look for name in names}) == 4


OTHER = History("smofi", [0.5], metrics={"gain": "gain"})


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: curves_figure([Panel("", [History("fedavg", [None])])]), "at least one history with a number"),
        (lambda: curves_figure([Panel("", [*FEDAVG, OTHER])]), "runs judged by the same metric"),
        (lambda: curves_figure([Panel("", [*FEDAVG, History("a", [0.5])])], over_hours=True), "that all have a clock"),
        (lambda: bars_figure([PANEL], ["speed"]), "value='speed' is not accepted: expected one of accuracy, mean"),
        (lambda: bars_figure([Panel("", [History("fedavg", [0.5])])], ["hours"]), "expected runs with a clock"),
    ],
)
def test_what_cannot_be_drawn_is_refused(make: Callable[[], Drawing], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make()
