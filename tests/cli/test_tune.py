"""`smofi tune`: a method's parameters, chosen on validation data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from smofi.cli import main
from support.cells import TINY, ran, tiny

FLAGS = [word for name, value in TINY.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@pytest.mark.slow
def test_a_grid_is_trained_and_the_best_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of its runs is there already: on validation data it cannot be beaten, on test data it is bad."""
    out = tmp_path / "out"
    ran(out / "x", tiny(method="fedprox(mu=0.01)", validation=0.1), [0.0], validation=[1.0])
    asked = ["tune", "fedprox", *FLAGS, "--grid", "mu=0.1,0.01", "--output", str(out)]
    assert main(asked) == 0
    text = capsys.readouterr().out
    rows = [" ".join(line.replace("│", " ").split()) for line in text.splitlines()]
    assert re.search(r"fedprox\(mu=0\.1\), seed 0: finished in 0:\d\d, best [\d.]+% on validation data;", text)
    assert "0.01 100.0% 100.0% 1" in rows
    assert "Best: fedprox(mu=0.01). Use it with: --method 'fedprox(mu=0.01)'" in text
    assert main([*asked, "--display", "jsonl"]) == 0  # nothing is left to do
    assert "CellStarted" not in capsys.readouterr().out


def test_a_dry_run_lists_the_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(tmp_path / "out" / "x", tiny(method="fedavg", validation=0.1))  # from which the time is known
    asked = ["tune", "fedprox(0.1)+smofi", *FLAGS, "--dry-run", "--output", str(tmp_path / "out"), "--jobs", "4"]
    assert main(asked) == 0
    text = capsys.readouterr().out
    assert "fedprox(mu=0.1)+smofi(alpha=-10.0, global_momentum=0.5), seed 0" in text
    assert "20 cells" in text
    assert "The other 20 take about 32 s, 4 at a time." in text  # 20 x 6.5 s / 4


def test_a_tenth_is_held_out_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, share in enumerate((0.1, 0.3)):
        values = [0.5] if share == 0.1 else [0.25]
        path = tmp_path / "runs" / "tune-digits-fedprox" / str(number)
        ran(path, tiny(method="fedprox(mu=1)", validation=share), [0.9], validation=values)
    for flags, expected in (([], "50.0%"), (["--validation", "0.3"], "25.0%")):
        assert main(["tune", "fedprox", *FLAGS, "--grid", "mu=1", *flags, "--display", "quiet"]) == 0
        assert expected in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fedprx"], "did you mean 'fedprox'?"),
        (["fedprox", "--validation", "0"], "--validation 0 is not accepted: expected more than 0"),
        (["fedprox", "--method", "smofi"], "--method smofi is not accepted: the method to tune comes first"),
        (["fedprox", "--grid", "mu=a,b"], "--grid mu: 'a' is not accepted: expected numbers"),
        (["fedprox", "--rounds", "0"], "--rounds 0 is not accepted"),
        (["fedprox", "nope.yaml"], "nope.yaml does not exist"),
        (["fedprox", "--grid", "mu=1,-1"], "mu=-1 is not accepted: expected a number >= 0"),
        ([], "smofi tune needs METHOD, the method whose parameters are tuned, such as fedprox or fedprox+smofi"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_is_said_before_anything_is_trained(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["tune", *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
