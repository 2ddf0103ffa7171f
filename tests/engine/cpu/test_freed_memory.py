"""Freed memory is kept."""

import platform
import resource

import pytest
import torch

from smofi.engine.cpu.freed_memory import keep_freed_memory

needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to keep memory")


def faults_of_a_step() -> int:
    """The pages that the system had to supply while a step's worth of activations came and went."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    activations = [torch.ones(2**20) for _ in range(10)]  # 4 MiB each, 1,024 pages
    del activations
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@needs_glibc
def test_a_step_uses_the_memory_of_the_step_before(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    assert keep_freed_memory()
    faults_of_a_step()
    # the system itself may take pages back in between, but not every time
    assert min(faults_of_a_step() for _ in range(10)) < 1024


@pytest.mark.parametrize(
    ("name", "value"),
    [("MALLOC_TRIM_THRESHOLD_", "1000000"), ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=1000000")],
)
def test_settings_of_ones_own_are_left_alone(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert not keep_freed_memory()
