"""Another number of threads for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch


def in_threads(count: int) -> AbstractContextManager[None]:
    """Operations of this process in `count` threads, and in as many as before afterwards.

    >>> before = torch.get_num_threads()
    >>> with in_threads(3):
    ...     torch.get_num_threads()
    3
    >>> torch.get_num_threads() == before
    True
    """
    before = torch.get_num_threads()
    return _changed(before, count) if count != before else nullcontext()


def with_threads(count: int) -> AbstractContextManager[None]:
    """Operations in `count` threads, where other processes wait and leave their cores idle; in as many as they have
    anyway, if those are more.

    >>> with with_threads(torch.get_num_threads() + 1):
    ...     more = torch.get_num_threads()
    >>> more - torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    return _changed(before, count) if count > before else nullcontext()


@contextmanager
def _changed(before: int, count: int) -> Iterator[None]:
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
