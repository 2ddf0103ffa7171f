"""What SFLV2 and MergeSFL gain from workers, and from threads for their single server model.

Rounds with one worker and with several, each with one thread and with several for the server's pass, are timed in turn,
repetition after repetition, in one program: while a single worker is timed, the others wait. The server's share is that
of a round in one worker and one thread; with W workers a round takes at least share + (1 - share) / W of that time.

    python benchmarks/server_threads.py
    python benchmarks/server_threads.py --models resnet8 --methods mergesfl --repetitions 3
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from shared.internals import Workers, first_plan, one_round, parameters, server_share
from shared.options import options, positive
from shared.rows import Row, Sheet, cell, markdown
from shared.settings import SETTINGS, Setting
from shared.timing import in_processes, time_alone, time_together

MODELS, METHODS = ("resnet8", "digits-cnn"), ("mergesfl", "sflv2(turns='step')")
SECONDS, SPEED, SHARE = "seconds", "times as fast", "server's share"


GENTLE = "sgd(lr=0.0001, momentum=0.9)"
"""The same round over and over, to which one server model that visits all clients must not diverge."""


@dataclass(frozen=True)
class Contestant:
    """A round by so many workers, whose server computes with so many threads."""

    workers: int
    threads: int
    work: Callable[[], object]

    def seconds(self, workers: Workers) -> float:
        """Of one round, known to all processes."""
        return (time_alone if self.workers == 1 else time_together)(workers, self.work)


def contestants(setting: Setting, method: str, workers: Workers, threads: int) -> Iterator[Contestant]:
    """One worker and all of them, with one thread and with several."""
    for count in (1, threads):
        yield Contestant(1, count, one_round(setting.session(method, optimizer=GENTLE, server_threads=count)))
        if workers.size > 1:
            shared = setting.session(method, optimizer=GENTLE, server_threads=count, workers=workers)
            yield Contestant(workers.size, count, one_round(shared))


def measure(
    setting: Setting, method: str, repetitions: int | None, sheet: Sheet, workers: Workers, threads: int
) -> None:
    """Add the seconds of a round, how many times as fast it is as by one worker and one thread, the server's share."""
    others = list(contestants(setting, method, workers, threads))
    split = setting.session(method, optimizer=GENTLE, wire=lambda tensor, direction, client: tensor)
    plan, round_in_two = first_plan(split), one_round(split)
    steps = f"{len(plan.clients)} clients, {sum(plan.steps)} steps"
    sheet.begin(model=f"{setting.name}; {steps}, {parameters(split):,} parameters", method=method)
    shares: list[float] = []
    taken: list[list[float]] = [[] for _ in others]
    for repetition in range(-1, repetitions or setting.repetitions):
        order = list(zip(others, taken, strict=True))
        for one, seconds in order[:: 1 if repetition % 2 else -1]:  # in turn the first to come
            seconds.append(one.seconds(workers))
        time_alone(workers, lambda: shares.append(server_share(round_in_two)))
    warm = slice(1, None)  # the first repetition warms up
    if sheet.leads:
        sheet.add(SHARE, shares[warm], ".0%", workers=1, threads=1)
    for one, seconds in zip(others, taken, strict=True):
        labels: Row = {"workers": one.workers, "threads": one.threads}
        sheet.add(SECONDS, seconds[warm], **labels)
        if one is not others[0]:
            ratios = [alone / own for alone, own in zip(taken[0], seconds, strict=True)]
            sheet.add(SPEED, ratios[warm], ".2f", **labels)


def table(rows: Sequence[Row]) -> str:
    """A line for each model and method."""
    layouts = list(dict.fromkeys((row["workers"], row["threads"]) for row in rows if row["what"] == SPEED))
    lines = []
    for model, method in dict.fromkeys((row["model"], row["method"]) for row in rows):
        own = [row for row in rows if (row["model"], row["method"]) == (model, method)]
        alone = cell(own, SECONDS, workers=1, threads=1)
        gained = [cell(own, SPEED, ".2f", workers=count, threads=threads) for count, threads in layouts]
        lines.append([model, method, cell(own, SHARE, ".0%"), alone, *gained])
    times = [f"times as fast: workers {count}, server's threads {threads}" for count, threads in layouts]
    return markdown(["model", "", "server's share", "seconds", *times], lines)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=SETTINGS)
    parser.add_argument("--methods", nargs="+", default=METHODS, help="such as sflv2 and mergesfl")
    parser.add_argument("--workers", type=positive, default=2, help="beside one; 1 for one alone")
    parser.add_argument("--threads", type=positive, default=2, help="of the server, beside one")
    given = parser.parse_args()
    torch.set_num_threads(1)

    def work(workers: Workers) -> list[Row]:
        sheet = Sheet(given.results, leads=workers.rank == 0)
        for name in given.models:
            for method in given.methods:
                measure(SETTINGS[name](), method, given.repetitions, sheet, workers, given.threads)
        return sheet.rows

    print("\n" + table(in_processes(given.workers, work)))


if __name__ == "__main__":
    main()
