"""Collect what the benchmarks have written into one page, with the goals and whether they are met.

    python benchmarks/results.py

Reads FOLDER/NAME.jsonl for every benchmark, `runs/bench` if no other folder is named, and says what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deployment
import executors
import fusion
import growth
import overhead
from shared import peers_rows
from shared.goals import Goal
from shared.options import parser_for
from shared.origin import ROOT
from shared.peak import memory_table
from shared.rows import Row, markdown, read, spread

FOLDER, PAGE = ROOT / "runs/bench", ROOT / "benchmarks/RESULTS.md"


@dataclass(frozen=True)
class Section:
    """A heading, what it is about, whose rows it shows, and how."""

    heading: str
    text: str
    program: str
    table: Callable[[Sequence[Row]], str]
    goals: Callable[[Sequence[Row]], list[Goal]] = lambda rows: []


def plain_table(rows: Sequence[Row]) -> str:
    """Labels and values as they are, rounded to whole numbers."""
    labels = list(dict.fromkeys(key for row in rows for key in row if key not in ("what", "values")))
    lines = [[*(row.get(key, "") for key in labels), row["what"], spread(row["values"], ",.0f")] for row in rows]
    return markdown([*labels, "", ""], lines)


SECTIONS = [
    Section(
        "Overhead",
        "Rounds beside the bare forward and backward pass on the same samples: the bare pass in seconds, all else "
        "as a ratio to it. MergeSFL's server computes one merged batch where the bare pass goes client by client.",
        "overhead",
        overhead.table,
        overhead.goals,
    ),
    Section(
        "Momentum fusion",
        "SMoFi beside SFLV1 averaged once a round, which is the same without fusion.",
        "fusion",
        fusion.table,
        fusion.goals,
    ),
    Section(
        "Peers",
        "FedAvg on the same data, partition, weights, cohorts and batches; see [peers](peers/README.md).",
        "peers",
        peers_rows.table,
        peers_rows.goals,
    ),
    Section(
        "Growth",
        "![Seconds and memory over clients, size and workers](growth.svg)",
        "growth",
        growth.table,
        growth.goals,
    ),
    Section(
        "Executors",
        "Whole rounds: seconds with the loop over clients, and how many times as fast the others are.",
        "executors",
        executors.table,
        executors.goals,
    ),
    Section(
        "Deployment",
        "A server and clients as processes on one machine.",
        "deployment",
        deployment.table,
        deployment.goals,
    ),
    Section("Sums between workers", "What one sum over all workers takes.", "sum", plain_table),
    Section("Memory of fusion", "Peaks of processes that run one round.", "fusion", memory_table),
    Section("Memory over clients", "The same for more and more clients.", "growth", memory_table),
]
NEVER = ["GPUs: neither time nor memory, nor vmap there", "several machines: only processes on one"]


def page(folder: Path) -> str:
    """The whole page."""
    files = {section.program: folder / f"{section.program}.jsonl" for section in SECTIONS}
    found = {program: read(path) for program, path in files.items() if path.exists()}
    goals = [goal for one in SECTIONS for goal in one.goals(found[one.program][1] if one.program in found else [])]
    verdicts = {True: "yes", False: "**no**", None: "not measured"}
    parts = [
        "# Results of the benchmarks",
        "Written by `make bench`. A value is the median over the repetitions, in brackets the least and the most.",
        "\n".join(f"- {line}" for line in dict.fromkeys(machine(about) for about, _ in found.values())),
        "## Goals",
        markdown(["goal", "found", "met"], [[goal.text, goal.found, verdicts[goal.met]] for goal in goals]),
    ]
    for number, section in enumerate(SECTIONS, 1):
        parts.append(f"## {number}. {section.heading}")
        if section.program in found:
            about, rows = found[section.program]
            parts += [section.text, section.table(rows), origin(about)]
        else:
            parts.append("Not measured.")
    missing = [f"`{program}`: no results here" for program in files if program not in found]
    parts += ["## Not measured", "\n".join(f"- {line}" for line in [*NEVER, *missing])]
    return "\n\n".join(filter(None, parts)) + "\n"


def machine(about: dict[str, Any]) -> str:
    """Where and with what something was measured."""
    memory = f"{about['memory'] / 2**30:.0f} GiB"
    return (
        f"{about['cores']} cores of {about['cpu']} ({about['vectors']}), {memory}, {about['platform']}; "
        f"Python {about['python']}, torch {about['torch']}, smofi {about['smofi']}"
    )


def origin(about: dict[str, Any]) -> str:
    """The command, the time, and the state of the code."""
    git = about["git"]
    commit = f"commit {git['commit'][:10]}{' with changes' if git['dirty'] else ''}" if git else "no commit known"
    return f"`{about['command']}`, {about['started'][:16].replace('T', ' ')}, {commit}."


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args()
    given.page.write_text(page(given.folder))
    print(f"Written to {given.page}.")


if __name__ == "__main__":
    main()
