"""How time and memory grow: seconds a round over clients, model size and workers, memory over clients.

SMoFi, FedAvg and the bare forward and backward pass on the same samples are timed in turn; every worker has one thread,
and with several of them the bare pass is shared out like the clients of a round. Memory is the peak of a process that
runs one round.

    python benchmarks/growth.py --picture benchmarks/growth.svg
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import torch
from shared.goals import Goal, at_most
from shared.growth_picture import draw
from shared.internals import Workers, bare_pass, deal, first_plan, one_round, parameters
from shared.options import options, positive
from shared.peak import add_memory, memory_table
from shared.rows import Row, Sheet, markdown, pick, spread
from shared.settings import Setting, cnn, resnet8
from shared.timing import in_processes, time_together

METHODS = ("smofi", "fedavg")
BARE = "bare pass"
CLIENTS = (5, 10, 20, 40, 80, 160)
WIDTHS = (8, 16, 32, 64)


def time_rounds(setting: Setting, repetitions: int, workers: Workers) -> dict[str, list[float]]:
    """Seconds of the bare pass and of a round of each method, by all workers."""
    session = setting.session("fedavg")
    plan = first_plan(session)
    works: dict[str, Callable[[], object]] = {
        BARE: bare_pass(session, plan, deal(plan.steps, workers.size)[workers.rank])
    }
    works |= {method: one_round(setting.session(method, workers=workers)) for method in METHODS}
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(-1, repetitions):
        for name, work in works.items():
            taken[name].append(time_together(workers, work))
    return {name: values[1:] for name, values in taken.items()}  # the first ones warm up


def over_clients(counts: Sequence[int], repetitions: int, sheet: Sheet) -> None:
    """The same samples for each client: two batches of eight."""
    sheet.begin(over="clients a round", model=resnet8(batch=8).name)
    for count in counts:
        for name, values in in_processes(1, partial(time_rounds, resnet8(count, batch=8), repetitions)).items():
            sheet.add("seconds", values, at=count, method=name)


def over_size(widths: Sequence[int], repetitions: int, sheet: Sheet) -> None:
    """Two models, four clients, two batches of eight each."""
    for model, make in (("cnn", cnn), ("resnet8", resnet8)):
        sheet.begin(over="parameters", model=model)
        for width in widths:
            setting = make(4, batch=8, width=width)
            size = parameters(setting.session("fedavg"))
            for name, values in in_processes(1, partial(time_rounds, setting, repetitions)).items():
                sheet.add("seconds", values, at=size, method=name)


def over_workers(counts: Sequence[int], repetitions: int, sheet: Sheet) -> None:
    """The same clients for any number of workers, two each at least."""
    setting = resnet8(max(10, 2 * max(counts)))
    sheet.begin(over="workers", model=setting.name)
    for count in counts:
        for name, values in in_processes(count, partial(time_rounds, setting, repetitions)).items():
            sheet.add("seconds", values, at=count, method=name)


def memory_over_clients(counts: Sequence[int], sheet: Sheet) -> None:
    """Peaks of processes."""
    sheet.begin(model=resnet8(batch=8).name)
    for count in counts:
        for method in METHODS:
            add_memory(sheet, "resnet8", method, clients=count, batch=8)


def worker_counts(cores: int) -> list[int]:
    """One, twice as many, and so on; and all cores.

    >>> worker_counts(6)
    [1, 2, 4, 6]
    """
    return sorted({cores, *(2**power for power in range(cores.bit_length()) if 2**power <= cores)})


def table(rows: Sequence[Row]) -> str:
    """Seconds a round, a line for each point."""
    lines = []
    for point in pick(rows, "seconds", method=BARE):
        others = pick(rows, "seconds", over=point["over"], model=point["model"], at=point["at"])
        times = {row["method"]: spread(row["values"]) for row in others}
        lines.append([point["over"], point["model"], f"{point['at']:,}", *(times[name] for name in (BARE, *METHODS))])
    return markdown(["over", "model", "", "bare pass, s", *(f"{method}, s" for method in METHODS)], lines)


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Time in proportion to the clients; FedAvg's memory whatever their number."""
    found = []
    for method in METHODS:
        points = pick(rows, "seconds", over="clients a round", method=method)
        per_client = [median(row["values"]) / row["at"] for row in points]
        growth = [{"values": [per_client[-1] / per_client[0]]}] if len(points) > 1 else []
        found.append(at_most(f"{method}: with all clients, at most 1.1 times the seconds per client", growth, 1.1))
    peaks = [row["values"][0] for row in pick(rows, "peak, MiB", method="fedavg")]
    growth = [{"values": [peaks[-1] / peaks[0]]}] if len(peaks) > 1 else []
    return [*found, at_most("fedavg: with all clients, at most 1.2 times the memory", growth, 1.2)]


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    parser = options(__doc__, repetitions=3)
    parser.add_argument("--clients", nargs="+", type=positive, default=CLIENTS)
    parser.add_argument("--widths", nargs="+", type=positive, default=WIDTHS)
    parser.add_argument("--workers", nargs="+", type=positive, default=worker_counts(cores))
    parser.add_argument("--picture", type=Path, help="file for the curves, SVG or PNG")
    given = parser.parse_args()
    torch.set_num_threads(1)
    sheet = Sheet(given.results)
    over_workers(given.workers, given.repetitions, sheet)  # first, because a fork copies all memory
    over_clients(given.clients, given.repetitions, sheet)
    over_size(given.widths, given.repetitions, sheet)
    memory_over_clients(given.clients, sheet)
    if given.picture:
        draw(sheet.rows, given.picture)
    print("\n" + table(sheet.rows) + "\n\n" + memory_table(sheet.rows))


if __name__ == "__main__":
    main()
