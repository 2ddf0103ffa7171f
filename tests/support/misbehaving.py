"""A model that misbehaves in every worker but the first, as MISBEHAVIOUR says.

Run by tests/engine/test_workers.py and tests/cli/test_interrupting.py:

raise    it fails
die      it kills its process, while the first worker is busy for a minute and exchanges nothing
busy     it is busy for a minute
chat     it prints who it is, and so it does in the first
stop     as it is built, a signal comes that asks the process to end
"""

import os
import signal
import time
from pathlib import Path
from typing import Any

from torch import Tensor, nn

BUSY, GONE = Path("busy"), Path("gone")


class Misbehaving(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = os.getpid()
        self.layer = nn.Linear(64, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        how, follows = os.environ["MISBEHAVIOUR"], os.getpid() != self.first
        if how == "raise" and follows:
            raise RuntimeError("no luck today")
        if how == "busy" and follows:
            BUSY.touch()
            time.sleep(60)
        if how == "die" and follows:
            GONE.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "die" and GONE.exists():
            time.sleep(60)
        if how == "chat":
            os.write(1, f"process {os.getpid()}\n".encode())
        outputs: Tensor = self.layer(inputs.flatten(1))
        return outputs


def network(input_shape: tuple[int, ...], classes: int, **options: Any) -> nn.Sequential:
    """Called by smofi for --model python:support.misbehaving:network."""
    if os.environ["MISBEHAVIOUR"] == "stop":
        os.kill(os.getpid(), signal.SIGTERM)
    return nn.Sequential(nn.Identity(), Misbehaving(), nn.Linear(10, classes))
