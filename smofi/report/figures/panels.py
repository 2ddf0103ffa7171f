"""What a figure shows: panels, each with the histories of one setup, and how their methods look and are called."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from smofi.errors import refuse
from smofi.report.history import History, Scale
from smofi.report.measures import USUAL_BASELINE, Row, measure
from smofi.report.style import Look, looks
from smofi.report.titles import PLAIN, label, plugins_of, titles


@dataclass(frozen=True)
class Panel:
    """The histories of one setup, and the target: a `share` of the best of the baseline with the same seed, or fixed.

    >>> Panel("IID", [History("fedavg", [0.2, 0.8]), History("smofi", [0.8, 0.9])]).row("smofi").speed_up
    2.0
    """

    title: str
    histories: Sequence[History]
    baseline: str = USUAL_BASELINE
    share: float = 0.9
    target: float | None = None

    @cached_property
    def rows(self) -> list[Row]:
        """The measures of each method, with a target out of reach if the baseline is not there."""
        known = any(history.name == self.baseline for history in self.histories)
        target = math.inf if self.target is None and not known else self.target
        return measure(self.histories, self.baseline, share=self.share, target=target)

    def row(self, name: str) -> Row | None:
        """Those of one method; None if it is not in this panel."""
        return next((row for row in self.rows if row.name == name), None)

    @property
    def names(self) -> list[str]:
        """The methods, in the order of the histories."""
        return list(dict.fromkeys(history.name for history in self.histories))


@dataclass(frozen=True)
class Key:
    """How a method looks, and what it is called."""

    look: Look
    title: str


def keys_of(panels: Sequence[Panel]) -> dict[str, Key]:
    """The look and the title of every method of a figure.

    Where each panel has one base, a method looks the same on each of them, and a base alone as FedAvg.

    >>> one, other = Panel("", [History("fedavg"), History("smofi")]), Panel("", [History("clip(1)+smofi")])
    >>> [(name, key.title, key.look.glyph) for name, key in keys_of([one, other]).items()]
    [('fedavg', 'base alone', 'o'), ('smofi', '+ SMoFi', '*'), ('clip(1)+smofi', '+ SMoFi', '*')]
    """
    names = list(dict.fromkeys(name for panel in panels for name in panel.names))
    called = titles(names)
    own = {name: "+".join(plugins_of(name)) or PLAIN for name in names}
    apart = all(len({own[name] for name in panel.names}) == len(panel.names) for panel in panels)
    if apart and len(set(own.values())) < len(names):
        shared = dict(zip(names, looks([own[name] for name in names]), strict=True))
        alone = {name: "base alone" if own[name] == PLAIN else label(name, called[name]) for name in names}
        return {name: Key(shared[name], alone[name]) for name in names}
    return {name: Key(look, called[name]) for name, look in zip(names, looks(names), strict=True)}


def scale_of(panels: Sequence[Panel]) -> Scale:
    """The metric by which all panels are judged."""
    histories = [history for panel in panels for history in panel.histories]
    if not any(history.measured for history in histories):
        refuse("histories", histories, "at least one history with a number in it")
    if len({history.judged for history in histories}) > 1:
        refuse("metrics", sorted({history.judged for history in histories}), "runs judged by the same metric")
    return Scale.of(histories)
