"""The whole page: one HTML file that loads nothing, and whose rules forbid it to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import smofi
from smofi.plural import plural
from smofi.report.page.elements import Html, element
from smofi.report.page.listing import runs_table, settings_tables
from smofi.report.page.pictures import as_json
from smofi.report.page.reading import FoundRun
from smofi.report.page.section import Section
from smofi.report.page.table import Cell, Column, table
from smofi.report.page.target import MARKER
from smofi.report.page.words import warnings_about
from smofi.web import digest_of, script_of, style_of

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("sorting.js", "chart.js", "curves.js", "partition.js", "timeline.js", "start.js")


def document(title: str, found: Sequence[FoundRun], sections: Sequence[Section]) -> str:
    """The page as text."""
    library = f"/*! D3, https://d3js.org\n{_asset('d3-LICENSE.txt')}*/\n{_asset('d3.min.js')}"
    own, style = script_of(map(_asset, SCRIPTS)), style_of(_asset("page.css"))
    data = as_json([section.data() for section in sections])
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(scripts=[library, own], style=style)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"smofi {smofi.__version__}"),
        element("title", title),
        element("style", Html(style)),
    )
    body = element(
        "body",
        _top(title, found, sections),
        element("main", *(section.html() for section in sections), _runs(found), id="content"),
        element(
            "footer", f"Made by smofi {smofi.__version__}. Figures are drawn with D3; nothing is loaded from elsewhere."
        ),
        element("script", Html(data), type="application/json", id="data"),
        element("script", Html(library)),
        element("script", Html(own)),
    )
    return f"{MARKER}{element('html', head, body, lang='en')}\n"


def _asset(name: str) -> str:
    return (ASSETS / name).read_text("utf-8")


def _policy(scripts: Sequence[str], style: str) -> str:
    """Only these scripts and this style, recognised by their hashes, and nothing from anywhere."""
    allowed = " ".join(map(digest_of, scripts))
    only = f"script-src {allowed}; style-src {digest_of(style)}"
    return f"default-src 'none'; {only}; base-uri 'none'; form-action 'none'"


def _top(title: str, found: Sequence[FoundRun], sections: Sequence[Section]) -> Html:
    theme = element("button", "Theme: auto", type="button", id="theme", class_="control")
    skip = element("a", "Skip to the results", href="#content", class_="skip")
    pieces = [skip, element("div", element("h1", title), theme, class_="title"), element("p", _extent(found, sections))]
    pieces += [_warnings(found)] if warnings_about(found) else []
    pieces += [_overview(sections)] if len(sections) > 1 else []
    pieces.append(element("noscript", element("p", "Figures are drawn by this page's script, which is switched off.")))
    return element("header", pieces)


def _extent(found: Sequence[FoundRun], sections: Sequence[Section]) -> str:
    runs = [one.run for one in found if one.run]
    methods, seeds = {run.method for run in runs}, {run.config.seed for run in runs}
    parts = [plural(len(found), "run"), plural(len(methods), "method"), plural(len(seeds), "seed")]
    parts += [plural(len(sections), "setup")] if len(sections) > 1 else []
    return ", ".join(parts) + "."


def _warnings(found: Sequence[FoundRun]) -> Html:
    said = [element("li", element("strong", f"{kind}: "), names) for kind, names in warnings_about(found)]
    return element("ul", said, class_="warnings", role="note", aria_label="Runs that are not finished and whole")


def _overview(sections: Sequence[Section]) -> Html:
    """A row for each setup, which leads to its section."""
    winners = [section.judged.winner for section in sections]
    columns = [
        Column(
            "setup",
            [Cell(element("a", section.name, href=f"#{section.anchor}")) for section in sections],
            numeric=False,
        ),
        Column("highest mean over rounds", [Cell(row.name if row else "-") for row in winners], numeric=False),
        Column(
            "mean",
            [Cell(row.metric.with_spread(row.mean, row.mean_std), row.mean) if row else Cell("-") for row in winners],
        ),
        Column("runs", [Cell(str(len(section.setup.runs)), float(len(section.setup.runs))) for section in sections]),
    ]
    return element("nav", table("Setups", columns), aria_label="Setups")


def _runs(found: Sequence[FoundRun]) -> Html:
    differing, shared = settings_tables(found)
    pieces = [element("h2", "Runs"), runs_table(found)]
    if differing is not None:
        pieces += [element("h3", "How their settings differ"), differing]
    pieces.append(element("details", element("summary", "Settings that all runs share"), shared))
    return element("section", pieces, id="runs")
