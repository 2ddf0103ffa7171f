"""A nursery for the processes of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.chaos import Nursery


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with Nursery(Path(tmp_path_factory.mktemp("processes"))) as made:
        yield made
