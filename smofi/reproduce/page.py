"""The page of results, from the files of a folder: tables, figures, what follows from them, and hand-written parts.

docs/results.md                made by this, with README's block between its two marks
docs/results/*.csv, *.yaml     the runs
docs/results/parts/*.md        written by hand: before, verdict and after the tables; NAME.md for an item
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from smofi.errors import InputError
from smofi.files import write_atomically
from smofi.plural import plural
from smofi.reproduce.items import HETEROGENEITY, ITEMS, SCALES, Item, Line
from smofi.reproduce.pictures import (
    CLIENTS_SOURCE,
    CLIENTS_TITLE,
    client_sentences,
    clients_drawing,
    drawings,
    overview,
    picture_stem,
    read_clients,
)
from smofi.reproduce.results import Measured, read_results
from smofi.reproduce.tables import claims_table, findings, readme_table, table_of

MADE = "<!-- Made by `smofi reproduce --page {}`: change what it is made from, in {}/. -->"
OVERVIEW = "overview.svg"
"""The figure in README."""
SHOWN = 0.5
"""An item has a section once more than this share of its runs are there."""
BEGIN, END = "<!-- results: made by smofi reproduce -->", "<!-- end of results -->"


@dataclass(frozen=True)
class Page:
    """A page to be made, and the seeds it shows (None: those of each item)."""

    path: Path
    seeds: Sequence[int] | None

    @property
    def folder(self) -> Path:
        """With the results that it is made from."""
        return self.path.with_suffix("")

    @property
    def first_line(self) -> str:
        """Says what the page is made from."""
        name = f"{self.path.parent.name}/{self.path.stem}"
        return MADE.format(f"{name}.md", name)

    @cached_property
    def measured(self) -> dict[tuple[Item, str], list[Measured]]:
        """The panels of each item and scale."""
        results = read_results(self.folder)
        return {
            (item, scale): [Measured.of(panel, self.seeds or item.seeds, results) for panel in item.at(scale).panels]
            for item in ITEMS.values()
            for scale in SCALES
        }

    def text(self) -> str:
        """The whole page."""
        done = {key: panels for key, panels in self.measured.items() if _share(panels) > SHOWN}
        small = [(item, panels) for (item, scale), panels in self.measured.items() if scale == "small"]
        pieces = [self.first_line, "# Results", self._part("before")]
        pieces += ["## The paper's claims", claims_table(small), self._part("verdict")]
        pieces += self._clients()
        for (item, scale), panels in done.items():
            pieces += [*self._section(item, scale, panels), self._part(item.name if scale == "small" else "")]
        names = [
            f"- `{item.name}`, {item.title}: {_runs(panels)[0]} of {_runs(panels)[1]} runs"
            for item, panels in small
            if (item, "small") not in done
        ]
        if names:
            pieces += ["## Not finished yet", "\n".join(["At most half of the runs are here:", "", *names])]
        pieces.append(self._part("after"))
        return "\n\n".join(piece.strip() for piece in pieces if piece.strip()) + "\n"

    def _clients(self) -> Iterator[str]:
        """The section about how clients differ, if its numbers are there."""
        if clients := read_clients(self.folder):
            yield f"## {CLIENTS_TITLE}"
            yield f"In the paper: {CLIENTS_SOURCE}. `smofi reproduce {HETEROGENEITY}`; nothing is trained."
            yield from client_sentences(clients)
            yield f"![{CLIENTS_TITLE}]({self.folder.name}/{HETEROGENEITY}.svg)"
            yield self._part(HETEROGENEITY)

    def _section(self, item: Item, scale: str, panels: Sequence[Measured]) -> Iterator[str]:
        yield f"## {item.title}"
        where = f"In the paper: {item.source}. " if item.source else "Not in the paper. "
        yield f"{where}`smofi reproduce {item.name} --scale {scale}`"
        for one in panels:
            yield from self._panel(item, one)
        for end in drawings(item, panels):
            name = f"{picture_stem(item, scale)}{end}.svg"
            yield f"![{item.title}]({self.folder.name}/{name})"
        yield from item.remarks

    def _panel(self, item: Item, one: Measured) -> Iterator[str]:
        yield f"**{one.panel.title}**. {about(one)}"
        if not one.all_histories:
            return
        yield table_of(item, one).markdown()
        if sentences := findings(one):
            yield "\n".join(f"- {sentence}" for sentence in sentences)

    def _part(self, name: str) -> str:
        path = self.folder / "parts" / f"{name}.md"
        return path.read_text(encoding="utf-8") if name and path.is_file() else ""

    def readme(self) -> tuple[Path, str] | None:
        """README with its block filled, if it has one beside the page's folder."""
        path = self.path.resolve().parent.parent / "README.md"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        before, mark, rest = text.partition(BEGIN)
        _, end, after = rest.partition(END)
        panels = self.measured[ITEMS["table1"], "small"]
        if not mark or not end or not panels[0].all_histories:
            return None
        picture = f"{self.path.parent.name}/{self.folder.name}/{OVERVIEW}"
        shown = f"![{ITEMS['table1'].title}]({picture})"
        block = "\n\n".join([readme_table(panels[0]).markdown(), measure_words(panels[0]), shown])
        return path, f"{before}{BEGIN}\n\n{block}\n\n{END}{after}"

    def save(self) -> list[Path]:
        """Write page, figures and README's block. A page that was not made by this is refused."""
        if self.path.is_file() and not self.path.read_text(encoding="utf-8").startswith(MADE.partition("`")[0]):
            raise InputError(f"{self.path} exists and was not made by smofi reproduce: choose another name, or move it")
        written = [(self.path, self.text())]
        pictures = []
        if found := self.readme():
            written.append(found)
            (panel,) = self.measured[ITEMS["table1"], "small"]
            pictures.append(overview(panel).save(self.folder / OVERVIEW))
        for path, text in written:
            write_atomically(path, text.encode())
        pictures += [
            drawing.save(self.folder / f"{picture_stem(item, scale)}{end}.svg")
            for (item, scale), panels in self.measured.items()
            if _share(panels) > SHOWN
            for end, drawing in drawings(item, panels).items()
        ]
        if clients := read_clients(self.folder):
            pictures.append(clients_drawing(clients).save(self.folder / f"{HETEROGENEITY}.svg"))
        return [path for path, _ in written] + pictures


def _runs(panels: Sequence[Measured]) -> tuple[int, int]:
    """How many runs there are, and how many there should be."""
    every = sum(len(one.panel.lines) * len(one.every_seed) for one in panels)
    return every - sum(len(one.missing) for one in panels), every


def _share(panels: Sequence[Measured]) -> float:
    found, every = _runs(panels)
    return found / every


def about(measured: Measured) -> str:
    """Seeds, target and missing runs of a panel, in a line."""
    if not measured.all_histories:
        return "No run is here yet."
    return " ".join(words for words in (measure_words(measured), *left_out_words(measured)) if words)


def measure_words(measured: Measured) -> str:
    """Over which seeds the numbers are, and what the target is."""
    seeds = ", ".join(map(str, measured.seeds))
    several = f"Mean ± standard deviation over {plural(len(measured.seeds), 'seed')} ({seeds})."
    words = [several if len(measured.seeds) > 1 else f"Seed {seeds} alone."]
    target = measured.panel.target.words(measured.baseline.label)
    exactly = f" ({100 * measured.target:g} %)" if measured.target is not None and measured.panel.target.rounded else ""
    words.append(f"The target is {target}{exactly}; R is the first round that reaches it.")
    return " ".join(words)


def left_out_words(measured: Measured) -> list[str]:
    """Which runs are missing, and which have diverged; nothing if none."""
    found = []
    if measured.missing:
        found.append(f"{plural(len(measured.missing), 'run')} missing. {_which(measured.missing, measured)}")
    if measured.diverged:
        count, verb = len(measured.diverged), "has" if len(measured.diverged) == 1 else "have"
        found.append(
            f"{plural(count, 'run')} {verb} diverged and {'is' if count == 1 else 'are'} left out, so that the other "
            f"seeds flatter the method. {_which(measured.diverged, measured)}"
        )
    return found


def _which(runs: Sequence[tuple[Line, int]], measured: Measured) -> str:
    """Lines by their seeds."""
    seeds: dict[str, list[int]] = {}
    for line, seed in runs:
        seeds.setdefault(line.label, []).append(seed)
    labels: dict[tuple[int, ...], list[str]] = {}
    for label, which in seeds.items():
        labels.setdefault(tuple(which), []).append(label)
    return " ".join(
        f"With {'every seed' if which == measured.every_seed else seeds_words(which)}: {'; '.join(same)}."
        for which, same in labels.items()
    )


def seeds_words(seeds: Sequence[int]) -> str:
    """Seeds in a sentence.

    >>> seeds_words([2]), seeds_words([0, 2]), seeds_words([0, 1, 2])
    ('seed 2', 'seeds 0 and 2', 'seeds 0, 1 and 2')
    """
    *before, last = map(str, seeds)
    return f"seeds {', '.join(before)} and {last}" if before else f"seed {last}"
