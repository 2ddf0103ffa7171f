"""`smofi compare` and `smofi plot`, on folders as runs leave them."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from smofi.cli import main
from smofi.errors import InputError
from smofi.report.asked import Request
from smofi.report.figures import figure_of
from smofi.report.snapshots import counted, gather
from smofi.runs.folder import METRICS
from support.finished_runs import put_run
from support.run_folder import write_comparison

FEDAVG, SMOFI = ([0.2, 0.6, 0.8], [0.4, 0.6, 0.7]), ([0.6, 0.8, 0.9], [0.7, 0.8, 0.9])
HOURS = [2.0, 4.0, 6.0]


def put_all(folder: Path, **settings: Any) -> Path:
    for seed in (0, 1):
        for method, values in (("fedavg", FEDAVG), ("smofi", SMOFI)):
            put_run(folder / f"{method}-{seed}", method, values[seed], seed=seed, hours=HOURS, **settings)
    return folder


def compared(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> str:
    assert main(["compare", *map(str, arguments)]) == code
    shown = capsys.readouterr()
    return shown.out if code == 0 else shown.err


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


# compare


def test_any_mix_of_folders_is_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A comparison, a run, and a folder that has both of them below it: each run counts once."""
    both = tmp_path / "both"
    for method, values in (("fedavg", FEDAVG), ("smofi", SMOFI)):
        put_run(both / method, method, values[0])
    write_comparison(both, "method: [fedavg, smofi]\n", ["fedavg", "smofi"])
    alone = [put_run(tmp_path / m, m, v[1], seed=1) for m, v in (("fedavg", FEDAVG), ("smofi", SMOFI))]
    mixed = rows(compared(capsys, both, *alone, tmp_path, "--format", "csv"))
    assert [(row["method"], row["seeds"], row["speed_up"]) for row in mixed] == [
        ("fedavg", "2", "1"),
        ("smofi", "2", "2"),
    ]


def test_setups_have_tables_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_all(tmp_path / "even")
    put_all(tmp_path / "uneven", partition="shards(2)")
    text = compared(capsys, tmp_path)
    assert text.index("partition iid") < text.index("partition shards(2)")
    found = rows(compared(capsys, tmp_path, "--format", "csv"))
    assert [(row["partition"], row["method"]) for row in found] == [
        (partition, method) for partition in ("iid", "shards(2)") for method in ("fedavg", "smofi")
    ]
    per_seed = rows(compared(capsys, tmp_path / "even", "--format", "csv", "--per-seed"))
    assert [(row["seed"], Path(row["folder"]).name) for row in per_seed][:2] == [("0", "fedavg-0"), ("1", "fedavg-1")]


def test_runs_that_do_not_count_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_all(tmp_path)
    put_run(tmp_path / "short", "slowmo(lr=1.0, momentum=0.5)", [0.5], rounds=3)
    put_run(tmp_path / "gone", "smofi", [0.5, float("nan")], seed=2, rounds=3, result={"diverged": True})
    put_run(tmp_path / "early", "fednag", [0.7, 0.8], rounds=3, result={"stopped": "no better for 2 rounds"})
    text = " ".join(compared(capsys, tmp_path).split())
    for sentence in (
        "slowmo(lr=1.0, momentum=0.5) with seed 0 is left out: it is interrupted, round 1 of 3",
        "smofi with seed 2 is left out: it diverged after round 2 of 3, so the mean of the other seeds flatters",
        "fednag with seed 0 ended early, after round 2: no better for 2 rounds",
        "* Some runs do not count.",
    ):
        assert sentence in text
    found = {row["method"]: row for row in rows(compared(capsys, tmp_path, "--format", "csv"))}
    slowmo = found["slowmo(lr=1.0, momentum=0.5)"]
    assert (slowmo["seeds"], slowmo["best"], slowmo["complete"]) == ("", "", "False")
    assert (found["smofi"]["seeds"], found["smofi"]["complete"]) == ("2", "False")


def test_a_damaged_run_is_left_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_all(tmp_path)
    (tmp_path / "smofi-0" / "model.safetensors").write_bytes(b"")
    text = " ".join(compared(capsys, tmp_path, "--format", "markdown").split())
    assert "smofi with seed 0 is left out: damaged:" in text
    (tmp_path / "smofi-1" / METRICS).write_text("{}\n")
    assert f"{tmp_path / 'smofi-1' / METRICS}" in compared(capsys, tmp_path, "--format", "csv", code=2)


@pytest.mark.parametrize(
    ("about", "seed", "words"),
    [
        ({"data_sha256": "e" * 64}, 5, "ran on other data (data_sha256 eeeeeeeeeeee instead of dddddddddddd)"),
        ({"devices_sha256": "f" * 64}, 0, "ran with other devices"),
    ],
)
def test_other_data_behind_the_same_settings_is_refused(
    about: dict[str, str], seed: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_run(tmp_path / "one", "fedavg", FEDAVG[0], about={"devices_sha256": "0"})
    put_run(tmp_path / "two", "smofi", SMOFI[0], seed=seed, about={"devices_sha256": "0"} | about)
    assert words in compared(capsys, tmp_path, code=2)


@pytest.mark.parametrize(
    ("command", "name", "first"),
    [
        ("compare", "t.txt", b"Made by smofi"),
        ("compare", "t.md", b"<!-- Made by smofi"),
        ("compare", "t.tex", b"% Made by smofi"),
        ("compare", "t.csv", b"setup,method"),
        ("plot", "f.svg", b"<?xml"),
        ("plot", "f.pdf", b"%PDF"),
        ("plot", "f.png", b"\x89PNG"),
    ],
)
def test_the_file_names_the_format_and_nothing_is_replaced_unasked(
    command: str, name: str, first: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [command, str(put_all(tmp_path / "runs")), "-o", str(tmp_path / name)]
    assert main(asked) == 0
    assert str(tmp_path / name) in capsys.readouterr().out
    assert (tmp_path / name).read_bytes().lstrip().startswith(first)
    (tmp_path / name).write_bytes(b"mine")
    assert main(asked) == 2
    assert "--force replaces any other" in capsys.readouterr().err
    assert (tmp_path / name).read_bytes() == b"mine"
    assert main([*asked, "--force"]) == main(asked) == 0  # then it is ours
    assert (tmp_path / name).read_bytes().lstrip().startswith(first)


# plot


def drawn(*folders: Path, own_axes: bool = False, **asked: Any) -> Any:
    drawing = figure_of(counted(gather(folders)[0]), Request(**asked), own_axes=own_axes)
    figure = Figure(figsize=drawing.size)
    drawing.compose(figure)
    return figure


def test_runs_that_are_not_drawn_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_all(tmp_path / "runs")
    put_run(tmp_path / "runs" / "short", "fednag", [0.5], rounds=3)
    assert main(["plot", str(tmp_path / "runs"), "-o", str(tmp_path / "f.svg")]) == 0
    assert "note: fednag with seed 0 is left out: it is interrupted, round 1 of 3" in capsys.readouterr().err


def test_a_panel_for_each_setup_or_base(tmp_path: Path) -> None:
    put_all(tmp_path / "1", partition="iid")
    put_all(tmp_path / "2", partition="dirichlet(0.5, balance=True)")
    figure = drawn(tmp_path, by="partition", hours=True)
    assert [axes.get_title() for axes in figure.axes] == ["dirichlet(0.5)", "iid"]
    assert figure.axes[0].get_xlabel() == "hours on the clients' devices"
    assert figure.axes[0].get_shared_y_axes().joined(*figure.axes)
    own = drawn(tmp_path, own_axes=True).axes
    assert not own[0].get_shared_y_axes().joined(*own)
    with pytest.raises(InputError, match="of 2 setups, which differ in partition: expected one setup"):
        drawn(tmp_path, kind="curves")
    put_run(tmp_path / "1/3", "fednar", FEDAVG[0])
    put_run(tmp_path / "1/4", "fednar+smofi", SMOFI[0])
    figure = drawn(tmp_path / "1", by="base")
    assert [axes.get_title() for axes in figure.axes] == ["FedAvg", "FedNAR"]
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == ["base alone", "+ SMoFi"]


def test_points_over_a_parameter_or_a_cut(tmp_path: Path) -> None:
    """Alpha is -0.1 where a method does not name it, and FedAvg, which has none, is dashed across."""
    put_all(tmp_path / "all")
    put_run(tmp_path / "other", "smofi(alpha=-10)", [0.1, 0.2, 0.5])
    put_run(tmp_path / "alone", "fednag", [0.1, 0.2, 0.5])
    (axes,) = drawn(tmp_path, over="alpha", values=("mean",)).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["-10", "-0.1"]
    fedavg, _, smofi = (line for line in axes.lines if len(line.get_xdata()) == 2)
    assert fedavg.is_dashed()
    assert list(fedavg.get_ydata()) == pytest.approx([0.55] * 2)
    assert list(smofi.get_ydata()) == pytest.approx([0.8 / 3, 4.7 / 6])
    cuts = [put_run(tmp_path / cut, "smofi", SMOFI[0], cut=cut) for cut in ("0", "2")]
    (axes,) = drawn(tmp_path / "all", *cuts, over="cut", values=("rounds",)).axes
    fedavg, smofi = (line for line in axes.lines if len(line.get_xdata()) == 3)
    assert [list(fedavg.get_ydata()), list(smofi.get_ydata())] == [[3, 3, 3], [2, 1.5, 2]]
