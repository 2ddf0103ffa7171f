"""What all trackers share, against the real packages: every number arrives, and a failing tracker ends no run."""

import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from smofi.engine.events import Event, Record, RoundDone, RunEnded, RunStarted, Warned
from smofi.errors import InputError, TrainingWarning
from smofi.track import MLflow, TensorBoard, Tracker, WandB, combine, tracker
from smofi.track.trackers import scalars

NAMES = ["tensorboard", "wandb", "mlflow"]
PAGE = Path(__file__).parents[2] / "docs" / "tracking.md"
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing leaves the machine, and nothing is written outside the test's folder."""
    folders = {f"WANDB_{kind}_DIR": str(tmp_path / f"wandb-{kind}") for kind in ("CONFIG", "CACHE", "DATA")}
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    for name, value in {"WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false", **folders, **quiet}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)


def record(round: int, **changes: Any) -> Record:
    metrics = {"top1": 0.5 + round / 8, "worst_client": 0.25, "per_client": [0.25, 0.75]}
    one = Record(round, 0.5 + round / 8, 1 / round, 2 / round, 0.25, [0, 1], [3, 4], 0.125, "1", metrics)
    return replace(one, **{"validation": 0.375, "diagnostics": {"update_divergence": 1.5}, **changes})


def numbers(round: int) -> dict[str, float]:
    """What a tracker is expected to hold of `record(round)`; all are exact in single precision but those by thirds."""
    measured = {"accuracy": 0.5 + round / 8, "loss": 1 / round, "train_loss": 2 / round, "validation": 0.375}
    clients = {"metrics/worst_client": 0.25, "metrics/per_client/0": 0.25, "metrics/per_client/1": 0.75}
    return {**measured, **clients, "learning_rate": 0.125, "seconds": 0.25, "diagnostics/update_divergence": 1.5}


def start(done: int = 0) -> RunStarted:
    return RunStarted("smofi", rounds=4, clients=5, eligible=5, per_round=2, parameters=123, done=done)


def emit(callback: Callable[[Event], None], *events: Event) -> None:
    for event in events:
        callback(event)


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty MLflow database, made once: MLflow takes seconds to create its tables."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        MLflow(tracking_uri=f"sqlite:///{path}").close()
    return path


WANDB, MLFLOW = (pytest.param(name, marks=pytest.mark.slow) for name in NAMES[1:])


@pytest.fixture(params=["tensorboard", WANDB, MLFLOW])
def open_tracker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Tracker]]:
    opened: list[Tracker] = []
    if request.param == "mlflow":
        (tmp_path / "runs").mkdir()
        shutil.copy(request.getfixturevalue("database"), tmp_path / "runs")

    def open_it() -> Tracker:
        opened.append(tracker(request.param, tmp_path / "runs" / "one", {"seed": 7, "cut": "1,1"}, "one"))
        return opened[-1]

    yield open_it
    for one in opened:
        one.close()


def read(one: Tracker) -> dict[str, Any]:
    """What the package itself finds: {"numbers": {name: {round: value}}, "config": ..., "texts": ...}."""
    from support.read_back import read_mlflow, read_tensorboard, read_wandb

    if isinstance(one, TensorBoard):
        return read_tensorboard(Path(one.where))
    if isinstance(one, MLflow):
        return read_mlflow(one.where, one.id)
    return read_wandb(Path(one.where))


@pytest.mark.parametrize("open_tracker", ["tensorboard", "wandb", MLFLOW], indirect=True)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_number_arrives_and_nothing_is_printed(
    open_tracker: Callable[[], Tracker], capfd: pytest.CaptureFixture[str]
) -> None:
    one = open_tracker()
    bare = record(4, accuracy=None, loss=None, validation=None, metrics={}, diagnostics={})
    rounds = [RoundDone(record(1)), RoundDone(record(2)), RoundDone(bare)]
    emit(one, start(), rounds[0], Warned("careful"), *rounds[1:], RunEnded(4, "the target is reached"))
    assert capfd.readouterr() == ("", "")
    found = read(one)
    for name, value in numbers(1).items():
        expected = {1: value, 2: numbers(2)[name]}
        if name in ("train_loss", "learning_rate", "seconds"):
            expected[4] = numbers(4)[name]
        assert found["numbers"][name] == expected
    assert set(found["numbers"]) == set(numbers(1))
    # each package keeps numbers in its own type
    config = {name: str(value) for name, value in found["config"].items()}
    assert (config["cut"], config["method"]) == ("1,1", "smofi")
    assert (float(config["seed"]), float(config["parameters"])) == (7, 123)
    assert "careful" in found["texts"]["warnings"]
    assert "the target is reached" in found["texts"]["stopped"]
    assert (one.closed, one.failed) == (True, None)
    with pytest.warns(TrainingWarning, match="is closed and does not record this run"):
        one(start())


def test_virtual_time_and_named_clients_are_recorded_too() -> None:
    times = {"virtual_seconds": 900.0, "virtual_end": 5400.0, "idle": [0.25, 0.75]}
    one = scalars(record(1, **times, bytes_up=[100, 20], bytes_down=[5, 6]))
    assert one == numbers(1) | {"virtual_hours": 1.5, "bytes_up": 120.0, "bytes_down": 11.0, "idle": 0.5}
    named = scalars(record(1, metrics={"per_client": {"north/east": 0.5, "south": None}}))
    assert {name for name in named if name.startswith("metrics/")} == {"metrics/per_client/north_east"}


def test_a_resumed_run_goes_on_in_the_same_record(open_tracker: Callable[[], Tracker]) -> None:
    first = open_tracker()
    emit(first, start(), RoundDone(record(1)))
    first.close(completed=False)
    if isinstance(first, WandB):
        time.sleep(1.1)  # it names folders by the second and the id
    second = open_tracker()
    emit(second, start(done=1), RoundDone(record(2)), RunEnded(2, None))
    assert first.failed is None
    assert second.failed is None
    found = read(second)["numbers"]["accuracy"]
    if isinstance(first, WandB) and isinstance(second, WandB):
        assert first.id == second.id  # offline, `wandb sync` joins the two folders by it
        found |= read(first)["numbers"]["accuracy"]
    assert found == {1: 0.625, 2: 0.75}


@contextmanager
def broken(one: Tracker) -> Iterator[None]:
    """Make writing fail in the package itself."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if isinstance(one, WandB):
        one.run.finish()
    elif isinstance(one, MLflow):
        with closing(sqlite3.connect(one.where.removeprefix("sqlite:///"))) as database, database:
            database.execute("DROP TABLE metrics")
    else:
        # the operating system refuses to let any file grow, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_tracker_that_fails_warns_once_and_goes_quiet(open_tracker: Callable[[], Tracker]) -> None:
    one, seen = open_tracker(), []
    both = combine(one, seen.append)
    emit(both, start(), RoundDone(record(1)))
    said = f"{one.name} failed .* which goes on: ."
    with pytest.warns(TrainingWarning, match=said) as caught, broken(one):
        emit(both, RoundDone(record(2)), RoundDone(record(3)), Warned("careful"), RunEnded(3, None))
    assert len(caught) == 1
    assert one.failed == str(caught[0].message)
    assert len(seen) == 6


@pytest.mark.slow
def test_an_error_in_the_run_marks_it_failed(tmp_path: Path) -> None:
    one = tracker("mlflow", tmp_path / "one", {}, "one")
    one(start())
    with pytest.raises(KeyError), one:
        raise KeyError("something else")
    assert isinstance(one, MLflow)
    assert one.client.get_run(one.id).info.status == "FAILED"


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_package_is_a_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=rf'^{name} is not installed; .*pip install "smofi\[{name}\]"$'):
        tracker(name, tmp_path, {}, "one")


@pytest.mark.slow
def test_a_tracker_that_cannot_start_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="TensorBoard cannot be started: "):
        TensorBoard(tmp_path / "file" / "below")
    with pytest.raises(InputError, match="MLflow cannot be started: "):
        MLflow(tracking_uri=f"sqlite:///{tmp_path / 'file' / 'mlflow.db'}")
    monkeypatch.setenv("HOME", str(tmp_path))  # where no key is
    with pytest.raises(InputError, match=r"Weights & Biases cannot be started: .*wandb login"):
        WandB(mode="online", dir=str(tmp_path))


@pytest.mark.slow
def test_the_page_runs_as_shown(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (tmp_path / "runs" / "first").mkdir(parents=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}  # it leaves some behind
    there = kept | {"WANDB_ERROR_REPORTING": "false", "HOME": str(tmp_path), "PYTHONPATH": str(PAGE.parents[1])}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=there, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "TrainingWarning" not in done.stderr
    assert list((tmp_path / "runs" / "first" / "tensorboard").glob("events.*"))
    assert list((tmp_path / "runs" / "first" / "wandb").glob("offline-run-*/*.wandb"))
    assert (tmp_path / "mlflow.db").exists()
