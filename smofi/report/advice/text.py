"""The advice for the terminal: a table for all methods that take the same, then sentences."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from smofi.planning.advice import Advice, Outlook, recommended
from smofi.report.advice.words import basis, has_latency, heading, sentences, units
from smofi.report.canvas import can_braille
from smofi.report.heterogeneity.text import showable
from smofi.report.numbers import TimeUnit, figure, fine_percent
from smofi.report.style import DIM

FIGURES, WIDEST_BAR = 82, 30
"""Characters of a line that the figures take, and that a bar takes at most."""

LEGEND = (
    "MACs and parameters: the client's share. Round: mean and standard deviation (spread). Computing, {}waiting, "
    "sending and receiving: averages per client and round. *: recommended."
)


def advice_table(advice: Advice) -> RenderableType:
    """Every cut with its time and the client's load, and the recommended one.

    >>> from smofi.config import Config
    >>> from smofi.planning.advice import advise
    >>> found = advise(Config(clients=4, participation=1.0, partition="iid", method="smofi", rounds=2))
    >>> console = Console(width=80, color_system=None)
    >>> with console.capture() as captured: console.print(advice_table(found))
    >>> print(captured.get().splitlines()[0])
    resnet8 on digits, iid, 4 clients, 4 per round
    """
    return _AdviceTable(advice)


class _AdviceTable:
    def __init__(self, advice: Advice) -> None:
        self.advice = advice

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        advice, encoding = self.advice, options.encoding
        block = "█" if can_braille(encoding) else "#"
        room = max(0, min(WIDEST_BAR, options.max_width - FIGURES))
        yield Text(showable(heading(advice), encoding), style="bold")
        yield Text(showable(basis(advice), encoding))
        for outlooks, names in advice.alike.items():
            yield Text("")
            yield Text(", ".join(names), style="bold")
            yield _cuts(advice, outlooks, block, room)
        delayed = any(map(has_latency, advice.outlooks.values()))
        yield Text(LEGEND.format("latency, " * delayed), style=DIM)
        for sentence in sentences(advice):
            yield Text("")
            yield Text(showable(sentence, encoding))


def _cuts(advice: Advice, outlooks: Sequence[Outlook | None], block: str, room: int) -> Table:
    longest = max(outlook.mean for outlook in outlooks if outlook)
    of_round, of_computing = units(outlooks)
    delayed = has_latency(outlooks)
    drawn = Table(box=None, padding=(0, 1 if delayed else 2, 0, 0), pad_edge=False)
    drawn.add_column(Text("\ncut", style=DIM), justify="right", no_wrap=True)
    for above, below in (
        ("", "MACs"),
        ("", "parameters"),
        ("round,", of_round.name),
        ("", "spread"),
        ("computes,", of_computing.name),
        *([("latency,", of_computing.name)] if delayed else []),
        ("", "waits"),
        ("sends,", "MB"),
        ("receives,", "MB"),
    ):
        drawn.add_column(Text(f"{above}\n{below}", style=DIM), justify="right", no_wrap=True)
    drawn.add_column("", no_wrap=True, width=room)
    best = recommended(outlooks)
    for place, (side, outlook) in enumerate(zip(advice.sides, outlooks, strict=True)):
        chosen = place == best
        bar = round(room * outlook.mean / longest) if outlook and longest else 0
        drawn.add_row(
            f"{'* ' * chosen}{side.cut}",
            fine_percent(side.macs),
            f"{side.parameters:,}",
            *(_figures(outlook, of_round, of_computing, delayed) if outlook else ["-"] * (6 + delayed)),
            Text(block * bar, style="green" if chosen else "cyan"),
            style="bold" if chosen else "",
        )
    return drawn


def _figures(outlook: Outlook, of_round: TimeUnit, of_computing: TimeUnit, delayed: bool) -> list[str]:
    def shown(value: float) -> str:
        return figure(value, decimals=3)

    return [
        shown(outlook.mean / of_round.seconds),
        shown(outlook.spread / of_round.seconds),
        shown(outlook.compute / of_computing.seconds),
        *([shown(outlook.latency / of_computing.seconds)] if delayed else []),
        f"{outlook.idle:.0%}",
        shown(outlook.up / 1e6),
        shown(outlook.down / 1e6),
    ]
