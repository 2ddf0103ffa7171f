"""A run through bad weather: `make chaos`, or python -m hostile.chaos. Needs root, for network namespaces.

Clients are killed and started again, stopped and continued, cut off, unplugged, choked and given lossy lines, each on a
machine of its own; some are far away, behind a proxy that delays what they say and hear by 20 to 150 ms each way and
drops their connections; the server is killed and resumed again and again.

losses   clients are lost for some rounds: the run completes, no finished round is lost, and the accuracy is that of
         clean runs with other seeds
blinks   nobody is lost for good: the same bits as those of a clean run
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from support.chaos import Fleet, Nursery, Weather, accuracy, differing, make_pki, rounds_in
from support.network import SERVER, Network, Proxy, missing
from support.ports import free_port

LOSSES = {
    "killed": (0.5, 4),
    "stopped": (0.5, 6),
    "cut off": (0.5, 6),
    "unplugged": (0.5, 4),
    "lossy": (1, 4),
    "choked": (1, 4),
    "dropped": (0, 0),
}
BLINKS = {
    "stopped": (0.2, 1.5),
    "cut off": (0.2, 2),
    "unplugged": (0.2, 1.5),
    "lossy": (0.5, 2),
    "choked": (0.5, 2),
    "dropped": (0, 0),
}
"""For how many seconds."""

FAR = 4
"""Every client with a number that this divides is far away."""

DELAY, JITTER = 0.02, 0.13
"""Seconds each way, to a client that is far away: from 20 to 150 ms."""

LEAST = 50_000
"""Bytes to and from each client that is far away."""


def say(line: str) -> None:
    print(line, flush=True)


def settings(clients: int, rounds: int, seed: int) -> list[str]:
    words = ["--data", "digits", "--model", "cnn", "--width", "8", "--cut", "1", "--clients", str(clients)]
    words += ["--partition", "dirichlet(1)", "--local-epochs", "1", "--batch-size", "8", "--participation", "1"]
    words += [
        "--max-train",
        "1000",
        "--max-test",
        "300",
        "--method",
        "smofi",
        "--optimizer",
        "sgd(lr=0.02, momentum=0.9)",
    ]
    return [*words, "--rounds", str(rounds), "--seed", str(seed)]


def clean_accuracies(nursery: Nursery, folder: Path, clients: int, rounds: int, seeds: int) -> list[float]:
    """Of simulations without any faults."""
    found = []
    for seed in range(1, seeds + 1):
        output = folder / f"clean-{seed}"
        words = ["run", *settings(clients, rounds, seed), "--output", output, "--display", "jsonl", "--workers", 1]
        done = nursery.smofi(*words, log=f"clean-{seed}")
        assert done.wait(1800) == 0, done.text()[-2000:]
        found.append(accuracy(output))
    return found


def storm(fleet: Fleet, rounds: int, kills: int, kinds: dict[str, tuple[float, float]], seed: int) -> Weather:
    """Bad weather until the run is over, with the server killed so often, spread over the rounds."""
    draw = random.Random(seed)
    weather = Weather(fleet, draw, kinds)
    fleet.serve()
    fleet.join_all()
    fleet.wait_for_round(1, 600)
    at = sorted(draw.uniform(1, max(1.5, 0.6 * rounds)) for _ in range(kills))
    next_strike, seen = time.monotonic(), 0
    assert fleet.server
    while fleet.server.alive:
        weather.clear()
        done = len(rounds_in(fleet.output))
        if fleet.kills < kills and done >= int(at[fleet.kills]):
            time.sleep(draw.uniform(0, 1.5))  # somewhere in a round
            if fleet.server.alive:
                fleet.kill_server()
        elif time.monotonic() >= next_strike or done > seen:  # every round, and more often in a long one
            weather.strike()
            weather.strike()
            seen = done
            next_strike = time.monotonic() + draw.uniform(0.5, 3)
        time.sleep(0.05)
    weather.clear(all_of_it=True)
    return weather


def scenario(name: str, given: argparse.Namespace, folder: Path, nursery: Nursery, network: Network) -> bool:
    """One of the two; prints what happened and returns whether all is well."""
    port, clients, rounds = free_port(), given.clients, given.rounds
    pki, blinks = folder / "pki", name == "blinks"
    # nobody may be missed in the second one: a round waits for all, and all are waited for
    patience = ["--away", "60", "--deadline", "600"] if blinks else ["--away", "3", "--deadline", "15"]
    patience += ["--keepalive", "2", "--min-clients", str(clients if blinks else clients // 2)]
    with ExitStack() as stack:
        proxies = {number: stack.enter_context(far_away(port, network, number)) for number in range(0, clients, FAR)}
        fleet = Fleet(
            nursery, pki, folder / name, settings(clients, rounds, 1), clients, f"{SERVER}:{port}", f"0.0.0.0:{port}",
            network, patience, say, proxies,
        )  # fmt: skip
        weather = storm(fleet, rounds, given.kills, BLINKS if blinks else LOSSES, given.seed)
        fleet.finish(60, away=not blinks)
    happened = ", ".join(f"{kind} {count}" for kind, count in weather.count.items())
    say(f"{name}: {len(rounds_in(fleet.output))} rounds in {time.monotonic() - fleet.began:.0f} s; clients {happened}; "
        f"the server was killed {fleet.kills} times; no finished round was lost")  # fmt: skip
    delayed = were_delayed(name, proxies)
    if fleet.kills < given.kills or not all(weather.count.values()) or not delayed:
        say(f"{name}: PROBLEM: the run was over before all of it had happened")
        return False
    if not blinks:
        return judged(accuracy(fleet.output), clean_accuracies(nursery, folder, clients, rounds, given.clean))
    clean = Fleet(
        nursery, pki, folder / "clean", settings(clients, rounds, 1), clients, f"{SERVER}:{port}", f"0.0.0.0:{port}",
        network, patience, say,
    )  # fmt: skip
    clean.serve()
    clean.join_all()
    clean.finish(1800)
    different = differing(fleet.output, clean.output)
    say(f"{name}: {'the same bits as a clean run' if not different else f'PROBLEM: these differ: {different}'}")
    return not different


def far_away(port: int, network: Network, number: int) -> Proxy:
    """On the server's machine, so that what happens to a client's own line happens as well."""
    proxy = Proxy(port, SERVER, network.hub, seed=number)
    proxy.delay, proxy.jitter = DELAY, JITTER
    return proxy


def were_delayed(name: str, proxies: dict[int, Proxy]) -> bool:
    """Whether every client that is far away was heard, and late; prints the counts."""
    used = [one for one in proxies.values() if one.passed >= LEAST and one.quickest >= DELAY and one.slowest >= JITTER]
    connections, passed = (sum(getattr(one, what) for one in proxies.values()) for what in ("accepted", "passed"))
    quickest, slowest = min(one.quickest for one in proxies.values()), max(one.slowest for one in proxies.values())
    say(f"{name}: {len(used)} of {len(proxies)} clients far away were delayed: {connections} connections, {passed:,} "
        f"bytes, {1000 * quickest:.0f} to {1000 * slowest:.0f} ms each way")  # fmt: skip
    return len(used) == len(proxies)


def judged(found: float, clean: list[float]) -> bool:
    """Whether an accuracy could be that of a clean run."""
    mean, spread = statistics.mean(clean), max(0.02, 2 * statistics.stdev(clean) if len(clean) > 1 else 0.05)
    fits = abs(found - mean) <= spread or found > mean
    listed = ", ".join(f"{one:.3f}" for one in clean)
    verdict = "within their spread" if fits else "PROBLEM: not like them"
    say(f"losses: accuracy {found:.3f}; clean runs {listed}: {verdict}")
    return fits


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--kills", type=int, default=20, help="how often the server is killed")
    parser.add_argument("--clean", type=int, default=5, help="clean runs to compare with")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("losses", "blinks"))
    given = parser.parse_args()
    if why := missing():
        print(f"make chaos {why}.")
        return 2
    names = [given.only] if given.only else ["losses", "blinks"]
    with tempfile.TemporaryDirectory(prefix="smofi-chaos-") as name, Nursery(Path(name)) as nursery:
        make_pki(Path(name) / "pki", given.clients, SERVER)
        with Network(given.clients) as network:
            well = [scenario(one, given, Path(name), nursery, network) for one in names]
    print("All is well." if all(well) else "FAILED")
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
