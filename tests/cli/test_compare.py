"""`smofi compare`, on folders as runs leave them."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from smofi.cli import main
from smofi.runs.folder import METRICS
from support.finished_runs import put_run
from support.run_folder import write_comparison

FEDAVG, SMOFI = ([0.2, 0.6, 0.8], [0.4, 0.6, 0.7]), ([0.6, 0.8, 0.9], [0.7, 0.8, 0.9])
HOURS = [2.0, 4.0, 6.0]


def put_all(folder: Path, partition: str = "iid") -> Path:
    for seed in (0, 1):
        for method, values in (("fedavg", FEDAVG), ("smofi", SMOFI)):
            put_run(folder / f"{method}-{seed}", method, values[seed], seed=seed, hours=HOURS, partition=partition)
    return folder


def compared(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> str:
    assert main(["compare", *map(str, arguments)]) == code
    shown = capsys.readouterr()
    return shown.out if code == 0 else shown.err


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


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
    put_all(tmp_path / "uneven", "shards(2)")
    text = compared(capsys, tmp_path)
    assert text.index("partition iid") < text.index("partition shards(2)")
    found = rows(compared(capsys, tmp_path, "--format", "csv"))
    assert [(row["partition"], row["method"]) for row in found] == [
        ("iid", "fedavg"),
        ("iid", "smofi"),
        ("shards(2)", "fedavg"),
        ("shards(2)", "smofi"),
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


def test_a_damaged_run_is_left_out_and_the_exit_code_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_all(tmp_path)
    (tmp_path / "smofi-1" / METRICS).write_text("{}\n")
    assert main(["compare", str(tmp_path), "--format", "csv"]) == 2
    shown = capsys.readouterr()
    assert [(row["method"], row["seeds"]) for row in rows(shown.out)] == [("fedavg", "2"), ("smofi", "1")]
    assert f"{tmp_path / 'smofi-1' / METRICS}" in shown.err


def test_a_damaged_model_marks_its_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_all(tmp_path)
    (tmp_path / "smofi-1" / "model.safetensors").write_bytes(b"")
    text = " ".join(compared(capsys, tmp_path, "--format", "markdown").split())
    assert "smofi with seed 1 is left out: damaged:" in text


def test_the_same_run_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_all(tmp_path)
    put_run(tmp_path / "again", "smofi", SMOFI[0])
    sentence = compared(capsys, tmp_path, code=2)
    assert f"{tmp_path / 'again'} and {tmp_path / 'smofi-0'} are the same run, smofi with seed 0" in sentence


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
    ("name", "first"),
    [
        ("t.txt", "Made by smofi"),
        ("t.md", "<!-- Made by smofi"),
        ("t.tex", "% Made by smofi"),
        ("t.csv", "setup,method"),
    ],
)
def test_the_file_names_the_format_and_nothing_is_replaced_unasked(
    name: str, first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, file = put_all(tmp_path / "runs"), tmp_path / name
    assert str(file) in compared(capsys, runs, "--output", file)
    assert file.read_text().lstrip().startswith(first)
    file.write_text("mine")
    assert "expected a new file, or a table that smofi wrote; --force replaces any other" in compared(
        capsys, runs, "--output", file, code=2
    )
    assert file.read_text() == "mine"
    compared(capsys, runs, "--output", file, "--force")
    compared(capsys, runs, "-o", file)  # it is ours now
    assert file.read_text() != "mine"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "folder='runs' is not accepted: expected the folder of a run, but there is none"),
        (["nowhere"], "nowhere is not accepted: expected the folder of a run, but there is none"),
        ([".", "--target", "70"], "--target 70 is not accepted: expected a share of the baseline's best such as 0.9"),
        ([".", "--format", "html"], "--format html is not accepted: expected one of text, markdown, latex, csv"),
        ([".", "--per-seed"], "--per-seed is not accepted: expected --format csv with it"),
        ([".", "--output", "table.doc"], "--output table.doc is not accepted: expected a file name that ends in .txt"),
        (
            [".", "--output", "no/table.md"],
            "--output no/table.md is not accepted: expected a file in a folder that exists",
        ),
        ([".", "--baseline", "sflv2"], "--baseline sflv2 is not accepted: expected one of the runs: fedavg, smofi"),
    ],
)
def test_refusals(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "--baseline" in arguments:
        put_all(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert sentence in compared(capsys, *arguments, code=2)
