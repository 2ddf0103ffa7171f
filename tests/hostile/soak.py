"""A week in an hour: `make soak`, or python -m hostile.soak --rounds 2000.

Thousands of short rounds while clients come and go; memory, open files and threads of the server and of clients that
stay are sampled, and a line is fitted to each: it has to be flat.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from support.chaos import Fleet, Nursery, Process, Usage, make_pki, rounds_in, until
from support.ports import free_port

CLIENTS, STAY = 4, 2
MOST = {"memory": 30.0, "files": 3.0, "threads": 2.0}
"""By how much each may grow over the whole run, as the fitted line has it: MiB, and how many."""

SETTINGS = ["--data", "digits", "--model", "cnn", "--width", "4", "--cut", "1", "--clients", str(CLIENTS)]
SETTINGS += ["--max-train", "128", "--max-test", "50", "--partition", "iid", "--local-epochs", "1"]
SETTINGS += ["--batch-size", "16", "--participation", "1", "--method", "smofi", "--seed", "1", "--eval-every", "10"]


def growth(rounds: list[int], values: list[float]) -> float:
    """What a fitted line grows by, from the first to the last sample; the first fifth is for warming up."""
    start = len(rounds) // 5
    x, y = np.array(rounds[start:], float), np.array(values[start:], float)
    if len(x) < 3 or x[-1] == x[0]:
        return 0.0
    return float(np.polyfit(x, y, 1)[0] * (x[-1] - x[0]))


class Soak:
    """The run, and what was measured."""

    def __init__(self, fleet: Fleet, rounds: int, seed: int) -> None:
        self.fleet, self.rounds, self.draw = fleet, rounds, random.Random(seed)
        self.samples: dict[str, list[tuple[int, Usage]]] = {}
        self.comings = self.goings = self.kills = 0

    def run(self) -> None:
        fleet = self.fleet
        fleet.serve()
        fleet.join_all()
        fleet.wait_for_round(5, 600)
        assert fleet.server
        told = change = time.monotonic()
        while fleet.server.alive:
            now, done = time.monotonic(), len(rounds_in(fleet.output))
            if now >= told:
                self.sample(done)
                told = now + max(2.0, self.rounds / 400)
            if now >= change and done < self.rounds - 5:
                self.come_or_go()
                change = now + self.draw.uniform(1, 4)
            time.sleep(0.1)
        for number in range(STAY, CLIENTS):  # whoever went, or is away at the end, is of no interest
            fleet.joined.pop(number).kill()
        fleet.finish(60)

    def come_or_go(self) -> None:
        """Of the clients that do not stay, one goes, politely or not, or comes back."""
        number = self.draw.randrange(STAY, CLIENTS)
        client = self.fleet.joined[number]
        if not client.alive:
            self.fleet.join(number)
            self.comings += 1
        elif self.draw.random() < 0.5:
            client.signal(signal.SIGTERM)
            self.goings += 1
        else:
            client.kill()
            self.kills += 1

    def sample(self, done: int) -> None:
        watched: dict[str, Process | None] = {"server": self.fleet.server}
        watched |= {f"client-{number}": self.fleet.joined[number] for number in range(STAY)}
        for name, process in watched.items():
            if process and process.alive:
                try:
                    usage = process.usage()
                except FileNotFoundError:  # it has just ended
                    continue
                if usage.memory > 0:  # of one that is about to end, nothing is left
                    self.samples.setdefault(name, []).append((done, usage))
        last = self.samples["server"][-1]
        if len(self.samples["server"]) % 10 == 1:
            self.fleet.tell(f"server {last[1]}; client-0 {self.samples['client-0'][-1][1]}")

    def verdict(self) -> list[str]:
        """Sentences, of which those with PROBLEM are bad news."""
        lines = []
        for name, samples in self.samples.items():
            for kind, most in MOST.items():
                values = [float(getattr(usage, kind)) for _, usage in samples]
                grown = growth([done for done, _ in samples], values)
                problem = "PROBLEM: grows: " if grown > most else ""
                lines.append(
                    f"{problem}{name}: {kind} from {values[0]:.1f} to {values[-1]:.1f}, most {max(values):.1f}; the "
                    f"fitted line grows by {grown:+.1f} in {samples[-1][0] - samples[0][0]} rounds"
                )
        return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="smofi-soak-") as name, Nursery(Path(name)) as nursery:
        folder, port = Path(name), free_port()
        fleet = Fleet(
            nursery,
            make_pki(folder / "pki", CLIENTS),
            folder / "run",
            [*SETTINGS, "--rounds", str(given.rounds)],
            CLIENTS,
            f"127.0.0.1:{port}",
            f"127.0.0.1:{port}",
            patience=["--away", "2", "--deadline", "30", "--min-clients", str(STAY)],
            say=lambda line: print(line, flush=True),
        )
        soak = Soak(fleet, given.rounds, given.seed)
        soak.run()
        until(lambda: len(rounds_in(fleet.output)) == given.rounds, 10, "rounds are missing")
        seconds = time.monotonic() - fleet.began
    lines = soak.verdict()
    print("\n".join(lines))
    went = f"said goodbye {soak.goings} times and were killed {soak.kills} times"
    print(f"{given.rounds} rounds in {seconds:.0f} s; clients came back {soak.comings} times, {went}")
    bad = any("PROBLEM" in line for line in lines)
    print("FAILED" if bad else "Memory, files and threads are flat.")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
