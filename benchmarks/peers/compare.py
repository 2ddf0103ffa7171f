"""smofi beside a plain loop, Flower and pfl-research: the same work, in turn, several times; a table in Markdown.

python benchmarks/peers/compare.py --repetitions 5

Needs the workloads of prepare.py. Environments that are missing are made, below the same folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import watch
from table import Measured, distance, table

HERE = Path(__file__).parent
WORKLOADS = ("fashion", "cifar", "digits")
PEERS = ("plain", "flower", "pfl")
TIMEOUT = 1800.0
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}


def environment(folder: Path, name: str) -> Path:
    """The programs of a peer's environment, made on first use."""
    place = folder / name
    if not (place / "installed").exists():
        print(f"Making the environment {place}; this happens once and takes minutes.", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        requirements = str(HERE / f"requirements-{name}.txt")
        subprocess.run([str(place / "bin/python"), "-m", "pip", "install", "--quiet", "-r", requirements], check=True)
        (place / "installed").touch()
    return place.absolute() / "bin"


def contestants(given: argparse.Namespace) -> dict[str, list[str]]:
    """How each one is started, all but the workload."""
    layout = ["--channels-last"] if given.channels_last else []
    starts: dict[str, Callable[[], list[str]]] = {
        "plain": lambda: [sys.executable, str(HERE / "plain_loop.py"), *layout],
        "flower": lambda: [str(environment(given.folder, "flower") / "python"), str(HERE / "flower_run.py"), *layout],
        "pfl": lambda: [
            *(str(environment(given.folder, "pfl") / "torchrun"), "--standalone", "--nproc-per-node", "2"),
            *(str(HERE / "pfl_run.py"), *layout),
        ],
    }
    found = {name: start() for name, start in starts.items() if name in given.peers}
    for workers in given.workers or [None]:
        name = "smofi" if workers is None else f"smofi, workers {workers}"
        found[name] = [sys.executable, str(HERE / "smofi_run.py"), *(["--workers", str(workers)] if workers else [])]
    return found


def run(start: list[str], workload: Path, rounds: int, weights: Path, memory: bool = False) -> dict[str, Any]:
    """One run, its final weights written to a file."""
    command = [*start, str(workload), "--rounds", str(rounds), "--weights", str(weights)]
    return watch.run(command, ENVIRONMENT, memory=memory, timeout=TIMEOUT)


def check(workload: Path, starts: dict[str, list[str]], scratch: Path) -> dict[str, float]:
    """How far each is from the first after one round; later, float32 noise has grown."""
    distances: dict[str, float] = {}
    for name, start in starts.items():
        weights, reference = scratch / f"{len(distances)}.safetensors", scratch / "0.safetensors"
        run(start, workload, 1, weights)
        distances[name] = distance(weights, reference, workload / "initial.safetensors")
        print(f"{workload.name}: {name} is {distances[name]:.1e} from {next(iter(starts))}", file=sys.stderr)
    return distances


def compare(workload: Path, starts: dict[str, list[str]], given: argparse.Namespace, scratch: Path) -> list[Measured]:
    """Weights after one round, then memory, then time; repetitions of different contestants take turns."""
    distances = check(workload, starts, scratch)
    measured = {name: Measured(name, name in PEERS, distances[name]) for name in starts}
    names = list(starts)
    for repetition in range(-1, given.repetitions):
        first = repetition % len(names)
        for name in names[first:] + names[:first]:
            result = run(starts[name], workload, given.rounds, scratch / "weights.safetensors", memory=repetition < 0)
            measured[name].add(result)
            labels = {"workload": workload.name, "contestant": name, "peer": name in PEERS, "distance": distances[name]}
            with (given.results or given.folder / "results.jsonl").open("a") as file:
                print(json.dumps({**labels, **result}), file=file)
            print(f"{workload.name}: {measured[name].progress(result)}", file=sys.stderr)
    return list(measured.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(".peers"), help="for workloads, environments and results")
    parser.add_argument("--workloads", nargs="+", default=WORKLOADS, choices=WORKLOADS)
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS)
    parser.add_argument(
        "--workers",
        nargs="+",
        type=int,
        help="numbers of workers of smofi run, one contestant each; by default as smofi decides",
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--channels-last", action="store_true", help="the peers use that memory format too")
    parser.add_argument("--results", type=Path, help="file for every run; results.jsonl in the folder if not given")
    given = parser.parse_args()
    starts = contestants(given)
    for name in given.workloads:
        with tempfile.TemporaryDirectory() as scratch:
            measured = compare(given.folder / "work" / name, starts, given, Path(scratch))
        print(f"\n### {name}: {given.rounds} rounds, {given.repetitions} repetitions, {os.cpu_count()} cores\n")
        print(table(measured), flush=True)


if __name__ == "__main__":
    main()
