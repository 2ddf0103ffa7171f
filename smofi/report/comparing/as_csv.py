"""The table for programs: plain numbers, accuracies between 0 and 1, nothing where there is no number."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from smofi.report.comparing.blocks import Block
from smofi.report.comparing.paired import Difference

ROW = ("seeds", "best", "best_std", "mean", "mean_std", "rounds", "rounds_std", "budget", "speed_up")
RUN = ("best", "mean", "target", "rounds", "budget", "hours_to", "hours", "seconds")
TIMES = ("hours_to", "hours_to_std", "hours", "seconds")


def as_csv(blocks: Sequence[Block], *, per_seed: bool = False) -> str:
    """A row for each method of each setup, or for each run; settings that differ between setups have columns."""
    rows = [row for block in blocks for row in (_runs(block) if per_seed else _methods(block))]
    names = dict.fromkeys(name for row in rows for name in row)
    written = io.StringIO()
    writer = csv.DictWriter(written, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _plain(value) for name, value in row.items()} for row in rows)
    return written.getvalue()


def _methods(block: Block) -> Iterable[Mapping[str, Any]]:
    for base, names in block.groups:
        for name in names:
            row, gain = block.rows.get(name), block.paired.get(name)
            yield {
                **_setup(block),
                "method": name,
                "bare_base": base,
                **{one: getattr(row, one) if row else None for one in ROW},
                "target": row.target if row else None,
                **{one: getattr(row, one) if row else None for one in TIMES},
                "compared_with": gain.base if gain else None,
                "pairs": len(gain.seeds) if gain else None,
                **_difference("mean", gain.mean if gain else None),
                **_difference("best", gain.best if gain else None),
                "complete": name not in block.incomplete,
            }


def _runs(block: Block) -> Iterable[Mapping[str, Any]]:
    """The runs that count."""
    folders = {(run.method, run.config.seed): run.path for run in (block.setup.runs if block.setup else ())}
    for base, names in block.groups:
        for name in names:
            for seed, rows in block.by_seed.items():
                for row in (one for one in rows if one.name == name):
                    yield {
                        **_setup(block),
                        "method": name,
                        "bare_base": base,
                        "seed": seed,
                        **{one: getattr(row, one) for one in RUN},
                        "folder": folders.get((name, seed)),
                    }


def _setup(block: Block) -> dict[str, Any]:
    return {"setup": block.name, **(block.setup.settings if block.setup else {})}


def _difference(name: str, one: Difference | None) -> dict[str, float | None]:
    mean, low, high = one or (None, None, None)
    return {f"{name}_gain": mean, f"{name}_gain_low": low, f"{name}_gain_high": high}


def _plain(value: Any) -> Any:
    """Numbers as short as they can be without loss; a target that does not exist is left empty."""
    if isinstance(value, float):
        return "" if math.isinf(value) else f"{value:.10g}"
    return "" if value is None else value
