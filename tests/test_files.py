"""A file is whole or absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from smofi.files import write_atomically


def test_the_content_is_on_the_disk_before_the_name_is_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def watched_fsync(descriptor: int) -> None:
        calls.append("flush folder" if os.path.samestat(os.fstat(descriptor), tmp_path.stat()) else "flush file")
        fsync(descriptor)

    def watched_replace(source: Path, target: Path) -> None:
        assert source.read_bytes() == b"new"
        calls.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    write_atomically(tmp_path / "file", b"new")
    assert calls == ["flush file", "rename", "flush folder"]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_what_was_there_stays_if_writing_fails(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise OSError("no luck")

    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="no luck"):
        write_atomically(tmp_path / "file", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]
