"""How long the command takes to answer: its version, its help, its lists and its refusals, each in a new process.

Seconds of the processor are the user's and the system's together, and depend less on what else a machine does. Python
keeps what it compiles, as it does for installed packages.

    python benchmarks/start.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from statistics import median

from shared.options import parser_for, positive

COMMANDS = (
    "--version",
    "--help",
    "run --help",
    "plan --help",
    "methods",
    "presets",
    "run --rounds abc",
    "run --method nope",
    "run --model nope",
    "run --data nope",
    "run nosuch.yaml",
    "run --resume nope",
    "show nope",
    "export nope x",
)


def once(command: str, folder: str) -> tuple[float, float]:
    """Seconds of the processor, and seconds that pass, of one command in a folder that is empty but for byte code."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{folder}/byte-code"}
    before, started = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-m", "smofi", *command.split()], cwd=folder, env=environment, capture_output=True)
    passed, after = time.perf_counter() - started, os.times()
    user, system = after.children_user - before.children_user, after.children_system - before.children_system
    return user + system, passed


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--repetitions", type=positive, default=5)
    given = parser.parse_args()
    print(f"{'smofi ...':20} {'processor':>9} {'passed':>9}   seconds, the median of {given.repetitions}")
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            once(command, folder)
            measured = [once(command, folder) for _ in range(given.repetitions)]
            processor, passed = (median(values) for values in zip(*measured, strict=True))
            print(f"{command:20} {processor:9.2f} {passed:9.2f}")


if __name__ == "__main__":
    main()
