"""Sound in WAVE files, by the standard library; what it lets pass, or fails on, is refused here in a sentence."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt

from smofi.data.formats.files import read_bytes, wrong

MOST_BYTES = 16 * 2**20
"""More than eight minutes of sound at 16,000 samples a second."""

BITS = 16
BROKEN = (wave.Error, EOFError, RuntimeError)
"""What `wave` raises for damaged files."""


def read_wav(path: Path, rate: int) -> npt.NDArray[np.float32]:
    """The samples of a mono 16-bit file, in [-1, 1)."""
    return decode_wav(read_bytes(path, MOST_BYTES, "a WAVE file"), path, rate)


def decode_wav(content: bytes, path: Path, rate: int) -> npt.NDArray[np.float32]:
    """The samples in these bytes, in [-1, 1); `path` is what an error calls them.

    >>> import struct; memory = io.BytesIO()
    >>> with wave.open(memory, "wb") as file:
    ...     file.setparams((1, 2, 16_000, 0, "NONE", ""))
    ...     file.writeframes(struct.pack("<2h", -32768, 16384))
    >>> decode_wav(memory.getvalue(), Path("half.wav"), 16_000).tolist()
    [-1.0, 0.5]
    """
    try:
        with wave.open(io.BytesIO(content)) as file:
            sound, claimed = file.getparams(), file.getnframes()
            samples = file.readframes(claimed)
    except BROKEN as error:
        wrong(
            path,
            f"a WAVE file of plain samples, but it is not one, or it is damaged ({str(error) or 'it ends too early'})",
        )
    bits = 8 * sound.sampwidth
    if (sound.nchannels, sound.framerate, bits) != (1, rate, BITS):
        found = f"{sound.nchannels} channels, {sound.framerate:,} Hz, {bits} bits"
        wrong(path, f"1 channel, {rate:,} Hz, {BITS} bits, but it has {found}")
    if not claimed:
        wrong(path, "at least one sample, but it has none")
    # `wave` gives what there is
    if len(samples) != 2 * claimed:
        wrong(path, f"{claimed:,} samples, as its header says, but it has {len(samples) // 2:,}")
    return np.frombuffer(samples, "<i2").astype(np.float32) / np.float32(2 ** (BITS - 1))
