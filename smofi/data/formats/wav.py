"""Sound as the WAVE format keeps it: a list of named chunks, of which one says how, and one holds the samples.

"RIFF" <bytes that follow> "WAVE", then chunk after chunk: <4 letters> <bytes> <content> <0 if the bytes are odd>
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from smofi.data.formats.files import read_bytes, wrong

MOST_BYTES = 16 * 2**20
"""More than eight minutes of sound at 16,000 samples a second."""

PCM = 1


def read_wav(path: Path, rate: int) -> npt.NDArray[np.float32]:
    """The samples of a mono 16-bit file, in [-1, 1)."""
    return decode_wav(read_bytes(path, MOST_BYTES, "a WAVE file"), path, rate)


def decode_wav(content: bytes, path: Path, rate: int) -> npt.NDArray[np.float32]:
    """The samples in these bytes, in [-1, 1); `path` is what an error calls them.

    >>> form = struct.pack("<4sIHHIIHH", b"fmt ", 16, PCM, 1, 16_000, 32_000, 2, 16)
    >>> chunks = b"WAVE" + form + struct.pack("<4sI2h", b"data", 4, -32768, 16384)
    >>> decode_wav(struct.pack("<4sI", b"RIFF", len(chunks)) + chunks, Path("half.wav"), 16_000).tolist()
    [-1.0, 0.5]
    """
    if len(content) < 12 or content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        wrong(path, f"a WAVE file, and it begins with {content[:12]!r}")
    (claimed,) = struct.unpack_from("<I", content, 4)
    if claimed + 8 > len(content):
        wrong(path, f"{claimed + 8:,} bytes, as its header says, and it has {len(content):,}")
    known_form = False
    for name, begin, end in _chunks(content, claimed + 8, path):
        if name == b"fmt ":
            _check_form(content[begin:end], path, rate)
            known_form = True
        elif name == b"data":
            if not known_form:
                wrong(path, "a 'fmt ' chunk before its samples")
            if end - begin < 2:
                wrong(path, "at least one sample, and it has none")
            whole = np.frombuffer(content, "<i2", (end - begin) // 2, begin)
            return whole.astype(np.float32) / np.float32(32768)
    wrong(path, "a 'data' chunk, and it has none")


def _chunks(content: bytes, size: int, path: Path) -> list[tuple[bytes, int, int]]:
    """Name, begin and end of every chunk up to that of the samples."""
    found, place = [], 12
    while place + 8 <= size:
        name, length = struct.unpack_from("<4sI", content, place)
        begin, end = place + 8, place + 8 + length
        if end > size:
            wrong(path, f"at most {size - begin:,} bytes in its chunk {name!r}, and that claims {length:,}")
        found.append((name, begin, end))
        if name == b"data":
            break
        place = end + length % 2
    return found


def _check_form(form: bytes, path: Path, rate: int) -> None:
    if len(form) < 16:
        wrong(path, f"16 bytes or more in its 'fmt ' chunk, and that has {len(form)}")
    code, channels, given, _, step, bits = struct.unpack_from("<HHIIHH", form)
    if (code, channels, given, step, bits) != (PCM, 1, rate, 2, 16):
        sound = f"format {code}, {channels} channels, {given:,} Hz, {bits} bits, {step} bytes a step"
        wrong(path, f"plain samples (format 1), 1 channel, {rate:,} Hz, 16 bits, 2 bytes a step, and it has {sound}")
