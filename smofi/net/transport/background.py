"""The thread that runs the event loop: one for the whole process, as gRPC likes it, and only while it is needed."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_users: dict[Callable[[], None], None] = {}
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def acquire(close: Callable[[], None]) -> asyncio.AbstractEventLoop:
    """The running loop, started if need be. `close` gives it back with `release`; it is called if the program ends."""
    global _loop, _thread
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_run, args=(_loop,), name="smofi-net", daemon=True)
            _thread.start()
        _users[close] = None
        return _loop


def release(close: Callable[[], None]) -> None:
    """Give the loop back; the last one ends its thread."""
    with _lock:
        del _users[close]
        if not _users:
            _stop()


def run(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop and wait for its result."""
    return asyncio.run_coroutine_threadsafe(work, loop).result()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _stop() -> None:
    global _loop, _thread
    if _loop is not None and _thread is not None:
        _loop.call_soon_threadsafe(_loop.stop)
        _thread.join()
    _loop = _thread = None


@atexit.register
def _close_all() -> None:
    """A program that ends without closing what it opened still ends without noise."""
    for close in list(_users):
        close()
