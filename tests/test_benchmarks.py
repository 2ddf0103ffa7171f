"""The benchmarks run, and the page of results says what they found, what is missing and which goals are met."""

import doctest
import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
PROGRAMS = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
SHARED = {path.stem for path in (ROOT / "benchmarks/shared").glob("*.py")} - {"__init__"}
NAMES = {*PROGRAMS, "shared", *(f"shared.{name}" for name in SHARED), "table"}


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """The modules of the benchmarks, importable for one test only."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    before = {name: sys.modules.pop(name) for name in NAMES if name in sys.modules}
    yield importlib.import_module
    for name in NAMES:
        sys.modules.pop(name, None)
    sys.modules.update(before)


def bench(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "benchmarks/bench.py", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def rows_of(path: Path) -> list[dict[str, object]]:
    first, *rows = map(json.loads, path.read_text().splitlines())
    assert {"command", "started", "torch", "python", "git", "cores", "cpu", "memory"} <= first["about"].keys()
    assert str(path.parent) not in first["about"]["command"]
    return rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "section", "found"),
    [
        ("fusion", "2. Momentum fusion", {"seconds", "ratio to sflv1", "idle, MiB", "peak, MiB", "planned, MiB"}),
        ("executors", "5. Executors", {"seconds", "times as fast as the loop"}),
    ],
)
def test_a_benchmark_runs_and_is_on_the_page(name: str, section: str, found: set[str], tmp_path: Path) -> None:
    done = bench(name, "--quick", "--folder", tmp_path, "--page", tmp_path / "RESULTS.md")
    assert done.returncode == 0, done.stderr
    assert f"1 of 1: {name}; then none" in done.stdout
    rows = rows_of(tmp_path / f"{name}.jsonl")
    assert {row["what"] for row in rows} == found
    assert all(value > 0 for row in rows for value in row["values"])  # type: ignore[attr-defined]
    page = (tmp_path / "RESULTS.md").read_text()
    shown = page.split(f"## {section}\n")[1].split("\n## ")[0]
    assert "|---|" in shown
    assert f"`python benchmarks/{name}.py" in shown
    assert f"`{name}`: no results" not in page
    assert "`peers`: no results" in page


@pytest.mark.slow
def test_a_benchmark_that_fails_leaves_what_was_found_before(
    benchmark: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    rows = tmp_path / "peers.jsonl"
    rows.write_text(json.dumps({"about": benchmark("shared.origin").about(["before.py"])}) + "\n")
    before = rows.read_text()
    (tmp_path / "peers/work/no-such-workload").mkdir(parents=True)
    done = bench("peers", "--peers", tmp_path / "peers", "--folder", tmp_path, "--page", tmp_path / "RESULTS.md")
    assert done.returncode == 1
    assert "Failed: peers" in done.stderr
    assert rows.read_text() == before
    assert "`python before.py`" in (tmp_path / "RESULTS.md").read_text()


@pytest.mark.slow
def test_a_long_run_is_measured_in_blocks(
    benchmark: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sizes = ["--rounds", "12", "--block", "3", "--clients", "100", "--clock-rounds", "8", "--clock-block", "2"]
    monkeypatch.setattr(sys, "argv", ["long_run.py", *sizes, "--results", str(tmp_path / "rows.jsonl")])
    benchmark("long_run").main()
    rows = rows_of(tmp_path / "rows.jsonl")
    clocks = {"seconds a round", "CPU seconds a round"}
    assert {row["what"] for row in rows} == clocks | {f"ratio of {name}" for name in clocks}
    assert [row["rounds"] for row in rows if row["what"] == "seconds a round"][::9] == ["4 to 6", "3 to 4"]
    assert len(rows) == 4 * 2 * (3 + 1)
    assert all(value > 0 for row in rows for value in row["values"])  # type: ignore[attr-defined]


def test_a_page_without_results_says_so(benchmark: Callable[[str], ModuleType], tmp_path: Path) -> None:
    page = benchmark("results").page(tmp_path)
    goals = [line for line in page.split("## Goals")[1].split("## 1.")[0].splitlines() if line.startswith("| ")]
    assert len(goals) > 5
    assert all(line.endswith("| not measured | not measured |") for line in goals[1:])
    assert page.count("\nNot measured.\n") == 9
    assert "- GPUs" in page


@pytest.mark.parametrize(
    "name", ["growth", "long_run", "shared.goals", "shared.options", "shared.origin", "shared.rows"]
)
def test_examples_in_docstrings(name: str, benchmark: Callable[[str], ModuleType]) -> None:
    failed, tried = doctest.testmod(benchmark(name))
    assert tried
    assert not failed


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_program_says_how_it_is_used(
    name: str,
    benchmark: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        benchmark(name).main()
    assert ended.value.code == 0
    assert f"python benchmarks/{name}.py" in capsys.readouterr().out
