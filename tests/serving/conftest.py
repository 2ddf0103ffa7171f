"""Servers and clients of the transport, closed when a test ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.ends import Ends


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()
