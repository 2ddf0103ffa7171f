"""One writer at a time, in real processes: killed, forked, and outlived by what they forked."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from smofi.errors import InputError
from smofi.runs import FolderLock, writer_of
from support.processes import ENVIRONMENT, gone

LOCKING = """
import os, sys, time
from pathlib import Path
from smofi.runs.writing import FolderLock
lock = FolderLock(Path(sys.argv[1]))
follower = os.fork() if sys.argv[2] == "forking" else None
if follower == 0:
    lock.release()
    os.write(1, b"x")
    time.sleep(60)
    os._exit(0)
if follower:
    os.read(0, 1)
print(follower, flush=True)
time.sleep(60)
"""


@contextmanager
def another(folder: Path, *, forking: bool = False) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that has the lock, and the id of one it has forked, which has let go of its copy."""
    command = [sys.executable, "-c", LOCKING, str(folder), "forking" if forking else "alone"]
    reader, writer = os.pipe()
    with subprocess.Popen(command, env=ENVIRONMENT, stdin=reader, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            if forking:
                assert process.stdout.read(1) == "x"
                os.write(writer, b"x")
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()
            os.close(reader)
            os.close(writer)


def test_it_is_refused_while_it_is_taken_and_names_who_has_it(tmp_path: Path) -> None:
    first = FolderLock(tmp_path)
    for _ in range(2):  # asking leaves no trace
        with pytest.raises(InputError) as refused:
            FolderLock(tmp_path)
        sentence = f"{tmp_path} is being written by another process (pid {os.getpid()}); wait for it or stop it"
        assert str(refused.value) == sentence
    first.release()
    first.release()
    FolderLock(tmp_path).release()


def test_a_process_that_is_killed_leaves_no_lock(tmp_path: Path) -> None:
    with another(tmp_path) as (process, _):
        with pytest.raises(InputError, match=rf"is being written by another process \(pid {process.pid}\)"):
            FolderLock(tmp_path)
        assert writer_of(tmp_path) == str(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert writer_of(tmp_path) is None
        FolderLock(tmp_path).release()


def test_a_forked_process_that_lets_go_leaves_the_lock_to_the_first(tmp_path: Path) -> None:
    with another(tmp_path, forking=True) as (process, follower):
        assert Path(f"/proc/{follower}").exists()
        with pytest.raises(InputError, match=rf"\(pid {process.pid}\)"):
            FolderLock(tmp_path)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not gone(int(follower), seconds=0)
        try:
            FolderLock(tmp_path).release()  # at once, although the forked one lives on
        finally:
            os.kill(int(follower), signal.SIGKILL)


def test_letting_go_frees_the_folder_even_if_a_forked_process_has_a_copy(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.close(writer)
        os.read(reader, 1)  # until the first one is done
        os._exit(0)
    os.close(reader)
    try:
        lock.release()
        FolderLock(tmp_path).release()
    finally:
        os.close(writer)
        os.waitpid(child, 0)


def test_the_lock_does_not_pass_to_programs_that_are_started(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    command, pipe = [sys.executable, "-c", "print(flush=True); input()"], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, close_fds=False) as program:
        assert program.stdout
        program.stdout.readline()  # it is under way
        lock.file.close()  # without unlocking, as when the process ends
        FolderLock(tmp_path).release()
        program.kill()


def test_who_writes_is_told_without_touching_anything(tmp_path: Path) -> None:
    assert writer_of(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    lock = FolderLock(tmp_path)
    before = [(path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir()]
    assert writer_of(tmp_path) == str(os.getpid())
    assert [(path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir()] == before
    lock.release()
    assert writer_of(tmp_path) is None


def test_where_locks_are_not_listed_the_process_has_to_be_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_listed(path: Path, *arguments: object) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", not_listed)
    FolderLock(tmp_path).release()
    assert writer_of(tmp_path) == str(os.getpid())
    for noted in ("", "words", str(2**22 + 1)):
        (tmp_path / ".lock").write_bytes(noted.encode())
        assert writer_of(tmp_path) is None


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"output='.*file/below' is not accepted: Not a directory"):
        FolderLock(tmp_path / "file" / "below")


def test_a_file_system_that_has_no_locks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int, *, blocking: bool) -> bool:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("filelock.lock_descriptor", fail)
    with pytest.raises(InputError, match="cannot be locked for writing: Function not implemented"):
        FolderLock(tmp_path)
