"""What `smofi reproduce` is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from smofi.reproduce.items import ITEMS
from smofi.sweep.cells import Cell


@dataclass(frozen=True)
class Asked:
    """The scale, the seeds (None: those of each item), and the folder of the runs; how many run at a time (None: as
    many as there are cores), on which device; and a folder of files with results that count as done."""

    scale: str
    seeds: tuple[int, ...] | None
    store: Path
    jobs: int | None = None
    device: str = "cpu"
    known: Path | None = None

    def cells(self, names: Sequence[str]) -> list[Cell]:
        """The runs of these items, each once; an item without any is passed over."""
        items = [ITEMS[name] for name in names if name in ITEMS]
        every = [cell for item in items for cell in item.at(self.scale).cells(self.seeds or item.seeds)]
        found = {cell.key: cell for cell in every}
        return [Cell(cell.config.model_copy(update={"device": self.device}), cell.label) for cell in found.values()]
