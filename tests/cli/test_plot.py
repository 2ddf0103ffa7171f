"""`smofi plot`, on folders as runs leave them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from smofi.cli import main
from smofi.errors import InputError
from smofi.report.asked import VALUES, Request
from smofi.report.figures import VALUES as DRAWN
from smofi.report.figures import figure_of
from smofi.report.snapshots import gather
from support.finished_runs import put_run

FEDAVG, SMOFI = ([0.2, 0.6, 0.8], [0.4, 0.6, 0.7]), ([0.6, 0.8, 0.9], [0.7, 0.8, 0.9])
HOURS = [2.0, 4.0, 6.0]


def put_all(folder: Path, **settings: Any) -> Path:
    for seed in (0, 1):
        for method, values in (("fedavg", FEDAVG), ("smofi", SMOFI)):
            put_run(folder / f"{method}-{seed}", method, values[seed], seed=seed, hours=HOURS, **settings)
    return folder


def drawn(*folders: Path, own_axes: bool = False, **asked: Any) -> Any:
    drawing = figure_of(gather(folders).counted, Request(**asked), own_axes=own_axes)
    figure = Figure(figsize=drawing.size)
    drawing.compose(figure)
    return figure


def test_one_setup_is_drawn_as_curves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_all(tmp_path / "runs")
    put_run(tmp_path / "runs" / "short", "fednag", [0.5], rounds=3)
    for name in ("curves.svg", "curves.pdf", "curves.png"):
        assert main(["plot", str(tmp_path / "runs"), "-o", str(tmp_path / name)]) == 0
        shown = capsys.readouterr()
        assert shown.out == f"Figure: {tmp_path / name}\n"
        assert "note: fednag with seed 0 is left out: it is interrupted, round 1 of 3" in shown.err
    assert b"smofi" in (tmp_path / "curves.pdf").read_bytes()


def test_only_a_picture_of_ours_is_replaced_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = str(put_all(tmp_path / "runs"))
    for name in ("curves.svg", "curves.pdf", "curves.png"):
        file = tmp_path / name
        file.write_bytes(b"mine")
        assert main(["plot", runs, "-o", str(file)]) == 2
        assert (
            "expected a new file, or a picture that smofi drew; --force replaces any other" in capsys.readouterr().err
        )
        assert file.read_bytes() == b"mine"
        assert main(["plot", runs, "-o", str(file), "--force"]) == main(["plot", runs, "-o", str(file)]) == 0


def test_a_panel_for_each_setup(tmp_path: Path) -> None:
    put_all(tmp_path / "1", partition="iid")
    put_all(tmp_path / "2", partition="dirichlet(0.5, balance=True)")
    figure = drawn(tmp_path, by="partition", hours=True)
    assert [axes.get_title() for axes in figure.axes] == ["dirichlet(0.5)", "iid"]
    assert figure.axes[0].get_xlabel() == "hours on the clients' devices"
    assert figure.axes[0].get_shared_y_axes().joined(*figure.axes)
    own = drawn(tmp_path, own_axes=True).axes
    assert not own[0].get_shared_y_axes().joined(*own)
    assert [axes.get_title() for axes in drawn(tmp_path).axes] == ["partition dirichlet(0.5)", "partition iid"]
    with pytest.raises(InputError, match="of 2 setups, which differ in partition: expected one setup"):
        drawn(tmp_path, kind="curves")


def test_a_panel_for_each_base(tmp_path: Path) -> None:
    put_all(tmp_path)
    put_run(tmp_path / "3", "fednar", FEDAVG[0])
    put_run(tmp_path / "4", "fednar+smofi", SMOFI[0])
    figure = drawn(tmp_path, by="base")
    assert [axes.get_title() for axes in figure.axes] == ["FedAvg", "FedNAR"]
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == ["base alone", "+ SMoFi"]


def test_bars_for_each_setup(tmp_path: Path) -> None:
    put_all(tmp_path / "1", cut="1")
    put_all(tmp_path / "2", cut="0")
    figure = drawn(tmp_path, kind="bars", by="cut", values=("accuracy", "rounds"))
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["cut 0", "cut 1"]
    assert [patch.get_height() for patch in figure.axes[1].patches] == pytest.approx([3, 1.5, 3, 1.5])


def test_points_over_a_parameter_of_a_method(tmp_path: Path) -> None:
    """Alpha is -0.1 where a method does not name it, and FedAvg, which has none, is dashed across."""
    put_all(tmp_path)
    put_run(tmp_path / "other", "smofi(alpha=-10)", [0.1, 0.2, 0.5])
    put_run(tmp_path / "alone", "fednag", [0.1, 0.2, 0.5])
    (axes,) = drawn(tmp_path, over="alpha", values=("mean",)).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["-10", "-0.1"]
    fedavg, _, smofi = (line for line in axes.lines if len(line.get_xdata()) == 2)
    assert fedavg.is_dashed()
    assert list(fedavg.get_ydata()) == pytest.approx([0.55] * 2)
    assert list(smofi.get_ydata()) == pytest.approx([0.8 / 3, 4.7 / 6])
    assert axes.get_xlabel() == "alpha"


def test_over_cuts_fedavg_of_one_stands_for_all(tmp_path: Path) -> None:
    put_all(tmp_path / "all")
    for cut in ("0", "2"):
        put_run(tmp_path / cut, "smofi", SMOFI[0], cut=cut)
    put_run(tmp_path / "alone", "fednag", [0.1, 0.2, 0.5])
    (axes,) = drawn(tmp_path, over="cut", values=("rounds",)).axes
    fedavg, smofi = (line for line in axes.lines if len(line.get_xdata()) == 3)
    assert [list(fedavg.get_ydata()), list(smofi.get_ydata())] == [[3, 3, 3], [2, 1.5, 2]]


def test_the_values_that_can_be_asked_for_are_those_that_are_drawn() -> None:
    assert tuple(DRAWN) == VALUES


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["-o", "figure.gif"],
            "--output='figure.gif' is not accepted: expected a file name that ends in .png, .svg or .pdf",
        ),
        (["-o", "f.svg", "--kind", "pie"], "--kind pie is not accepted: expected one of curves, panels, bars"),
        (["-o", "f.svg", "--value", "speed"], "--value speed is not accepted: expected one of accuracy, mean"),
        (["-o", "f.svg", "--width", "wide"], "--width wide is not accepted: expected one of column, page"),
        (["-o", "f.svg", "--target", "70"], "--target 70 is not accepted"),
        (["-o", "f.svg", "--over", "cut", "--kind", "bars"], "--over cut is not accepted: expected no --kind with it"),
        (["-o", "f.svg", "--hours", "--kind", "bars"], "--hours is not accepted: expected curves"),
        (["-o", "f.svg", "--own-axes", "--kind", "bars"], "--own-axes is not accepted: expected curves"),
        (["-o", "f.svg", "--over", "cut"], "--over cut is not accepted: expected a setting in which these runs differ"),
        (["-o", "f.svg", "--over", "alpha"], "in which these runs differ; it is -0.1 in all of them"),
        (
            ["-o", "f.svg", "--over", "beta"],
            "--over beta is not accepted: expected a setting, or a parameter of a method",
        ),
        (
            ["-o", "f.svg", "--kind", "bars", "--value", "rounds", "--baseline", "sflv2"],
            "expected runs of sflv2 too, from which the target is taken, or a fixed target",
        ),
    ],
)
def test_refusals(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_run(tmp_path / "fedavg", "fedavg", FEDAVG[0])
    put_run(tmp_path / "smofi", "smofi", SMOFI[0])
    monkeypatch.chdir(tmp_path)
    assert main(["plot", ".", *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "f.svg").exists()
