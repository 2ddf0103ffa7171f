"""One writer at a time, in real processes: killed, forked, and outlived by what they forked."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from smofi.errors import InputError
from smofi.runs import FolderLock, writer_of


def another(folder: Path) -> tuple[int, int]:
    """Start a process that has the lock, and one forked from it, which has let go of its copy."""
    reader, writer = os.pipe()
    if not (process := os.fork()):
        lock = FolderLock(folder)
        if not os.fork():
            lock.release()
            os.write(writer, f"{os.getpid()}\n".encode())
        signal.pause()
        os._exit(0)
    with open(reader) as said:
        os.close(writer)
        return process, int(said.readline())


def killed(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def test_it_is_refused_while_it_is_taken_and_looking_changes_nothing(tmp_path: Path) -> None:
    assert writer_of(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    first = FolderLock(tmp_path)
    before = [(path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir()]
    for _ in range(2):
        with pytest.raises(InputError) as refused:
            FolderLock(tmp_path)
        sentence = f"{tmp_path} is being written by another process (pid {os.getpid()}); wait for it or stop it"
        assert str(refused.value) == sentence
        assert writer_of(tmp_path) == str(os.getpid())
    assert [(path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir()] == before
    first.release()
    first.release()
    assert writer_of(tmp_path) is None
    FolderLock(tmp_path).release()


def test_a_killed_process_leaves_no_lock_and_the_process_it_forked_does_not_let_go_of_it(tmp_path: Path) -> None:
    process, follower = another(tmp_path)
    with pytest.raises(InputError, match=rf"is being written by another process \(pid {process}\)"):
        FolderLock(tmp_path)
    assert writer_of(tmp_path) == str(process)
    killed(process)
    try:
        os.kill(follower, 0)  # it lives on
        assert writer_of(tmp_path) is None
        FolderLock(tmp_path).release()
    finally:
        os.kill(follower, signal.SIGKILL)


def test_letting_go_frees_the_folder_even_if_another_process_has_a_copy(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    if not (child := os.fork()):
        signal.pause()
        os._exit(0)
    try:
        lock.release()
        FolderLock(tmp_path).release()
    finally:
        killed(child)
    lock = FolderLock(tmp_path)
    command, pipe = [sys.executable, "-c", "print(flush=True); input()"], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, close_fds=False) as program:
        assert program.stdout
        program.stdout.readline()  # it is under way
        lock.file.close()  # without unlocking, as when the process ends
        FolderLock(tmp_path).release()
        program.kill()


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


def test_what_cannot_be_made_or_locked_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int, *, blocking: bool) -> bool:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"output='.*file/below' is not accepted: Not a directory"):
        FolderLock(tmp_path / "file" / "below")
    monkeypatch.setattr("filelock.lock_descriptor", fail)
    with pytest.raises(InputError, match="cannot be locked for writing: Function not implemented"):
        FolderLock(tmp_path)
