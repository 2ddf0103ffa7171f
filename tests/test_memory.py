"""How much memory may be taken: by the user's limit, by the machine, by groups of processes, by `ulimit -v`."""

from __future__ import annotations

import math
import os
import resource
from pathlib import Path

import pytest
import torch

from smofi import memory
from smofi.errors import InputError
from smofi.memory import available, in_use, limited, refusing, room

linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux")
MACHINE = "MemTotal: 9000 kB\nMemFree: 1 kB\nMemAvailable: 8000 kB\n"


@linux
def test_a_limit_counts_what_the_process_uses_already() -> None:
    used = in_use()
    assert used
    with limited(used + 10**9):
        assert 0.9e9 < room().bytes < 1.1e9
    with limited("1MB"):
        assert room().bytes == 0
        assert "memory_limit=1MB" in room().words


def test_there_is_always_room_for_a_little() -> None:
    with limited("1MB"):
        assert room().holds(2**20)
        assert not room().holds(2**20 + 1)


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 8,000 kB available, as Linux describes it in files."""
    write(tmp_path / "proc", meminfo=MACHINE)
    write(tmp_path / "proc" / "self", statm="300 100 1 1 1 1 1")
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "groups")
    return tmp_path


OUTER = {"memory__max": "5000", "memory__current": "3000", "memory__stat": "anon 2\ninactive_file 1000"}


@linux
@pytest.mark.parametrize(
    ("groups_of", "folders", "left"),
    [
        ("", {}, 8000 * 1024),
        ("0::/outer/inner\n", {"outer/inner": {"memory__max": "max", "memory__current": "70"}, "outer": OUTER}, 3000),
        ("0::/\n", {"": {"memory__max": "10", "memory__current": "70"}}, 0),
    ],
    ids=["the machine", "the strictest group", "a full group"],
)
def test_what_is_left(system: Path, groups_of: str, folders: dict[str, dict[str, str]], left: int) -> None:
    if groups_of:
        write(system / "proc" / "self", cgroup=groups_of)
    for folder, files in folders.items():
        write(system / "groups" / folder, **files)
    assert available() == left


def test_elsewhere_it_is_what_is_built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PROC", tmp_path)
    built_in = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < available() < built_in


def test_where_nothing_is_known_there_is_no_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "PROC", tmp_path)
    monkeypatch.delattr("os.sysconf")
    assert available() == math.inf
    assert room().holds(10**30)


@linux
def test_ulimit_counts() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + 2**30, hard))
    try:
        left = available()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert 0.9 * 2**30 < left < 1.1 * 2**30


@pytest.mark.parametrize("take", [lambda: bytearray(2**62), lambda: torch.empty(2**58)])
def test_memory_that_runs_out_is_a_sentence(take: object) -> None:
    assert callable(take)
    said = r"^x=1 is not accepted: there is not enough memory for it, .* available$"
    with pytest.raises(InputError, match=said), refusing("x=1"):
        take()
    with pytest.raises(RuntimeError, match="something else"), refusing("x=1"):
        raise RuntimeError("something else")
