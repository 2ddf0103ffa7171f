"""Runs found below folders, and the setups they form."""

from __future__ import annotations

from pathlib import Path

import pytest

from smofi.errors import InputError
from smofi.report.snapshots import find_runs, read_runs, setups_of
from support.run_folder import write_run

SETTINGS = """data: digits
clients: 10
partition: {partition}
method: [{method}]
executor: {executor}
rounds: 2
seed: {seed}
"""


def put(path: Path, method: str = "smofi", seed: int = 0, partition: str = "iid", executor: str = "loop") -> Path:
    config = SETTINGS.format(partition=partition, method=method, seed=seed, executor=executor)
    write_run(path, config, [{"round": number, "accuracy": number / 4, "seconds": 1.0} for number in (1, 2)])
    return path


def test_runs_are_found_at_any_depth_each_once(tmp_path: Path) -> None:
    first, second = put(tmp_path / "a" / "deep" / "one"), put(tmp_path / "b", seed=1)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "read me.txt").write_text("not a run")
    assert [run.path for run in read_runs([tmp_path, first])] == [first, second]


def test_a_setup_has_all_methods_and_seeds_however_they_were_computed(tmp_path: Path) -> None:
    put(tmp_path / "1", "fedavg", 0)
    put(tmp_path / "2", "smofi", 1, executor="vmap")
    put(tmp_path / "3", "fedavg", 0, partition="shards(2)")
    even, uneven = setups_of(read_runs([tmp_path]))
    assert [(history.name, history.seed) for history in even.histories] == [("fedavg", 0), ("smofi", 1)]
    assert (even.name, uneven.name) == ("partition iid", "partition shards(2)")
    assert setups_of(even.runs)[0].name == ""


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("none", "expected the folder of a run, but there is none"),
        ("empty", "expected the folder of a run, or one with runs below it, but it has none"),
        ("letters", "expected the folder of a run, or one with runs below it, but it has none"),
    ],
)
def test_a_folder_without_runs_is_refused(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "letters" / "old").mkdir(parents=True)
    (tmp_path / "letters" / "old" / "one.txt").write_text("Dear friend")
    for read in (read_runs, find_runs):
        with pytest.raises(InputError, match=f"{name}.*{sentence}"):
            read([tmp_path / name])
