"""Every test that opens connections closes them all."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from support.ends import Ends


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()
    names = {thread.name for thread in threading.enumerate()}
    assert not {name for name in names if name.startswith("smofi-net")}
