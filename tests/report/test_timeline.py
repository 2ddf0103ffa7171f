"""Timelines: rounds worked out by hand, replayed from run folders, and drawn."""

from __future__ import annotations

import io
import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from smofi import experiment
from smofi.cli import main
from smofi.clock.replay import Span
from smofi.config import Config
from smofi.errors import InputError
from smofi.report.timeline import Line, Timeline, pieces, read_timelines, timeline_table
from support.run_folder import rewritten

SPEEDS = [400, 40, 80, 20]  # ms a sample, of each client
SETTINGS: dict[str, Any] = {
    "cut": "1",
    "model": "cnn",
    "width": 4,
    "max_train": 512,
    "clients": 4,
    "participation": 1.0,
    "partition": "iid",
    "batch_size": 64,
    "local_epochs": 1,
    "rounds": 2,
    "executor": "loop",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several runs on four devices, the first by far the slowest."""
    home = tmp_path_factory.mktemp("timeline")
    devices, there = str(home / "devices.csv"), str(home / "there.csv")
    rows = [f"{speed},8000,8000" for speed in SPEEDS]
    Path(devices).write_text("\n".join(["ms_per_sample,up_kbps,down_kbps", *rows]) + "\n")
    # the second device leaves two seconds into every hundred
    traces = [f"{device},0,100,0,{end}" for device, end in enumerate((100, 2, 100, 100))]
    Path(there).write_text("\n".join(["device,trace_start_s,trace_end_s,ready_start_s,ready_end_s", *traces]) + "\n")
    kinds: dict[str, dict[str, Any]] = {
        "both": {"clock": "full", "devices": devices, "method": ["fedavg", "smofi"]},
        "late": {"clock": "full", "devices": devices, "method": ["smofi"], "step_deadline": 20.0},
        "gone": {"clock": "paper", "devices": devices, "method": ["fedavg"], "availability": there},
        "untimed": {"method": ["fedavg"]},
        "seeds": {
            "clock": "full",
            "devices": devices,
            "method": ["fedavg"],
            "partition": "dirichlet(1)",
            "seeds": "0-1",
        },
    }
    for name, settings in kinds.items():
        for one in experiment.start(Config(**SETTINGS | settings), home / name):
            one.train()
    return home


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def shown(timeline: Timeline, width: int = 80) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width).print(timeline_table(timeline))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def example(lines: int = 3, steps: int = 4, seconds: float = 100.0) -> Timeline:
    """Clients that take `steps` steps, faster and faster from client to client, half of them sending."""
    made = []
    for client in range(lines):
        each = seconds / steps / (client + 1)
        starts = [number * each for number in range(steps)]
        spans = [Span(client, "compute", start, start + each / 2) for start in starts]
        spans += [Span(client, "up", start + each / 2, start + each) for start in starts]
        spans.sort(key=lambda span: span.start)
        made.append(Line(client, steps, steps, seconds, seconds / (client + 1), "", spans))
    return Timeline("an example", "fedavg", 1, 0.0, seconds, made[::-1])


def test_a_round_is_what_the_record_says(runs: Path) -> None:
    """Steps, idle shares, times and who is left out, found again from the spans of the replay."""
    for name in ("both/fedavg", "both/smofi", "late", "gone"):
        for number, record in enumerate(records(runs / name), start=1):
            (timeline,) = read_timelines(runs / name, number)
            assert timeline.start + timeline.seconds == pytest.approx(record["virtual_end"])
            lines = {line.client: line for line in timeline.lines}
            assert [lines[client].steps for client in record["selected"]] == record["steps"]
            assert [lines[client].idle for client in record["selected"]] == pytest.approx(record["idle"])
            assert [client for client in record["selected"] if lines[client].lost] == record["left_out"]


def test_who_waits_for_whom(runs: Path) -> None:
    """The client whose device takes 400 ms a sample computes five times as long as the next one. Under FedAvg the
    others are done and wait; under SMoFi they take each of the two steps together."""
    fedavg, smofi = read_timelines(runs / "both")
    assert [fedavg.method, smofi.method, fedavg.round] == ["fedavg", "smofi", 2]
    assert [line.client for line in fedavg.lines] == [3, 1, 2, 0]
    for timeline in (fedavg, smofi):
        compute = {line.client: line.seconds["compute"] for line in timeline.lines}
        ratios = [compute[client] / compute[0] for client in range(4)]
        assert ratios == pytest.approx([speed / SPEEDS[0] for speed in SPEEDS])
        assert timeline.slowest.client == 0
        assert timeline.slowest.idle == pytest.approx(0.0, abs=1e-9)

    def begins(timeline: Timeline, client: int) -> float:
        """When the first backward pass has ended and the second step begins."""
        spans = next(line.spans for line in timeline.lines if line.client == client)
        return [span for span in spans if span.kind == "compute"][2].start

    assert begins(fedavg, 3) < begins(fedavg, 0) / 5
    assert begins(smofi, 3) == begins(smofi, 0)


def test_the_late_and_the_gone_are_told(runs: Path) -> None:
    (late,) = read_timelines(runs / "late")
    fates = {line.client: (line.fate, line.steps, line.planned) for line in late.lines}
    assert fates[0] == ("too late", 0, 2)
    assert [fates[client] for client in (1, 2, 3)] == [("", 2, 2)] * 3
    (gone,) = read_timelines(runs / "gone", 1)
    (left,) = [line for line in gone.lines if line.fate]
    assert (left.client, left.fate, left.steps) == (1, "left", 0)
    assert left.present == left.until == 2.0
    row = next(line for line in shown(gone) if line.split()[:2] == ["1", "0/2"])
    assert row.endswith("left")


def test_the_table_has_a_row_for_each_client() -> None:
    lines = shown(example())
    assert lines[0] == "fedavg, round 1  takes 100 s, starting at 0:00; clients wait 38.9% of their time"
    rows = [line.split() for line in lines[2:]]
    assert rows[0] == ["client", "steps", "compute", "up", "server", "down", "waiting", "until", "idle"]
    # client 2 is three times as fast as client 0
    assert rows[1] == ["2", "4", "17", "17", "0", "0", "67", "33", "66.7%"]
    assert rows[3] == ["0", "4", "50", "50", "0", "0", "0", "100", "0.0%", "slowest"]
    assert rows[4] == ["mean", "31", "31", "0", "0", "39", "61", "38.9%"]


def test_short_steps_are_drawn_together_and_nothing_is_lost() -> None:
    line = example(lines=1, steps=10_000).lines[0]
    found = list(pieces(line, pixel=0.1))
    assert len(found) <= 100 / (24 * 0.1) + 2
    assert sum(piece.seconds["compute"] for piece in found) == pytest.approx(50.0)
    assert sum(piece.seconds["up"] for piece in found) == pytest.approx(50.0)
    assert all(piece.share("compute") == pytest.approx(0.5, abs=0.01) for piece in found)
    assert all(one.end <= other.start + 1e-9 for one, other in pairwise(found))


def test_the_command(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "round.png"
    assert main(["timeline", str(runs / "both"), "--round", "1", "--output", str(picture)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert [line.split("  ")[0] for line in out.splitlines() if ", round " in line] == [
        "fedavg, round 1",
        "smofi, round 1",
    ]
    assert out.count("slowest") == 2
    assert out.endswith(f"Picture: {picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["timeline", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def test_what_cannot_be_shown_is_refused(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = str(runs / "both")
    assert "a run with a clock, for example made by: smofi run --clock full" in refused(capsys, str(runs / "untimed"))
    assert "there is none" in refused(capsys, str(tmp_path / "nowhere"))
    for number in ("0", "3", "-1"):
        sentence = f"round={number} is not accepted: expected a whole number >= 1 and <= 2"
        assert sentence in refused(capsys, both, "--round", number)
    assert "ends in .png, .svg or .pdf" in refused(capsys, both, "--output", "round.gif")
    assert "a file in a folder that exists" in refused(capsys, both, "--output", str(tmp_path / "no" / "round.png"))


def test_other_devices_than_those_of_the_run_are_noticed(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "late", tmp_path / "late")
    config = (tmp_path / "late" / "config.yaml").read_text()
    (tmp_path / "other.csv").write_text("ms_per_sample,kbps\n" + "30,9000\n" * 4)
    changed = config.replace(str(runs / "devices.csv"), str(tmp_path / "other.csv"))
    assert changed != config
    (tmp_path / "late" / "config.yaml").write_text(changed)
    with pytest.raises(InputError, match=r"config\.yaml is not what the run saved .*Put the original back; other"):
        read_timelines(tmp_path / "late")
    rewritten(tmp_path / "late", "config.yaml", changed.encode())
    with pytest.raises(InputError, match="its round 2 comes out differently from its record"):
        read_timelines(tmp_path / "late")
