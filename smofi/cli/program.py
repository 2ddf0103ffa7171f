"""The program: what it is called, what it was called with, and what it prints to."""

from __future__ import annotations

import cyclopts
from rich.console import Console

import smofi

app = cyclopts.App(
    name="smofi",
    help="Split federated learning that works on heterogeneous data. Start with: smofi run",
    version=smofi.__version__,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
console = Console()
COMMAND_LINE: list[str] = []
"""What this command was called with, for the workers it starts and for the record."""
