"""One setup on the page: the result in a sentence, the table, and the figures, which the page's script draws."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from smofi.report.bands import BAND
from smofi.report.heading import clients_of, own_data
from smofi.report.page.elements import Html, element
from smofi.report.page.judging import Judged, judge
from smofi.report.page.pictures import Pictures, pictures_of
from smofi.report.page.private import setting_shown, without_folders
from smofi.report.page.series import charts_of, diagnostics_of, time_axis
from smofi.report.page.table import results
from smofi.report.page.words import headline
from smofi.report.setups import Setup
from smofi.report.style import SOLID, Look, looks
from smofi.report.titles import rows_by_base

TO_USE = "Hover or use the arrow keys to read values; drag across, or use + and −, to zoom."


@dataclass(frozen=True)
class Section:
    """A setup's part of the page, and the data of its figures."""

    place: int
    setup: Setup
    judged: Judged
    pictures: Pictures

    @classmethod
    def of(cls, place: int, setup: Setup) -> Section:
        """Read all that is shown, the methods in the order of the paper's table."""
        names = rows_by_base(list(dict.fromkeys(run.method for run in setup.runs)))
        order = [name for _, below in names for name in below]
        setup = replace(setup, runs=tuple(sorted(setup.runs, key=lambda run: order.index(run.method))))
        return cls(place, setup, judge(setup), pictures_of(setup.runs))

    @property
    def name(self) -> str:
        """What sets the setup apart, or what it is if there is no other."""
        config, served = self.setup.config, self.setup.runs[0].clients
        divided = f"{setting_shown(config.partition)}, {clients_of(config)}" if served is None else own_data(served)
        alone = f"{setting_shown(config.data)}, {divided}, {config.model}"
        return without_folders(self.setup.name) or alone

    @property
    def headline(self) -> str:
        return headline(self.judged)

    @property
    def anchor(self) -> str:
        return f"setup-{self.place}"

    def data(self) -> dict[str, Any]:
        """What the script draws."""
        runs = self.judged.runs
        methods = list(dict.fromkeys(run.method for run in runs))
        axis, rows = time_axis(runs), self.judged.rows
        return {
            "methods": [{"name": name, **_look(look)} for name, look in zip(methods, looks(methods), strict=True)],
            "charts": charts_of(runs),
            "diagnostics": diagnostics_of(runs),
            "time": axis[0] if axis else None,
            "target": rows[0].target if rows else None,
            "partition": self.pictures.partition,
            "timelines": self.pictures.timelines,
        }

    def html(self) -> Html:
        """The section without its figures, each of which has an empty place."""
        pieces: list[Html] = [element("h2", self.name if self.setup.name else "Results")]
        pieces.append(element("p", self.headline, class_="lead"))
        if self.judged.rows:
            pieces += [results(self.judged, "Methods"), element("p", self._target(), class_="note")]
        pieces += [element("p", note, class_="note") for note in self.judged.notes]
        pieces += self._curves()
        pieces += self._others()
        return element("section", pieces, id=self.anchor, class_="setup", data_setup=self.place)

    def _target(self) -> str:
        first = self.judged.rows[0]
        shown = f"{first.target_is}" if first.target_is else first.metric.text(first.target)
        same = " with the same seed" if first.seeds > 1 else f", which is {first.metric.text(first.target)}"
        return f"The target is {shown}{same if first.target_is else ''}."

    def _curves(self) -> list[Html]:
        if not charts_of(self.judged.runs):
            return []
        band = any(row.seeds > 1 for row in self.judged.rows)
        over = f"{BAND} " if band else ""
        caption = element("figcaption", over, element("span", TO_USE, class_="help"))
        figures = [element("h3", "Learning curves"), _place("curves", "Learning curves", caption)]
        if diagnostics_of(self.judged.runs):
            figures += [element("h3", "Diagnostics"), element("div", class_="multiples", data_figure="diagnostics")]
        return figures

    def _others(self) -> list[Html]:
        pieces: list[Html] = []
        seed = self.setup.config.seed
        if self.pictures.partition:
            summary = [f"{text[:1].upper()}{text[1:]}." for text in self.pictures.partition["summary"]]
            caption = element("figcaption", " ".join([f"How the data is divided with seed {seed}.", *summary]))
            pieces += [element("h3", "Clients' data"), _place("partition", "Clients' data", caption)]
        if timelines := self.pictures.timelines:
            text = f"Round {timelines[0]['round']} with seed {seed}, on the clients' devices; first to finish on top."
            pieces += [element("h3", "A round"), _place("timeline", "A round", element("figcaption", text))]
        return pieces + [element("p", note, class_="note") for note in self.pictures.notes]


def _place(kind: str, name: str, *content: str | Iterable[str]) -> Html:
    return element("figure", element("div", class_="plot"), *content, data_figure=kind, aria_label=name)


def _look(look: Look) -> dict[str, Any]:
    """How a method is drawn; dashes are in pixels of a line two pixels wide."""
    dashes = "" if look.dashes == SOLID else " ".join(f"{2 * length:g}" for length in look.dashes[1])
    return {"colour": look.colour, "marker": look.marker, "dashes": dashes, "hollow": look.hollow}
