"""How many workers there is work for."""

from __future__ import annotations

import os

from smofi.errors import refuse


def keep_busy(workers: int, clients: int, *, asked: bool) -> int:
    """The number of workers, if there are as many clients in a round: others would have nothing to do. More are refused
    if they were asked for; a default becomes smaller.

    >>> keep_busy(500, clients=10, asked=False)
    8
    >>> keep_busy(500, clients=10, asked=True)
    Traceback (most recent call last):
    smofi.errors.InputError: workers=500 is not accepted: expected at most 10, since that many clients take part in a \
round, and each worker needs one
    """
    if workers <= clients or "WORLD_SIZE" in os.environ:
        return workers
    if not asked:
        return power_of_two(clients)
    refuse(
        "workers",
        workers,
        f"at most {clients}, since that many clients take part in a round, and each worker needs one",
    )


def power_of_two(most: int) -> int:
    """The largest one that is not above `most`.

    >>> power_of_two(10)
    8
    """
    return 1 << (most.bit_length() - 1)
