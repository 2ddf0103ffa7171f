from __future__ import annotations

import fcntl
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from smofi.cli import main
from smofi.report.show import show_runs
from smofi.report.snapshots import snapshots_in
from smofi.runs import StoredCheckpoint
from support.run_folder import going_on, write_comparison, write_run

CONFIG = """data: digits
clients: 50
partition: dirichlet(0.2, balance=True)
model: resnet8
width: 8
method: [{method}]
optimizer: sgd(lr=0.05, momentum=0.9)
cut: "1"
rounds: {rounds}
participation: 0.2
local_epochs: 5
batch_size: 8
seed: 7
device: cpu
"""


def folder(
    path: Path,
    accuracies: list[float | None],
    *,
    method: str = "smofi",
    rounds: int = 4,
    result: dict[str, Any] | None = None,
    more_settings: str = "",
    each: Sequence[dict[str, Any]] | None = None,
    **fields: Any,
) -> Path:
    """A run folder with these rounds; `each` has further fields of each round, `fields` those of all."""
    records = [
        {"round": number, "accuracy": accuracy, "seconds": 2.0, **fields, **(each[number - 1] if each else {})}
        for number, accuracy in enumerate(accuracies, start=1)
    ]
    writer = write_run(path, CONFIG.format(method=method, rounds=rounds) + more_settings, records)
    (path / ".lock").write_text(str(os.getpid()))
    if result is not None:
        ended = {
            "rounds": len(accuracies),
            "stopped": None,
            "diverged": False,
            "best_accuracy": max(filter(None, accuracies), default=None),
        }
        writer.write_end({}, ended | result)
    return path


def comparison(path: Path, runs: Sequence[str], methods: str = "fedavg, smofi") -> None:
    """Make a folder compare these runs below it."""
    write_comparison(path, CONFIG.format(method=methods, rounds=2), runs)


@contextmanager
def written(path: Path) -> Iterator[None]:
    """The folder has a writer."""
    with open(path / ".lock", "a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def shown(path: Path, width: int = 90) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width)
    console.print(show_runs(path, snapshots_in(path), console))
    return file.getvalue()


STATES: list[tuple[str, list[float | None], dict[str, Any], bool, list[str]]] = [
    (
        "finished, round 4 of 4\n",
        [0.5, 0.8, 0.7, 0.75],
        {"result": {}},
        False,
        [
            "75.0% now, 80.0% at best (round 2)",
            "digits, dirichlet(0.2), 50 clients",
            "2 s a round, 0:08 in all",
            "100%",
        ],
    ),
    (
        "finished, round 2 of 4\n",
        [0.5, 0.8],
        {"result": {"stopped": "the target is reached"}},
        False,
        ["target is reached"],
    ),
    ("still going, round 1 of 4, process ", [0.5], {}, True, ["about 0:06 left; last round 0:0", "25%"]),
    ("still going, round 0 of 4, process ", [], {}, True, ["none yet"]),
    ("interrupted, round 2 of 4\n", [0.5, 0.6], {}, False, ["smofi run --resume "]),
    (
        "diverged, round 2 of 4\n",
        [0.5, 0.1],
        {"result": {"diverged": True, "stopped": "nan in round 3"}},
        False,
        ["nan in"],
    ),
    # a result from before a resume, and one of fewer rounds than there are now
    ("interrupted, round 3 of 9\n", [0.5, 0.6, 0.7], {"rounds": 9, "result": {"rounds": 2}}, False, []),
    ("still going, round 3 of 9", [0.5, 0.6, 0.7], {"rounds": 9, "result": {"rounds": 2}}, True, []),
    ("interrupted, round 3 of 9\n", [0.5, 0.6, 0.7], {"rounds": 9, "result": {}}, False, []),
]


@pytest.mark.parametrize(("state", "accuracies", "options", "going", "said"), STATES)
def test_states(
    state: str, accuracies: list[float | None], options: dict[str, Any], going: bool, said: list[str], tmp_path: Path
) -> None:
    path = folder(tmp_path / "run", accuracies, **options)
    before = {one: (one.stat().st_mtime_ns, one.stat().st_size) for one in path.rglob("*")}
    with written(path) if going else nullcontext():
        out = shown(path, width=200)
    assert out.startswith(f"smofi  {state}")
    assert all(words in out for words in said)
    assert ("--resume" in out) == state.startswith("interrupted")
    assert {one: (one.stat().st_mtime_ns, one.stat().st_size) for one in path.rglob("*")} == before


def test_checkpoints_are_named(tmp_path: Path) -> None:
    path = folder(tmp_path / "run", [0.5, 0.6])
    state = StoredCheckpoint(2, {}, {})
    writer = going_on(path)
    writer.save(state, keep=2)
    writer.save_best(state)
    assert "round 2, best" in shown(path)


def test_a_line_that_is_being_written_does_not_count(tmp_path: Path) -> None:
    path = folder(tmp_path / "run", [0.5, 0.6])
    writer = going_on(path)
    with open(path / "metrics.jsonl", "a") as file:
        file.write('{"round": 3, "accuracy": 0.')
    assert "round 2 of 4" in shown(path)
    with open(path / "metrics.jsonl", "a") as file:
        file.write("9}\n")  # a whole line, and still without its checksum
    assert "round 2 of 4" in shown(path)
    writer.write_records([*writer.folder.records(), {"round": 3, "accuracy": 0.9}])
    assert "round 3 of 4" in shown(path)


def test_diagnostics_and_validation(tmp_path: Path) -> None:
    path = folder(tmp_path / "run", [0.5, 0.6], validation=0.55, diagnostics={"stale_share": 0.25})
    third = {"round": 3, "accuracy": None, "seconds": 1.0, "diagnostics": {"stale_share": 0.4}}
    writer = going_on(path)
    writer.write_records([*writer.folder.records(), third])
    out = shown(path)
    assert "60.0% after round 2, 60.0% at best (round 2); round 3 is not evaluated" in out
    assert "55.0% after round 2, 55.0% at best" in out
    (line,) = [line.split() for line in out.splitlines() if line.startswith("stale share")]
    assert line == ["stale", "share", "0.25", "0.4", "0.3"]


TIMES: dict[str, Any] = {"bytes_up": [1_000_000, 200_000], "bytes_down": [50_000, 50_000], "idle": [0.0, 0.5]}


def timed(path: Path, ends: list[float], **options: Any) -> Path:
    """The folder of a run with a clock, whose rounds end at these times."""
    times = [{"virtual_end": end, "left_out": [4] if number == 0 else []} for number, end in enumerate(ends)]
    clock = "clock: full\ndevices: phones\navailability: always\n"
    accuracies: list[float | None] = [*[0.5] * (len(ends) - 1), 0.8]
    return folder(
        path, accuracies, selected=[3, 4], rounds=len(ends), more_settings=clock, each=times, **TIMES, **options
    )


def test_virtual_time(tmp_path: Path) -> None:
    out = " ".join(shown(timed(tmp_path / "run", [3600.0, 9000.0], result={}), width=200).split())
    assert "clock full, devices: phones(rtt_ms=0), availability: always" in out  # as it was without round trips
    wanted = "virtual 2.5 hours, 1 h 15 min a round; 2.4 MB up, 200.0 kB down; clients wait 25.0% of their time"
    assert f"{wanted}; late or gone 1 of 4 times" in out
    plain = [line.split()[0] for line in shown(folder(tmp_path / "other", [0.5])).splitlines()]
    assert not {"virtual", "clock"} & set(plain)


def test_rounds_without_an_evaluation(tmp_path: Path) -> None:
    path = folder(tmp_path / "early", [None, None], method="fedavg", rounds=7)
    assert "accuracy     not evaluated yet" in shown(path)
    path = folder(tmp_path / "between", [None, None, 0.9, None, None, 0.8, None, None], rounds=9)
    out = shown(path)
    assert "80.0% after round 6, 90.0% at best (round 3); round 8 is not evaluated" in out
    assert "smofi 80.0%" in out
    done = folder(tmp_path / "done", [None, None, 0.9, None, 0.8], method="fednag", rounds=5, result={})
    assert "80.0% now, 90.0% at best (round 3)" in shown(done)
    assert "not evaluated" not in shown(done)
    comparison(tmp_path, ["between", "done", "early"])
    assert [line.split()[-2:] for line in shown(tmp_path).splitlines() if " last " in line] == [
        ["last", "80.0%"],
        ["last", "80.0%"],
        ["last", "-"],
    ]


def test_a_comparison(tmp_path: Path) -> None:
    folder(tmp_path / "a", [0.6, 0.8], method="smofi", rounds=2, result={}, diagnostics={"stale_share": 0.5})
    fedavg = folder(tmp_path / "b", [0.4, 0.6], method="fedavg", rounds=2)
    last = folder(tmp_path / "c", [], method="fedavgm(momentum=0.3)", rounds=2)
    comparison(tmp_path, ["b", "a", "c"], 'fedavg, smofi, "fedavgm(momentum=0.3)"')
    with written(fedavg), written(last):
        out = shown(tmp_path)
    states = [line.split()[:3] for line in out.splitlines() if " last " in line]
    assert states == [
        ["fedavg", "still", "going"],
        ["smofi", "finished", "2/2"],
        ["fedavgm(momentum=0.3)", "waiting", "0/2"],
    ]
    # the target is 0.9 * 0.6 = 54%: FedAvg reaches it in round 2, SMoFi in round 1
    assert "2.00x" in next(line for line in out.splitlines() if line.startswith("│ smofi"))
    assert out.splitlines()[-2].split() == ["smofi", "0.5"]
    assert "--resume" not in out
    assert f"smofi run --resume {tmp_path}" in shown(tmp_path, width=200)


@pytest.mark.parametrize("damage", [b"nothing", None])
@pytest.mark.parametrize("name", ["model.safetensors", "checkpoints/round-000002.safetensors", "partition.safetensors"])
def test_damage_to_files_that_are_not_shown_is_told(
    tmp_path: Path, name: str, damage: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder(tmp_path / "run", [0.5, 0.6], rounds=2, result={})
    going_on(path).save(StoredCheckpoint(2, {}, {}), keep=2)
    assert main(["show", str(path)]) == 0
    capsys.readouterr()
    if damage is None:
        (path / name).unlink()
    else:
        (path / name).write_bytes(damage)
    assert main(["show", str(path)]) == 2
    out, err = capsys.readouterr()
    assert "finished, round 2 of 2" in out
    wrong = "is missing" if damage is None else "is not what the run saved"
    assert err.startswith(f"error: {path / name} {wrong}")
    assert err.count("\n") == 1


def test_a_folder_with_runs_in_it_lists_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = folder(tmp_path / "runs" / "one", [0.5, 0.8], rounds=2, result={})
    for name in ("fedavg", "smofi"):
        folder(tmp_path / "runs" / "both" / name, [0.6], method=name)
    write_comparison(tmp_path / "runs" / "both", CONFIG.format(method="fedavg, smofi", rounds=4), ("fedavg", "smofi"))
    (tmp_path / "runs" / "notes").mkdir()
    assert main(["show", str(tmp_path / "runs")]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:4] == [
        ["both", "fedavg", "interrupted", "1/4", "60.0%", "digits,", "dirichlet(0.2)"],
        ["smofi", "interrupted", "1/4", "60.0%"],
        ["one", "smofi", "finished", "2/2", "80.0%", "digits,", "dirichlet(0.2)"],
    ]
    (done / "config.yaml").write_text("data: cifar10\n")
    assert main(["show", str(tmp_path / "runs")]) == 2
    out, err = capsys.readouterr()
    assert ["one", "damaged"] in [line.split() for line in out.splitlines()]
    assert "one/config.yaml is not what the run saved" in err


def served(path: Path, clients: str) -> str:
    """What is shown of a run that was served to these clients."""
    folder(path, [0.5], rounds=1)
    (path / "clients.json").write_text(clients)
    return shown(path)


def test_a_served_run_names_its_clients(tmp_path: Path) -> None:
    text = served(
        tmp_path / "run",
        '[{"name": "north", "samples": 48, "tests": 12}, {"name": "south", "samples": 1060, "tests": 0}]',
    )
    assert "digits, 2 clients with 1,108 samples of their own, 20 % of them in each round" in text
    assert "north (48 samples), south (1,060 samples)" in text
    assert "dirichlet" not in text


def test_several_seeds_are_shown_with_their_means(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = {"fedavg": ([0.2, 0.4, 0.8], [0.4, 0.6, 0.6]), "smofi": ([0.5, 0.8, 0.9], [0.6, 0.8])}
    settings, names = "data: digits\nmethod: {}\nrounds: 3\nseed: {}\n", []
    for seed in (0, 1):
        for method, both in values.items():
            names.append(f"seed-{seed}/{method}")
            records = [{"round": n, "accuracy": value, "seconds": 1.0} for n, value in enumerate(both[seed], start=1)]
            writer = write_run(tmp_path / "run" / names[-1], settings.format(method, seed), records)
            if len(records) == 3:
                writer.write_end({}, {"rounds": 3, "stopped": None, "diverged": False})
    write_comparison(tmp_path / "run", settings.format("[fedavg, smofi]", "null\nseeds: 0-1"), names)
    assert main(["show", str(tmp_path / "run")]) == 0
    text = capsys.readouterr().out
    assert {
        "seeds 0-1, on cpu",
        "seed 0 fedavg finished 3/3 last 80.0%",
        "seed 1 smofi interrupted 2/3 last 80.0%",
        "3 of 4 runs done",
        "each line is the mean of 2 seeds",
    } <= {" ".join(line.split()) for line in text.splitlines()}
    assert "to continue  smofi run --resume" in text
    assert "50.0 ± 4.7%" in text
    assert main(["show", str(tmp_path)]) == 0
    assert "smofi, seed 1" in capsys.readouterr().out
