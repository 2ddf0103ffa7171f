"""What is decided when a run begins stands in its folder, and is not decided again."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from smofi.cli import main
from smofi.config import Config
from smofi.engine.cohort import choosing
from smofi.engine.cohort.measurements import StepTimes
from smofi.engine.processes.workers import DistributedWorkers
from smofi.experiment import FolderRun, resume, start
from support.crash import same_end
from support.run_folder import rewritten

SETTINGS: dict[str, Any] = {
    "clients": 6, "participation": 1.0, "partition": "iid", "max_train": 240, "max_test": 40, "model": "cnn",
    "width": 2, "method": ["smofi"], "rounds": 2, "local_epochs": 1, "batch_size": 8, "checkpoint_every": 1,
}  # fmt: skip
FAST_AT_ONCE = StepTimes(0.002, 0.005, 0.009)
"""c clients at once take 3 + c ms, one by itself 2 ms: at once pays from 3 clients on."""

NOTHING_GAINED = StepTimes(0.002, 0.004, 0.012)
AT_ONCE = "vmap(at_least=3)"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Says what a measurement gives from now on; None forbids to measure."""

    def say(times: StepTimes | None) -> None:
        def measure(*_: object) -> StepTimes:
            assert times, "it is decided, and was measured again"
            return times

        monkeypatch.setattr(choosing, "measured_before", measure)

    return say


def begun(folder: Path, **changes: Any) -> list[FolderRun]:
    return start(Config(**SETTINGS | changes), folder)


def trained(runs: list[FolderRun]) -> None:
    for one in runs:
        one.train()


def config_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / "config.yaml").read_text())
    return found


def about(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "about.json").read_text())
    return found


# ------------------------------------------------------------------------------------------------------------- executor


@pytest.mark.parametrize(
    ("times", "changes", "executor", "why"),
    [
        (FAST_AT_ONCE, {}, AT_ONCE, "auto, measured: about 1.3 times as fast as client by client"),
        (NOTHING_GAINED, {}, "loop", "auto, measured: many at once would hardly be faster"),
        (StepTimes(obstacle="it has an odd layer"), {}, "loop", "auto: it has an odd layer"),
        (None, {"executor": "vmap(2)"}, "vmap(at_least=2)", "as asked"),
        (None, {"executor": "vmap", "method": "sflv2"}, "loop", "vmap: sflv2 has a single server model"),
        (None, {"diagnose": True}, "loop", "auto: diagnose looks at each client on its own"),
    ],
)
def test_what_is_decided_is_in_the_folder(
    times: StepTimes | None, changes: dict[str, Any], executor: str, why: str, measured: Any, tmp_path: Path
) -> None:
    measured(times)
    (one,) = begun(tmp_path / "run", **changes)  # before the first round
    one.close()
    assert config_of(tmp_path / "run")["executor"] == executor
    found = about(tmp_path / "run")
    assert (found["executor"], found["executor_why"]) == (executor, why)
    assert (found["threads"], found["workers"]) == (1, 1)


def test_the_folder_repeats_the_decision_without_measuring(measured: Any, tmp_path: Path) -> None:
    measured(FAST_AT_ONCE)
    trained(begun(tmp_path / "first"))
    measured(None)
    again, config = ["--output", str(tmp_path / "second"), "--display", "quiet"], tmp_path / "first/config.yaml"
    assert main(["run", str(config), *again]) == 0
    same_end(tmp_path / "second", tmp_path / "first")
    assert (tmp_path / "second/config.yaml").read_bytes() == config.read_bytes()
    trained(begun(tmp_path / "other", executor="loop"))  # which shows that the decision can be seen in the bits
    with pytest.raises(AssertionError):
        same_end(tmp_path / "other", tmp_path / "first")


def test_a_resumed_run_keeps_the_decision_unless_it_is_told_otherwise(measured: Any, tmp_path: Path) -> None:
    measured(FAST_AT_ONCE)
    trained(begun(tmp_path / "straight"))
    (run,) = begun(tmp_path / "run", rounds=1)
    run.close()  # it ended before its first round was saved
    measured(None)
    trained(resume(tmp_path / "run", {"rounds": 2}))
    same_end(tmp_path / "run", tmp_path / "straight")
    assert config_of(tmp_path / "run")["executor"] == AT_ONCE
    for asked, executor in (("loop", "loop"), ("vmap(2)", "vmap(at_least=2)"), ("vmap", "vmap")):
        (one,) = resume(tmp_path / "run", {"executor": asked})
        one.close()
        assert one.executor == executor == config_of(tmp_path / "run")["executor"]


def test_a_folder_that_says_auto_goes_on_as_its_checkpoint_says(measured: Any, tmp_path: Path) -> None:
    """So it is with folders written before the decision stood in them, and if auto is asked for again."""
    measured(FAST_AT_ONCE)
    trained(begun(tmp_path / "straight"))
    trained(begun(tmp_path / "run", rounds=1))
    config = tmp_path / "run/config.yaml"
    changed = config.read_text().replace(f"executor: {AT_ONCE}", "executor: auto")
    rewritten(tmp_path / "run", "config.yaml", changed.encode())
    measured(NOTHING_GAINED)
    trained(resume(tmp_path / "run", {"rounds": 2}))
    same_end(tmp_path / "run", tmp_path / "straight")
    assert config_of(tmp_path / "run")["executor"] == AT_ONCE


def test_each_method_of_a_comparison_has_its_own(measured: Any, tmp_path: Path) -> None:
    measured(FAST_AT_ONCE)
    trained(begun(tmp_path / "first", method=["smofi", "sflv2"]))
    decided = {"smofi": AT_ONCE, "sflv2": "loop"}
    assert config_of(tmp_path / "first")["executor"] == list(decided.values())
    measured(None)
    runs = start(Config(**config_of(tmp_path / "first") | {"rounds": 1}), tmp_path / "resumed")
    runs[0].train()
    runs[1].close()
    trained(resume(tmp_path / "resumed", {"rounds": 2}))
    for method, executor in decided.items():
        for folder in (tmp_path / "first", tmp_path / "resumed"):
            assert config_of(folder / method)["executor"] == about(folder / method)["executor"] == executor
            same_end(folder / method, tmp_path / "first" / method)


# -------------------------------------------------------------------------------------------------- threads and workers


@pytest.fixture
def one_thread() -> Any:
    """One thread, as in all other tests, whatever a test does."""
    yield
    torch.set_num_threads(1)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.slow
def test_the_folder_repeats_the_number_of_threads_unless_told_otherwise(tmp_path: Path) -> None:
    first, quick = tmp_path / "first", ["--rounds", "1", "--executor", "loop", "--display", "quiet"]
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SETTINGS))
    assert main(["run", str(tmp_path / "small.yaml"), *quick, "--threads", "2", "--output", str(first)]) == 0
    assert config_of(first)["threads"] == about(first)["threads"] == torch.get_num_threads() == 2
    torch.set_num_threads(3)
    (one,) = resume(first, {"rounds": 2})
    one.close()
    assert torch.get_num_threads() == 2


def test_what_several_runs_would_remark_is_remarked_once(tmp_path: Path) -> None:
    config = Config(**SETTINGS | {"method": ["fedavg", "smofi"], "executor": "loop"})
    remarks = {}
    for size in (2, 3, 4):
        runs = start(config, tmp_path / str(size), workers=DistributedWorkers(0, size, "gloo"))
        for one in runs:
            one.close()
        remarks[size] = [one.session.run.remarks for one in runs]
        assert about(tmp_path / str(size) / "smofi")["workers"] == size
        assert (
            config_of(tmp_path / str(size))["workers"] == config_of(tmp_path / str(size) / "smofi")["workers"] == size
        )
    said = "with 3 workers, the last bits of all numbers differ from those of 1, 2, 4 or 8 workers"
    assert remarks == {2: [[], []], 3: [[said], []], 4: [[], []]}
