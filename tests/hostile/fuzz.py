"""Attack servers while honest clients train: `make fuzz`, or python -m hostile.fuzz --messages 100000.

Real processes with certificates, on this machine only. Attackers hold good certificates of the same authority. The
server is one that keeps nobody out for offences, nor for coming too fast: tests/net/test_hostile.py has that.

outside   they are never selected, and send what tests/support/attacks.py makes up: openings, envelopes and frames that
          are none, floods and replays
selected  they take part in rounds and in evaluation, and send forgeries (tests/support/attacks.py) of the very message
          that is expected of them
U shape   the same where labels stay with the clients, and two messages make a step

Afterwards nothing may have crashed, the server's memory, files and threads must be what they were, no forgery may have
been taken, and the honest clients must have computed the bits of a run that nobody attacked. At least half of the
messages are malformed or adversarial in what they say, and there are some of every kind. What is drawn follows from the
seed; which round it meets, from the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.attackers import (
    ATTACKERS,
    ATTACKS,
    FLIPPED,
    HONEST,
    MANY,
    NOT_FINITE,
    TAKEN,
    UNFINISHED,
    WRAPPINGS,
    Attacked,
    Lorises,
    Mallory,
    Participant,
    Tally,
    make_pki,
)
from support.attacks import ANY, COUNTS, ENVELOPES, FRAMES, LABELS, OPENINGS, ROUND, TENSORS
from support.chaos import Nursery, Usage, differing, rounds_in, until

MOST_GROWTH = 18.0
"""MiB by which the server's memory may grow after the first quarter of the messages, however many there are. In that
quarter it finds its size, as it does without any attack."""

MOST_ABOVE = 40.0
"""MiB by which it may be above that of a server that nobody attacks, after as many rounds. Four of the largest message
of each of six attackers may wait, which is 26 MiB, and a heap has gaps."""

COMMON = ["--data", "digits", "--model", "cnn", "--width", "4", "--max-train", "240", "--max-test", "100"]
COMMON += ["--partition", "iid", "--local-epochs", "1", "--batch-size", "16", "--participation", "1", "--seed", "1"]
COMMON += ["--display", "jsonl"]

FLOODS = 0.002
"""How often an attacker who is never selected sends a flood, of up to 1,200 messages, instead of one message."""

MALFORMED = {*OPENINGS, *ENVELOPES, *FRAMES, *(f"forged: {name}" for name in ANY | TENSORS | ROUND | LABELS | COUNTS)}
MALFORMED |= {*(f"forged: {name}" for name in WRAPPINGS), NOT_FINITE, FLIPPED, UNFINISHED}
"""All kinds of messages that are malformed or adversarial in what they say: not floods, nor replays."""

Attack = Callable[["Attacked", int, int, Tally, Callable[[], None]], Awaitable[None]]


@dataclass(frozen=True)
class Siege:
    """A run, and who attacks it: with its `share` of all messages, by `attack(run, messages, seed, tally, watch)`."""

    name: str
    words: list[str]
    honest: int
    share: float
    attack: Attack


@dataclass
class Phase:
    """What came of a siege."""

    name: str
    before: Usage
    samples: list[tuple[int, Usage]] = field(default_factory=list)
    after: Usage | None = None
    clean: Usage | None = None
    rounds: int = 0
    sent: int = 0
    seconds: float = 0.0
    round_seconds: float = 0.0
    clean_round_seconds: float = 0.0


@dataclass
class Found:
    """What came of all attacks."""

    tally: Tally = field(default_factory=Tally)
    phases: list[Phase] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def malformed(self) -> int:
        """How many messages were malformed or adversarial in what they say."""
        return sum(sum(answers.values()) for kind, answers in self.tally.answers.items() if kind in MALFORMED)


# ------------------------------------------------------------------------------------------------------------- attacks


def credentials(run: Attacked, name: str) -> Any:
    from smofi.net.certs import Identity, client_credentials

    return client_credentials(Identity.load(run.pki / name, "client"))


async def outside(run: Attacked, messages: int, seed: int, tally: Tally, watch: Callable[[], None]) -> None:
    """Six attackers at once, until so many messages are sent, most of them one by one."""
    single = [one for one in ATTACKS if one not in MANY]
    alone = 0

    async def go(number: int) -> None:
        nonlocal alone
        name, draw = f"mallory-{number}", random.Random(seed * 1000 + number)
        one = Mallory(f"127.0.0.1:{run.port}", credentials(run, name), name, tally, seed + number)
        while tally.sent < messages or alone < messages // 2:
            many = draw.random() < FLOODS
            await one.attack(draw.choice(list(MANY) if many else single))
            alone += not many
            if draw.random() < 0.01:
                await one.close()  # and a new connection
            watch()
        await one.close()

    await asyncio.gather(*map(go, range(6)))


async def selected(run: Attacked, messages: int, seed: int, tally: Tally, watch: Callable[[], None]) -> None:
    """All attackers at once. Two of them send numbers that are none: if most clients did, a run would have diverged."""
    end, claims = tally.sent + messages, 240 // run.honest

    async def go(number: int) -> None:
        name = f"mallory-{number}"
        place = f"127.0.0.1:{run.port}", credentials(run, name), name
        one = Participant(*place, tally, seed * 1000 + number, claims, diverges=number < 2)
        while tally.sent < end:
            await one.take_part()
            watch()
        await one.close()

    await asyncio.gather(*map(go, range(ATTACKERS)))


# An honest client's share of the sum has the same bits whoever is lost, if there are two with the same share.
IN_ROUNDS = [*COMMON, "--method", "fedavg", "--clients", "2", "--min-clients", "2", "--evaluate", "clients"]
IN_ROUNDS += ["--away", "3"]  # some leave in the middle of a message, and a round waits for them
SIEGES = [
    Siege("outside", [*COMMON, "--method", "smofi", "--cut", "1", "--clients", str(HONEST)], HONEST, 0.85, outside),
    Siege("selected", [*IN_ROUNDS, "--cut", "1"], 2, 0.1, selected),
    Siege("U shape", [*IN_ROUNDS, "--cut", "1,1"], 2, 0.05, selected),
]


# ----------------------------------------------------------------------------------------------------------- the whole


def fuzz(
    folder: Path, messages: int, seed: int, say: Any = lambda line: None, sieges: Sequence[Siege] = SIEGES
) -> Found:
    """Attack, and compare with runs that are not attacked."""
    found = Found()
    with Nursery(folder) as nursery:
        pki = make_pki(folder / "pki")
        for siege in sieges:
            (folder / siege.name).mkdir()
            run = Attacked(nursery, folder / siege.name, pki, siege.words, siege.honest)
            own = math.ceil(messages * siege.share / sum(one.share for one in sieges))
            besiege(run, siege, own, seed, found, say)
    check_counts(found, messages)
    for log in folder.glob("*.log"):
        if "Traceback" in (text := log.read_text(errors="replace")):
            found.problems.append(f"{log.name} has a traceback: {text[-1500:]}")
    return found


def besiege(run: Attacked, siege: Siege, messages: int, seed: int, found: Found, say: Any) -> None:
    """One run, from its beginning to its end."""
    name, output, tally, problems = siege.name, run.folder / "attacked", found.tally, found.problems
    server = run.serve(name, *run.words, "--rounds", 10**6, "--output", output)
    clients = run.join(name)
    until(lambda: len(rounds_in(output)) >= 2 or not server.alive, 240, "no round was finished")
    assert server.alive, server.text()
    phase = Phase(name, server.usage())
    found.phases.append(phase)
    say(f"{name}, before: {phase.before}; {len(rounds_in(output))} rounds done")
    sent, started, told = tally.sent, time.monotonic(), time.monotonic()

    def watch() -> None:
        nonlocal told
        if not server.alive:
            raise AssertionError(f"the server of {name} ended with {server.code}: {server.text()[-3000:]}")
        if time.monotonic() > told + 5:
            told = time.monotonic()
            phase.samples.append((tally.sent - sent, server.usage()))
            done = f"{tally.sent - sent:>7} messages, {len(rounds_in(output))} rounds"
            say(f"{told - started:5.0f} s  {done}, {phase.samples[-1][1]}")

    with Lorises(run.port, 30) as lorises:
        asyncio.run(siege.attack(run, messages, seed, tally, watch))
    tally.add("connections that say next to nothing", "closed by the server", lorises.closed)
    phase.seconds, phase.sent = time.monotonic() - started, tally.sent - sent
    if phase.seconds > 30 and not lorises.closed:  # three times what a connection has to say who it is
        problems.append(f"{name}: connections that say next to nothing stayed open")
    until(lambda: server.usage().files <= phase.before.files + 2, 60, f"files stay open: {server.usage()}")
    phase.after = server.usage()
    server.signal(signal.SIGTERM)
    if server.wait(120) != 128 + signal.SIGTERM:
        problems.append(f"{name}: SIGTERM ended the server with {server.code}: {server.text()[-500:]}")
    phase.rounds = len(rounds_in(output)) + 1
    server = run.serve(f"{name}-resumed", "--resume", output, "--rounds", phase.rounds, "--display", "jsonl")
    if server.wait(300) != 0:
        problems.append(f"{name}: the server ended in words: {server.text()[-500:]}")
    codes = [client.wait(90) for client in clients]
    if any(codes):
        problems.append(f"{name}: honest clients ended with the codes {codes}: {clients[0].text()[-500:]}")
    problems += [f"{name}: {problem}" for problem in check(phase, run, output)]


def check(phase: Phase, run: Attacked, output: Path) -> list[str]:
    """What may not have happened to a run."""
    problems, (clean, phase.clean) = list[str](), run.train("clean", phase.rounds)
    if different := differing(output, clean):
        problems.append(f"these tensors differ from those of a clean run: {', '.join(different)}")
    lines = [json.loads(line) for line in rounds_in(output)]
    if lost := [line["round"] for line in lines if set(line.get("left_out", ())) & set(range(run.honest))]:
        problems.append(f"honest clients were left out of the rounds {lost}")
    phase.round_seconds = statistics.median(line["seconds"] for line in lines[2:]) if len(lines) > 3 else 0.0
    calm = [json.loads(line)["seconds"] for line in rounds_in(clean)]
    phase.clean_round_seconds = statistics.median(calm[1:] or calm)
    assert phase.after
    early = next((usage for sent, usage in phase.samples if sent >= phase.sent / 4), phase.before)
    if phase.after.memory > early.memory + MOST_GROWTH:
        problems.append(f"the server's memory grew from {early.memory:.1f} to {phase.after.memory:.1f} MiB")
    if phase.after.memory > phase.clean.memory + MOST_ABOVE:
        problems.append(f"the server takes {phase.after.memory:.1f} MiB, without attacks {phase.clean.memory:.1f}")
    if phase.after.threads > phase.before.threads + 4:
        problems.append(f"threads: {phase.before.threads} before, {phase.after.threads} after")
    return problems


def check_counts(found: Found, messages: int) -> None:
    """Everything was sent, every message was answered, and no forgery was taken."""
    answers = found.tally.answers
    if silent := {attack: one["no answer"] for attack, one in answers.items() if one["no answer"]}:
        found.problems.append(f"left without an answer: {silent}")
    for attack, one in answers.items():
        if one[TAKEN]:
            found.problems.append(f"{attack}: {one[TAKEN]} were taken for what they are not")
    if found.tally.sent < messages or found.malformed() < messages / 2:
        found.problems.append(f"only {found.tally.sent} messages were sent, {found.malformed()} of them malformed")
    wanted = dict.fromkeys(MALFORMED, messages // 10_000 * 5) | dict.fromkeys(MANY, messages // 50_000)
    if rare := [name for name, least in wanted.items() if sum(answers.get(name, {}).values()) < least]:
        found.problems.append(f"sent too rarely: {', '.join(sorted(rare))}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="smofi-fuzz-") as folder:
        found = fuzz(Path(folder), given.messages, given.seed, lambda line: print(line, flush=True))
    print("\n".join(found.tally.lines()))
    for one in found.phases:
        print(f"{one.name}: {one.sent} messages in {one.seconds:.0f} s, while {one.rounds} rounds were trained")
        print(f"  server before: {one.before}\n  server after:  {one.after}\n  in a clean run: {one.clean}")
        print(f"  a round took {one.round_seconds:.2f} s, in a clean run {one.clean_round_seconds:.2f} s (medians)")
    sent, malformed = found.tally.sent, found.malformed()
    print(f"{sent} messages, {malformed} of them ({malformed / sent:.0%}) malformed or adversarial in what they say")
    for problem in found.problems:
        print(f"PROBLEM: {problem}")
    well = "Nothing crashed, nothing grew, and the honest clients have the bits of a clean run."
    print("FAILED" if found.problems else well)
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
