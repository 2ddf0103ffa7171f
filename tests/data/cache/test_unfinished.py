"""Several processes at once, and processes that are killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smofi.data import cache
from smofi.data.cache import cached, clear_abandoned, discard, read_arrays, unfinished, write_arrays
from support.pets import pets, same

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
forking = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path / "home"))
    return tmp_path / "home"


@contextmanager
def writing(folder: Path) -> Iterator[BaseProcess]:
    """A process that is in the middle of writing into a folder, and waits there."""
    began = forking.Event()

    def write() -> None:
        with unfinished(folder) as path:
            path.mkdir()
            (path / "train.inputs.npy").write_bytes(b"half of it")
            began.set()
            time.sleep(60)

    folder.mkdir(parents=True, exist_ok=True)
    process = forking.Process(target=write)
    process.start()
    try:
        assert began.wait(10)
        yield process
    finally:
        process.kill()
        process.join()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_a_killed_process_left_is_cleared_by_the_next_run_and_nothing_else(home: Path) -> None:
    folder = home / "decoded"
    with writing(folder) as killed:
        begun = names(folder)
        with writing(folder) as alive:
            both = names(folder)
            assert len(begun) == 2
            assert len(both) == 4
            assert killed.pid is not None
            os.kill(killed.pid, signal.SIGKILL)
            killed.join()
            for _ in range(2):  # decoded, then from the cache
                cached("pets", "/a", "1", pets)
                left = names(folder)
                assert not left & begun
                assert both - begun < left
                assert alive.is_alive()
                assert len(left) == 3
    cached("pets", "/a", "1", lambda: pytest.fail("it was decoded before"))
    assert len(names(folder)) == 1


def test_what_older_programs_left_is_cleared(home: Path) -> None:
    (home / "decoded" / ".unfinished-4711-123").mkdir(parents=True)
    (home / "decoded" / ".unfinished-4711-123" / "about.json").touch()
    (home / "decoded" / ".unfinished-4711-124").touch()
    clear_abandoned(home / "decoded")
    assert names(home / "decoded") == set()


def test_without_locks_age_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: Any, **__: Any) -> bool:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(cache, "lock_descriptor", no_locks)
    with unfinished(tmp_path) as young:
        young.mkdir()
        (tmp_path / ".unfinished-old").mkdir()
        os.utime(tmp_path / ".unfinished-old", (0, 0))
        clear_abandoned(tmp_path)
        assert names(tmp_path) == {young.name, f"{young.name}.lock"}
    assert names(tmp_path) == set()


def test_a_name_that_is_cleared_before_it_is_locked_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, rivals = cache.lock_descriptor, [True, True]

    def late(descriptor: int, *, blocking: bool) -> bool:
        if rivals:
            rivals.pop()
            monkeypatch.setattr(cache, "lock_descriptor", lock)
            clear_abandoned(tmp_path)
            monkeypatch.setattr(cache, "lock_descriptor", late)
        return lock(descriptor, blocking=blocking)

    monkeypatch.setattr(cache, "lock_descriptor", late)
    with unfinished(tmp_path) as path:
        assert names(tmp_path) == {f"{path.name}.lock"}
        clear_abandoned(tmp_path)
        assert names(tmp_path) == {f"{path.name}.lock"}


def test_what_is_discarded_is_gone(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path.parent)
    for name in ("folder", "file", "link", "never there"):
        discard(tmp_path / name)
    assert names(tmp_path) == set()
    assert tmp_path.parent.exists()


def test_all_is_on_the_disk_before_the_folder_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, os.rename

    def watched_fsync(descriptor: int) -> None:
        calls.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name[:11])
        fsync(descriptor)

    def watched_rename(one: Path, other: Path) -> None:
        calls.append(f"{one.name[:11]} -> {other.name[:11]}")
        rename(one, other)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "rename", watched_rename)
    for _ in range(2):
        calls.clear()
        write_arrays(tmp_path / "place", "me", {"x": np.zeros(3)}, {})
        moves = ["place -> .unfinished", ".unfinished -> place"]
        assert sorted(calls[:3]) == [".unfinished", "about.json", "x.npy"]
        assert calls[3:] == [*moves, tmp_path.name[:11]]
    assert names(tmp_path) == {"place"}


def together(work: Callable[[int], None], processes: int = 4) -> None:
    """The same work in several processes at once; each has to succeed."""
    ready = forking.Barrier(processes)

    def one(number: int) -> None:
        ready.wait()
        work(number)

    started = [forking.Process(target=one, args=(number,)) for number in range(processes)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0] * processes


def test_processes_that_decode_the_same_data_at_once(home: Path) -> None:
    def decode(number: int) -> None:
        for version in range(4):
            assert same(cached("pets", "/a", str(version), lambda v=version: pets(v)), pets(version))

    together(decode)
    assert len(names(home / "decoded")) == 1
    assert same(cached("pets", "/a", "3", lambda: pytest.fail("it was decoded before")), pets(3))


def test_processes_that_read_while_others_put_the_same_in_place(tmp_path: Path) -> None:
    content = {"x": np.arange(1000), "y": np.arange(10)}
    write_arrays(tmp_path / "place", "me", content, {})

    def work(number: int) -> None:
        for _ in range(15):
            if number == 0:
                write_arrays(tmp_path / "place", "me", content, {})
            found = read_arrays(tmp_path / "place", "me", lambda found: found.arrays)
            # there is a moment without any, never one with half of it
            assert found is None or all(np.array_equal(found[name], array) for name, array in content.items())

    together(work)
    assert names(tmp_path) == {"place"}


def test_processes_that_clear_do_not_disturb_one_that_writes(home: Path) -> None:
    def work(number: int) -> None:
        for _ in range(8):
            if number == 0:
                write_arrays(home / "decoded" / "mine", "me", {"x": np.arange(100)}, {})
                assert read_arrays(home / "decoded" / "mine", "me", lambda found: found.arrays) is not None
            else:
                clear_abandoned(home / "decoded")

    together(work)
    assert names(home / "decoded") == {"mine"}
