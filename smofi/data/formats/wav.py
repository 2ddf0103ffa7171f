"""Sound in WAVE files: plain samples of 8, 16, 24 or 32 bits, or floating-point ones; any rate, any number of channels.

What a header says is compared with the size of the file before anything is read, and only what is needed is read.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

import numpy as np
import numpy.typing as npt

from smofi.data.formats.files import check_room, read_bytes, regular_size, wrong

MOST_BYTES = 16 * 2**20
"""Of a file that is read whole: more than eight minutes of sound at 16,000 samples a second."""

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
"""Formats: whole numbers, floating-point numbers, and one that says further on which of the two it is."""

READABLE = {(PCM, 8): "u1", (PCM, 16): "<i2", (PCM, 24): "u1", (PCM, 32): "<i4", (FLOAT, 32): "<f4", (FLOAT, 64): "<f8"}
RATES = (1_000, 768_000)
MOST_CHANNELS = 256
MOST_CHUNKS = 10_000
WORKING = 16
"""Bytes of memory for a byte of samples, while they are converted."""

Samples = npt.NDArray[np.float32]


@dataclass(frozen=True)
class WavHeader:
    """What a file says about its samples. A step is a sample of every channel; `start` is where the first one is."""

    path: Path
    code: int
    channels: int
    rate: int
    step: int
    bits: int
    start: int
    steps: int

    @property
    def form(self) -> str:
        """To be shown in a message."""
        numbers = f"{self.bits} bits, {self.step} bytes a step"
        return f"format {self.code}, {self.channels} channels, {self.rate:,} Hz, {numbers}"

    def decoded(self, content: bytes) -> Samples:
        """These bytes as samples in [-1, 1), the channels mixed."""
        numbers: npt.NDArray[np.float64]
        if self.bits == 24:
            wide = np.zeros((len(content) // 3, 4), np.uint8)
            wide[:, 1:] = np.frombuffer(content, np.uint8).reshape(-1, 3)
            numbers = wide.view("<i4")[:, 0] / 2.0**31
        else:
            plain = np.frombuffer(content, READABLE[self.code, self.bits])
            numbers = plain.astype(np.float64)
            if self.code == PCM:
                numbers = (numbers - 128) / 128 if self.bits == 8 else numbers / 2.0 ** (self.bits - 1)
        if not np.isfinite(numbers).all():
            wrong(self.path, "finite numbers as samples, but some are not")
        with np.errstate(over="ignore"):
            mixed: Samples = numbers.reshape(-1, self.channels).mean(axis=1).astype(np.float32)
        if not np.isfinite(mixed).all():
            wrong(self.path, "samples that are finite as 32-bit numbers, but some are larger")
        return mixed


def read_wav(path: Path, rate: int) -> Samples:
    """The samples of a mono 16-bit file, in [-1, 1)."""
    return decode_wav(read_bytes(path, MOST_BYTES, "a WAVE file"), path, rate)


def decode_wav(content: bytes, path: Path, rate: int) -> Samples:
    """The samples in these bytes, mono and of 16 bits, in [-1, 1); `path` is what an error calls them.

    >>> form = struct.pack("<HHIIHH", 1, 1, 16_000, 32_000, 2, 16)
    >>> chunks = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I2h", 4, -32768, 16384)
    >>> decode_wav(b"RIFF" + struct.pack("<I", len(chunks)) + chunks, Path("half.wav"), 16_000).tolist()
    [-1.0, 0.5]
    """
    header = _header(io.BytesIO(content), len(content), path)
    if (header.code, header.channels, header.rate, header.step, header.bits) != (PCM, 1, rate, 2, 16):
        expected = f"plain samples (format {PCM}), 1 channel, {rate:,} Hz, 16 bits, 2 bytes a step"
        wrong(path, f"{expected}, but it has {header.form}")
    _check_steps(header, len(content))
    return header.decoded(content[header.start : header.start + 2 * header.steps])


def read_wav_header(path: Path) -> WavHeader:
    """What a file of any rate, with any number of channels, says about its samples, which it has."""
    size = regular_size(path, "a WAVE file")
    try:
        with path.open("rb") as file:
            header = _header(file, size, path)
    except OSError as error:
        wrong(path, f"a WAVE file ({error.strerror or error})")
    if (header.code, header.bits) not in READABLE or header.step != header.channels * header.bits // 8:
        accepted = "samples of 8, 16, 24 or 32 bits, or floating-point ones of 32 or 64"
        wrong(path, f"{accepted}, but it has {header.form}")
    if not RATES[0] <= header.rate <= RATES[1] or header.channels > MOST_CHANNELS:
        rates = f"{RATES[0]:,} to {RATES[1]:,} Hz and at most {MOST_CHANNELS} channels"
        wrong(path, f"{rates}, but it has {header.form}")
    _check_steps(header, size)
    return header


def read_steps(header: WavHeader, begin: int, count: int) -> Samples:
    """The samples of some steps, the channels mixed; nothing else is read."""
    size = count * header.step
    check_room(header.path, WORKING * size, f"{count:,} samples take {WORKING} x {header.step} bytes each")
    try:
        with header.path.open("rb") as file:
            file.seek(header.start + begin * header.step)
            content = file.read(size)
    except OSError as error:
        wrong(header.path, f"a WAVE file ({error.strerror or error})")
    if len(content) != size:
        wrong(header.path, "a recording that does not change while it is read")
    return header.decoded(content)


def _check_steps(header: WavHeader, size: int) -> None:
    """Refuse a file that has no samples, or fewer than it says."""
    if not header.steps:
        wrong(header.path, "at least one sample, but it has none")
    if (present := (size - header.start) // header.step) < header.steps:
        wrong(header.path, f"{header.steps:,} samples, as its header says, but it has {present:,}")


def _header(file: IO[bytes], size: int, path: Path) -> WavHeader:
    """The first 'fmt ' chunk and the beginning of the samples; other chunks are skipped."""
    opening = file.read(12)
    if len(opening) < 12:
        _damaged(path, "it ends too early")
    if opening[:4] != b"RIFF":
        _damaged(path, "file does not start with RIFF id")
    if opening[8:] != b"WAVE":
        _damaged(path, "not a WAVE file")
    form: tuple[int, ...] | None = None
    place = 12
    for _ in range(MOST_CHUNKS):
        file.seek(place)
        if len(chunk := file.read(8)) < 8:
            _damaged(path, "fmt chunk and/or data chunk missing")
        name, length = struct.unpack("<4sI", chunk)
        if name == b"data":
            if form is None:
                _damaged(path, "data chunk before fmt chunk")
            code, channels, rate, _, step, bits = form
            return WavHeader(path, code, channels, rate, step, bits, place + 8, length // step)
        if name == b"fmt " and form is None:
            form = _form(file.read(min(length, 40)), path)
        place += 8 + length + length % 2
        if place > size:
            _damaged(path, "it ends too early")
    _damaged(path, f"no samples in its first {MOST_CHUNKS:,} chunks")


def _form(content: bytes, path: Path) -> tuple[int, ...]:
    """Format, channels, samples a second, bytes a second, bytes a step, bits."""
    if len(content) < 16:
        _damaged(path, "it ends too early")
    form: tuple[int, ...] = struct.unpack_from("<HHIIHH", content)
    if form[0] == EXTENSIBLE and len(content) >= 26:
        form = (*struct.unpack_from("<H", content, 24), *form[1:])
    if not form[1]:
        _damaged(path, "bad # of channels")
    if not form[4]:
        _damaged(path, "no bytes a step")
    return form


def _damaged(path: Path, why: str) -> NoReturn:
    wrong(path, f"a WAVE file of plain samples, but it is not one, or it is damaged ({why})")
