"""A board fed by a simulated run, as a server would feed it: for tests of the status page, and to look at it.

python tests/support/served_run.py 127.0.0.1:8080
"""

from __future__ import annotations

import sys
import time

import torch

import smofi
from smofi import data
from smofi.engine.events import Event, RoundDone, RoundStarted, TickDone
from smofi.net.status import Board, StatusServer

NAMES = [f"hospital-{letter}" for letter in "abcdefgh"]


class Feed:
    """A callback that tells a board what each client does; a tick takes `seconds` at least. Bytes are made up: a
    simulation sends none."""

    def __init__(self, board: Board, sizes: list[int], seconds: float = 0.0) -> None:
        self.board, self.sizes, self.seconds = board, sizes, seconds
        self.steps: dict[int, int] = {}
        self.sent = [0] * len(sizes)
        for number, size in enumerate(sizes):
            board.joined(NAMES[number], number, size, f"198.51.100.{20 + number}:5{number}210")

    def __call__(self, event: Event) -> None:
        board = self.board
        board.callback(event)
        if isinstance(event, RoundStarted):
            self.steps = dict(zip(event.selected, event.steps, strict=True))
            for number in self.steps:
                board.state(NAMES[number], "training")
        elif isinstance(event, TickDone):
            time.sleep(self.seconds)
            for number, steps in self.steps.items():
                if event.tick < steps:
                    self.sent[number] += 32_912
                    board.step(NAMES[number], event.tick + 1, steps)
                    board.bytes(NAMES[number], self.sent[number], self.sent[number] - 400 * event.tick)
                else:
                    board.state(NAMES[number], "waiting")
        elif isinstance(event, RoundDone):
            for number in self.steps:
                board.state(NAMES[number], "waiting")


def serve_simulated(board: Board, rounds: int = 3, seconds: float = 0.0) -> None:
    """Train on the digits, eight clients of very different size, and show it on the board."""
    torch.manual_seed(0)  # the model's first weights
    digits, sizes, start = data.load("digits"), [40, 60, 80, 100, 120, 160, 240, 320], 0
    clients = []
    for size in sizes:
        clients.append(digits.train.batch(torch.arange(start, start + size)))
        start += size
    smofi.train(
        smofi.models.resnet8(classes=10, channels=1, width=4),
        clients,
        digits.test.batch(torch.arange(len(digits.test))),
        rounds=rounds,
        participation=1.0,
        local_epochs=1,
        batch_size=16,
        optimizer="sgd(lr=0.01, momentum=0.9)",
        metrics=["top1", "macro_f1"],
        callback=Feed(board, sizes, seconds),
    )


if __name__ == "__main__":
    shown = Board()
    with StatusServer(shown, sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:0") as url:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        serve_simulated(shown, rounds=40, seconds=0.1)
        input("Enter ends.\n")
