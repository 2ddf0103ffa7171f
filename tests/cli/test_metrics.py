"""A run by other metrics than the accuracy, on data whose clients have names, from the command line to the folder."""

from __future__ import annotations

import contextlib
import io
import json
import random
from pathlib import Path

import pytest

from smofi.cli import main
from smofi.data.partitions import read_partition
from support.run_folder import rewritten

SITES = ("Berlin", "Oslo", "St. Mary's", "$small$")
QUICK = ["--partition", "natural", "--clients", "4", "--model", "mlp", "--participation", "1", "--local-epochs", "1"]
QUICK += ["--executor", "loop", "--workers", "1", "--batch-size", "2", "--optimizer", "sgd(lr=0.01)"]


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 120 patients; the smallest site has three, all to train on."""
    drawn, path = random.Random(0), tmp_path_factory.mktemp("sites") / "sites.csv"
    lines = ["age,weight,client,label"]
    for number in range(120):
        site = SITES[3] if number < 3 else SITES[number % 3]
        lines.append(f'{drawn.gauss(50, 9):.2f},{drawn.gauss(70, 9):.2f},"{site}",{"sick" if number % 5 else "well"}')
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def trained(sites: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run that is judged by its macro F1, and what was printed."""
    run, out = tmp_path_factory.mktemp("judged") / "run", io.StringIO()
    chosen = ["--metrics", "per_client", "--metrics", "macro_f1", "--metrics", "worst_client"]
    with contextlib.redirect_stdout(out):
        assert main(["run", "--data", f"csv:{sites}", *QUICK, *chosen, "--rounds", "2", "--method", "smofi", "--clock",
                     "full", "--output", str(run)]) == 0  # fmt: skip
    return run, out.getvalue()


def records(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def as_earlier(run: Path) -> None:
    """Make it a run of an earlier version, which kept nothing about metrics and names."""
    about = json.loads((run / "about.json").read_text())
    kept = {name: value for name, value in about.items() if name not in ("metrics", "chance", "client_names")}
    rewritten(run, "about.json", json.dumps(kept).encode())


def test_a_run_without_top1_is_shown_by_its_metrics_and_names(
    trained: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = trained
    assert "macro F1" in out
    assert "accuracy of each client on its own test data" in out
    assert f"Pictures: {run / 'curves.png'}" in " ".join(out.split())
    assert (run / "curves.png").exists()
    assert "The target is " in out
    assert "of smofi's best" in out
    assert "speed-up" not in out
    assert main(["show", str(run)]) == 0
    out = capsys.readouterr().out
    for word in ("macro F1", "worst client", "on its own test data", "1 local epoch ", *SITES):
        assert word in out
    assert main(["timeline", str(run)]) == 0
    assert "St. Mary's" in capsys.readouterr().out


def test_clients_are_judged_by_their_own_test_samples_and_by_name(trained: tuple[Path, str], sites: Path) -> None:
    """The test samples of each client are those that its lines of the file have and its training has not."""
    run, _ = trained
    about, last = json.loads((run / "about.json").read_text()), records(run)[-1]
    clients = last["metrics"]["per_client"]  # type: ignore[index]
    assert about["client_names"] == list(clients)
    assert set(clients) == set(SITES)
    assert list(about["metrics"]) == ["macro_f1", "worst_client", "per_client"]
    owner = read_partition(run / "partition.safetensors")
    lines = sites.read_text().splitlines()[1:]
    for number, name in enumerate(clients):
        mine = sum(f'"{name}"' in line for line in lines)
        tests = mine - int((owner == number).sum())
        accuracy = clients[name]
        assert (accuracy is None) == (tests == 0)
        assert accuracy is None or (accuracy * tests) == pytest.approx(round(accuracy * tests))
    known = [value for value in clients.values() if value is not None]
    assert last["metrics"]["worst_client"] == min(known)  # type: ignore[index]


def test_a_run_of_an_earlier_version_goes_on_by_training_samples(
    sites: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its clients were judged by the samples they train on, by number."""
    run = tmp_path / "run"
    begin = ["run", "--data", f"csv:{sites}", *QUICK, "--method", "smofi", "--output", str(run)]
    assert main([*begin, "--metrics", "per_client", "--rounds", "1", "--display", "quiet"]) == 0
    as_earlier(run)
    assert main(["show", str(run)]) == 0
    assert "mean of clients (on training data)" in capsys.readouterr().out
    assert main(["run", "--resume", str(run), "--rounds", "2"]) == 0
    assert "accuracy of each client on its training data" in capsys.readouterr().out
    last = records(run)[-1]["metrics"]["per_client"]  # type: ignore[index]
    assert isinstance(last, list)
    assert None not in last


def test_a_run_of_an_earlier_version_is_judged_by_the_accuracy_whatever_its_first_metric(
    sites: Path, tmp_path: Path
) -> None:
    """`validation` was the accuracy in every run: half of a history by another measure would mislead the best round."""
    three = ["3" if word == "4" else word for word in QUICK]  # too few samples of the smallest site are left
    begin = ["run", "--data", f"csv:{sites}", *three, "--method", "smofi", "--validation", "0.3"]
    accuracy, f1 = ["--metrics", "top1", "--metrics", "macro_f1"], ["--metrics", "macro_f1", "--metrics", "top1"]
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    assert main([*begin, *accuracy, "--rounds", "2", "--output", str(whole)]) == 0
    assert main([*begin, *f1, "--rounds", "1", "--output", str(resumed)]) == 0
    as_earlier(resumed)
    assert main(["run", "--resume", str(resumed), "--rounds", "2"]) == 0
    assert records(resumed)[1]["validation"] == records(whole)[1]["validation"]
    assert "metrics: [top1, macro_f1]" in (resumed / "config.yaml").read_text()
