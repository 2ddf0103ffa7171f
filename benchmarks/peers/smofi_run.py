"""FedAvg by the command `smofi run`, as a user starts it: checks, run folder, checkpoints and final model included.

python smofi_run.py .peers/work/fashion --weights smofi.safetensors --workers 2
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime
from itertools import pairwise
from pathlib import Path


def main() -> None:
    # No torch in this process: it only waits.
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", type=Path, help="folder written by prepare.py")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--weights", type=Path, required=True, help="file for the final weights")
    parser.add_argument("--workers", type=int, help="passed on to smofi run; if not given, smofi decides")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "smofi", "run", str(given.workload / "smofi.yaml")]
        command += ["--rounds", str(given.rounds), "--display", "jsonl", "--output", f"{folder}/run"]
        command += ["--workers", str(given.workers)] if given.workers else []
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        shutil.copyfile(f"{folder}/run/model.safetensors", given.weights)
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    rounds = [event for event in events if event["event"] == "RoundDone"]
    stamps = [timestamp(event) for event in events if event["event"] == "RunStarted"] + [
        timestamp(one) for one in rounds
    ]
    seconds = [end - start for start, end in pairwise(stamps)]
    accuracies = [one["accuracy"] for one in rounds]
    print(json.dumps({"seconds": seconds, "accuracies": accuracies, "first_round_at": stamps[1]}), flush=True)


def timestamp(event: dict[str, str]) -> float:
    """When an event happened, in seconds since 1970."""
    return datetime.fromisoformat(event["time"]).timestamp()


if __name__ == "__main__":
    main()
