"""A server and its clients as processes of this machine, and the same run as a simulation: the numbers are the same.

    make demo-deploy
    make demo-deploy ARGS="--clients 3 --rounds 2"

It makes certificates, simulates the run, then starts `smofi serve` and a `smofi join` for each client, which talk to
each other by TLS. At last it compares accuracies and weights. Everything is in a new folder below runs/. The cut is
U-shaped: labels stay with the clients, and the simulation, too, computes the two halves of a client apart.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from safetensors.torch import load_file

SETTINGS = """\
data: digits
partition: dirichlet(0.1)
clients: {clients}
participation: 1.0
model: resnet8
width: 8
cut: 0,1            # U shape: the input block and the output block are the client's
method: [{methods}]
optimizer: sgd(lr=0.05, momentum=0.9)
rounds: {rounds}
local_epochs: 1
batch_size: 16
executor: loop      # client by client, as clients on other machines compute
"""
SMOFI = [sys.executable, "-c", "import sys; from smofi.cli import main; sys.exit(main())"]
GRACE = 10.0


class Failed(Exception):
    """A process that ended before it should."""


def demo(folder: Path, clients: int, rounds: int, methods: Sequence[str]) -> int:
    """Simulate, deploy, compare. Exit code 1 if anything differs."""
    names = [f"client-{number}" for number in range(clients)]
    run = folder / "run.yaml"
    run.write_text(SETTINGS.format(clients=clients, rounds=rounds, methods=", ".join(methods)))
    certificates(folder / "pki", names)
    say(f"The run as a simulation: smofi run {run}")
    finish(["run", str(run), "--output", str(folder / "simulated"), "--workers", "1", "--display", "plain"])
    say(f"The same run with a server and {clients} clients, each a process with a certificate")
    begun = time.monotonic()
    with started() as processes:
        deploy(folder, names, processes)
    say(f"Deployed in {time.monotonic() - begun:.0f} s. The two, round by round")
    same = compare(folder / "simulated", folder / "deployed", methods)
    print(
        f"\nSettings: {run}\nRuns: {folder / 'simulated'}, {folder / 'deployed'}\nWhat clients said: {folder / 'logs'}"
    )
    return 0 if same else 1


def certificates(pki: Path, names: Sequence[str]) -> None:
    """An authority, and a certificate for the server and for each client."""
    from smofi.net.certs import init, issue

    init(pki)
    issue(pki, server=["localhost", "127.0.0.1"])
    for name in names:
        issue(pki, client=name)


def deploy(folder: Path, names: Sequence[str], processes: list[subprocess.Popen[bytes]]) -> None:
    """Start the server, then its clients; returns when all of them are done."""
    logs = folder / "logs"
    logs.mkdir()
    serve = ["serve", str(folder / "run.yaml"), "--certs", str(folder / "pki/server"), "--listen", "127.0.0.1:0"]
    serve += ["--output", str(folder / "deployed"), "--display", "plain"]
    server = start(serve, logs / "server.txt", processes)
    said, shown = "", 0
    while server.poll() is None or shown < len(said):
        said = (logs / "server.txt").read_text(errors="replace")
        print(said[shown:], end="", flush=True)
        shown = len(said)
        if len(processes) == 1 and (port := re.search(r"Listening at \S+:(\d+) ", said)):
            for number, name in enumerate(names):
                join = ["join", f"localhost:{port[1]}", "--certs", str(folder / "pki" / name)]
                start([*join, "--data", "digits", "--part", str(number)], logs / f"{name}.txt", processes)
        for name, process in zip(("server", *names), processes, strict=False):
            if process.poll():
                raise Failed(f"{name} ended with {process.returncode}:\n{(logs / f'{name}.txt').read_text().strip()}")
        time.sleep(0.1)
    for process in processes:
        process.wait(60)


def compare(simulated: Path, deployed: Path, methods: Sequence[str]) -> bool:
    """Print both, and say whether all accuracies and all weights are the same."""
    differing = []
    for place, method in enumerate(methods):
        one, other = (folders_of(path, len(methods))[place] for path in (simulated, deployed))
        pairs = list(zip(accuracies(one), accuracies(other), strict=True))
        print(f"\n{method}\n  round  simulated  deployed")
        for number, (left, right) in enumerate(pairs, start=1):
            print(f"  {number:5}  {left:9.2%}  {right:8.2%}{'' if left == right else '  differs'}")
        differing += [f"{method}: accuracy of round {number}" for number, (a, b) in enumerate(pairs, 1) if a != b]
        weights, others = (load_file(path / "model.safetensors") for path in (one, other))
        differing += [f"{method}: {name}" for name in weights if not weights[name].equal(others[name])]
    if differing:
        print(f"\nNot the same: {', '.join(differing[:10])}{' ...' if len(differing) > 10 else ''}")
    else:
        print("\nThe same: every accuracy of every round, and every weight of the models, to the last bit.")
    return not differing


def folders_of(run: Path, methods: int) -> list[Path]:
    """The folder of each method, as the run lists them."""
    from smofi.runs import folders_in

    return [one.path for one in folders_in(run)] if methods > 1 else [run]


def accuracies(run: Path) -> list[float]:
    """Of every round."""
    return [json.loads(line)["accuracy"] for line in (run / "metrics.jsonl").read_text().splitlines()]


# Processes


@contextmanager
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that are gone when this ends, however it ends."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        yield processes
    finally:
        for process in processes:
            process.terminate()
        end = time.monotonic() + GRACE
        for process in processes:
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def start(arguments: list[str], log: Path, processes: list[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """A `smofi` command in the background. Ctrl-C comes to this process alone, which ends the others."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*SMOFI, *arguments], stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    processes.append(process)
    if len(processes) <= 2:
        print(f"$ smofi {shlex.join(arguments)}{' ... and so on' if arguments[0] == 'join' else ''}", flush=True)
    return process


def finish(arguments: list[str]) -> None:
    """A `smofi` command from beginning to end."""
    code = subprocess.run([*SMOFI, *arguments], check=False).returncode
    if code:
        raise Failed(f"smofi {shlex.join(arguments)} ended with {code}")


def say(sentence: str) -> None:
    """A heading."""
    print(f"\n== {sentence} ==\n", flush=True)


def fresh(path: Path | None) -> Path:
    """A new folder: this one, or one below runs/."""
    folder = path or Path("runs") / f"demo-deploy-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise Failed(f"--output {folder} is not accepted: expected a new folder ({error.strerror})") from None
    return folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options and run the demonstration."""
    parser = argparse.ArgumentParser(description="A deployed run beside the same run simulated.")
    parser.add_argument("--clients", type=int, default=8, help="how many (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=8, help="how many (default: %(default)s)")
    parser.add_argument("--method", nargs="+", default=["fedavg", "smofi"], help="default: fedavg smofi")
    parser.add_argument("--output", type=Path, help="a new folder; by default one below runs/")
    given = parser.parse_args(arguments)
    for name in ("clients", "rounds"):
        if getattr(given, name) < 1:
            parser.error(f"--{name} {getattr(given, name)} is not accepted: expected a whole number >= 1")

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        return demo(fresh(given.output), given.clients, given.rounds, given.method)
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; the server and all clients are stopped.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
