"""Sound in WAVE files, by the standard library; what it lets pass, or fails on, is refused here in a sentence."""

from __future__ import annotations

import io
import struct
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from smofi.data.formats.files import read_bytes, wrong

MOST_BYTES = 16 * 2**20
"""More than eight minutes of sound at 16,000 samples a second."""

PCM, BITS, STEP = 1, 16, 2
"""Plain samples of 16 bits, every 2 bytes: what is read, and nothing else."""

BROKEN = (wave.Error, EOFError, RuntimeError)
"""What `wave` raises for damaged files."""


def read_wav(path: Path, rate: int) -> npt.NDArray[np.float32]:
    """The samples of a mono 16-bit file, in [-1, 1)."""
    return decode_wav(read_bytes(path, MOST_BYTES, "a WAVE file"), path, rate)


def decode_wav(content: bytes, path: Path, rate: int) -> npt.NDArray[np.float32]:
    """The samples in these bytes, in [-1, 1); `path` is what an error calls them.

    >>> memory = io.BytesIO()
    >>> with wave.open(memory, "wb") as file:
    ...     file.setparams((1, 2, 16_000, 0, "NONE", ""))
    ...     file.writeframes(struct.pack("<2h", -32768, 16384))
    >>> decode_wav(memory.getvalue(), Path("half.wav"), 16_000).tolist()
    [-1.0, 0.5]
    """
    try:
        with wave.open(io.BytesIO(content)) as file:
            claimed = file.getnframes()
            samples = file.readframes(claimed)
    except BROKEN as error:
        wrong(
            path,
            f"a WAVE file of plain samples, but it is not one, or it is damaged ({str(error) or 'it ends too early'})",
        )
    for code, channels, given, _, step, bits in _forms(content):
        # `wave` rounds the bits up to whole bytes, and does not look at the step
        if (code, channels, given, step, bits) != (PCM, 1, rate, STEP, BITS):
            expected = f"plain samples (format {PCM}), 1 channel, {rate:,} Hz, {BITS} bits, {STEP} bytes a step"
            found = f"format {code}, {channels} channels, {given:,} Hz, {bits} bits, {step} bytes a step"
            wrong(path, f"{expected}, but it has {found}")
    if not claimed:
        wrong(path, "at least one sample, but it has none")
    # `wave` gives what there is
    if len(samples) != STEP * claimed:
        wrong(path, f"{claimed:,} samples, as its header says, but it has {len(samples) // STEP:,}")
    return np.frombuffer(samples, "<i2").astype(np.float32) / np.float32(2 ** (BITS - 1))


def _forms(content: bytes) -> Iterator[tuple[int, ...]]:
    """The 'fmt ' chunks before the samples, in bytes that `wave` could read.

    Each as format, channels, samples a second, bytes a second, bytes a step, bits.
    """
    place = 12
    while place + 8 <= len(content):
        name, length = struct.unpack_from("<4sI", content, place)
        if name == b"data":
            return
        if name == b"fmt ":
            yield struct.unpack_from("<HHIIHH", content, place + 8)
        place += 8 + length + length % 2
