"""Run the benchmarks one after the other and write what they found to RESULTS.md.

    python benchmarks/bench.py                      all of them; make bench does the same
    python benchmarks/bench.py overhead fusion      some; the page keeps the latest results of the others
    python benchmarks/bench.py --quick              the least of everything, to see that it works

Rows are kept in `runs/bench`. The peers take part where their workloads are prepared (benchmarks/peers/README.md).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from results import FOLDER, PAGE, page
from shared.options import parser_for, positive
from shared.origin import ROOT, about

HERE = ROOT / "benchmarks"
MINUTES = {"overhead": 8, "fusion": 3, "growth": 4, "executors": 7, "sum": 1, "deployment": 5, "peers": 40}
"""Estimates for two quiet cores."""

QUICK = {
    "overhead": ["--models", "digits-cnn", "--repetitions", "1"],
    "fusion": ["--models", "digits-resnet8", "--repetitions", "1"],
    "growth": ["--clients", "2", "4", "--widths", "4", "8", "--repetitions", "1"],
    "executors": ["--models", "mlp", "--clients", "2", "--repetitions", "1"],
    "sum": [],
    "deployment": ["--only", "bytes", "--repetitions", "1"],
    "peers": ["--workloads", "digits", "--peers", "plain", "--rounds", "1", "--repetitions", "1"],
}


def command(name: str, given: argparse.Namespace) -> list[str]:
    """How a benchmark is started, all but where its rows go."""
    words = [str(HERE / ("peers/compare.py" if name == "peers" else f"{name}.py"))]
    if name == "growth":
        words += ["--picture", str(given.page.parent / "growth.svg")]
    if name == "peers":
        prepared = [place.name for place in sorted((given.peers / "work").iterdir())]
        words += ["--folder", str(given.peers), "--workloads", *prepared]
    if given.quick:
        return words + QUICK[name]
    return words + (["--repetitions", str(given.repetitions)] if given.repetitions else [])


def run(name: str, given: argparse.Namespace) -> bool:
    """One benchmark; the old results are kept until it has finished."""
    words, rows = command(name, given), given.folder / f"{name}.jsonl"
    new = rows.with_suffix(".part")
    new.write_text(json.dumps({"about": about(words)}) + "\n" if name == "peers" else "")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    code = subprocess.run([sys.executable, *words, "--results", str(new)], cwd=ROOT, env=environment).returncode
    if code == 0:
        new.replace(rows)
    return code == 0


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(MINUTES)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="once, the smallest models, into runs/bench-quick")
    parser.add_argument("--repetitions", type=positive, help="of every benchmark; by default, its own number")
    parser.add_argument("--folder", type=Path, help="for the rows; runs/bench if not given")
    parser.add_argument("--page", type=Path, help="benchmarks/RESULTS.md if not given")
    parser.add_argument("--peers", type=Path, default=ROOT / ".peers", help="where the peers' workloads are")
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(MINUTES)):
        parser.error(f"unknown: {', '.join(unknown)}; expected some of {', '.join(MINUTES)}")
    given.folder = (given.folder or (ROOT / "runs/bench-quick" if given.quick else FOLDER)).resolve()
    given.folder.mkdir(parents=True, exist_ok=True)
    given.page = (given.page or (given.folder / "RESULTS.md" if given.quick else PAGE)).resolve()
    given.peers = given.peers.resolve()
    names = given.names or list(MINUTES)
    if "peers" in names and not (given.peers / "work").is_dir():
        names.remove("peers")
        print("The peers are left out, since their workloads are not prepared. To prepare them, once:")
        print("  python benchmarks/peers/prepare.py --fashion-mnist DIR --cifar10 DIR")
    failed = []
    for place, name in enumerate(names):
        left = "" if given.quick else f", about {sum(MINUTES[one] for one in names[place:])} minutes left"
        print(
            f"\n== {place + 1} of {len(names)}: {name}; then {', '.join(names[place + 1 :]) or 'none'}{left}",
            flush=True,
        )
        started = time.monotonic()
        if not run(name, given):
            failed.append(name)
        print(
            f"== {name} {'failed' if name in failed else 'done'} after {time.monotonic() - started:.0f} s", flush=True
        )
    given.page.write_text(page(given.folder))
    print(f"\nWritten to {os.path.relpath(given.page)}, rows in {os.path.relpath(given.folder)}.")
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}; the page has what was found before.")


if __name__ == "__main__":
    main()
